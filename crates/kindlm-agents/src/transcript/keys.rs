//! Keys that are nearly those of a format: what stands under them would not be looked at, and a call would vanish.
//!
//! Vendors add keys, so others are passed over.

use kindlm_types::{Problem, nearest, pointer};
use serde_json::Value;

use super::parts::{kind, told};

/// The keys of an object.
pub(super) struct Keys {
    /// Those that are read.
    read: &'static [&'static str],
    /// Those that only look like one of them.
    other: &'static [&'static str],
}

/// Of what stands around the messages.
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

/// Of a message, in each of the formats.
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

/// Of a call in a message of OpenAI's chat completions.
pub(super) const CALL: Keys =
    Keys { read: &["id", "type", "function", "custom"], other: &["index"] };

/// Of what is called.
pub(super) const CALLED: Keys = Keys { read: &["name", "arguments", "input"], other: &[] };

/// Of an item of OpenAI's Responses API that is no message.
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

/// Of a block of Anthropic's.
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
    /// Sees that no key is nearly one that is read. What is `null` tells nothing.
    pub(super) fn check(&self, value: &Value, at: &str) -> Result<(), Problem> {
        let known = || self.read.iter().chain(self.other).copied();
        let unknown = value.as_object().into_iter().flatten();
        let unknown = unknown.filter(|(key, it)| !it.is_null() && !known().any(|it| it == *key));
        for (key, _) in unknown {
            if let Some(meant) = nearest(key, known()).filter(|it| self.read.contains(it)) {
                let message = format!("unknown key `{key}`: what it says would not be looked at");
                return Err(Problem::key(format!("{at}/{}", pointer::segment(key)), message)
                    .with_help(format!("did you mean `{meant}`?")));
            }
        }
        Ok(())
    }
}

/// Sees that a message has nothing under keys that only another format has.
pub(super) fn foreign(message: &Value, keys: &[&str], at: &str) -> Result<(), Problem> {
    let found = keys.iter().find(|key| match told(message, key) {
        Some(Value::Array(items)) => !items.is_empty(),
        found => found.is_some(),
    });
    let Some(key) = found else { return Ok(()) };
    let problem = format!("`{key}` is a key of another format than the rest of the transcript");
    let help = "write all messages as one of the APIs has them";
    Err(Problem::key(format!("{at}/{key}"), problem).with_help(help))
}

/// The text at a key, if there is one.
pub(super) fn words<'v>(value: &'v Value, key: &str, at: &str) -> Result<Option<&'v str>, Problem> {
    match told(value, key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(no(key, other, "a text", at)),
    }
}

/// Whether a key says yes.
pub(super) fn flag(value: &Value, key: &str, at: &str) -> Result<bool, Problem> {
    match told(value, key) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => Err(no(key, other, "`true` or `false`", at)),
    }
}

fn no(key: &str, found: &Value, wanted: &str, at: &str) -> Problem {
    Problem::new(format!("{at}/{key}"), format!("`{key}` is {}, not {wanted}", kind(found)))
}
