//! Settings of a model that KindLM does not know: they are sent in the body of the request.

use kindlm_source::{Key, Kind, Node, Span};

use super::Translator;
use super::build::{entries, node};
use super::settings::Settings;

/// Settings that the APIs have besides those in [`body_keys`](super::settings), by provider. They cause no warning.
const KNOWN: [(&str, &[&str]); 5] = [
    (
        "anthropic",
        &[
            "thinking",
            "tool_choice",
            "metadata",
            "top_k",
            "service_tier",
            "output_config",
            "cache_control",
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
            "mirostat",
            "mirostat_eta",
            "mirostat_tau",
            "num_ctx",
            "num_gpu",
            "num_thread",
            "num_gqa",
            "repeat_last_n",
            "repeat_penalty",
            "tfs_z",
            "top_k",
            "min_p",
        ],
    ),
];

/// Settings with which promptfoo itself does something that KindLM does not do, with the advice.
const REFUSED: [(&str, &str); 12] = [
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
    ("connectors", "KindLM uses version 2 of Cohere's API, which has no connectors"),
    ("documents", "put the documents into the prompt"),
    ("chatHistory", "write the conversation as the messages of the prompt"),
    ("preamble_override", "write it as the first message of the prompt, with `role: system`"),
    ("prompt_truncation", "KindLM uses version 2 of Cohere's API, which has no such setting"),
    ("showSearchQueries", "KindLM uses version 2 of Cohere's API, which has no such setting"),
];

/// Settings that only control promptfoo, and change no request.
const INERT: [&str; 6] =
    ["isReasoningModel", "maxRetries", "showThinking", "modelName", "region", "basePath"];

/// Settings of Ollama that stand beside `options`, not in it.
const BESIDE_OPTIONS: [&str; 3] = ["format", "think", "keep_alive"];

impl Translator<'_> {
    /// Adds a setting without an equivalent to the body of the requests.
    ///
    /// Settings that the API is not known to have are collected for [`warn_of_unknown`](Self::warn_of_unknown).
    pub(super) fn extra_setting(
        &mut self,
        kind: &str,
        key: &Key,
        value: &Node,
        settings: &mut Settings,
    ) {
        let name = &*key.name;
        if let Some((_, help)) = REFUSED.iter().find(|(it, _)| *it == name) {
            return self.unsupported(key.span, &format!("`config.{name}`"), Some(help));
        }
        if kindlm_redact::is_secret_setting(name) {
            let help = "put it into an environment variable, and name that with `apiKeyEnvar`";
            return self.error(key.span, "a key must not be in a file", Some(help));
        }
        if INERT.contains(&name) {
            let help = (name == "showThinking")
                .then_some("checks see the answer of a model without its thinking");
            return self.warn(key.span, format!("`config.{name}` has no effect here"), help);
        }
        // KindLM reads whole answers only.
        if name == "stream" && value.to_json() == serde_json::Value::Bool(false) {
            return;
        }
        let value = self.texts_with_env(value);
        if let Some(span) = template_in(&value) {
            let help = "write the value itself: this setting is the same in every test";
            return self.unsupported(span, &format!("a template in `config.{name}`"), Some(help));
        }
        let known = KNOWN.iter().any(|(it, names)| *it == kind && names.contains(&name));
        if !known {
            settings.unknown.push((key.span, name.to_owned()));
        }
        let merged = match (kind, name) {
            ("gemini", "generationConfig") | ("anthropic", "extra_body") => value,
            ("gemini", "tool_config") => {
                return settings.body.push(("toolConfig".to_owned(), value));
            }
            ("gemini", "safetySettings" | "toolConfig" | "cachedContent") => {
                return settings.body.push((name.to_owned(), value));
            }
            ("ollama", _) if !BESIDE_OPTIONS.contains(&name) => {
                entries(key.span, [(name.to_owned(), value)])
            }
            ("gemini", _) => entries(key.span, [(name.to_owned(), value)]),
            _ => return settings.body.push((name.to_owned(), value)),
        };
        match kind {
            "anthropic" => settings.body.extend(
                merged.entries().iter().map(|(key, it)| (key.name.to_string(), it.clone())),
            ),
            "gemini" => add_to(&mut settings.body, "generationConfig", &merged),
            _ => add_to(&mut settings.body, "options", &merged),
        }
    }

    /// Warns once of all settings that the API is not known to have.
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

/// Adds the entries of an object to an object of the body, which is made if it is missing.
fn add_to(body: &mut Vec<(String, Node)>, name: &str, more: &Node) {
    let more = more.entries().iter().cloned();
    if let Some((_, own)) = body.iter_mut().find(|(it, _)| it == name) {
        let all: Vec<(Key, Node)> = own.entries().iter().cloned().chain(more).collect();
        own.kind = Kind::Mapping(all.into());
        return;
    }
    let all: Vec<(Key, Node)> = more.collect();
    let span = all.first().map_or(Span::new(0, 0), |(key, _)| key.span);
    body.push((name.to_owned(), node(span, Kind::Mapping(all.into()))));
}

/// Returns the place of the first template in a value, if there is one.
fn template_in(value: &Node) -> Option<Span> {
    if value.text().is_some_and(kindlm_template::is_template) {
        return Some(value.span);
    }
    let items = value.items().iter();
    items.chain(value.entries().iter().map(|(_, it)| it)).find_map(template_in)
}
