//! `cohere`: Cohere's chat API, version 2, and its embeddings.

use kindlm_types::{
    Embedding, FinishReason, Media, MediaKind, Problem, Prompt, ProviderError, ProviderErrorKind,
    Reply, ToolChoice, Usage,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::dialect::address::Address;
use crate::dialect::answer::{Reader, counted};
use crate::dialect::content::{self, PartForms, Refused};
use crate::dialect::failure::Facts;
use crate::dialect::{chat, settings};
use crate::{Codec, HttpRequest, HttpResponse, Kind, Meta, Method, Registration};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "cohere",
        summary: "The chat API of Cohere, version 2.",
        since: "0.1.0",
        key_variable: Some("COHERE_API_KEY"),
        shorthand: true,
        wraps_agent: false,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Http(|config| Ok(Box::new(Cohere::new(settings::parse_config(config)?)?))),
};

/// The settings of the Cohere API.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CohereConfig", transform = settings::with_key_command)]
struct Config {
    /// The name of the environment variable that holds the key.
    #[schemars(length(min = 1))]
    api_key_env: String,
    /// The base address, before `/v2/chat`; `https://api.cohere.com` by default.
    #[serde(default)]
    #[schemars(url)]
    base_url: Option<String>,
    /// Accepted without effect, because the Cohere API has no organization header.
    #[serde(default, rename = "organization")]
    #[expect(dead_code, reason = "every provider with a key accepts it")]
    organization: Option<String>,
    /// Additional keys for the body of chat requests, as in the API. If KindLM sends an object under the same key, the
    /// two objects are merged.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    body: Map<String, Value>,
}

const BASE: &str = "https://api.cohere.com";
const CHAT: &str = "/chat";
const EMBEDDING_MODEL: &str = "embed-v4.0";

/// The keys that `body` must not contain. KindLM sets these keys, or relies on their defaults to read the answer.
const TAKEN: [&str; 5] = ["model", "messages", "tools", "stream", "max_tokens"];

#[derive(Debug)]
struct Cohere {
    address: Address,
    key: String,
    body: Map<String, Value>,
}

impl Cohere {
    fn new(config: Config) -> Result<Self, Vec<Problem>> {
        settings::check(Some(&config.api_key_env), config.base_url.as_deref())?;
        settings::check_body(&config.body, &TAKEN)?;
        let address = Address::new(config.base_url.as_deref().unwrap_or(BASE), "/v2", CHAT);
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
        Reader { provider: "cohere", key: Some(&self.key), rule }
    }
}

impl Codec for Cohere {
    fn provider(&self) -> &'static str {
        "cohere"
    }

    fn encode(&self, prompt: &Prompt) -> Result<HttpRequest, ProviderError> {
        let params = &prompt.params;
        let mut body = Map::new();
        chat::put(&mut body, "model", Some(prompt.model.clone()));
        chat::put(
            &mut body,
            "messages",
            Some(chat::messages(prompt, PartForms::chat("cohere", media))?),
        );
        chat::put(&mut body, "temperature", params.temperature);
        chat::put(&mut body, "max_tokens", params.max_tokens);
        chat::put(&mut body, "p", params.top_p);
        chat::put(&mut body, "seed", params.seed);
        chat::put(&mut body, "stop_sequences", chat::stop(prompt));
        chat::put(&mut body, "tools", chat::tools(prompt));
        chat::put(&mut body, "tool_choice", tool_choice(prompt));
        let format = prompt.response_format.as_ref();
        let format = format.map(|it| json!({"type": "json_object", "json_schema": it.schema}));
        chat::put(&mut body, "response_format", format);
        settings::add_body(&mut body, &self.body, prompt);
        Ok(self.request(CHAT, Value::Object(body)))
    }

    fn decode(&self, prompt: &Prompt, response: &HttpResponse) -> Result<Reply, ProviderError> {
        let answer = self.reader().object(response)?;
        let message = self.reader().message_part(&answer["message"], response)?;
        let finish_reason = finish(&answer["finish_reason"]);
        let text = self.reader().text_of(message, &finish_reason, response)?;
        Ok(Reply {
            tool_calls: self.reader().tool_calls(prompt, message, "call_", response)?,
            usage: usage(&answer["usage"]),
            finish_reason,
            model: chat::model(&answer["model"], prompt),
            ..Reply::text(text)
        })
    }

    fn embedding_model<'m>(&self, model: &'m str) -> &'m str {
        if model.starts_with("embed") { model } else { EMBEDDING_MODEL }
    }

    fn encode_embedding(&self, model: &str, text: &str) -> Result<HttpRequest, ProviderError> {
        let model = self.embedding_model(model);
        let body = json!({
            "model": model, "texts": [text], "input_type": "clustering", "embedding_types": ["float"],
        });
        Ok(self.request("/embed", body))
    }

    fn decode_embedding(&self, response: &HttpResponse) -> Result<Embedding, ProviderError> {
        let answer = self.reader().object(response)?;
        let tokens = &answer["meta"]["billed_units"]["input_tokens"];
        self.reader().embedding(&answer["embeddings"]["float"][0], tokens, response)
    }
}

/// Returns Cohere's tool choice; `None` without tools, or if the model may decide.
fn tool_choice(prompt: &Prompt) -> Option<&'static str> {
    match prompt.tool_choice.as_ref().filter(|_| !prompt.tools.is_empty())? {
        ToolChoice::Auto => None,
        ToolChoice::Required => Some("REQUIRED"),
        ToolChoice::None => Some("NONE"),
    }
}

fn finish(word: &Value) -> FinishReason {
    match word.as_str() {
        Some("COMPLETE") => FinishReason::Stop,
        Some("MAX_TOKENS") => FinishReason::Length,
        Some("TOOL_CALL") => FinishReason::ToolCalls,
        Some("ERROR_TOXIC") => FinishReason::ContentFilter,
        other => FinishReason::Other(other.unwrap_or("unknown").to_owned()),
    }
}

/// Returns the token usage from the counted tokens, or else from the billed tokens.
fn usage(usage: &Value) -> Usage {
    let tokens =
        if usage["tokens"].is_object() { &usage["tokens"] } else { &usage["billed_units"] };
    let [input, output] = ["input_tokens", "output_tokens"].map(|key| counted(&tokens[key]));
    Usage::counted(input, output, None, counted(&usage["cached_tokens"]))
}

fn rule(facts: &Facts) -> Option<ProviderErrorKind> {
    match facts.status {
        498 => Some(ProviderErrorKind::Auth),
        // The monthly quota of a trial key is used up, so a retry cannot succeed.
        429 if facts.message_contains(&["/ month", "per month"]) => {
            Some(ProviderErrorKind::QuotaExhausted)
        }
        _ => None,
    }
}

/// Encodes an image in Cohere's format.
fn media(media: &Media) -> Result<Value, Refused> {
    match media.kind {
        MediaKind::Image => content::openai(media),
        MediaKind::Audio | MediaKind::File => Err(content::unknown_kind(media, "images")),
    }
}
