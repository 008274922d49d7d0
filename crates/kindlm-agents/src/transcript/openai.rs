//! The messages of OpenAI's chat completions.

use kindlm_types::{ActionStatus, Problem, ToolCall};
use serde_json::{Value, json};

use super::Reading;
use super::keys::{self, text_at};
use super::parts::{self, content, kind, result, text, unknown_role, value_at};

const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// Reads a message in the format of OpenAI's chat completions. Fails if the message is malformed.
pub(super) fn message(message: &Value, at: &str, reading: &mut Reading) -> Result<(), Problem> {
    keys::MESSAGE.check(message, at)?;
    match text(message, "role", at)? {
        "system" | "developer" => {
            let instructions = content(message, at, reading)?;
            reading.system(&instructions);
        }
        "user" => {
            let user_text = content(message, at, reading)?;
            reading.user(&user_text);
        }
        "assistant" => answer(message, at, reading)?,
        role @ ("tool" | "function") => {
            // The older functions had no ids. Their results name the function instead.
            let key = if role == "tool" { "tool_call_id" } else { "name" };
            let id = text(message, key, at)?;
            let output = result(content(message, at, reading)?);
            // The format does not record whether the tool failed.
            let at = format!("{at}/{key}");
            reading.answered(id, Some(output), ActionStatus::Completed, &at)?;
        }
        other => return Err(unknown_role(other, &ROLES, at)),
    }
    Ok(())
}

fn answer(message: &Value, at: &str, reading: &mut Reading) -> Result<(), Problem> {
    reading.answer();
    reading.stopped(message, at)?;
    let content = parts::answer(message, at, reading)?;
    reading.add_message(&content);
    if let Some(refusal) = text_at(message, "refusal", at)?.filter(|it| !it.is_empty()) {
        reading.refused();
        reading.add_message(refusal);
    }
    if let Some(transcript) = message.pointer("/audio/transcript").and_then(Value::as_str) {
        reading.add_message(transcript);
    }
    let calls = match value_at(message, "tool_calls") {
        None => &[][..],
        Some(Value::Array(calls)) => calls,
        Some(other) => {
            let problem = format!("`tool_calls` is {}, not a list", kind(other));
            return Err(Problem::new(format!("{at}/tool_calls"), problem));
        }
    };
    let others = ["tool_calls", "function_call", "refusal", "audio"];
    if value_at(message, "content").is_none() && !others.iter().any(|it| holds(message, it)) {
        reading.without_content(at);
    }
    for (index, call) in calls.iter().enumerate() {
        let at = format!("{at}/tool_calls/{index}");
        keys::CALL.check(call, &at)?;
        let id = text(call, "id", &at)?;
        // A custom tool, which may have a grammar, takes a text as its input.
        let (inner, key) = match (call.get("function"), call.get("custom")) {
            (None, Some(custom)) => (custom, ("custom", "input")),
            (function, _) => (function.unwrap_or(&Value::Null), ("function", "arguments")),
        };
        reading.call(called(id, inner, key.1, &format!("{at}/{}", key.0))?);
    }
    if let Some(call) = value_at(message, "function_call") {
        let at = format!("{at}/function_call");
        reading.call(called(text(call, "name", &at)?, call, "arguments", &at)?);
    }
    Ok(())
}

/// Returns true if a key has a non-empty value.
fn holds(message: &Value, key: &str) -> bool {
    value_at(message, key).is_some_and(|it| match it {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    })
}

/// Parses a call whose arguments are JSON, or JSON in a text. A text that is not JSON is stored as malformed arguments.
/// Fails if the call has no name.
pub(super) fn called(id: &str, call: &Value, key: &str, at: &str) -> Result<ToolCall, Problem> {
    keys::CALLED.check(call, at)?;
    let name = text(call, "name", at)?.to_owned();
    let (arguments, malformed_arguments) = match call.get(key) {
        None | Some(Value::Null) => (Value::Null, None),
        // Some models send an empty text for no arguments.
        Some(Value::String(text)) if text.trim().is_empty() => (json!({}), None),
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(value) => (value, None),
            Err(_) => (Value::Null, Some(text.clone())),
        },
        // Logs often hold parsed arguments.
        Some(value) => (value.clone(), None),
    };
    Ok(ToolCall { id: id.to_owned(), name, arguments, malformed_arguments, response: None })
}
