//! `openai-realtime`: the Realtime API of OpenAI, and of every compatible server, over a websocket.

mod session;

use std::collections::BTreeMap;
use std::time::Duration;

use kindlm_types::{
    ContentPart, Media, MediaKind, Message, Problem, Prompt, ProviderError, ProviderErrorKind, Role,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::session::Session;
use crate::dialect::address::{Address, segment, web_address};
use crate::dialect::answer::Reader;
use crate::dialect::content::{self, PartForms, Refused};
use crate::dialect::failure::Facts;
use crate::dialect::{chat, code, settings};
use crate::{HeaderValue, HttpRequest, Kind, Meta, Method, Opening, Registration, SocketCodec};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "openai-realtime",
        summary: "The Realtime API of OpenAI, over a websocket.",
        since: "0.1.0",
        key_variable: Some("OPENAI_API_KEY"),
        shorthand: true,
        wraps_agent: false,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Socket(|config| Ok(Box::new(Realtime::new(settings::parse_config(config)?)?))),
};

/// The settings of the Realtime API.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "OpenaiRealtimeConfig", transform = settings::with_key_command)]
struct Config {
    /// The name of the environment variable that holds the key; `null` for a server without keys.
    #[schemars(with = "Value", extend("type" = ["string", "null"], "minLength" = 1))]
    api_key_env: Option<String>,
    /// The base address, before `/realtime`; `wss://api.openai.com/v1` by default.
    #[serde(default)]
    #[schemars(length(min = 1))]
    base_url: Option<String>,
    /// The organization, sent as `OpenAI-Organization`.
    #[serde(default)]
    organization: Option<String>,
    /// More headers of the handshake. A value that starts with `env:` or `Bearer env:` names an environment variable
    /// that holds the value or the token.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Additional keys of the session, as in the API: `audio`, `reasoning`, … If KindLM sends an object under the same
    /// key, the two objects are merged. `null` removes a key.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    session: Map<String, Value>,
    /// Additional keys of the request for an answer, as in the API.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    response: Map<String, Value>,
    /// Instructions that come before the system messages of the prompt.
    #[serde(default)]
    #[schemars(length(min = 1))]
    instructions: Option<String>,
    /// A script that answers the model's tool calls: a function of `name` and `args`. Without a script, an answer ends
    /// at its tool calls.
    #[serde(default)]
    #[schemars(length(min = 1))]
    answer_calls: Option<String>,
    /// The maximum pause before a message of the server, in milliseconds; 60,000 by default.
    #[serde(default)]
    #[schemars(range(min = 1))]
    idle_timeout_ms: Option<u64>,
    /// The form of the output: its text (`text`, the default), its text with a note on answered calls (`note`), or an
    /// object if there are calls (`calls`).
    #[serde(default)]
    output: Output,
}

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "OpenaiRealtimeOutput")]
enum Output {
    /// The text.
    #[default]
    Text,
    /// The text. If calls were answered, a note in promptfoo's format follows.
    Note,
    /// The text, or `{ text, functionCalls }` if there are calls: the form of promptfoo's `xai:voice`.
    Calls,
}

const BASE: &str = "wss://api.openai.com/v1";
const REALTIME: &str = "/realtime";
/// The keys that `session` must not contain. KindLM sets these keys, or relies on their defaults to read the answer.
const TAKEN: [&str; 4] = ["model", "tools", "instructions", "max_output_tokens"];
/// The keys that `response` must not contain. KindLM sets these keys in other messages, or relies on
/// their defaults to read the answer.
const TAKEN_OF_RESPONSE: [&str; 4] = ["conversation", "input", "tools", "instructions"];

/// A codec of the Realtime API.
#[derive(Debug)]
struct Realtime {
    address: Address,
    key: Option<String>,
    headers: Vec<(String, HeaderValue)>,
    session: Map<String, Value>,
    response: Map<String, Value>,
    instructions: Option<String>,
    answer_calls: Option<String>,
    idle_timeout: Option<Duration>,
    output: Output,
}

