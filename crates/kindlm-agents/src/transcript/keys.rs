//! Rejects unknown keys that resemble a known key. Such a key is probably misspelled. If it were ignored, a call could
//! be lost.
//!
//! Vendors add keys, so unknown keys that resemble no known key are ignored.

use kindlm_types::{Problem, nearest, pointer};
use serde_json::Value;

use super::parts::{kind, value_at};

/// The known keys of an object.
pub(super) struct Keys {
    /// The keys that are read.
    read: &'static [&'static str],
    /// Known keys that are not read but resemble a key that is read.
    other: &'static [&'static str],
}

/// The keys of a transcript that is an object with messages.
pub(super) const AROUND: Keys = Keys {
    read: &[
        "messages",
        "input",
        "items",
        "output",
        "choices",
        "content",
        "system",
        "instructions",
        "previous_response_id",
        "conversation",
        "usage",
        "cost_usd",
        "latency_ms",
        "finish_reason",
        "stop_reason",
        "status",
        "error",
        "incomplete_details",
        "tools",
        "complete_for",
    ],
    other: &[
        "comment",
        "completed_at",
        "context",
        "conversation_id",
        "latency",
        "latency_s",
        "moderation",
        "state",
    ],
};

/// The keys of a message, in all formats.
pub(super) const MESSAGE: Keys = Keys {
    read: &[
        "role",
        "content",
        "name",
        "tool_calls",
        "tool_call_id",
        "function_call",
        "refusal",
        "audio",
        "finish_reason",
        "stop_reason",
        "type",
        "id",
        "status",
    ],
    other: &["context", "rule", "state"],
};

/// The keys of a call in a message of OpenAI's chat completions.
pub(super) const CALL: Keys =
    Keys { read: &["id", "type", "function", "custom"], other: &["index"] };

/// The keys of the called function.
pub(super) const CALLED: Keys = Keys { read: &["name", "arguments", "input"], other: &[] };

/// The keys of an item of OpenAI's Responses API, except messages.
pub(super) const ITEM: Keys = Keys {
    read: &[
        "type",
        "status",
        "id",
        "call_id",
        "approval_request_id",
        "name",
        "arguments",
        "input",
        "output",
        "error",
        "action",
        "actions",
        "operation",
        "queries",
        "results",
        "code",
        "outputs",
        "revised_prompt",
        "summary",
        "content",
    ],
    other: &["approval_request", "moderation", "result", "state"],
};

/// The keys of a content block of Anthropic's API.
pub(super) const BLOCK: Keys = Keys {
    read: &[
        "type",
        "text",
        "id",
        "name",
        "input",
        "tool_use_id",
        "content",
        "is_error",
        "thinking",
    ],
    other: &["context"],
};

impl Keys {
    /// Fails if an unknown key resembles a key that is read. Keys with the value `null` are ignored.
    pub(super) fn check(&self, value: &Value, at: &str) -> Result<(), Problem> {
        let known = || self.read.iter().chain(self.other).copied();
        let unknown = value.as_object().into_iter().flatten();
        let unknown = unknown.filter(|(key, it)| !it.is_null() && !known().any(|it| it == *key));
        for (key, _) in unknown {
            if let Some(meant) = nearest(key, known()).filter(|it| self.read.contains(it)) {
                let message = format!("unknown key `{key}`");
                return Err(Problem::key(format!("{at}/{}", pointer::segment(key)), message)
                    .with_help(format!("did you mean `{meant}`?")));
            }
        }
        Ok(())
    }
}

/// Fails if a message has content under keys of another format.
pub(super) fn foreign(message: &Value, keys: &[&str], at: &str) -> Result<(), Problem> {
    let found = keys.iter().find(|key| match value_at(message, key) {
        Some(Value::Array(items)) => !items.is_empty(),
        found => found.is_some(),
    });
    let Some(key) = found else { return Ok(()) };
    let problem = format!("`{key}` is a key of another format than the rest of the transcript");
    let help = "write all messages in the format of one API";
    Err(Problem::key(format!("{at}/{key}"), problem).with_help(help))
}

/// Returns the text at a key; `None` if it is absent or `null`. Fails for any other type.
pub(super) fn text_at<'v>(
    value: &'v Value,
    key: &str,
    at: &str,
) -> Result<Option<&'v str>, Problem> {
    match value_at(value, key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(no(key, other, "a text", at)),
    }
}

/// Returns the boolean at a key; false if it is absent or `null`. Fails for any other type.
pub(super) fn flag(value: &Value, key: &str, at: &str) -> Result<bool, Problem> {
    match value_at(value, key) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(no(key, other, "`true` or `false`", at)),
    }
}

fn no(key: &str, found: &Value, wanted: &str, at: &str) -> Problem {
    Problem::new(format!("{at}/{key}"), format!("`{key}` is {}, not {wanted}", kind(found)))
}
