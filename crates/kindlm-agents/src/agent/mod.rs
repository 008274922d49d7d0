//! Agents that are programs: what the lines mean that they write to stdout, and how they are run.
//!
//! A dialect reads lines and knows no process, so a stored output is read in the same way as a running agent's.

mod claude;
mod codex;
mod launch;
mod native;
mod rollout;
mod session;
mod shell;
mod thread_files;
mod told;

use std::time::Duration;

use kindlm_types::{AgentKind, AgentSpec, twice};
use serde_json::{Map, Value};

pub use launch::{Env, Surroundings};
pub use session::start;
pub(crate) use told::Told;

/// The version of the protocol that agents speak with KindLM.
pub const PROTOCOL_VERSION: u64 = 1;

/// From the end of stdin to `SIGTERM`, for most agents.
const FAREWELL: Duration = Duration::from_secs(5);

/// What the lines of an agent mean.
pub(crate) trait Dialect: Send {
    /// Reads one line, and puts down what it tells. An error is a line that cannot be read, in words.
    fn read(&mut self, line: &str, told: &mut Told) -> Result<Step, String>;

    /// What the agent said last of what went wrong, if it ends without any further word.
    fn last_error(&self) -> Option<&str> {
        None
    }

    /// Ends the turn when its time is over; true if the agent has answered and what is still at work need not be awaited.
    fn ends_late(&mut self, _told: &mut Told) -> bool {
        false
    }

    /// How long the agent may take to end when its stdin has been closed.
    fn farewell(&self) -> Duration {
        FAREWELL
    }

    /// Takes the files in which an agent keeps the turn that has just ended, where it keeps any, or why they cannot be read.
    fn settle(&mut self, _files: Result<rollout::Files, String>, _told: &mut Told) {}
}

/// How far a line has brought a turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is more to come.
    More,
    /// The agent is ready for what the user says.
    Ready,
    /// The agent has answered.
    Done,
    /// The agent could not do its work, and says why.
    Failed(String),
}

/// The reader of what an agent of this kind writes.
pub(crate) fn dialect(spec: &AgentSpec) -> Box<dyn Dialect> {
    match spec.kind {
        AgentKind::Kindlm => Box::new(native::Native::default()),
        AgentKind::ClaudeCode => Box::new(claude::Claude::new(&spec.ignore_lines)),
        AgentKind::Codex => Box::new(codex::Codex::new(&spec.ignore_lines)),
    }
}

/// A line that must be a JSON object.
fn object(line: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(line) {
        Ok(map) => match twice(line) {
            None => Ok(map),
            Some(key) => Err(format!("it has the key `{key}` twice: {}", quoted(line))),
        },
        Err(err) if err.is_data() => Err(format!("it is no JSON object: {}", quoted(line))),
        Err(err) => Err(format!("it is not JSON ({err}): {}", quoted(line))),
    }
}

/// The beginning of a line, for a message.
fn quoted(line: &str) -> String {
    const SHOWN: usize = 120;
    let mut chars = line.chars();
    let shown: String = chars.by_ref().take(SHOWN).collect();
    let more = if chars.next().is_some() { " …" } else { "" };
    format!("`{}`{more}", kindlm_redact::mask_keys(&shown))
}

/// The text at a key; empty if there is none.
fn text<'v>(object: &'v Value, key: &str) -> &'v str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;
