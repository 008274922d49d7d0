//! `replicate`: language models and image models on Replicate, through the predictions API.

use kindlm_types::{
    FinishReason, Problem, Prompt, ProviderError, ProviderErrorKind, Reply, Role, Usage,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::StructuredOutput;
use crate::dialect::address::{Address, segment};
use crate::dialect::answer::{Reader, counted, non_empty};
use crate::dialect::failure::Facts;
use crate::dialect::{chat, content, settings};
use crate::form::FormChoice;
use crate::{Codec, HeaderValue, HttpRequest, HttpResponse, Kind, Meta, Method, Registration};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "replicate",
        summary: "Language models on Replicate, and models that make images, by its predictions API.",
        since: "0.1.0",
        key_variable: Some("REPLICATE_API_TOKEN"),
        shorthand: true,
        wraps_agent: false,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Http(|config| Ok(Box::new(Replicate::new(settings::parse_config(config)?)?))),
};

/// The settings of Replicate.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ReplicateConfig", transform = settings::with_key_command)]
struct Config {
    /// The name of the environment variable that holds the key.
    #[schemars(length(min = 1))]
    api_key_env: String,
    /// The base address, before `/predictions` and `/models`; `https://api.replicate.com/v1` by default.
    #[serde(default)]
    #[schemars(url)]
    base_url: Option<String>,
    /// The text before each prompt, such as `[INST] ` of a model without a chat template.
    #[serde(default)]
    prefix: String,
    /// The text after each prompt.
    #[serde(default)]
    suffix: String,
    /// True for a model that makes images. The text of an answer is then the address of the first image, as a Markdown
    /// image.
    #[serde(default)]
    image: bool,
    /// Additional keys for the body of a prediction, as in the API. The keys of its `input` depend on the model.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    body: Map<String, Value>,
}

const BASE: &str = "https://api.replicate.com/v1";
const PREDICTIONS: &str = "/predictions";

/// The keys that `body` must not contain. KindLM sets these keys, or relies on their defaults to read the answer.
const TAKEN: [&str; 4] = ["version", "stream", "input/prompt", "input/max_tokens"];

#[derive(Debug)]
struct Replicate {
    address: Address,
    key: String,
    prefix: String,
    suffix: String,
    image: bool,
    body: Map<String, Value>,
}

impl Replicate {
    fn new(config: Config) -> Result<Self, Vec<Problem>> {
        settings::check(Some(&config.api_key_env), config.base_url.as_deref())?;
        settings::check_body(&config.body, &TAKEN)?;
        let address = Address::new(config.base_url.as_deref().unwrap_or(BASE), "", PREDICTIONS);
        let Config { api_key_env: key, prefix, suffix, image, body, .. } = config;
        Ok(Self { address, key, prefix, suffix, image, body })
    }

    /// Returns the endpoint of a model, and the version in its name. A model without a version is an official model
    /// with its own endpoint.
    fn endpoint(model: &str) -> (String, Option<&str>) {
        if let Some((_, version)) = model.split_once(':') {
            return (PREDICTIONS.to_owned(), Some(version));
        }
        let path: Vec<String> = model.split('/').map(segment).collect();
        (format!("/models/{}{PREDICTIONS}", path.join("/")), None)
    }

    /// Returns the reply of a model that makes images. Returns `None` if the output has no address.
    fn image(&self, prompt: &Prompt, output: &Value) -> Option<Reply> {
        let one = [output.clone()];
        let all = output.as_array().map_or(&one[..], Vec::as_slice);
        let urls: Vec<&str> = all.iter().map(Value::as_str).collect::<Option<_>>()?;
        let about = format!("{}{}{}", self.prefix, texts(prompt, Role::User), self.suffix);
        let markdown = format!("![{}]({})", short(&about), urls.first()?);
        let images: Vec<Value> = urls.iter().map(|it| json!({"data": it})).collect();
        Some(Reply {
            finish_reason: FinishReason::Stop,
            model: prompt.model.clone(),
            response: Some(json!({"images": images})),
            ..Reply::text(markdown)
        })
    }

    fn reader(&self) -> Reader<'_> {
        let rule = |_: &Facts| None;
        Reader { provider: "replicate", key: Some(&self.key), rule }
    }
}

