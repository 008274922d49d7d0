//! The items of OpenAI's Responses API.

use kindlm_types::{ActionStatus, Event, InputRequest, Problem};
use serde_json::Value;

use super::Reading;
use super::openai::called;
use super::parts::{content, result, text, text_of, unknown_role};

const ROLES: [&str; 4] = ["system", "developer", "user", "assistant"];

/// Reads an item: a message, a call, the output of a call, or what the model thought.
pub(super) fn item(item: &Value, at: &str, reading: &mut Reading) -> Result<(), Problem> {
    // Messages may be written without their type.
    let kind = match item.get("type") {
        None => "message",
        Some(_) => text(item, "type", at)?,
    };
    let is_output = kind.ends_with("_output");
    let status = item.get("status").and_then(Value::as_str).filter(|_| !is_output);
    match status {
        None | Some("completed") => {}
        // Of a call it is the result, which is told below.
        Some("failed") if kind == "mcp_call" => {}
        Some("failed") => {
            reading.goes_on();
            let message = format!("`{kind}` at {at} has the status `failed`");
            reading.push(Event::Error { message });
        }
        // It is under way, was cut, or has a status that nobody knows.
        Some(status) => reading.broke_off(format!("`{kind}` at {at} has the status `{status}`")),
    }
    match kind {
        "message" => message(item, at, reading)?,
        "function_call" | "custom_tool_call" => {
            let key = if kind == "function_call" { "arguments" } else { "input" };
            reading.goes_on();
            reading.call(called(text(item, "call_id", at)?, item, key, at)?);
        }
        "function_call_output" | "custom_tool_call_output" => {
            let id = text(item, "call_id", at)?;
            let output = item.get("output").unwrap_or(&Value::Null);
            let output = result(text_of(output, &format!("{at}/output"), reading)?);
            let status = match item.get("status").and_then(Value::as_str) {
                Some("incomplete") => ActionStatus::Failed,
                _ => ActionStatus::Completed,
            };
            reading.answered(id, output, status, &format!("{at}/call_id"))?;
        }
        "mcp_approval_request" => {
            let (id, name) = (text(item, "id", at)?, text(item, "name", at)?);
            reading.goes_on();
            let call = called(id, item, "arguments", at)?;
            let request = InputRequest {
                id: Some(id.to_owned()),
                action: Some(name.to_owned()),
                input: Some(call.arguments),
                ..InputRequest::default()
            };
            reading.push(Event::InputRequested { request });
        }
        "mcp_approval_response" => reading.decided(),
        "mcp_call" => {
            reading.goes_on();
            remote_call(item, status, at, reading)?;
        }
        "reasoning" => {
            reading.goes_on();
            for part in ["summary", "content"] {
                let parts = item.get(part).and_then(Value::as_array).into_iter().flatten();
                for thought in parts.filter_map(|it| it.get("text")?.as_str()) {
                    reading.push(Event::Thinking { text: thought.to_owned() });
                }
            }
        }
        other => {
            reading.goes_on();
            reading.not_understood(other);
        }
    }
    Ok(())
}

/// A call of a tool of a server, which has its result in it. One that is under way has none yet.
fn remote_call(
    item: &Value,
    status: Option<&str>,
    at: &str,
    reading: &mut Reading,
) -> Result<(), Problem> {
    let id = text(item, "id", at)?;
    reading.call(called(id, item, "arguments", at)?);
    let told = |key: &str| item.get(key).filter(|it| !it.is_null());
    let (output, ended) = match (told("error"), told("output"), status) {
        (Some(error), ..) => (error.clone(), ActionStatus::Failed),
        (None, output, Some("failed")) => {
            (output.cloned().unwrap_or_default(), ActionStatus::Failed)
        }
        (None, None, Some(status)) if status != "completed" => return Ok(()),
        (None, output, _) => {
            let output = text_of(output.unwrap_or(&Value::Null), &format!("{at}/output"), reading)?;
            (result(output), ActionStatus::Completed)
        }
    };
    reading.answered(id, output, ended, &format!("{at}/id"))
}

fn message(item: &Value, at: &str, reading: &mut Reading) -> Result<(), Problem> {
    let role = text(item, "role", at)?;
    if !ROLES.contains(&role) {
        return Err(unknown_role(role, &ROLES, at));
    }
    let said = content(item, at, reading)?;
    match role {
        "user" => reading.user(&said),
        "assistant" => {
            reading.goes_on();
            reading.say(&said);
        }
        _ => reading.system(&said),
    }
    Ok(())
}
