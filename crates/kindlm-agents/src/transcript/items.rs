//! The items of OpenAI's Responses API.

use kindlm_types::{ActionStatus, Event, InputRequest, Problem};
use serde_json::Value;

use super::keys::{self, text_at};
use super::openai::called;
use super::parts::{self, content, result, text, text_of, unknown_role, value_at};
use super::tools::{self, BuiltInTool};
use super::{CHAT, Reading};

const ROLES: [&str; 4] = ["system", "developer", "user", "assistant"];

/// Reads an item, such as a message, a call, the output of a call, or reasoning. Fails if the item is malformed.
pub(super) fn item(item: &Value, at: &str, reading: &mut Reading) -> Result<(), Problem> {
    // Messages may omit their type.
    let kind = match item.get("type") {
        None => "message",
        Some(_) => text(item, "type", at)?,
    };
    if kind == "message" {
        keys::MESSAGE.check(item, at)?;
        keys::foreign(item, &CHAT, at)?;
    } else {
        keys::ITEM.check(item, at)?;
    }
    if let Some(called) = kind.strip_suffix("_output") {
        return output(called, kind, item, at, reading);
    }
    status(kind, item, at, reading)?;
    match kind {
        "message" => return message(item, at, reading),
        "mcp_approval_response" => {
            reading.decided();
            return Ok(());
        }
        _ => reading.goes_on(),
    }
    match kind {
        "function_call" | "custom_tool_call" => {
            let key = if kind == "function_call" { "arguments" } else { "input" };
            reading.call(called(text(item, "call_id", at)?, item, key, at)?);
        }
        "mcp_approval_request" => {
            let (id, name) = (text(item, "id", at)?, text(item, "name", at)?);
            let call = called(id, item, "arguments", at)?;
            let request = InputRequest {
                id: Some(id.to_owned()),
                action: Some(name.to_owned()),
                input: Some(call.arguments),
                ..InputRequest::default()
            };
            reading.push(Event::InputRequested { request });
        }
        "mcp_call" => remote_call(item, at, reading)?,
        // This item lists a server's tools; it is not an event.
        "mcp_list_tools" => {}
        "reasoning" => {
            for part in ["summary", "content"] {
                let parts = item.get(part).and_then(Value::as_array).into_iter().flatten();
                for thought in parts.filter_map(|it| it.get("text")?.as_str()) {
                    reading.push(Event::Thinking { text: thought.to_owned() });
                }
            }
        }
        other => match BuiltInTool::for_item(other) {
            Some(tool) => tool.call(item, at, reading)?,
            // An unknown item of this form is a call, so it is not part of the answer's text.
            None if other.ends_with("_call") => reading.not_understood(other, at),
            None => reading.note_unsupported(other, at),
        },
    }
    Ok(())
}

/// Records a status that means failure or interruption. Skips the status `failed` of an item that holds a call and its
/// result, because the result gets this status.
fn status(kind: &str, item: &Value, at: &str, reading: &mut Reading) -> Result<(), Problem> {
    match text_at(item, "status", at)? {
        None | Some("completed") => {}
        Some("failed") if kind == "mcp_call" || BuiltInTool::for_item(kind).is_some() => {}
        Some("failed") => {
            reading.goes_on();
            let message = format!("`{kind}` at {at} has the status `failed`");
            reading.push(Event::Error { message });
        }
        // The item is in progress or was cut, or its status is unknown.
        Some(status) => reading.broke_off(format!("`{kind}` at {at} has the status `{status}`")),
    }
    Ok(())
}

/// Reads an item with the output of a tool that the client ran. Fails if the item is malformed, or if no open call has
/// the call id of the item.
fn output(
    called: &str,
    kind: &str,
    item: &Value,
    at: &str,
    reading: &mut Reading,
) -> Result<(), Problem> {
    reading.hands_over();
    let failed = matches!(text_at(item, "status", at)?, Some("incomplete" | "failed"));
    let (output, failed) = match called {
        "function_call" | "custom_tool_call" => {
            let output = item.get("output").unwrap_or(&Value::Null);
            (Some(result(text_of(output, &format!("{at}/output"), reading)?)), failed)
        }
        called if BuiltInTool::for_item(called).is_some() => tools::output(item, failed),
        _ => {
            reading.not_understood(kind, at);
            return Ok(());
        }
    };
    let status = if failed { ActionStatus::Failed } else { ActionStatus::Completed };
    // Outputs of the older local shell store the call's id under another key.
    let key = if value_at(item, "call_id").is_none() && called == "local_shell_call" {
        "id"
    } else {
        "call_id"
    };
    reading.answered(text(item, key, at)?, output, status, &format!("{at}/{key}"))
}

/// Reads an MCP call, which includes its result. A call in progress has no result yet.
fn remote_call(item: &Value, at: &str, reading: &mut Reading) -> Result<(), Problem> {
    let id = text(item, "id", at)?;
    reading.call(called(id, item, "arguments", at)?);
    let status = item.get("status").and_then(Value::as_str);
    let (output, ended) = match (value_at(item, "error"), value_at(item, "output"), status) {
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
    reading.answered(id, Some(output), ended, &format!("{at}/id"))
}

fn message(item: &Value, at: &str, reading: &mut Reading) -> Result<(), Problem> {
    let role = text(item, "role", at)?;
    if !ROLES.contains(&role) {
        return Err(unknown_role(role, &ROLES, at));
    }
    match role {
        "user" => {
            let user_text = content(item, at, reading)?;
            reading.user(&user_text);
        }
        "assistant" => {
            reading.goes_on();
            if value_at(item, "content").is_none() {
                reading.without_content(at);
            }
            let answer = parts::answer(item, at, reading)?;
            reading.add_message(&answer);
        }
        _ => {
            let instructions = content(item, at, reading)?;
            reading.system(&instructions);
        }
    }
    Ok(())
}
