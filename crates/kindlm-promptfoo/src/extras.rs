//! Settings that KindLM does not know. KindLM sends them unchanged in the body of the request.

use kindlm_source::{Key, Kind, Node, Span};

use super::Translator;
use super::build::{entries, map, node, text};
use super::settings::Settings;

/// Known settings of the APIs, by provider. They cause no warning. [`settings`](super::settings) translates further
/// settings.
const KNOWN: [(&str, &[&str]); 5] = [
    (
        "anthropic",
        &[
            "thinking",
            "anthropic_version",
            "tool_choice",
            "metadata",
            "top_k",
            "service_tier",
            "output_config",
            "cache_control",
            "effort",
            "extra_body",
        ],
    ),
    (
        "gemini",
        &[
            "generationConfig",
            "safetySettings",
            "toolConfig",
            "tool_config",
            "topK",
            "responseSchema",
            "cachedContent",
            "passthrough",
            "serviceTier",
            "service_tier",
        ],
    ),
    (
        "mistral",
        &[
            "safe_prompt",
            "random_seed",
            "response_format",
            "tool_choice",
            "parallel_tool_calls",
            "prompt_cache_key",
            "prompt_mode",
            "reasoning_effort",
            "presence_penalty",
            "frequency_penalty",
            "top_k",
            "min_tokens",
        ],
    ),
    (
        "cohere",
        &["k", "p", "frequency_penalty", "presence_penalty", "safety_mode", "response_format"],
    ),
    (
        "ollama",
        &[
            "format",
            "think",
            "keep_alive",
            "passthrough",
            "truncate",
            "frequency_penalty",
            "main_gpu",
            "mirostat",
            "mirostat_eta",
            "mirostat_tau",
            "num_batch",
            "num_ctx",
            "num_gpu",
            "num_gqa",
            "num_keep",
            "num_thread",
            "presence_penalty",
            "repeat_last_n",
            "repeat_penalty",
            "tfs_z",
            "top_k",
            "typical_p",
            "min_p",
            "use_mmap",
        ],
    ),
];

/// Settings that KindLM cannot translate, with the advice.
const REFUSED: [(&str, &str); 6] = [
    (
        "functionToolCallbacks",
        "checks see the calls themselves; answer them as simulated tools of a `kindlm.yaml`",
    ),
    (
        "functionCallbacks",
        "checks see the calls themselves; answer them as simulated tools of a `kindlm.yaml`",
    ),
    ("mcp", "call the tools in an agent, and test that with `exec:`"),
    ("headers", "send the request with an `https://` provider, which has `headers`"),
    ("beta", "send the request with an `https://` provider, which has `headers`"),
    ("systemInstruction", "write it as the first message of the prompt, with `role: system`"),
];

/// Settings that only control promptfoo, and change no request. At Azure, [`refused_at_azure`] refuses some of them.
const INERT: [&str; 8] = [
    "isReasoningModel",
    "maxRetries",
    "showThinking",
    "modelName",
    "o1",
    "region",
    "basePath",
    "stream",
];

/// Settings of Ollama that are keys of the body itself, not of `options`.
const BESIDE_OPTIONS: [&str; 4] = ["format", "think", "keep_alive", "truncate"];

/// Returns the advice for a setting that changes the request to Azure in promptfoo, but has no equivalent in KindLM.
///
/// Returns `None` for other settings, and for values without an effect.
fn refused_at_azure(name: &str, value: &Node) -> Option<&'static str> {
    let is_refused = match name {
        "isReasoningModel" | "o1" => value.to_json() == serde_json::Value::Bool(true),
        "modelName" => value.text().is_some_and(kindlm_types::reasons),
        _ => false,
    };
    is_refused.then_some(
        "a reasoning model is known by the name of its deployment: give the deployment the name of the model, such \
         as `o3-mini`",
    )
}

