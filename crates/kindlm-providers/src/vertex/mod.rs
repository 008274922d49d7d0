//! `vertex`: the models of Google Cloud's Vertex AI.
//!
//! Vertex AI offers the models of each vendor in the dialect of that vendor, at its own address and with its own
//! authorization. So the codecs of those dialects encode the requests and decode the responses.

use kindlm_types::{Embedding, Problem, Prompt, ProviderError, ProviderErrorKind, Reply};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::dialect::address::segment;
use crate::dialect::answer::Reader;
use crate::dialect::anthropic::{self, Anthropic};
use crate::dialect::failure::Facts;
use crate::dialect::gemini::{self, Gemini};
use crate::dialect::openai::{self, OpenAi};
use crate::dialect::settings;
use crate::form::FormChoice;
use crate::{Codec, HttpRequest, HttpResponse, Kind, Meta, Method, Registration};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "vertex",
        summary: "Gemini, Claude and open models on Vertex AI of Google Cloud.",
        since: "0.1.0",
        key_variable: Some("GOOGLE_ACCESS_TOKEN"),
        // A shorthand cannot name the project, which is required.
        shorthand: false,
        wraps_agent: false,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Http(|config| Ok(Box::new(Vertex::new(settings::parse_config(config)?)?))),
};

/// The settings of Vertex AI.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "VertexConfig", transform = settings::with_key_command)]
struct Config {
    /// The name of the environment variable that holds an access token, as `gcloud auth print-access-token` prints it.
    #[schemars(length(min = 1))]
    api_key_env: String,
    /// The id of the project in Google Cloud.
    #[schemars(length(min = 1))]
    project: String,
    /// The region, such as `us-central1`; `global` by default.
    #[serde(default)]
    #[schemars(length(min = 1))]
    region: Option<String>,
    /// The base address, before `/projects`; the address of the region by default.
    #[serde(default)]
    #[schemars(url)]
    base_url: Option<String>,
    /// Additional keys for the body of chat requests, in the format of the model's vendor. If KindLM sends an object
    /// under the same key, the two objects are merged.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    body: Map<String, Value>,
    /// Tools that Google runs, such as `{ googleSearch: {} }`; only for models of Gemini.
    #[serde(default)]
    #[schemars(with = "Vec<std::collections::BTreeMap<String, Value>>")]
    hosted_tools: Vec<Map<String, Value>>,
    /// Instructions that come before the system messages of the prompt; only for models of Gemini.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    system_instruction: Vec<String>,
}

const REGION: &str = "global";
const EMBEDDING_MODEL: &str = "gemini-embedding-001";
/// The version of Anthropic's API, which Vertex AI expects in the body.
const ANTHROPIC_VERSION: &str = "vertex-2023-10-16";

#[derive(Debug)]
struct Vertex {
    /// The address of the region in the project, before `/publishers`.
    base: String,
    key: String,
    gemini: Gemini,
    anthropic: Anthropic,
    openai: OpenAi,
    /// The names of configured settings that apply only to models of Gemini.
    only_gemini: Vec<&'static str>,
}

/// The vendor in whose dialect Vertex AI offers a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Gemini,
    Anthropic,
    OpenAi,
}

impl Dialect {
    /// Returns the dialect of a model. Open models have the name of their vendor before a slash.
    fn for_model(model: &str) -> Self {
        let folder = model.split_once('/').map(|(it, _)| it);
        match folder {
            _ if model.starts_with("claude") => Self::Anthropic,
            None | Some("models" | "endpoints") => Self::Gemini,
            Some(_) => Self::OpenAi,
        }
    }
}

impl Vertex {
    fn new(config: Config) -> Result<Self, Vec<Problem>> {
        settings::check(Some(&config.api_key_env), config.base_url.as_deref())?;
        settings::check_name("/project", &config.project)?;
        let region = config.region.as_deref().unwrap_or(REGION);
        settings::check_name("/region", region)?;
        let host = match region {
            REGION => "https://aiplatform.googleapis.com/v1".to_owned(),
            _ => format!("https://{region}-aiplatform.googleapis.com/v1"),
        };
        let host = config.base_url.unwrap_or(host);
        let (host, project) = (host.trim_end_matches('/'), &config.project);
        let base = format!("{host}/projects/{project}/locations/{region}");
        let mut only_gemini = Vec::new();
        if !config.hosted_tools.is_empty() {
            only_gemini.push("hostedTools");
        }
        if !config.system_instruction.is_empty() {
            only_gemini.push("systemInstruction");
        }
        let (key, body) = (config.api_key_env, config.body);
        let base_url = |below: &str| Some(format!("{base}{below}"));
        Ok(Self {
            gemini: Gemini::new(gemini::Options {
                key: key.clone(),
                base_url: base_url("/publishers/google"),
                body: body.clone(),
                hosted_tools: config.hosted_tools,
                system_instruction: config.system_instruction,
            })?,
            anthropic: Anthropic::new(anthropic::Options {
                key: key.clone(),
                base_url: base_url("/publishers/anthropic"),
                body: body.clone(),
                ..anthropic::Options::default()
            })?,
            openai: OpenAi::new(
                openai::Config {
                    api_key_env: Some(key.clone()),
                    body,
                    ..openai::Config::default()
                },
                &format!("{base}/endpoints/openapi"),
            )?,
            key,
            only_gemini,
            base,
        })
    }

