//! `google-live`: the Live API of Google's Gemini models, over a websocket.

mod session;

use std::time::Duration;

use kindlm_types::{Problem, Prompt, ProviderError, ProviderErrorKind, Role};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::session::Session;
use crate::dialect::address::{Address, web_address};
use crate::dialect::answer::Reader;
use crate::dialect::{chat, code, content, gemini, settings};
use crate::{HeaderValue, HttpRequest, Kind, Meta, Method, Opening, Registration, SocketCodec};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "google-live",
        summary: "The Live API of Google's Gemini models, over a websocket.",
        since: "0.1.0",
        key_variable: Some("GEMINI_API_KEY"),
        shorthand: true,
        wraps_agent: false,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Socket(|config| Ok(Box::new(GoogleLive::new(settings::parse_config(config)?)?))),
};

/// The settings of the Live API.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "GoogleLiveConfig", transform = settings::with_key_command)]
struct Config {
    /// The name of the environment variable that holds the key.
    #[schemars(length(min = 1))]
    api_key_env: String,
    /// The base address, before `/ws`; `wss://generativelanguage.googleapis.com` by default.
    #[serde(default)]
    #[schemars(length(min = 1))]
    base_url: Option<String>,
    /// The version of the API: `v1alpha` or `v1beta`. By default, `v1beta` for models that answer with audio,
    /// else `v1alpha`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    api_version: Option<String>,
    /// Accepted without effect, because the Live API has no organization header.
    #[serde(default, rename = "organization")]
    #[expect(dead_code, reason = "every provider with a key accepts it")]
    organization: Option<String>,
    /// Additional keys for the setup message, as in the API. If KindLM sends an object under the same key, the two
    /// objects are merged.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    setup: Map<String, Value>,
    /// Tools that Google runs, such as `{ googleSearch: {} }`. They are sent beside the functions of the test.
    #[serde(default)]
    #[schemars(with = "Vec<std::collections::BTreeMap<String, Value>>")]
    hosted_tools: Vec<Map<String, Value>>,
    /// Instructions that come before the system messages of the prompt.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    system_instruction: Vec<String>,
    /// A script that answers the model's tool calls: a function of `name` and `args`. Without a script, an answer ends
    /// at its tool calls.
    #[serde(default)]
    #[schemars(length(min = 1))]
    answer_calls: Option<String>,
    /// The maximum pause before a message of the server, in milliseconds; 60,000 by default.
    #[serde(default)]
    #[schemars(range(min = 1))]
    idle_timeout_ms: Option<u64>,
    /// The form of the output: its text (`text`, the default), or an object with the text and the calls (`object`).
    #[serde(default)]
    output: Output,
}

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "GoogleLiveOutput")]
enum Output {
    /// The text.
    #[default]
    Text,
    /// `{ text, toolCall: { functionCalls } }`, which is promptfoo's format.
    Object,
}

const BASE: &str = "wss://generativelanguage.googleapis.com";
/// The keys that `setup` must not contain. KindLM sets these keys, or relies on their defaults to read the answer.
const TAKEN: [&str; 10] = [
    "model",
    "tools",
    "systemInstruction",
    "system_instruction",
    "generation_config",
    "generationConfig/maxOutputTokens",
    "generationConfig/max_output_tokens",
    "generationConfig/candidateCount",
    "generationConfig/candidate_count",
    "historyConfig",
];

/// A codec of the Live API.
#[derive(Debug)]
struct GoogleLive {
    address: Address,
    version: Option<String>,
    key: String,
    setup: Map<String, Value>,
    hosted: Vec<Map<String, Value>>,
    system: Vec<String>,
    answer_calls: Option<String>,
    idle_timeout: Option<Duration>,
    output: Output,
}

impl GoogleLive {
    fn new(config: Config) -> Result<Self, Vec<Problem>> {
        let base = web_address(config.base_url.as_deref().unwrap_or(BASE));
        settings::check(Some(&config.api_key_env), Some(&base))?;
        if let Some(version) = &config.api_version {
            settings::check_name("/apiVersion", version)?;
        }
        settings::check_object("/setup", &config.setup, &TAKEN)?;
        gemini::check_hosted(&config.hosted_tools)?;
        Ok(Self {
            address: Address::new(&base, "", "/ws"),
            version: config.api_version,
            key: config.api_key_env,
            setup: config.setup,
            hosted: config.hosted_tools,
            system: config.system_instruction,
            answer_calls: config.answer_calls.map(|it| code::body(&it, &["name", "args"])),
            idle_timeout: config.idle_timeout_ms.map(Duration::from_millis),
            output: config.output,
        })
    }

