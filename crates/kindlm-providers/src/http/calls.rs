//! The tool calls of an answer: open calls, and calls that the agent executed.

use kindlm_types::{ActionStatus, Event, Speaker, ToolCall};
use serde_json::Value;

use super::path::Path;
use crate::dialect::answer::excerpt;
use crate::dialect::part::Malformed;

/// The location of the list of tool calls.
#[derive(Debug)]
pub(super) struct CallsPath {
    pub(super) path: Path,
    /// The path as written in the config, without a final `?`, for error messages.
    pub(super) written: String,
    /// True if the list may be missing in an answer.
    pub(super) is_optional: bool,
}

impl CallsPath {
    /// Returns the list of calls of an answer; `null` if the answer has none. Fails if the path finds any other value,
    /// or finds nothing and is not optional.
    pub(super) fn find(&self, answer: &Value) -> Result<Value, Malformed> {
        let path = &self.written;
        match self.path.list(answer) {
            Some(calls @ (Value::Array(_) | Value::Null)) => Ok(calls),
            None if self.is_optional => Ok(Value::Null),
            None => Err(Malformed::unknown(format!(
                "`toolCallsPath` `{path}` finds nothing in the answer; if answers without calls have no list, write \
                 `{path}?`"
            ))),
            Some(other) => Err(Malformed::unknown(format!(
                "`toolCallsPath` `{path}` finds `{}`, not a list",
                excerpt(&other.to_string())
            ))),
        }
    }
}

/// Stores the results of executed calls in `calls`, and returns the status of each call. The status is `None` for an
/// open call. Fails if a status or a failure mark is invalid.
pub(super) fn results(
    calls: &mut [ToolCall],
    written: &Value,
) -> Result<Vec<Option<ActionStatus>>, Malformed> {
    let written = written.as_array().into_iter().flatten();
    let ended = calls.iter_mut().zip(written).map(|(call, written)| {
        let output = ["output", "result"].into_iter().find_map(|it| written.get(it));
        let error = failure(written)?;
        let status = match &written["status"] {
            Value::Null => output.or(error).map(|_| ActionStatus::Completed),
            Value::String(word) => match word.as_str() {
                "completed" => Some(ActionStatus::Completed),
                "failed" => Some(ActionStatus::Failed),
                "rejected" => Some(ActionStatus::Rejected),
                "pending" => None,
                other => {
                    return Err(Malformed::faulty(format!(
                        "a call has the unknown `status` `{other}`; use completed, failed, rejected or pending"
                    )));
                }
            },
            other => return Err(Malformed::not_a("a text", "the `status` of a call", other)),
        };
        // A call with an error has failed, even if its status is `completed`.
        let status = match (status, error) {
            (None | Some(ActionStatus::Completed), Some(_)) => Some(ActionStatus::Failed),
            (status, _) => status,
        };
        call.response = status.map(|_| output.or(error).cloned().unwrap_or_default());
        Ok(status)
    });
    ended.collect()
}

/// Returns the `error` of a failed call; without `error`, its failure mark (`is_error` or `isError`). Returns `None` if
/// the call did not fail. Fails if a failure mark is not a boolean.
fn failure(call: &Value) -> Result<Option<&Value>, Malformed> {
    for key in ["is_error", "isError"] {
        match &call[key] {
            Value::Null | Value::Bool(false) => {}
            failed @ Value::Bool(true) => {
                let why = call.get("error").filter(|it| !it.is_null());
                return Ok(why.or(Some(failed)));
            }
            other => {
                return Err(Malformed::not_a("a boolean", &format!("`{key}` of a call"), other));
            }
        }
    }
    Ok(match &call["error"] {
        Value::Null | Value::Bool(false) => None,
        Value::String(text) if text.is_empty() => None,
        why => Some(why),
    })
}

/// Returns the events of an answer with calls that the agent has executed. The list is empty if all calls are open,
/// because the calls and the text then suffice.
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
