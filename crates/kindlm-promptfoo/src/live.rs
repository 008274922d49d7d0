//! Models that are asked over a websocket: Google's Live API, OpenAI's Realtime API, and xAI's voice API.

use kindlm_source::{Key, Kind, Node, Span};
use serde_json::{Value, json};

use super::Translator;
use super::build::{node, text, texts};
use super::extras::{add_to, mapping};
use super::settings::{Found, Settings, or_else};

/// The name of xAI's voice API as a provider.
pub(super) const XAI: &str = "xai-voice";

/// Answers a call with its callback. A call without a callback has an empty response.
const GOOGLE_ANSWER: &str = r"
if (!has(name)) return {};
try {
  return (await call(name, JSON.stringify(args))) ?? null;
} catch {
  return { error: `Error executing function ${name}: {}` };
}";

/// Answers a call with the handler, which must return a text.
const OPENAI_ANSWER: &str = r#"
try {
  const result = await handler(name, JSON.stringify(args));
  if (typeof result === "string") return result;
} catch {}
return JSON.stringify({ error: "Tool execution failed" });"#;

/// Answers a call with the handler. An exception becomes an answer with its message.
const XAI_ANSWER: &str = r"
try {
  return await handler(name, JSON.stringify(args));
} catch (error) {
  return JSON.stringify({ error: String(error) });
}";

const PROMPTFOO_IGNORES: &str = "promptfoo does not send it either; remove it";

/// The settings of Google's API that `generationConfig` may also have.
const GENERATION: [&str; 8] = [
    "context",
    "examples",
    "maxOutputTokens",
    "speechConfig",
    "stopSequences",
    "temperature",
    "topK",
    "topP",
];

/// The settings of a model, while they are collected.
#[derive(Default)]
struct Live {
    settings: Settings,
    /// The keys of `setup` or `session`.
    session: Vec<(String, Node)>,
}

impl Live {
    /// Sets a key of an object in the session.
    fn add(&mut self, span: Span, object: &str, value: &Value) {
        add_to(&mut self.session, object, &Node::at(span, value));
    }

    fn finish(mut self, span: Span, key: &'static str) -> Settings {
        if !self.session.is_empty() {
            let session = super::build::entries(span, self.session);
            self.settings.provider.push((key, session));
        }
        self.settings
    }
}

/// True if a model of Google answers with audio alone.
fn speaks(model: &str) -> bool {
    model.contains("native-audio") || model.starts_with("gemini-3")
}

