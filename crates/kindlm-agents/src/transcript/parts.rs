//! The parts of messages, and the problems of malformed messages.

use kindlm_types::Problem;
use serde_json::Value;

use super::Reading;
use crate::MEDIA;

/// Returns the name of a value's type, for error messages.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Checks that a message is an object.
pub(super) fn object(value: &Value, at: &str) -> Result<(), Problem> {
    if value.is_object() {
        return Ok(());
    }
    Err(Problem::new(at, format!("a message is an object, and this is {}", kind(value))))
}

/// Returns the required text at a key. Fails if the value is missing or not a text.
pub(super) fn text<'v>(value: &'v Value, key: &str, at: &str) -> Result<&'v str, Problem> {
    match value.get(key) {
        Some(Value::String(text)) => Ok(text),
        Some(other) => {
            let message = format!("`{key}` is {}, not a text", kind(other));
            Err(Problem::new(format!("{at}/{key}"), message))
        }
        None => Err(Problem::new(at, format!("`{key}` is missing"))),
    }
}

/// Returns the problem of a message with an unknown role.
pub(super) fn unknown_role(role: &str, known: &[&'static str], at: &str) -> Problem {
    let message = format!("`{role}` is not a role of this format");
    Problem::new(format!("{at}/role"), message).with_help(kindlm_types::suggest(
        role,
        "roles",
        known.iter().copied(),
    ))
}

/// Returns the texts of a value, which is a text, a list of parts, or `null` (no texts). Images, files, sounds and
/// videos are only counted. Calls `unknown` for each unsupported part. Fails for any other value, and for a malformed
/// part.
fn texts_of<'v>(
    value: &'v Value,
    at: &str,
    reading: &mut Reading,
    unknown: fn(&mut Reading, &str, &str),
) -> Result<Vec<&'v str>, Problem> {
    let parts = match value {
        Value::Null => return Ok(Vec::new()),
        Value::String(text) => return Ok(vec![text]),
        Value::Array(parts) => parts,
        other => {
            let message = format!("the content is {}, not a text or a list of parts", kind(other));
            return Err(Problem::new(at, message));
        }
    };
    let mut texts: Vec<&str> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let at = format!("{at}/{index}");
        match part {
            Value::String(text) => texts.push(text),
            part => match text(part, "type", &at)? {
                "text" | "input_text" | "output_text" => texts.push(text(part, "text", &at)?),
                "refusal" => {
                    reading.refused();
                    texts.push(text(part, "refusal", &at)?);
                }
                other if MEDIA.contains(&other) => reading.no_text(other),
                other => unknown(reading, other, &at),
            },
        }
    }
    Ok(texts)
}

/// Returns the text of a value. The texts of its parts are joined with line breaks. Fails for a malformed value or
/// part.
pub(super) fn text_of(value: &Value, at: &str, reading: &mut Reading) -> Result<String, Problem> {
    Ok(texts_of(value, at, reading, Reading::not_understood)?.join("\n"))
}

/// Returns the text of a message's content, which may be absent. The texts of its parts are joined with line breaks.
pub(super) fn content(message: &Value, at: &str, reading: &mut Reading) -> Result<String, Problem> {
    let content = message.get("content").unwrap_or(&Value::Null);
    text_of(content, &format!("{at}/content"), reading)
}

/// Returns the content of an answer, with its parts joined without separators. The providers join parts in the same
/// way.
pub(super) fn answer(message: &Value, at: &str, reading: &mut Reading) -> Result<String, Problem> {
    let content = message.get("content").unwrap_or(&Value::Null);
    Ok(texts_of(content, &format!("{at}/content"), reading, Reading::note_unsupported)?.concat())
}

/// Returns the value at a key; `None` if it is absent or `null`.
pub(super) fn value_at<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    value.get(key).filter(|it| !it.is_null())
}

/// Returns the output of a tool. A text that holds a JSON object or list is parsed.
pub(super) fn result(text: String) -> Value {
    match serde_json::from_str(&text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
        _ => Value::String(text),
    }
}
