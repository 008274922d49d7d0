//! `mistral`: the chat completions and embeddings of Mistral AI.

use kindlm_types::{
    Embedding, FinishReason, Media, MediaKind, Problem, Prompt, ProviderError, ProviderErrorKind,
    Reply, ResponseFormat, Role,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::dialect::address::Address;
use crate::dialect::answer::Reader;
use crate::dialect::content::{self, PartForms, Refused};
use crate::dialect::failure::Facts;
use crate::dialect::{chat, settings};
use crate::{Codec, HttpRequest, HttpResponse, Kind, Meta, Method, Registration};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "mistral",
        summary: "Chat completions of Mistral AI.",
        since: "0.1.0",
        key_variable: Some("MISTRAL_API_KEY"),
        shorthand: true,
        wraps_agent: false,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Http(|config| Ok(Box::new(Mistral::new(settings::parse_config(config)?)?))),
};

/// The settings of the Mistral API.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "MistralConfig", transform = settings::with_key_command)]
struct Config {
    /// The name of the environment variable that holds the key.
    #[schemars(length(min = 1))]
    api_key_env: String,
    /// The base address, before `/chat/completions`; `https://api.mistral.ai/v1` by default.
    #[serde(default)]
    #[schemars(url)]
    base_url: Option<String>,
    /// Accepted without effect, because the Mistral API has no organization header.
    #[serde(default, rename = "organization")]
    #[expect(dead_code, reason = "every provider with a key accepts it")]
    organization: Option<String>,
    /// Additional keys for the body of chat requests, as in the API. If KindLM sends an object under the same key, the
    /// two objects are merged.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    body: Map<String, Value>,
}

const BASE: &str = "https://api.mistral.ai/v1";
const CHAT: &str = "/chat/completions";
const EMBEDDING_MODEL: &str = "mistral-embed";

/// The keys that `body` must not contain. KindLM sets these keys, or relies on their defaults to read the answer.
const TAKEN: [&str; 6] = ["model", "messages", "tools", "stream", "max_tokens", "n"];

#[derive(Debug)]
struct Mistral {
    address: Address,
    key: String,
    body: Map<String, Value>,
}

impl Mistral {
    fn new(config: Config) -> Result<Self, Vec<Problem>> {
        settings::check(Some(&config.api_key_env), config.base_url.as_deref())?;
        settings::check_body(&config.body, &TAKEN)?;
        let address = Address::new(config.base_url.as_deref().unwrap_or(BASE), "", CHAT);
        Ok(Self { address, key: config.api_key_env, body: config.body })
    }

    fn request(&self, endpoint: &str, body: Value) -> HttpRequest {
        let headers = vec![settings::json_header(), settings::bearer(&self.key)];
        HttpRequest {
            method: Method::Post,
            url: self.address.at(endpoint),
            headers,
            body,
            ..HttpRequest::default()
        }
    }

    fn reader(&self) -> Reader<'_> {
        Reader { provider: "mistral", key: Some(&self.key), rule }
    }
}

impl Codec for Mistral {
    fn provider(&self) -> &'static str {
        "mistral"
    }

    fn encode(&self, prompt: &Prompt) -> Result<HttpRequest, ProviderError> {
        let params = &prompt.params;
        let mut body = Map::new();
        chat::put(&mut body, "model", Some(prompt.model.clone()));
        chat::put(&mut body, "messages", Some(messages(prompt)?));
        chat::put(&mut body, "temperature", params.temperature);
        chat::put(&mut body, "max_tokens", params.max_tokens);
        chat::put(&mut body, "top_p", params.top_p);
        chat::put(&mut body, "random_seed", params.seed);
        chat::put(&mut body, "stop", chat::stop(prompt));
        chat::put(&mut body, "tools", chat::tools(prompt));
        chat::put(&mut body, "tool_choice", chat::tool_choice(prompt));
        chat::put(
            &mut body,
            "response_format",
            prompt.response_format.as_ref().map(response_format),
        );
        settings::add_body(&mut body, &self.body, prompt);
        Ok(self.request(CHAT, Value::Object(body)))
    }

    fn decode(&self, prompt: &Prompt, response: &HttpResponse) -> Result<Reply, ProviderError> {
        let answer = self.reader().object(response)?;
        let choice = self.reader().message_part(&answer["choices"][0], response)?;
        let finish_reason = match chat::finish(choice["finish_reason"].as_str()) {
            FinishReason::Other(word) if word == "error" => {
                return Err(self.reader().malformed("the model stopped with an error", response));
            }
            other => other,
        };
        let text = self.reader().text_of(&choice["message"], &finish_reason, response)?;
        Ok(Reply {
            tool_calls: self.reader().tool_calls(prompt, &choice["message"], "call_", response)?,
            usage: chat::usage(&answer["usage"]),
            finish_reason,
            model: chat::model(&answer["model"], prompt),
            ..Reply::text(text)
        })
    }

    fn embedding_model<'m>(&self, model: &'m str) -> &'m str {
        if model.contains("embed") { model } else { EMBEDDING_MODEL }
    }

    fn encode_embedding(&self, model: &str, text: &str) -> Result<HttpRequest, ProviderError> {
        let model = self.embedding_model(model);
        Ok(self.request("/embeddings", json!({"model": model, "input": [text]})))
    }

    fn decode_embedding(&self, response: &HttpResponse) -> Result<Embedding, ProviderError> {
        let answer = self.reader().object(response)?;
        let tokens = &answer["usage"]["prompt_tokens"];
        self.reader().embedding(&answer["data"][0]["embedding"], tokens, response)
    }
}

/// Returns the conversation. Mistral continues a final assistant message only if it is marked as a prefix.
fn messages(prompt: &Prompt) -> Result<Vec<Value>, ProviderError> {
    let mut messages = chat::messages(prompt, PartForms::chat("mistral", media))?;
    let is_prefill = prompt
        .messages
        .last()
        .is_some_and(|it| it.role == Role::Assistant && it.tool_calls.is_empty());
    if let Some(last) = messages.last_mut().and_then(Value::as_object_mut).filter(|_| is_prefill) {
        last.insert("prefix".to_owned(), Value::Bool(true));
    }
    Ok(messages)
}

/// Encodes an image, a sound or a file in Mistral's format. A sound is sent as its data, or else as its address.
fn media(media: &Media) -> Result<Value, Refused> {
    Ok(match media.kind {
        MediaKind::Image => json!({"type": "image_url", "image_url": content::address(media)?}),
        MediaKind::Audio => {
            let data = media.data().map_or_else(|| content::address(media), |it| Ok(it.to_owned()));
            json!({"type": "input_audio", "input_audio": data?})
        }
        MediaKind::File => json!({
            "type": "document_url", "document_url": content::address(media)?, "document_name": media.name,
        }),
    })
}

fn response_format(format: &ResponseFormat) -> Value {
    let name = chat::schema_name(&format.name);
    json!({"type": "json_schema", "json_schema": {"name": name, "schema": format.schema}})
}

fn rule(facts: &Facts) -> Option<ProviderErrorKind> {
    // Mistral answers 400 for an unknown model.
    (facts.status == 400 && facts.is("invalid_model")).then_some(ProviderErrorKind::ModelNotFound)
}