impl Codec for Replicate {
    fn provider(&self) -> &'static str {
        "replicate"
    }

    /// The API has no structured output.
    fn form(&self, _model: &str) -> FormChoice {
        FormChoice::Fixed(StructuredOutput::None)
    }

    fn encode(&self, prompt: &Prompt) -> Result<HttpRequest, ProviderError> {
        content::texts_only("replicate", prompt)?;
        let (endpoint, version) = Self::endpoint(&prompt.model);
        let mut body = Map::new();
        chat::put(&mut body, "version", version);
        chat::put(&mut body, "input", Some(input(prompt, (&self.prefix, &self.suffix))?));
        settings::add_body(&mut body, &self.body, prompt);
        let headers = vec![
            settings::json_header(),
            settings::bearer(&self.key),
            // The server answers when the prediction has finished, or after 5 s. By default, the server waits 60 s, and
            // the client's default timeout is 60 s too. A retry after the timeout would be charged again.
            ("Prefer".to_owned(), HeaderValue::Literal("wait=5".to_owned())),
        ];
        Ok(HttpRequest {
            method: Method::Post,
            url: self.address.at(&endpoint),
            headers,
            body: Value::Object(body),
            ..HttpRequest::default()
        })
    }

    fn unfinished(&self, response: &HttpResponse) -> Option<HttpRequest> {
        let answer = self.reader().object(response).ok()?;
        if !matches!(answer["status"].as_str(), Some("starting" | "processing")) {
            return None;
        }
        // The answer also has the address of the prediction. This code builds the address itself, so that the key is
        // only sent to the configured server.
        let id = segment(non_empty(&answer["id"])?);
        Some(HttpRequest {
            method: Method::Get,
            url: self.address.at(&format!("{PREDICTIONS}/{id}")),
            headers: vec![settings::bearer(&self.key)],
            ..HttpRequest::default()
        })
    }

    fn decode(&self, prompt: &Prompt, response: &HttpResponse) -> Result<Reply, ProviderError> {
        let reader = self.reader();
        let answer = reader.json(response)?;
        match answer["status"].as_str() {
            Some("succeeded") => {}
            Some(status @ ("failed" | "canceled" | "aborted")) => {
                let why = non_empty(&answer["error"]).unwrap_or("no reason is given");
                let message = format!("the prediction has the status \"{status}\": {why}");
                return Err(ProviderError::new(ProviderErrorKind::Server, "replicate", message));
            }
            _ => {
                let what = "the answer is no finished prediction: check the address";
                return Err(reader.malformed(what, response));
            }
        }
        if self.image {
            return self.image(prompt, &answer["output"]).ok_or_else(|| {
                let what = "the output is no address of an image, and no list of them";
                reader.malformed(what, response)
            });
        }
        let text = text(&answer["output"]).ok_or_else(|| {
            reader.malformed("the output is no text, and no list of texts", response)
        })?;
        let metrics = &answer["metrics"];
        let [input, output] =
            ["input_token_count", "output_token_count"].map(|key| counted(&metrics[key]));
        Ok(Reply {
            usage: Usage::counted(input, output, None, None),
            // The API does not report whether the model was stopped by its limit.
            finish_reason: FinishReason::Stop,
            model: chat::model(&answer["model"], prompt),
            ..Reply::text(text)
        })
    }
}

/// Returns the input of a prediction. Fails for a prompt with tools, or with earlier answers, because a prediction
/// has only one text.
fn input(prompt: &Prompt, (prefix, suffix): (&str, &str)) -> Result<Value, ProviderError> {
    let unsupported = |what: &str| {
        let message =
            format!("{what} is unsupported: a prediction has one prompt, and no messages");
        Err(ProviderError::new(ProviderErrorKind::Unsupported, "replicate", message))
    };
    if !prompt.tools.is_empty() {
        return unsupported("a test with tools");
    }
    if prompt.messages.iter().any(|it| matches!(it.role, Role::Assistant | Role::Tool)) {
        return unsupported("a conversation with answers");
    }
    let params = &prompt.params;
    let system = texts(prompt, Role::System);
    let mut input = Map::new();
    let text = format!("{prefix}{}{suffix}", texts(prompt, Role::User));
    chat::put(&mut input, "prompt", Some(text));
    chat::put(&mut input, "system_prompt", Some(system).filter(|it| !it.is_empty()));
    chat::put(&mut input, "temperature", params.temperature);
    chat::put(&mut input, "max_tokens", params.max_tokens);
    chat::put(&mut input, "top_p", params.top_p);
    chat::put(&mut input, "seed", params.seed);
    let stop = Some(params.stop_sequences.join(",")).filter(|it| !it.is_empty());
    chat::put(&mut input, "stop_sequences", stop);
    Ok(Value::Object(input))
}

/// Returns the texts of a role's messages, with an empty line between them.
fn texts(prompt: &Prompt, role: Role) -> String {
    let messages = prompt.messages.iter().filter(|it| it.role == role);
    messages.map(|it| it.content.as_str()).collect::<Vec<_>>().join("\n\n")
}

/// Returns a text as the name of an image in Markdown: one line of at most 50 characters, without brackets.
fn short(about: &str) -> String {
    let about = about.replace("\r\n", " ").replace(['\n', '\r'], " ");
    let about = about.replace('[', "(").replace(']', ")");
    if about.chars().count() <= 50 {
        return about;
    }
    about.chars().take(47).chain("...".chars()).collect()
}

/// Returns the text of an output: a text, or a list of texts, which are joined. Returns `None` for any other output.
fn text(output: &Value) -> Option<String> {
    match output {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => parts.iter().map(Value::as_str).collect(),
        _ => None,
    }
}
