//! The tool calls that an answer lists: those to be answered, and those that the agent has made already.

use kindlm_types::{ActionStatus, Event, Speaker, ToolCall};
use serde_json::Value;

use super::path::Path;
use crate::dialect::answer::{excerpt, non_empty};

/// Where the list of tool calls is.
#[derive(Debug)]
pub(super) struct CallsPath {
    pub(super) path: Path,
    /// The path as it is written, if every answer must have the list.
    pub(super) required: Option<String>,
}

impl CallsPath {
    /// The calls of an answer as they are written there. The error says why they cannot be read.
    pub(super) fn find(&self, answer: &Value) -> Result<Vec<Value>, String> {
        let calls = match self.path.list(answer) {
            Some(Value::Array(calls)) => calls,
            Some(Value::Null) => return Ok(Vec::new()),
            found => {
                let Some(path) = &self.required else {
                    return Ok(Vec::new());
                };
                return Err(match found {
                    None => format!(
                        "`toolCallsPath` `{path}` finds nothing in the answer; if answers without calls leave the list \
                         out, write `{path}?`"
                    ),
                    Some(other) => {
                        format!(
                            "`toolCallsPath` `{path}` finds no list, but `{}`",
                            excerpt(&other.to_string())
                        )
                    }
                });
            }
        };
        if self.required.is_some()
            && let Some(odd) = calls.iter().find(|it| name(it).is_none())
        {
            return Err(format!(
                "a call in the answer has no `name`: `{}`",
                excerpt(&odd.to_string())
            ));
        }
        Ok(calls)
    }
}

fn name(call: &Value) -> Option<&str> {
    non_empty(&call["function"]["name"]).or_else(|| non_empty(&call["name"]))
}

/// How each call ended that comes with its result: `output` or `result`, and `status`. Puts the results into the calls.
pub(super) fn results(
    calls: &mut [ToolCall],
    written: &[Value],
) -> Result<Vec<Option<ActionStatus>>, String> {
    let written = written.iter().filter(|it| it.is_object());
    let ended = calls.iter_mut().zip(written).map(|(call, written)| {
        let output = ["output", "result"].into_iter().find_map(|it| written.get(it));
        let status = match &written["status"] {
            Value::Null => output.map(|_| ActionStatus::Completed),
            Value::String(word) => Some(match word.as_str() {
                "completed" => ActionStatus::Completed,
                "failed" => ActionStatus::Failed,
                "rejected" => ActionStatus::Rejected,
                "pending" => return Ok(None),
                other => {
                    return Err(format!(
                        "a call has the `status` `{other}`, which is none of completed, failed, rejected, pending"
                    ));
                }
            }),
            _ => return Err("a call has a `status` that is no text".to_owned()),
        };
        call.response = status.map(|_| output.cloned().unwrap_or_default());
        Ok(status)
    });
    ended.collect()
}

/// What happened, where the agent has made calls itself; empty if there is nothing to add to the calls and the text.
pub(super) fn events(calls: &[ToolCall], ended: &[Option<ActionStatus>], text: &str) -> Vec<Event> {
    if ended.iter().all(Option::is_none) {
        return Vec::new();
    }
    let mut events = Event::of_calls(calls);
    for event in &mut events {
        let Event::ActionResult { call_id, status, .. } = event else { continue };
        let at = calls.iter().position(|it| it.id == *call_id);
        if let Some(Some(ended)) = at.and_then(|at| ended.get(at)) {
            *status = *ended;
        }
    }
    if !text.is_empty() {
        events.push(Event::Message { role: Speaker::Assistant, text: text.to_owned() });
    }
    events
}
