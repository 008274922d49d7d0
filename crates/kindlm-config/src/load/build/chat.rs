//! Rendered prompts that are a list of messages.

use kindlm_source::{Code, Diagnostic};
use kindlm_types::{Message, Role};
use serde_json::{Map, Value};

use super::Builder;
use crate::load::resolve::Prompt;

impl Builder<'_> {
    /// Reports a prompt with `template: chat` that is no valid chat with the variables of a test.
    pub(super) fn check_chat(&mut self, prompt: &Prompt, vars: &Map<String, Value>) {
        let (true, [(_, form)], [part]) =
            (prompt.opening.reads_chat, &*prompt.opening.parts, prompt.parts.as_slice())
        else {
            return;
        };
        // A template that cannot be rendered is reported with its variables.
        let Ok(text) = form.fill(vars) else { return };
        if let Err(why) = read_chat(&text) {
            let at = part.source.first_line(part.span);
            let message = format!("in some test, {why}");
            self.base.sink.push(Diagnostic::error(Code::INVALID_VALUE, message, &part.source, at));
        }
    }
}

/// Returns the messages of a rendered prompt that is a chat; `None` for other texts.
///
/// A chat is a JSON list, or a YAML list that begins with `- role:`. Returns an error for a text that looks like a chat
/// and cannot be read.
pub(super) fn read_chat(text: &str) -> Result<Option<Vec<Message>>, String> {
    let trimmed = text.trim();
    let value: Value = if trimmed.starts_with("- role:") {
        serde_yaml::from_str(trimmed).map_err(|err| format!("the chat is not valid YAML: {err}"))?
    } else {
        match serde_json::from_str(trimmed) {
            Ok(value) => value,
            Err(err) if looks_like_json(trimmed) => {
                let message = format!(
                    "the rendered prompt looks like a chat, but is not valid JSON: {err}; insert values with \
                     `{{{{ value | dump }}}}`"
                );
                return Err(message);
            }
            Err(_) => return Ok(None),
        }
    };
    let Some(items) = value.as_array().filter(|it| !it.is_empty()) else { return Ok(None) };
    if !items.iter().all(|it| it.get("role").is_some()) {
        return Ok(None);
    }
    items.iter().map(message).collect::<Result<_, _>>().map(Some)
}

/// Returns true if a text has the beginning and the end of a JSON object, or of a list of values.
fn looks_like_json(text: &str) -> bool {
    if text.starts_with('{') && text.ends_with('}') {
        return true;
    }
    let Some(inner) = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')) else {
        return false;
    };
    let inner = inner.trim_start();
    let starts = |it: &str| inner.starts_with(it);
    inner.is_empty()
        || inner.starts_with(|it: char| matches!(it, '"' | '{' | '[' | '-') || it.is_ascii_digit())
        || starts("true")
        || starts("false")
        || starts("null")
}

fn message(value: &Value) -> Result<Message, String> {
    let role = match value.get("role").and_then(Value::as_str) {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        other => {
            let role = other.unwrap_or_default();
            let message =
                format!("the chat has a message with the role `{role}`, which is not supported");
            return Err(message);
        }
    };
    let unsupported = || "the chat has a message that is not text".to_owned();
    let text = match value.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let text = |part: &Value| match part.get("type").and_then(Value::as_str) {
                Some("text") => part.get("text").and_then(Value::as_str).map(str::to_owned),
                _ => None,
            };
            parts.iter().map(text).collect::<Option<Vec<_>>>().ok_or_else(unsupported)?.join("\n")
        }
        _ => return Err(unsupported()),
    };
    Ok(Message::new(role, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rendered_lists_of_messages_are_chats() {
        for (text, expected) in [
            ("Hello", Ok(None)),
            ("[see above]", Ok(None)),
            ("[1, 2]", Ok(None)),
            ("{\"a\": 1}", Ok(None)),
            (
                "[{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"u\"}]}]",
                Ok(Some(vec![(Role::System, "s"), (Role::User, "u")])),
            ),
            ("- role: user\n  content: hi\n", Ok(Some(vec![(Role::User, "hi")]))),
            ("[{\"role\": \"user\", \"content\": \"a \" b\"}]", Err("not valid JSON")),
            ("- role: user\n content: [", Err("not valid YAML")),
            ("[{\"role\": \"tool\", \"content\": \"x\"}]", Err("the role `tool`")),
            ("[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]", Err("not text")),
        ] {
            let read = read_chat(text);
            match (read, expected) {
                (Ok(read), Ok(expected)) => {
                    let expected = expected.map(|it: Vec<(Role, &str)>| {
                        it.into_iter()
                            .map(|(role, text)| Message::new(role, text))
                            .collect::<Vec<_>>()
                    });
                    assert_eq!(read, expected, "{text}");
                }
                (Err(err), Err(part)) => assert!(err.contains(part), "{text}: {err}"),
                (read, expected) => panic!("{text}: {read:?}, not {expected:?}"),
            }
        }
    }
}