impl Translator<'_> {
    /// Adds a setting without an equivalent to the body of the requests.
    ///
    /// Unknown settings are also collected for [`warn_of_unknown`](Self::warn_of_unknown).
    pub(super) fn extra_setting(
        &mut self,
        kind: &str,
        key: &Key,
        value: &Node,
        settings: &mut Settings,
    ) {
        let name = &*key.name;
        // `Translator::callbacks` makes these functions a transform of the output.
        if name == "functionToolCallbacks" && super::callbacks::has_callbacks(kind) {
            return;
        }
        if let Some((_, help)) = REFUSED.iter().find(|(it, _)| *it == name) {
            return self.unsupported(key.span, &format!("`config.{name}`"), Some(help));
        }
        if let Some(help) = refused_at_azure(name, value).filter(|_| kind == "azure") {
            return self.unsupported(key.span, &format!("`config.{name}` at Azure"), Some(help));
        }
        match (name, value.to_json()) {
            // `stream: false` changes nothing, because answers are not streamed by default.
            ("stream", serde_json::Value::Bool(false)) => return,
            // promptfoo requests no streams of other vendors.
            ("stream", serde_json::Value::Bool(true))
                if matches!(kind, "anthropic" | "openai-responses") =>
            {
                return settings.provider.push(("stream", value.clone()));
            }
            _ => {}
        }
        if INERT.contains(&name) {
            let help = (name == "showThinking")
                .then_some("checks see the answer of a model without its thinking");
            return self.warn(key.span, format!("`config.{name}` has no effect here"), help);
        }
        let Some(value) = self.without_templates(key, value) else { return };
        let known = KNOWN.iter().any(|(it, names)| *it == kind && names.contains(&name));
        if !known {
            settings.unknown.push((key.span, name.to_owned()));
        }
        self.add_setting(kind, key, value, settings);
    }

    /// Adds a setting to the same part of the body as promptfoo.
    fn add_setting(&mut self, kind: &str, key: &Key, value: Node, settings: &mut Settings) {
        let name = &*key.name;
        let own = || entries(key.span, [(name.to_owned(), value.clone())]);
        match (kind, name) {
            ("anthropic", "extra_body") => {
                let rest = settings.without_maximums(name, &value);
                settings.body.extend(rest.into_iter().map(|(key, it)| (key.name.to_string(), it)));
            }
            ("anthropic", "effort") => add_to(&mut settings.body, "output_config", &own()),
            ("gemini", "responseSchema") => {
                let Some(schema) = self.in_place(&value) else { return };
                let json = text(key.span, "application/json");
                let form = map(key.span, [("responseSchema", schema), ("responseMimeType", json)]);
                add_to(&mut settings.body, "generationConfig", &form);
            }
            ("gemini", "generationConfig") => {
                let rest = settings.without_maximums(name, &value);
                add_to(&mut settings.body, name, &mapping(key.span, rest));
            }
            ("gemini", "passthrough") => {
                for (key, value) in settings.without_maximums(name, &value) {
                    // promptfoo sets the tool config from other settings, not from `passthrough`.
                    if !matches!(&*key.name, "toolConfig" | "tool_config") {
                        self.add_setting("gemini passthrough", &key, value, settings);
                    }
                }
            }
            ("gemini passthrough", "generationConfig") => {
                self.add_setting("gemini", key, value, settings);
            }
            ("gemini" | "gemini passthrough", "serviceTier" | "service_tier") => {
                settings.body.push(("service_tier".to_owned(), value));
            }
            ("gemini", "tool_config") => settings.body.push(("toolConfig".to_owned(), value)),
            ("gemini", "safetySettings" | "toolConfig" | "cachedContent") => {
                settings.body.push((name.to_owned(), value));
            }
            ("bedrock", _) => add_to(&mut settings.body, "additionalModelRequestFields", &own()),
            ("gemini", _) => add_to(&mut settings.body, "generationConfig", &own()),
            ("ollama", "passthrough") => {
                for (key, value) in settings.without_maximums(name, &value) {
                    if &*key.name == "options" {
                        let rest = settings.without_maximums("passthrough.options", &value);
                        add_to(&mut settings.body, "options", &mapping(key.span, rest));
                    } else {
                        settings.body.push((key.name.to_string(), value));
                    }
                }
            }
            ("ollama", _) if !BESIDE_OPTIONS.contains(&name) => {
                add_to(&mut settings.body, "options", &own());
            }
            _ => settings.body.push((name.to_owned(), value)),
        }
    }

    /// Warns once of all settings that are not known to exist in the API.
    pub(super) fn warn_of_unknown(&mut self, settings: &mut Settings) {
        let unknown = std::mem::take(&mut settings.unknown);
        let Some((span, _)) = unknown.first() else { return };
        let names: Vec<String> = unknown.iter().map(|(_, it)| format!("`config.{it}`")).collect();
        let (are, them) = if names.len() == 1 { ("is", "it") } else { ("are", "them") };
        let message = format!(
            "{} {are} not known here: the request has {them} unchanged in its body",
            names.join(", ")
        );
        let help = "check that the API has this setting: promptfoo may have ignored it";
        self.warn(*span, message, Some(help));
    }
}

pub(super) fn mapping(span: Span, entries: Vec<(Key, Node)>) -> Node {
    node(span, Kind::Mapping(entries.into()))
}

/// Adds entries to an object of the body. Creates the object if it is missing.
///
/// New entries override entries with the same key.
pub(super) fn add_to(body: &mut Vec<(String, Node)>, name: &str, more: &Node) {
    match body.iter_mut().find(|(it, _)| it == name) {
        Some((_, own)) => {
            own.kind = Kind::Mapping(super::vars::merged(own.entries(), more.entries()).into());
        }
        None => body.push((name.to_owned(), more.clone())),
    }
}
