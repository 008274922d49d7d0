//! Prompts that are a list of messages.

use std::fmt;

use kindlm_types::{ContentPart, Message, Role};
use serde_json::{Value, json};

/// The reason why a text that looks like a chat cannot be read, and the advice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreadableChat {
    /// The reason, as a lower-case fragment.
    pub why: String,
    /// The advice for the user, as a lower-case fragment.
    pub help: &'static str,
}

impl fmt::Display for UnreadableChat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.why, self.help)
    }
}

/// Returns the messages of a rendered prompt that is a chat; `None` for other texts.
///
/// A chat is a JSON list, or a YAML list that begins with `- role:`. Returns an error for a text that looks like a chat
/// and cannot be read.
pub fn read_chat(text: &str) -> Result<Option<Vec<Message>>, UnreadableChat> {
    let trimmed = text.trim();
    let value: Value = if trimmed.starts_with("- role:") {
        serde_yaml::from_str(trimmed).map_err(|err| UnreadableChat {
            why: format!("the chat is not valid YAML: {err}"),
            help: "insert texts with `{{ value | dump }}`, without quotes around it",
        })?
    } else {
        match serde_json::from_str(trimmed) {
            Ok(value) => value,
            Err(err) if looks_like_json(trimmed) => {
                return Err(UnreadableChat {
                    why: format!(
                        "the rendered prompt looks like a chat, but is not valid JSON: {err}"
                    ),
                    help: "insert texts with `{{ value | dump }}`, without quotes around it, and write no comma \
                        after the last message",
                });
            }
            Err(_) => return Ok(None),
        }
    };
    messages(&value).transpose()
}

/// Returns the messages of a value that is a chat; `None` for other values.
///
/// Returns an error for a chat with a message that is not supported.
pub(super) fn messages(value: &Value) -> Option<Result<Vec<Message>, UnreadableChat>> {
    let items = value.as_array().filter(|it| !it.is_empty())?;
    let is_chat = items.iter().all(|it| it.get("role").is_some());
    is_chat.then(|| items.iter().map(message).collect())
}

/// Converts a chat in the format of Cohere's API, version 1, to a list of messages, as promptfoo does.
///
/// Returns `None` for other values, and for a chat with further keys.
pub(super) fn of_cohere(value: &Value) -> Option<Value> {
    let entries = value.as_object().filter(|it| it.len() == 2)?;
    let (earlier, last) = (entries.get("chat_history")?.as_array()?, entries.get("message")?);
    let message = |it: &Value| {
        let role = match it.get("role")?.as_str()? {
            "USER" => "user",
            "CHATBOT" => "assistant",
            "SYSTEM" => "system",
            _ => return None,
        };
        Some(json!({"role": role, "content": it.get("message")?}))
    };
    let mut messages = earlier.iter().map(message).collect::<Option<Vec<_>>>()?;
    messages.push(json!({"role": "user", "content": last}));
    Some(Value::Array(messages))
}

/// Returns true if a text begins and ends like a JSON object, or like a JSON list.
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

fn message(value: &Value) -> Result<Message, UnreadableChat> {
    let role = match value.get("role").and_then(Value::as_str) {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        // Google's role for the model, in messages with `parts`.
        Some("model") if value.get("parts").is_some() => Role::Assistant,
        other => {
            let role = other.unwrap_or_default();
            return Err(UnreadableChat {
                why: format!(
                    "the chat has a message with the role `{role}`, which is not supported"
                ),
                help: "the roles are system, developer, user and assistant",
            });
        }
    };
    let unsupported = || UnreadableChat {
        why: "the chat has a message whose content is neither a text nor a list of parts"
            .to_owned(),
        help: "write `content: \"…\"`, or parts such as `{ type: text, text: \"…\" }`",
    };
    match value.get("content") {
        Some(Value::String(text)) => Ok(Message::new(role, text.as_str())),
        Some(Value::Array(parts)) if !parts.is_empty() => {
            let parts = parts.iter().map(part).collect::<Option<Vec<_>>>();
            Ok(Message::of_parts(role, parts.ok_or_else(unsupported)?))
        }
        None => match value.get("parts").and_then(Value::as_array) {
            Some(parts) if !parts.is_empty() && parts.iter().all(Value::is_object) => {
                let raw = parts.iter().map(|it| ContentPart::Raw(it.clone().into()));
                Ok(Message::of_parts(role, raw.collect()))
            }
            _ => Err(unsupported()),
        },
        Some(_) => Err(unsupported()),
    }
}

/// Returns a part of a message. A part that is not just a text is sent to the API unchanged.
///
/// Returns `None` for a value that is neither a text nor an object.
fn part(value: &Value) -> Option<ContentPart> {
    let Value::Object(entries) = value else {
        return Some(ContentPart::Text(value.as_str()?.to_owned()));
    };
    let is_text = entries.len() == 2 && entries.get("type").is_some_and(|it| it == "text");
    match entries.get("text").filter(|_| is_text) {
        Some(Value::String(text)) => Some(ContentPart::Text(text.clone())),
        _ => Some(ContentPart::Raw(value.clone().into())),
    }
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
            (
                "[{\"role\": \"user\", \"parts\": [{\"text\": \"u\"}]}, {\"role\": \"model\", \"parts\": [{\"text\": \"m\"}]}]",
                Ok(Some(vec![(Role::User, "u"), (Role::Assistant, "m")])),
            ),
            ("- role: user\n  content: hi\n", Ok(Some(vec![(Role::User, "hi")]))),
            ("[{\"role\": \"user\", \"content\": \"a \" b\"}]", Err("not valid JSON")),
            ("- role: user\n content: [", Err("not valid YAML")),
            ("[{\"role\": \"tool\", \"content\": \"x\"}]", Err("the role `tool`")),
            ("[{\"role\": \"user\", \"content\": [1]}]", Err("neither a text nor a list")),
            ("[{\"role\": \"user\", \"content\": []}]", Err("neither a text nor a list")),
        ] {
            let read = read_chat(text);
            match (read, expected) {
                (Ok(read), Ok(expected)) => {
                    let expected = expected.map(|it: Vec<(Role, &str)>| {
                        it.into_iter().map(|(role, text)| (role, text.to_owned())).collect()
                    });
                    let said = |it: Message| (it.role, it.content);
                    let read: Option<Vec<_>> = read.map(|it| it.into_iter().map(said).collect());
                    assert_eq!(read, expected, "{text}");
                }
                (Err(err), Err(part)) => assert!(err.why.contains(part), "{text}: {err}"),
                (read, expected) => panic!("{text}: {read:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn parts_are_sent_as_they_are_written() {
        let content = serde_json::json!([
            {"type": "text", "text": "What is this?"},
            {"type": "text", "text": "Look.", "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": "https://e.com/a.png", "detail": "low"}},
        ]);
        let chat = serde_json::json!([{"role": "user", "content": content}]).to_string();
        let messages = read_chat(&chat).unwrap().unwrap();
        let sent: Vec<Value> = messages[0]
            .parts
            .iter()
            .map(|part| match part {
                ContentPart::Text(text) => serde_json::json!({"type": "text", "text": text}),
                ContentPart::Raw(raw) => raw.value().clone(),
                ContentPart::Media(media) => panic!("{media:?}"),
            })
            .collect();
        assert_eq!(Value::Array(sent), content);
        assert_eq!(messages[0].content, "What is this?\nLook.\n[image_url: https://e.com/a.png]");
    }
}
