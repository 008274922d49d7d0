//! The messages of Anthropic's API.

use kindlm_types::{ActionStatus, Event, Problem, ToolCall, exit_code};
use serde_json::Value;

use super::keys::{self, flag};
use super::parts::{content, kind, result, text, text_of, unknown_role, value_at};
use super::{CHAT, Reading};
use crate::MEDIA;

const ROLES: [&str; 3] = ["system", "user", "assistant"];

/// Reads a message in Anthropic's format. Fails if the message is malformed.
pub(super) fn message(message: &Value, at: &str, reading: &mut Reading) -> Result<(), Problem> {
    keys::MESSAGE.check(message, at)?;
    keys::foreign(message, &CHAT, at)?;
    match text(message, "role", at)? {
        "system" => {
            let instructions = content(message, at, reading)?;
            reading.system(&instructions);
        }
        "user" => {
            let mut texts: Vec<&str> = Vec::new();
            for (block, at) in blocks(message, at)? {
                match block {
                    Block::Text(text) => texts.push(text),
                    Block::Other(block) => other(block, &at, reading)?,
                }
            }
            // Tool results belong to the previous turn; the user's text begins a new turn.
            if !texts.is_empty() {
                reading.user(&texts.join("\n"));
            }
        }
        "assistant" => {
            reading.answer();
            reading.stopped(message, at)?;
            if value_at(message, "content").is_none() {
                reading.without_content(at);
            }
            answer(blocks(message, at)?, reading)?;
        }
        role => return Err(unknown_role(role, &ROLES, at)),
    }
    Ok(())
}

/// Reads the blocks of an answer. Consecutive texts are one message, because Anthropic splits texts at citations, not
/// at pauses.
fn answer(blocks: Vec<(Block<'_>, String)>, reading: &mut Reading) -> Result<(), Problem> {
    let mut message = String::new();
    for (block, at) in blocks {
        match block {
            Block::Text(text) => message.push_str(text),
            Block::Other(block) => {
                reading.add_message(&std::mem::take(&mut message));
                other(block, &at, reading)?;
            }
        }
    }
    reading.add_message(&message);
    Ok(())
}

/// A content block of a message.
enum Block<'v> {
    Text(&'v str),
    Other(&'v Value),
}

/// Returns the blocks of a message with their pointers. A text is one block. Fails if the content or a block is
/// malformed.
fn blocks<'v>(message: &'v Value, at: &str) -> Result<Vec<(Block<'v>, String)>, Problem> {
    let at = format!("{at}/content");
    let list = match message.get("content") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(text)) => return Ok(vec![(Block::Text(text), at)]),
        Some(Value::Array(list)) => list,
        Some(other) => {
            let message = format!("the content is {}, not a text or a list of blocks", kind(other));
            return Err(Problem::new(at, message));
        }
    };
    let block = |(index, block): (usize, &'v Value)| {
        let at = format!("{at}/{index}");
        Ok(match text(block, "type", &at)? {
            "text" => (Block::Text(text(block, "text", &at)?), at),
            _ => (Block::Other(block), at),
        })
    };
    list.iter().enumerate().map(block).collect()
}

/// Reads a block that is not a text. A type that ends with `tool_use` or `tool_result` is a call or a result, for
/// client tools and for server tools. Examples are `server_tool_use`, `web_search_tool_result` and `mcp_tool_use`.
fn other(block: &Value, at: &str, reading: &mut Reading) -> Result<(), Problem> {
    keys::BLOCK.check(block, at)?;
    let kind = text(block, "type", at)?;
    if kind.ends_with("tool_use") {
        let name = text(block, "name", at)?.to_owned();
        let arguments = block.get("input").cloned().unwrap_or_default();
        let id = text(block, "id", at)?.to_owned();
        reading.call(ToolCall { id, name, arguments, ..ToolCall::default() });
    } else if kind.ends_with("tool_result") {
        let id = text(block, "tool_use_id", at)?;
        let content = block.get("content").unwrap_or(&Value::Null);
        let is_error = flag(block, "is_error", at)?
            || content.get("error_code").is_some()
            || (kind != "tool_result" && exit_code(content).is_some_and(|it| it != 0));
        let status = if is_error { ActionStatus::Failed } else { ActionStatus::Completed };
        let output = if kind == "tool_result" || kind == "mcp_tool_result" {
            result(text_of(content, &format!("{at}/content"), reading)?)
        } else {
            content.clone()
        };
        reading.answered(id, Some(output), status, &format!("{at}/tool_use_id"))?;
    } else if kind.ends_with("thinking") {
        let thought = block.get("thinking").and_then(Value::as_str).unwrap_or_default();
        reading.push(Event::Thinking { text: thought.to_owned() });
    } else if MEDIA.contains(&kind) {
        reading.no_text(kind);
    } else {
        reading.note_unsupported(kind, at);
    }
    Ok(())
}