    fn reader(&self) -> Reader<'_> {
        Reader { provider: "google-live", key: Some(&self.key), rule: gemini::rule }
    }

    /// Returns the request for the websocket. Its body is the setup message.
    fn request(&self, prompt: &Prompt, has_history: bool) -> Result<HttpRequest, ProviderError> {
        let version = self
            .version
            .as_deref()
            .unwrap_or_else(|| if speaks(&prompt.model) { "v1beta" } else { "v1alpha" });
        let service = format!(
            "/ws/google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateContent"
        );
        let key = HeaderValue::FromEnv { prefix: "", variable: self.key.clone() };
        Ok(HttpRequest {
            method: Method::Get,
            url: self.address.at(&service),
            // A key in the address would be in the logs of every proxy.
            headers: vec![("x-goog-api-key".to_owned(), key)],
            body: json!({"setup": self.setup(prompt, has_history)?}),
            ..HttpRequest::default()
        })
    }

    fn setup(
        &self,
        prompt: &Prompt,
        has_history: bool,
    ) -> Result<Map<String, Value>, ProviderError> {
        let mut setup = Map::new();
        let model = &prompt.model;
        let model = if model.contains('/') { model.clone() } else { format!("models/{model}") };
        chat::put(&mut setup, "model", Some(model));
        let mut config = gemini::generation_config(prompt);
        let modality = if speaks(&prompt.model) { "AUDIO" } else { "TEXT" };
        chat::put(&mut config, "responseModalities", Some(json!([modality])));
        chat::put(&mut setup, "generationConfig", Some(config));
        chat::put(&mut setup, "systemInstruction", gemini::system(prompt, &self.system)?);
        let tools = gemini::tools(prompt, &self.hosted);
        if !tools.is_empty() {
            chat::put(&mut setup, "tools", Some(Value::Array(tools)));
        }
        if !prompt.tools.is_empty() {
            let choice = prompt.tool_choice.as_ref().map(gemini::tool_config);
            chat::put(&mut setup, "toolConfig", choice);
        }
        settings::add_body(&mut setup, &self.setup, prompt);
        if has_history && is_gemini_3(&prompt.model) {
            let config = json!({"initialHistoryInClientContent": true});
            chat::put(&mut setup, "historyConfig", Some(config));
        }
        // Without a transcript, an answer in audio has no text.
        if asks_audio(&setup) {
            setup.entry("outputAudioTranscription").or_insert_with(|| json!({}));
        }
        Ok(setup)
    }
}

impl SocketCodec for GoogleLive {
    fn provider(&self) -> &'static str {
        "google-live"
    }

    fn open<'c>(&'c self, prompt: &'c Prompt) -> Result<Opening<'c>, ProviderError> {
        content::texts_or_raw("google-live", prompt)?;
        let mut history = gemini::contents(prompt)?;
        let after = history.iter().rposition(|it| it["role"] != "user").map_or(0, |at| at + 1);
        let own = history.split_off(after);
        let request = self.request(prompt, !history.is_empty())?;
        let turns = turns(prompt, &history, &own)?;
        // The server reads nothing before it has confirmed the setup.
        let exchange = Box::new(Session::new(self, prompt, turns));
        Ok(Opening { request, messages: Vec::new(), exchange })
    }

    fn answer_script(&self) -> Option<&str> {
        self.answer_calls.as_deref()
    }

    fn idle_timeout(&self) -> Option<Duration> {
        self.idle_timeout
    }
}

/// Returns true if a model answers only with audio.
fn speaks(model: &str) -> bool {
    model.contains("native-audio") || is_gemini_3(model)
}

/// Returns true for a live model of Gemini 3.
fn is_gemini_3(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.starts_with("gemini-3") && name.contains("live")
}