impl Realtime {
    fn new(config: Config) -> Result<Self, Vec<Problem>> {
        let base = web_address(config.base_url.as_deref().unwrap_or(BASE));
        settings::check(config.api_key_env.as_deref(), Some(&base))?;
        settings::check_object("/session", &config.session, &TAKEN)?;
        settings::check_object("/response", &config.response, &TAKEN_OF_RESPONSE)?;
        let organization = config.organization.as_deref();
        let mut own = settings::openai_headers(config.api_key_env.as_deref(), organization);
        // A handshake has no body.
        own.retain(|(name, _)| name != "Content-Type");
        let headers = settings::literal_headers(own, &config.headers)?;
        Ok(Self {
            address: Address::new(&base, "", REALTIME),
            key: config.api_key_env,
            headers,
            session: config.session,
            response: config.response,
            instructions: config.instructions,
            answer_calls: config.answer_calls.map(|it| code::body(&it, &["name", "args"])),
            idle_timeout: config.idle_timeout_ms.map(Duration::from_millis),
            output: config.output,
        })
    }

    fn reader(&self) -> Reader<'_> {
        Reader { provider: "openai-realtime", key: self.key.as_deref(), rule }
    }

    fn session(&self, prompt: &Prompt) -> Result<Value, ProviderError> {
        let mut session = Map::new();
        chat::put(&mut session, "type", Some("realtime"));
        chat::put(&mut session, "model", Some(prompt.model.clone()));
        chat::put(&mut session, "output_modalities", Some(json!(["text"])));
        chat::put(&mut session, "instructions", self.instructions(prompt)?);
        chat::put(&mut session, "max_output_tokens", prompt.params.max_tokens);
        chat::put(&mut session, "tools", tools(prompt));
        chat::put(&mut session, "tool_choice", chat::tool_choice(prompt));
        settings::add_body(&mut session, &self.session, prompt);
        session.retain(|_, value| !value.is_null());
        Ok(Value::Object(session))
    }

    /// Returns the instructions of the provider and the system messages of the prompt; `None` without both. Fails if a
    /// system message has a part that is not text.
    fn instructions(&self, prompt: &Prompt) -> Result<Option<String>, ProviderError> {
        let mut all: Vec<String> = self.instructions.iter().cloned().collect();
        for message in prompt.messages.iter().filter(|it| it.role == Role::System) {
            all.push(system_text(message)?);
        }
        Ok((!all.is_empty()).then(|| all.join("\n\n")))
    }

    /// Returns the request for an answer.
    fn create(&self) -> Value {
        let mut event = Map::new();
        chat::put(&mut event, "type", Some("response.create"));
        if !self.response.is_empty() {
            chat::put(&mut event, "response", Some(self.response.clone()));
        }
        Value::Object(event)
    }
}

impl SocketCodec for Realtime {
    fn provider(&self) -> &'static str {
        "openai-realtime"
    }

    fn open<'c>(&'c self, prompt: &'c Prompt) -> Result<Opening<'c>, ProviderError> {
        let model = segment(&prompt.model);
        let url = self.address.at(REALTIME);
        let sign = if url.contains('?') { '&' } else { '?' };
        let request = HttpRequest {
            method: Method::Get,
            url: format!("{url}{sign}model={model}"),
            headers: self.headers.clone(),
            body: json!({"type": "session.update", "session": self.session(prompt)?}),
            ..HttpRequest::default()
        };
        let mut items = Vec::new();
        for message in prompt.messages.iter().filter(|it| it.role != Role::System) {
            add_items(message, &mut items)?;
        }
        if items.is_empty() {
            let why = "the prompt has no message of the user";
            return Err(ProviderError::new(
                ProviderErrorKind::InvalidRequest,
                "openai-realtime",
                why,
            ));
        }
        let mut messages: Vec<Value> = items.into_iter().map(item_created).collect();
        messages.push(self.create());
        Ok(Opening { request, messages, exchange: Box::new(Session::new(self, prompt)) })
    }

    fn answer_script(&self) -> Option<&str> {
        self.answer_calls.as_deref()
    }

    fn idle_timeout(&self) -> Option<Duration> {
        self.idle_timeout
    }
}

/// Returns the functions of the test; `None` without functions.
fn tools(prompt: &Prompt) -> Option<Value> {
    let tool = |tool: &kindlm_types::ToolSpec| {
        let mut own = Map::new();
        chat::put(&mut own, "type", Some("function"));
        chat::put(&mut own, "name", Some(tool.name.clone()));
        chat::put(&mut own, "description", tool.description.clone());
        chat::put(&mut own, "parameters", tool.parameters.clone());
        Value::Object(own)
    };
    (!prompt.tools.is_empty()).then(|| prompt.tools.iter().map(tool).collect())
}