impl Translator<'_> {
    /// Translates a model of Google's Live API. Returns `None` after an error, which is reported.
    pub(super) fn google_live(
        &mut self,
        span: Span,
        model: &str,
        config: &[(Key, Node)],
    ) -> Option<Found> {
        if model.starts_with("gemini-3.8-live") {
            let help = "it has another protocol: name `google:live:gemini-3.1-flash-live-preview`";
            self.unsupported(span, &format!("`google:live:{model}`"), Some(help));
            return None;
        }
        let mut live = Live::default();
        let mut callbacks = None;
        let generation = config.iter().find(|(key, _)| &*key.name == "generationConfig");
        let is_set = |name: &str| generation.is_some_and(|(_, it)| it.get(name).is_some());
        for (key, value) in config {
            match &*key.name {
                // promptfoo prefers the settings in `generationConfig`.
                name if GENERATION.contains(&name) && is_set(name) => {}
                "functionToolCallbacks" => callbacks = Some(value),
                "functionToolStatefulApi" => {
                    let help = "write the functions as `functionToolCallbacks`, in JavaScript";
                    let what = "a server of tools in `config.functionToolStatefulApi`";
                    self.unsupported(key.span, what, Some(help));
                }
                "credentials" | "googleAuthOptions" => {
                    let help = "remove it, and put a key into `GEMINI_API_KEY`";
                    let what = format!("`config.{}` of the Live API", key.name);
                    self.unsupported(key.span, &what, Some(help));
                }
                _ => self.google_live_setting(model, key, value, &mut live),
            }
        }
        // As in promptfoo, answer each call, so that the model continues.
        if live.settings.tools.is_some() {
            let empty = mapping(span, Vec::new());
            let code = self.factories(callbacks.unwrap_or(&empty));
            let code = text(span, &format!("{code}{GOOGLE_ANSWER}"));
            live.settings.provider.push(("answerCalls", code));
        }
        let known = ["GOOGLE_API_KEY", "GEMINI_API_KEY"];
        let known = known.into_iter().find(|it| self.env_value(it).is_some());
        or_else(&mut live.settings.provider, "apiKeyEnv", || {
            text(span, known.unwrap_or("GEMINI_API_KEY"))
        });
        live.settings.provider.push(("output", text(span, "object")));
        let yes = node(span, Kind::Bool(true));
        live.settings.params.push(("omitDefaults", yes));
        let kind = "google-live";
        Some((kind, kind.to_owned(), model.to_owned(), live.finish(span, "setup")))
    }

    fn google_live_setting(&mut self, model: &str, key: &Key, value: &Node, live: &mut Live) {
        let settings = &mut live.settings;
        match &*key.name {
            "apiKey" => self.key_of(key, value, settings),
            "apiKeyEnvar" => settings.provider.push(("apiKeyEnv", value.clone())),
            "apiVersion" => settings.provider.push(("apiVersion", self.texts_with_env(value))),
            "timeoutMs" => settings.provider.push(("idleTimeoutMs", value.clone())),
            "temperature" => settings.params.push(("temperature", value.clone())),
            "topP" => settings.params.push(("topP", value.clone())),
            "stopSequences" => settings.params.push(("stopSequences", value.clone())),
            "maxOutputTokens" => or_else(&mut settings.params, "maxTokens", || value.clone()),
            "cost" => settings.price = super::settings::price(value),
            "tools" => self.google_tools(key, value, settings),
            "systemInstruction" => self.system_instruction(key, value, settings),
            "toolConfig" | "tool_config" => {
                let value = self.without_templates(key, value);
                live.session.extend(value.map(|it| ("toolConfig".to_owned(), it)));
            }
            "generationConfig" => {
                let Some(value) = self.without_templates(key, value) else { return };
                for (key, value) in value.entries() {
                    self.live_generation(model, key, value, live);
                }
            }
            "speechConfig" | "topK" | "context" | "examples" => {
                let Some(value) = self.without_templates(key, value) else { return };
                live.add(key.span, "generationConfig", &json!({&*key.name: value.to_json()}));
            }
            name => {
                let message = format!("`config.{name}` has no effect on the Live API");
                self.warn(key.span, message, Some(PROMPTFOO_IGNORES));
            }
        }
    }

    /// Translates a key of `generationConfig`. Some of these keys become keys of the setup message.
    fn live_generation(&mut self, model: &str, key: &Key, value: &Node, live: &mut Live) {
        match &*key.name {
            "response_modalities" | "responseModalities" => {
                let mut modalities: Vec<String> =
                    texts(value).iter().map(|it| it.to_uppercase()).collect();
                if speaks(model) {
                    modalities.retain(|it| it != "TEXT");
                }
                if modalities.iter().any(|it| it == "AUDIO") {
                    let message = "checks see the transcript of the audio, not the audio itself";
                    let help = "the text of the output is the transcript";
                    self.warn(key.span, message.to_owned(), Some(help));
                }
                if !modalities.is_empty() {
                    let modalities = json!({"responseModalities": modalities});
                    live.add(key.span, "generationConfig", &modalities);
                }
            }
            "maxOutputTokens" => {
                or_else(&mut live.settings.params, "maxTokens", || value.clone());
            }
            "outputAudioTranscription" | "inputAudioTranscription" => {
                live.session.push((key.name.to_string(), value.clone()));
            }
            name => live.add(key.span, "generationConfig", &json!({name: value.to_json()})),
        }
    }

    /// Translates a model of OpenAI's Realtime API. Returns `None` after an error, which is reported.
    pub(super) fn realtime(
        &mut self,
        span: Span,
        model: &str,
        config: &[(Key, Node)],
    ) -> Option<Found> {
        let model = if model.is_empty() { "gpt-realtime" } else { model };
        if ["whisper", "translate"].iter().any(|it| model.contains(it)) {
            let help =
                "promptfoo refuses it too: name a model of conversations, such as `gpt-realtime`";
            self.unsupported(span, &format!("`openai:realtime:{model}`"), Some(help));
            return None;
        }
        let mut live = Live::default();
        let mut instructions = text(span, "You are a helpful assistant.");
        let mut modality = "audio";
        let format = json!({"type": "audio/pcm", "rate": 24000});
        let mut audio =
            json!({"input": {"format": format}, "output": {"format": format, "voice": "alloy"}});
        for (key, value) in config {
            let written = || value.to_json();
            match &*key.name {
                "instructions" => instructions = self.texts_with_env(value),
                "modalities" if !texts(value).iter().any(|it| it == "audio") => modality = "text",
                "voice" => audio["output"]["voice"] = written(),
                "input_audio_format" => audio["input"]["format"] = audio_format(value),
                "output_audio_format" => audio["output"]["format"] = audio_format(value),
                "input_audio_transcription" => audio["input"]["transcription"] = written(),
                "turn_detection" => audio["input"]["turn_detection"] = written(),
                "max_response_output_tokens" if value.to_json().is_u64() => {
                    live.settings.params.push(("maxTokens", value.clone()));
                }
                "parallel_tool_calls" | "reasoning" => {
                    let value = self.without_templates(key, value);
                    live.session.extend(value.map(|it| (key.name.to_string(), it)));
                }
                "tool_choice" => {
                    let named = value.get("function").and_then(|it| it.get("name"));
                    let choice = match named.and_then(Node::text) {
                        Some(name) => json!({"type": "function", "name": name}),
                        None => written(),
                    };
                    live.session.push(("tool_choice".to_owned(), Node::at(value.span, &choice)));
                }
                "organization" => live.settings.provider.push(("organization", value.clone())),
                "headers" => {
                    let headers = self.headers(key, value);
                    live.settings.provider.extend(headers.map(|it| ("headers", it)));
                }
                "maxToolIterations" if value.to_json().as_f64() != Some(8.0) => {
                    let help = "remove it: KindLM answers at most 8 rounds of calls";
                    self.unsupported(key.span, "`config.maxToolIterations`", Some(help));
                }
                "modalities"
                | "max_response_output_tokens"
                | "maintainContext"
                | "toolCallTimeout"
                | "maxToolIterations" => {}
                _ => self.socket_setting(OPENAI_ANSWER, key, value, &mut live),
            }
        }
        live.session.push(("output_modalities".to_owned(), Node::at(span, &json!([modality]))));
        live.session.push(("audio".to_owned(), Node::at(span, &audio)));
        if live.settings.tools.is_some() && !live.session.iter().any(|(it, _)| it == "tool_choice")
        {
            live.session.push(("tool_choice".to_owned(), text(span, "auto")));
        }
        live.settings.provider.push(("instructions", instructions));
        live.settings.provider.push(("output", text(span, "note")));
        or_else(&mut live.settings.provider, "apiKeyEnv", || text(span, "OPENAI_API_KEY"));
        self.address_of_env(span, "openai", &mut live.settings);
        let kind = "openai-realtime";
        let settings = live.finish(span, "session");
        Some((kind, kind.to_owned(), model.to_owned(), without_defaults(span, settings)))
    }

    /// Translates a model of xAI's voice API, whose events are those of OpenAI's Realtime API.
    pub(super) fn xai_voice(&mut self, span: Span, model: &str, config: &[(Key, Node)]) -> Found {
        let model = if model.is_empty() { "grok-voice-think-fast-1.0" } else { model };
        let mut live = Live::default();
        let mut instructions = text(span, "You are a helpful assistant.");
        let format = json!({"type": "audio/pcm", "rate": 24000});
        let mut audio = json!({"input": {"format": format}, "output": {"format": format}});
        let mut voice = json!("Ara");
        let mut turns = json!({"type": "server_vad"});
        let mut modalities = json!(["text", "audio"]);
        let mut region = None;
        for (key, value) in config {
            match &*key.name {
                "instructions" => instructions = self.texts_with_env(value),
                "modalities" => modalities = value.to_json(),
                "voice" => voice = value.to_json(),
                "turn_detection" => turns = value.to_json(),
                "region" => region = value.text().map(|it| self.with_env(it)),
                "audio" => {
                    for part in ["input", "output"] {
                        if let Some(own) = value.get(part).and_then(|it| it.get("format")) {
                            audio[part]["format"] = own.to_json();
                        }
                    }
                }
                "websocketUrl" => {
                    let help = "write the part before `/realtime` as `apiBaseUrl`";
                    self.unsupported(key.span, "`config.websocketUrl`", Some(help));
                }
                _ => self.socket_setting(XAI_ANSWER, key, value, &mut live),
            }
        }
        // A session of xAI has no `type` and no `output_modalities`.
        let session = json!({
            "type": null, "output_modalities": null, "voice": voice, "turn_detection": turns, "audio": audio,
        });
        for (key, value) in Node::at(span, &session).entries() {
            live.session.push((key.name.to_string(), value.clone()));
        }
        let provider = &mut live.settings.provider;
        provider.push(("response", Node::at(span, &json!({"modalities": modalities}))));
        provider.push(("instructions", instructions));
        provider.push(("output", text(span, "calls")));
        or_else(provider, "apiKeyEnv", || text(span, "XAI_API_KEY"));
        let usual = || match (self.env_value("XAI_API_BASE_URL"), region) {
            (Some(url), _) => url,
            (None, Some(region)) => format!("https://{region}.api.x.ai/v1"),
            (None, None) => "https://api.x.ai/v1".to_owned(),
        };
        or_else(provider, "baseUrl", || text(span, &usual()));
        let settings = live.finish(span, "session");
        ("openai-realtime", XAI.to_owned(), model.to_owned(), without_defaults(span, settings))
    }

    /// Translates a setting that the websocket APIs of OpenAI and xAI share. Warns about any other setting.
    fn socket_setting(&mut self, answer: &str, key: &Key, value: &Node, live: &mut Live) {
        let settings = &mut live.settings;
        match &*key.name {
            "apiKey" => self.key_of(key, value, settings),
            "apiKeyEnvar" => settings.provider.push(("apiKeyEnv", value.clone())),
            "apiBaseUrl" => settings.provider.push(("baseUrl", self.texts_with_env(value))),
            "apiHost" => {
                let host = self.with_env(value.text().unwrap_or_default());
                settings
                    .provider
                    .push(("baseUrl", text(value.span, &format!("https://{host}/v1"))));
            }
            "websocketTimeout" => settings.provider.push(("idleTimeoutMs", value.clone())),
            "tools" => settings.tools = self.tools(value),
            "cost" => settings.price = super::settings::price(value),
            "functionCallHandler" => {
                let Some(factory) = self.factory(value) else { return };
                let code =
                    format!("const handler = await (async () => {{ {factory}\n}})();{answer}");
                settings.provider.push(("answerCalls", text(key.span, &code)));
            }
            name => {
                let message = format!("`config.{name}` has no effect over a websocket");
                self.warn(key.span, message, Some(PROMPTFOO_IGNORES));
            }
        }
    }
}

/// True if promptfoo sends all tests of a conversation over one websocket, so that the model knows the earlier ones.
pub(super) fn keeps_context(name: &str, config: &[(Key, Node)]) -> bool {
    let is_off = |(key, value): &(Key, Node)| {
        &*key.name == "maintainContext" && value.to_json() == Value::Bool(false)
    };
    name == "openai-realtime" && !config.iter().any(is_off)
}

/// Returns the settings without the default parameters of KindLM.
fn without_defaults(span: Span, mut settings: Settings) -> Settings {
    settings.params.push(("omitDefaults", node(span, Kind::Bool(true))));
    settings
}

/// Returns an audio format as the API names it.
fn audio_format(value: &Node) -> Value {
    match value.text() {
        Some("g711_ulaw") => json!({"type": "audio/pcmu"}),
        Some("g711_alaw") => json!({"type": "audio/pcma"}),
        _ => json!({"type": "audio/pcm", "rate": 24000}),
    }
}
