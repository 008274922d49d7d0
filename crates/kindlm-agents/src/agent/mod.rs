//! Agents as programs: adapters for their output, and the sessions that run them.
//!
//! An adapter reads lines and needs no process. So an adapter can also read stored output.

mod claude;
mod codex;
mod launch;
mod native;
mod reported;
mod rollout;
mod session;
mod shell;
mod thread_files;

use std::time::Duration;

use kindlm_types::{AgentKind, AgentSpec, duplicate_key};
use serde_json::{Map, Value};

pub use launch::{Env, Surroundings};
pub(crate) use reported::Reported;
pub use session::start;

/// The version of KindLM's agent protocol.
pub const PROTOCOL_VERSION: u64 = 1;

/// The time between closing stdin and `SIGTERM`, for most agents.
const FAREWELL: Duration = Duration::from_secs(5);

/// An adapter: the reader of an agent's output format.
pub(crate) trait Dialect: Send {
    /// Reads one line and records its content. Fails with the reason if the line is unreadable.
    fn read_line(&mut self, line: &str, reported: &mut Reported) -> Result<Step, String>;

    /// Returns the last error message of the agent; `None` if it reported no error. The message explains the error of
    /// an agent that ends without further output.
    fn last_error(&self) -> Option<&str> {
        None
    }

    /// Handles the timeout of a turn. Returns true if the turn can end as answered, although background tasks still
    /// run.
    fn ends_late(&mut self, _reported: &mut Reported) -> bool {
        false
    }

    /// Returns the time that the agent may take to end after its stdin is closed.
    fn farewell(&self) -> Duration {
        FAREWELL
    }

    /// Adds the evidence of the thread files to the turn that has just ended. `_files` may be the reason why the files
    /// cannot be read.
    fn settle(&mut self, _files: Result<rollout::Files, String>, _reported: &mut Reported) {}
}

/// The progress of a turn after a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// More lines follow.
    More,
    /// The agent is ready for a user message.
    Ready,
    /// The agent has answered.
    Done,
    /// The agent failed, with a reason.
    Failed(String),
}

/// Returns the adapter for the kind of this agent.
pub(crate) fn dialect(spec: &AgentSpec) -> Box<dyn Dialect> {
    match spec.kind {
        AgentKind::Kindlm => Box::new(native::Native::default()),
        AgentKind::ClaudeCode => Box::new(claude::Claude::new(&spec.ignore_lines)),
        AgentKind::Codex => Box::new(codex::Codex::new(&spec.ignore_lines)),
    }
}

/// Parses a line as a JSON object. Fails for any other text, and for an object with a duplicate key.
fn object(line: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(line) {
        Ok(map) => match duplicate_key(line) {
            None => Ok(map),
            Some(key) => Err(format!("it has a duplicate key `{key}`: {}", quoted(line))),
        },
        Err(err) if err.is_data() => Err(format!("it is not a JSON object: {}", quoted(line))),
        Err(err) => Err(format!("it is not JSON ({err}): {}", quoted(line))),
    }
}

/// Returns the beginning of a line with masked keys, for error messages.
fn quoted(line: &str) -> String {
    const SHOWN: usize = 120;
    // The line is masked before it is cut, because a part of a key may not be recognized.
    let masked = kindlm_redact::mask_keys(line);
    let mut chars = masked.chars();
    let shown: String = chars.by_ref().take(SHOWN).collect();
    let more = if chars.next().is_some() { " …" } else { "" };
    format!("`{shown}`{more}")
}

/// Returns the text at a key; an empty text if the value is missing or not a text.
fn text<'v>(object: &'v Value, key: &str) -> &'v str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
