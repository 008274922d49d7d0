//! The parts of an answer: its texts and tool calls. An unreadable part is an error with the reason.
//!
//! A skipped part is lost evidence: checks such as `not-contains` would pass wrongly. Each codec finds the parts in its
//! API's answers. This module validates their texts and calls.

use kindlm_types::{MalformedKind, Prompt, ToolCall};
use serde_json::{Value, json};

use super::text::{excerpt, non_empty};

/// The reason why an answer, or a part of it, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) why: String,
    pub(crate) kind: MalformedKind,
}

impl Malformed {
    /// Returns the reason for an answer that may not come from the API of a model.
    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self { why: why.into(), kind: MalformedKind::Unknown }
    }

    /// Returns the reason for an answer that breaks the format of its API.
    pub(crate) fn faulty(why: impl Into<String>) -> Self {
        Self { why: why.into(), kind: MalformedKind::Faulty }
    }

    /// Returns the reason for an answer with unsupported content.
    pub(crate) fn unsupported(why: impl Into<String>) -> Self {
        Self { why: why.into(), kind: MalformedKind::Unsupported }
    }

    /// Returns the reason for a value of the wrong type.
    pub(crate) fn not_a(wanted: &str, what: &str, value: &Value) -> Self {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a text",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        Self::faulty(format!("{what} is {kind}, not {wanted}"))
    }

    /// Returns the reason for message content that is not a text.
    pub(crate) fn no_text(value: &Value) -> Self {
        Self::not_a("a text", "the content of the message", value)
    }

    /// Returns the reason for a part of an unsupported type.
    pub(crate) fn unsupported_part(kind: &str) -> Self {
        Self::unsupported(format!(
            "the answer has a part of the type \"{}\", which is unsupported",
            excerpt(kind)
        ))
    }
}

/// The types of parts that hold reasoning or sources, not the answer itself.
const BESIDE: [&str; 4] = ["thinking", "redacted_thinking", "reasoning", "reference"];

/// Returns true if parts of this type hold neither text of the answer nor calls.
pub(crate) fn is_silent(kind: &str) -> bool {
    kindlm_agents::MEDIA.contains(&kind) || BESIDE.contains(&kind)
}

/// Returns the text of message content, which is a text or a list of parts. Missing content is an empty text. Fails for
/// any other content, and for an unsupported part.
pub(crate) fn text(content: &Value) -> Result<String, Malformed> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => parts.iter().map(text_of_part).collect(),
        other => Err(Malformed::no_text(other)),
    }
}

/// Returns the text of a part; empty for a type without text, such as reasoning. Fails for a malformed part, and for an
/// unsupported type.
fn text_of_part(part: &Value) -> Result<&str, Malformed> {
    match part {
        Value::String(text) => Ok(text),
        Value::Object(_) => match &part["type"] {
            Value::Null => text_at(part, "text"),
            Value::String(kind) => match kind.as_str() {
                "text" | "output_text" => text_at(part, "text"),
                "refusal" => text_at(part, "refusal"),
                kind if is_silent(kind) => Ok(""),
                kind => Err(Malformed::unsupported_part(kind)),
            },
            other => Err(Malformed::not_a("a text", "the `type` of a part", other)),
        },
        other => Err(Malformed::no_text(other)),
    }
}

/// Returns the text at a key of a part. Fails if the value is not a text.
pub(crate) fn text_at<'v>(part: &'v Value, key: &str) -> Result<&'v str, Malformed> {
    part[key].as_str().ok_or_else(|| Malformed::no_text(&part[key]))
}

/// Parses the tool calls of an answer in the chat dialect, in order. `null` means no calls. Fails for any other value
/// than a list, and for a malformed call.
pub(crate) fn tool_calls(
    prompt: &Prompt,
    calls: &Value,
    made_up: &str,
) -> Result<Vec<ToolCall>, Malformed> {
    let calls = match calls {
        Value::Null => &[][..],
        Value::Array(calls) => calls,
        other => return Err(Malformed::not_a("a list", "`tool_calls`", other)),
    };
    let numbered = (calls_before(prompt)..).zip(calls);
    numbered.map(|(index, call)| tool_call(call, &format!("{made_up}{index}"))).collect()
}

/// Returns the number of calls in the conversation so far. Generated ids start at this number, so that they are unique.
pub(crate) fn calls_before(prompt: &Prompt) -> usize {
    prompt.messages.iter().map(|it| it.tool_calls.len()).sum()
}

/// Parses one call: `{id, function: {name, arguments}}` or `{id, name, arguments}`.
fn tool_call(call: &Value, made_up: &str) -> Result<ToolCall, Malformed> {
    let function = if call["function"].is_null() { call } else { &call["function"] };
    called(function, "arguments", &call["id"], made_up)
}

/// Parses a tool call: an object with a `name`, and its arguments at the key `key`. A missing id is replaced by
/// `made_up`. Fails if the call is not an object, or has no name.
pub(crate) fn called(
    call: &Value,
    key: &str,
    id: &Value,
    made_up: &str,
) -> Result<ToolCall, Malformed> {
    if !call.is_object() {
        return Err(Malformed::not_a("an object", "a call in the answer", call));
    }
    let Some(name) = non_empty(&call["name"]) else {
        let written = excerpt(&call.to_string());
        return Err(Malformed::faulty(format!("a call in the answer has no `name`: `{written}`")));
    };
    let (arguments, malformed_arguments) = arguments(&call[key]);
    let id = match id {
        Value::Number(number) => number.to_string(),
        other => non_empty(other).unwrap_or(made_up).to_owned(),
    };
    Ok(ToolCall { id, name: name.to_owned(), arguments, malformed_arguments, response: None })
}

/// Parses arguments: JSON, or JSON in a text. Missing or empty arguments become `{}`. A text that is not JSON gives
/// `null`, with the text as the second value.
fn arguments(written: &Value) -> (Value, Option<String>) {
    match written {
        Value::Null => (json!({}), None),
        Value::String(text) if text.trim().is_empty() => (json!({}), None),
        Value::String(text) => match serde_json::from_str(text) {
            Ok(Value::Null) => (json!({}), None),
            Ok(value) => (value, None),
            Err(_) => (Value::Null, Some(text.clone())),
        },
        other => (other.clone(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_arguments_of_every_form() {
        for (written, expected, malformed) in [
            (json!("{\"a\":1}"), json!({"a": 1}), None),
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!(""), json!({}), None),
            (Value::Null, json!({}), None),
            (json!("null"), json!({}), None),
            (json!("[1]"), json!([1]), None),
            (json!("{bad"), Value::Null, Some("{bad")),
        ] {
            let read = arguments(&written);
            assert_eq!((&read.0, read.1.as_deref()), (&expected, malformed), "{written}");
        }
    }

    #[test]
    fn joins_the_texts_of_an_answer() {
        let thought = json!([{"type": "text", "text": "a"}, {"type": "thinking", "text": "z"}, {"text": "b"}]);
        for (content, expected) in [
            (json!("x"), "x"),
            (thought, "ab"),
            (json!(["a", "b"]), "ab"),
            (json!(null), ""),
            (json!([{"type": "image_url"}]), ""),
            (json!([{"type": "refusal", "refusal": "no"}]), "no"),
        ] {
            assert_eq!(text(&content).as_deref(), Ok(expected), "{content}");
        }
    }
}