/// Returns the text of a system message. Fails if a part is not a text; a raw part may be a text in the API's format.
fn system_text(message: &Message) -> Result<String, ProviderError> {
    if message.parts.is_empty() {
        return Ok(message.content.clone());
    }
    let text = |part: &ContentPart| match part {
        ContentPart::Text(text) => Some(text.clone()),
        ContentPart::Raw(raw) => raw.value()["text"].as_str().map(str::to_owned),
        ContentPart::Media(_) => None,
    };
    let texts: Option<Vec<String>> = message.parts.iter().map(text).collect();
    let Some(texts) = texts else {
        content::check_system("openai-realtime", message)?;
        return Ok(message.content.clone());
    };
    Ok(texts.join("\n"))
}

/// Returns the event that adds an item to the conversation.
fn item_created(item: Value) -> Value {
    let mut event = Map::new();
    chat::put(&mut event, "type", Some("conversation.item.create"));
    chat::put(&mut event, "item", Some(item));
    Value::Object(event)
}

/// Adds the items of a message: its content, and each call.
fn add_items(message: &Message, items: &mut Vec<Value>) -> Result<(), ProviderError> {
    if message.role == Role::Tool {
        items.push(json!({
            "type": "function_call_output", "call_id": message.tool_call_id, "output": message.content,
        }));
        return Ok(());
    }
    let forms = if message.role == Role::Assistant { ANSWERED } else { FORMS };
    if !message.content.is_empty() || message.tool_calls.is_empty() {
        let content = match message.parts.as_slice() {
            [] => vec![(forms.text)(&message.content)],
            _ => forms.encode_parts(message)?,
        };
        items.push(json!({"type": "message", "role": message.role.as_str(), "content": content}));
    }
    items.extend(message.tool_calls.iter().map(|call| {
        json!({
            "type": "function_call", "call_id": call.id, "name": call.name,
            "arguments": chat::arguments_text(call),
        })
    }));
    Ok(())
}

/// The encoders of the parts of a user message.
const FORMS: PartForms = PartForms {
    provider: "openai-realtime",
    text: |text| json!({"type": "input_text", "text": text}),
    media,
    raw: |value| match (value["type"].as_str(), &value["text"], &value["image_url"]) {
        (Some("text"), Value::String(text), _) => json!({"type": "input_text", "text": text}),
        (Some("image_url"), _, image) => {
            let url = if image.is_object() { &image["url"] } else { image };
            json!({"type": "input_image", "image_url": url})
        }
        _ => value.clone(),
    },
};

/// The encoders of the parts of an earlier answer.
const ANSWERED: PartForms = PartForms {
    text: |text| json!({"type": "output_text", "text": text}),
    raw: |value| match (value["type"].as_str(), &value["text"]) {
        (Some("text"), Value::String(text)) => json!({"type": "output_text", "text": text}),
        _ => value.clone(),
    },
    ..FORMS
};

/// Encodes an image in the format of this API.
fn media(media: &Media) -> Result<Value, Refused> {
    match media.kind {
        MediaKind::Image => {
            Ok(json!({"type": "input_image", "image_url": content::address(media)?}))
        }
        MediaKind::Audio | MediaKind::File => {
            Err(content::unknown_kind(media, "images; `openai` sends sounds to the chat API"))
        }
    }
}

/// Returns the kind of an error that differs in this API; `None` for any other error.
fn rule(facts: &Facts) -> Option<ProviderErrorKind> {
    if facts.is("invalid_api_key") || facts.is("authentication_error") {
        return Some(ProviderErrorKind::Auth);
    }
    let is_limited = facts.is("rate_limit_exceeded") || facts.is("rate_limit_error");
    is_limited.then_some(ProviderErrorKind::RateLimited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_at_their_keys() {
        for (config, pointer) in [
            (json!({"apiKeyEnv": "K", "baseUrl": "ftp://a"}), "/baseUrl"),
            (json!({"apiKeyEnv": "K", "session": {"model": "m"}}), "/session/model"),
            (json!({"apiKeyEnv": "K", "response": {"input": []}}), "/response/input"),
            (json!({"apiKeyEnv": "K", "session": {"a": {"api_key": "x"}}}), "/session/a/api_key"),
        ] {
            let problems = Realtime::new(settings::parse_config(&config).unwrap()).unwrap_err();
            assert_eq!(problems[0].pointer, pointer, "{config}");
        }
    }
}