/// Returns true if the setup requests an answer in audio.
fn asks_audio(setup: &Map<String, Value>) -> bool {
    let config = setup.get("generationConfig");
    let modalities = ["responseModalities", "response_modalities"];
    let listed = modalities.iter().filter_map(|it| config?.get(it)?.as_array()).flatten();
    listed.into_iter().any(|it| it.as_str().is_some_and(|it| it.eq_ignore_ascii_case("audio")))
}

/// Returns the messages for each turn of the user, in order.
///
/// Each message of the user after the last answer is a turn, which the model answers. All earlier messages are the
/// history of the first turn.
fn turns(
    prompt: &Prompt,
    history: &[Value],
    own: &[Value],
) -> Result<Vec<Vec<Value>>, ProviderError> {
    let client = |turns: &[Value], is_complete: bool| json!({"clientContent": {"turns": turns, "turnComplete": is_complete}});
    if history.is_empty() && own.is_empty() {
        let message = "the prompt has no message of the user";
        return Err(ProviderError::new(ProviderErrorKind::InvalidRequest, "google-live", message));
    }
    let is_gemini_3 = is_gemini_3(&prompt.model);
    if is_gemini_3 {
        check_for_gemini_3(prompt, own)?;
    }
    if own.is_empty() {
        return Ok(vec![vec![client(history, true)]]);
    }
    // Other models answer a history with `turnComplete: true` at once. Gemini 3 requires this flag, and answers only
    // the live input after the history.
    let history = (!history.is_empty()).then(|| client(history, is_gemini_3));
    let turn = |content: &Value| {
        // Models that answer with audio take new turns as live input.
        if speaks(&prompt.model)
            && let Some(text) = only_text(content)
        {
            return json!({"realtimeInput": {"text": text}});
        }
        client(std::slice::from_ref(content), true)
    };
    let mut turns: Vec<Vec<Value>> = own.iter().map(|it| vec![turn(it)]).collect();
    if let (Some(history), Some(first)) = (history, turns.first_mut()) {
        first.insert(0, history);
    }
    Ok(turns)
}

/// Fails for a prompt that Gemini 3 cannot answer. Gemini 3 takes `clientContent` only as the history before the first
/// turn.
fn check_for_gemini_3(prompt: &Prompt, own: &[Value]) -> Result<(), ProviderError> {
    let message = if prompt.messages.iter().any(|it| it.role == Role::Tool) {
        "live models of Gemini 3 accept no tool results in a new exchange; answer the calls with `answerCalls`"
    } else if own.is_empty() {
        "live models of Gemini 3 do not continue an answer; end the prompt with a message of the user"
    } else if own.iter().any(|it| only_text(it).is_none()) {
        "live models of Gemini 3 accept only texts of the user; write the message as a text"
    } else {
        return Ok(());
    };
    Err(ProviderError::new(ProviderErrorKind::Unsupported, "google-live", message))
}

/// Returns the text of a content whose parts are all texts; `None` for other contents.
fn only_text(content: &Value) -> Option<String> {
    let parts = content["parts"].as_array()?;
    let texts: Option<Vec<&str>> = parts.iter().map(|it| it["text"].as_str()).collect();
    texts.map(|it| it.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_names_show_whether_the_answer_is_audio() {
        for (model, expected) in [
            ("gemini-2.0-flash-exp", false),
            ("models/gemini-2.5-flash-native-audio-preview-12-2025", true),
            ("gemini-3.1-flash-live-preview", true),
            ("gemini-live-2.5-flash-preview", false),
        ] {
            assert_eq!(speaks(model), expected, "{model}");
        }
    }

    #[test]
    fn problems_are_at_their_keys() {
        for (config, pointer) in [
            (json!({"apiKeyEnv": "K", "baseUrl": "ftp://a"}), "/baseUrl"),
            (json!({"apiKeyEnv": "K", "apiVersion": "a/b"}), "/apiVersion"),
            (json!({"apiKeyEnv": "K", "setup": {"model": "m"}}), "/setup/model"),
            (json!({"apiKeyEnv": "K", "setup": {"a": {"api_key": "x"}}}), "/setup/a/api_key"),
        ] {
            let problems = GoogleLive::new(settings::parse_config(&config).unwrap()).unwrap_err();
            assert_eq!(problems[0].pointer, pointer, "{config}");
        }
    }
}
