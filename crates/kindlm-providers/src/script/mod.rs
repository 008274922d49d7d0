//! `script`: a program in JavaScript, Python or Ruby as the model.

#[cfg(feature = "http")]
mod ask;
#[cfg(feature = "http")]
mod reply;

use kindlm_types::{ContentPart, DeclaredEvidence, Message, Problem, Prompt, ecma};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[cfg(feature = "http")]
pub use ask::Scripts;
#[cfg(feature = "http")]
pub(crate) use ask::ask;
#[cfg(feature = "websocket")]
pub(crate) use reply::is_true;
#[cfg(feature = "http")]
pub(crate) use reply::reply_of;

use crate::{Kind, Meta, Registration};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "script",
        summary: "A program in JavaScript, Python or Ruby as the model, in the form of promptfoo's custom providers.",
        since: "0.1.0",
        key_variable: None,
        shorthand: false,
        wraps_agent: true,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Special(|config| Config::from_value(config).map(|_| ())),
};

/// The program that answers.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ScriptConfig")]
#[expect(clippy::struct_field_names, reason = "the keys of the configuration")]
pub(crate) struct Config {
    /// The file, relative to the folder of the config file: `.js`, `.mjs`, `.cjs`, `.ts`, `.mts`, `.cts`, `.py` or
    /// `.rb`.
    #[schemars(length(min = 1))]
    file: String,
    /// The export to call: a class or an object with `callApi`, or a function. By default the default export; in
    /// Python and Ruby the function `call_api`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    #[cfg_attr(
        not(feature = "http"),
        expect(dead_code, reason = "only read with the feature `http`")
    )]
    function: Option<String>,
    /// Additional configuration, passed to the program unchanged.
    #[serde(default)]
    #[cfg_attr(
        not(feature = "http"),
        expect(dead_code, reason = "only read with the feature `http`")
    )]
    config: Map<String, Value>,
    /// The kinds of evidence that you declare complete in every answer. Reports show them as declared, not observed.
    #[serde(default)]
    #[expect(dead_code, reason = "`declared` reads it, for every provider")]
    evidence: Option<DeclaredEvidence>,
}

/// The file extensions of JavaScript and TypeScript.
const JAVASCRIPT: [&str; 6] = ["js", "mjs", "cjs", "ts", "mts", "cts"];

impl Config {
    /// Parses the configuration. Fails if its form is invalid, or the file has an unsupported extension.
    pub(crate) fn from_value(config: &Value) -> Result<Self, Vec<Problem>> {
        let read: Self = serde_json::from_value(config.clone())
            .map_err(|err| vec![Problem::new("", err.to_string())])?;
        let ending = read.ending();
        if !matches!(ending.as_str(), "py" | "rb") && !JAVASCRIPT.contains(&ending.as_str()) {
            let message = format!("`{}` is not a supported program", read.file);
            let help = "programs are .js, .mjs, .cjs, .ts, .mts, .cts, .py and .rb files";
            return Err(vec![Problem::new("/file", message).with_help(help)]);
        }
        Ok(read)
    }

    fn ending(&self) -> String {
        self.file.rsplit_once('.').map_or("", |(_, it)| it).to_ascii_lowercase()
    }
}

/// Returns the prompt as one text: the content of a single text message without tool calls, or else the messages as
/// JSON. A prompt that is written as messages is always indented JSON.
pub(crate) fn prompt_text(prompt: &Prompt) -> String {
    text_of(prompt, content_of)
}

/// Returns the text of [`prompt_text`] without the data of parts, for a reply that is recorded.
pub(crate) fn recorded_text(prompt: &Prompt) -> String {
    text_of(prompt, |message| {
        if message.parts.is_empty() { json!(message.content) } else { json!(message.parts) }
    })
}

fn text_of(prompt: &Prompt, content: fn(&Message) -> Value) -> String {
    match prompt.messages.as_slice() {
        messages if prompt.is_chat => {
            let messages =
                messages.iter().map(|it| json!({"role": it.role, "content": content(it)}));
            ecma::stringify_indented(&messages.collect::<Value>(), 2)
        }
        [only] if only.tool_calls.is_empty() && only.parts.is_empty() => only.content.clone(),
        messages => {
            let messages =
                messages.iter().map(|it| json!({"role": it.role, "content": content(it)}));
            ecma::stringify(&messages.collect::<Value>())
        }
    }
}

/// Returns the text of a message, or its parts as they are written. Images, sounds and files are their labels.
pub(crate) fn content_of(message: &Message) -> Value {
    if message.parts.is_empty() {
        return message.content.as_str().into();
    }
    let parts = message.parts.iter().map(|part| match part {
        ContentPart::Raw(raw) => raw.value().clone(),
        part => json!({"type": "text", "text": part.label()}),
    });
    parts.collect()
}

/// Returns a message as JSON. Its content is a text, or the parts as they are written.
pub(crate) fn message_json(message: &Message) -> Value {
    let mut value = json!(message);
    if let (false, Some(entries)) = (message.parts.is_empty(), value.as_object_mut()) {
        entries.shift_remove("parts");
        entries.insert("content".to_owned(), content_of(message));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_file_extensions_are_problems() {
        let read = Config::from_value(&json!({"file": "p.exe"}));
        assert_eq!(read.unwrap_err()[0].pointer, "/file");
        for file in ["p.js", "p.mts", "p.py", "p.rb"] {
            assert!(Config::from_value(&json!({"file": file})).is_ok(), "{file}");
        }
    }

    #[test]
    fn a_prompt_becomes_text_or_json() {
        for (messages, is_chat, expected) in [
            (json!([{"role": "user", "content": "hi"}]), false, "hi"),
            (
                json!([{"role": "user", "content": "hi"}]),
                true,
                "[\n  {\n    \"role\": \"user\",\n    \"content\": \"hi\"\n  }\n]",
            ),
            (
                json!([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]),
                false,
                r#"[{"role":"system","content":"s"},{"role":"user","content":"u"}]"#,
            ),
        ] {
            let prompt = json!({"model": "m", "messages": messages, "isChat": is_chat});
            let prompt: Prompt = serde_json::from_value(prompt).unwrap();
            assert_eq!(prompt_text(&prompt), expected, "{messages}");
        }
    }
}