    fn codec(&self, model: &str) -> &dyn Codec {
        match Dialect::for_model(model) {
            Dialect::Gemini => &self.gemini,
            Dialect::Anthropic => &self.anthropic,
            Dialect::OpenAi => &self.openai,
        }
    }

    /// Returns a request with the authorization of Vertex AI, not of the model's vendor.
    fn request(&self, url: String, body: Value) -> HttpRequest {
        let headers = vec![settings::json_header(), settings::bearer(&self.key)];
        HttpRequest { method: Method::Post, url, headers, body, ..HttpRequest::default() }
    }

    fn reader(&self) -> Reader<'_> {
        let rule = |_: &Facts| None;
        Reader { provider: "vertex", key: Some(&self.key), rule }
    }
}

impl Codec for Vertex {
    fn provider(&self) -> &'static str {
        "vertex"
    }

    fn form(&self, model: &str) -> FormChoice {
        self.codec(model).form(model)
    }

    fn encode(&self, prompt: &Prompt) -> Result<HttpRequest, ProviderError> {
        let dialect = Dialect::for_model(&prompt.model);
        if let Some(name) = self.only_gemini.first().filter(|_| dialect != Dialect::Gemini) {
            let model = &prompt.model;
            let message =
                format!("`{name}` is only for models of Gemini: give `{model}` another provider");
            return Err(ProviderError::new(ProviderErrorKind::Unsupported, "vertex", message));
        }
        let HttpRequest { url, mut body, is_text, .. } =
            self.codec(&prompt.model).encode(prompt)?;
        let url = match dialect {
            // A deployed model belongs to the project, not to a publisher.
            Dialect::Gemini => url.replace("/publishers/google/endpoints/", "/endpoints/"),
            Dialect::Anthropic => {
                if let Some(body) = body.as_object_mut() {
                    body.shift_remove("model");
                    body.entry("anthropic_version").or_insert(json!(ANTHROPIC_VERSION));
                }
                let model = segment(&prompt.model);
                format!("{}/publishers/anthropic/models/{model}:rawPredict", self.base)
            }
            Dialect::OpenAi => url,
        };
        Ok(HttpRequest { is_text, ..self.request(url, body) })
    }

    fn decode(&self, prompt: &Prompt, response: &HttpResponse) -> Result<Reply, ProviderError> {
        self.codec(&prompt.model).decode(prompt, response)
    }

    fn embedding_model<'m>(&self, model: &'m str) -> &'m str {
        if model.contains("embed") { model } else { EMBEDDING_MODEL }
    }

    fn encode_embedding(&self, model: &str, text: &str) -> Result<HttpRequest, ProviderError> {
        let model = self.embedding_model(model);
        let url = format!("{}/publishers/google/models/{}:predict", self.base, segment(model));
        let body = json!({"instances": [{"content": text, "task_type": "SEMANTIC_SIMILARITY"}]});
        Ok(self.request(url, body))
    }

    fn decode_embedding(&self, response: &HttpResponse) -> Result<Embedding, ProviderError> {
        let answer = self.reader().object(response)?;
        let found = &answer["predictions"][0]["embeddings"];
        self.reader().embedding(&found["values"], &found["statistics"]["token_count"], response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_model_gives_its_dialect() {
        for (model, expected) in [
            ("gemini-2.5-flash", Dialect::Gemini),
            ("models/gemini-2.5-flash", Dialect::Gemini),
            ("endpoints/123", Dialect::Gemini),
            ("claude-sonnet-4-5@20250929", Dialect::Anthropic),
            ("meta/llama-3.3-70b-instruct-maas", Dialect::OpenAi),
        ] {
            assert_eq!(Dialect::for_model(model), expected, "{model}");
        }
    }

    #[test]
    fn open_models_may_use_other_forms_than_a_schema() {
        let config = json!({"apiKeyEnv": "KEY", "project": "p"});
        let vertex = Vertex::new(settings::parse_config(&config).unwrap()).unwrap();
        let schema = FormChoice::Fixed(crate::StructuredOutput::Schema);
        for (model, expected) in [
            ("gemini-2.5-flash", schema),
            ("claude-sonnet-4-5@20250929", schema),
            ("meta/llama-3.3-70b-instruct-maas", FormChoice::Automatic),
        ] {
            assert_eq!(vertex.form(model), expected, "{model}");
        }
    }
}
