//! `ollama`: models of an Ollama server, on this machine or elsewhere.

use kindlm_types::{
    ContentPart, Embedding, FinishReason, Media, MediaKind, Message, Problem, Prompt,
    ProviderError, ProviderErrorKind, Reply, Usage,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::dialect::address::Address;
use crate::dialect::answer::{Reader, counted};
use crate::dialect::content::{self, PartForms, Refused};
use crate::dialect::{chat, settings};
use crate::{Codec, HttpRequest, HttpResponse, Kind, Meta, Method, Registration};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "ollama",
        summary: "Models of an Ollama server, on this machine or elsewhere.",
        since: "0.1.0",
        key_variable: None,
        shorthand: true,
        wraps_agent: false,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Http(|config| Ok(Box::new(Ollama::new(settings::parse_config(config)?)?))),
};

/// The settings of an Ollama server.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "OllamaConfig", transform = settings::with_key_command)]
struct Config {
    /// The name of the environment variable that holds a key. Only a proxy in front of the server needs a key.
    #[serde(default)]
    #[schemars(length(min = 1))]
    api_key_env: Option<String>,
    /// The base address, before `/api/chat`; `http://localhost:11434` by default.
    #[serde(default)]
    #[schemars(url)]
    base_url: Option<String>,
    /// Additional keys for the body of chat requests, as in the API. If KindLM sends an object under the same key, the
    /// two objects are merged.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    body: Map<String, Value>,
}

const BASE: &str = "http://localhost:11434";
const CHAT: &str = "/chat";

/// The keys that `body` must not contain. KindLM sets these keys, or relies on their defaults to read the answer.
const TAKEN: [&str; 5] = ["model", "messages", "tools", "stream", "options/num_predict"];

#[derive(Debug)]
struct Ollama {
    address: Address,
    key: Option<String>,
    body: Map<String, Value>,
}

impl Ollama {
    fn new(config: Config) -> Result<Self, Vec<Problem>> {
        settings::check(config.api_key_env.as_deref(), config.base_url.as_deref())?;
        settings::check_body(&config.body, &TAKEN)?;
        let address = Address::new(config.base_url.as_deref().unwrap_or(BASE), "/api", CHAT);
        Ok(Self { address, key: config.api_key_env, body: config.body })
    }

    fn request(&self, endpoint: &str, body: Value) -> HttpRequest {
        let mut headers = vec![settings::json_header()];
        headers.extend(self.key.as_deref().map(settings::bearer));
        HttpRequest {
            method: Method::Post,
            url: self.address.at(endpoint),
            headers,
            body,
            ..HttpRequest::default()
        }
    }

    fn reader(&self) -> Reader<'_> {
        Reader { provider: "ollama", key: self.key.as_deref(), rule: |_| None }
    }
}

impl Codec for Ollama {
    fn provider(&self) -> &'static str {
        "ollama"
    }

    fn encode(&self, prompt: &Prompt) -> Result<HttpRequest, ProviderError> {
        let params = &prompt.params;
        let mut options = Map::new();
        chat::put(&mut options, "temperature", params.temperature);
        chat::put(&mut options, "num_predict", params.max_tokens);
        chat::put(&mut options, "top_p", params.top_p);
        chat::put(&mut options, "seed", params.seed);
        chat::put(&mut options, "stop", chat::stop(prompt));
        let mut body = Map::new();
        chat::put(&mut body, "model", Some(prompt.model.clone()));
        let messages = prompt.messages.iter().map(message).collect::<Result<Vec<_>, _>>()?;
        chat::put(&mut body, "messages", Some(messages));
        chat::put(&mut body, "stream", Some(false));
        chat::put(&mut body, "options", Some(options));
        chat::put(&mut body, "tools", chat::tools(prompt));
        chat::put(&mut body, "format", prompt.response_format.as_ref().map(|it| it.schema.clone()));
        settings::add_body(&mut body, &self.body, prompt);
        Ok(self.request(CHAT, Value::Object(body)))
    }

    fn decode(&self, prompt: &Prompt, response: &HttpResponse) -> Result<Reply, ProviderError> {
        let answer = self.reader().object(response).map_err(|mut err| {
            if err.kind == ProviderErrorKind::ModelNotFound {
                err.message =
                    format!("{}; get it with `ollama pull {}`", err.message, prompt.model);
            }
            err
        })?;
        let message = self.reader().message_part(&answer["message"], response)?;
        let tool_calls = self.reader().tool_calls(prompt, message, "ollama_call_", response)?;
        let finish_reason = finish(&answer["done_reason"], !tool_calls.is_empty());
        let text = self.reader().text_of(message, &finish_reason, response)?;
        Ok(Reply {
            tool_calls,
            usage: usage(&answer),
            finish_reason,
            model: chat::model(&answer["model"], prompt),
            ..Reply::text(text)
        })
    }

    fn encode_embedding(&self, model: &str, text: &str) -> Result<HttpRequest, ProviderError> {
        Ok(self.request("/embed", json!({"model": model, "input": text})))
    }

    fn decode_embedding(&self, response: &HttpResponse) -> Result<Embedding, ProviderError> {
        let answer = self.reader().object(response)?;
        self.reader().embedding(&answer["embeddings"][0], &answer["prompt_eval_count"], response)
    }
}

/// Returns one message. Ollama's calls have no ids, and their arguments are objects. Images have their own key.
/// Fails for other media.
fn message(message: &Message) -> Result<Value, ProviderError> {
    let mut out = chat::role_and_content(message);
    if message.parts.iter().any(|it| matches!(it, ContentPart::Raw(_))) {
        let forms = PartForms::chat("ollama", beside_raw);
        out.insert("content".to_owned(), forms.encode_parts(message)?.into());
    } else if !message.parts.is_empty() {
        let (mut texts, mut images) = (Vec::new(), Vec::new());
        for part in &message.parts {
            match part {
                ContentPart::Text(text) => texts.push(text.as_str()),
                ContentPart::Media(media) => {
                    let data = match media.kind {
                        MediaKind::Image => content::data(media),
                        _ => Err(content::unknown_kind(media, "images")),
                    };
                    let data = data.map_err(|why| content::refused("ollama", media, &why))?;
                    images.push(data);
                }
                ContentPart::Raw(_) => {}
            }
        }
        out.insert("content".to_owned(), texts.join("\n").into());
        out.insert("images".to_owned(), json!(images));
    }
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            json!({"function": {"name": call.name, "arguments": chat::arguments_object(call)}})
        });
        out.insert("tool_calls".to_owned(), calls.collect());
    }
    Ok(Value::Object(out))
}

/// Returns the reason why a message with raw parts cannot have this media. Ollama takes images outside of the content.
fn beside_raw(media: &Media) -> Result<Value, Refused> {
    Err(match media.kind {
        MediaKind::Image => Refused(
            "a message has either `raw` parts or images: write the image as `raw` too, or remove `raw`"
                .to_owned(),
        ),
        _ => content::unknown_kind(media, "images"),
    })
}

/// Returns the reason why the model stopped. The API has no reason for calls, so a normal end with calls is
/// `ToolCalls`.
fn finish(word: &Value, has_calls: bool) -> FinishReason {
    match word.as_str() {
        None | Some("stop") if has_calls => FinishReason::ToolCalls,
        Some("stop") => FinishReason::Stop,
        Some("length") => FinishReason::Length,
        other => FinishReason::Other(other.unwrap_or("unknown").to_owned()),
    }
}

fn usage(answer: &Value) -> Usage {
    Usage::counted(
        counted(&answer["prompt_eval_count"]),
        counted(&answer["eval_count"]),
        None,
        None,
    )
}
