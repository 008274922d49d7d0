//! Commands: their parameters and results.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::{BoxFuture, Coverage, Event, ProviderError, ToolCall};

/// A command to run: an agent under test, or a command in a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    /// The command line, for `sh -c`. It already contains the test's variables, quoted for the shell.
    pub command_line: String,
    /// The time limit.
    pub timeout: Duration,
    /// The working folder; the suite's folder if absent.
    pub folder: Option<PathBuf>,
    /// Environment variables to set, in addition to KindLM's variables.
    pub env: Vec<(String, String)>,
    /// The setting that raises the time limit, for error messages.
    pub raise: &'static str,
    /// The names of KindLM's environment variables that are not passed on.
    ///
    /// A variable that `env` sets is passed anyway.
    pub without: Vec<String>,
}

impl CommandSpec {
    /// The setting that raises the default time limit, for error messages.
    pub const RAISE: &'static str = "`defaults.timeoutMs` or `--timeout`";

    /// Returns a command that runs in the folder of the suite.
    pub fn new(command_line: impl Into<String>, timeout: Duration) -> Self {
        let (env, without) = (Vec::new(), Vec::new());
        let command_line = command_line.into();
        Self { command_line, timeout, folder: None, env, raise: Self::RAISE, without }
    }
}

/// The result of a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandOutput {
    /// The stdout without the protocol lines.
    pub text: String,
    /// The `output_json` that the command reported; `None` if it reported none.
    pub output_json: Option<Value>,
    /// The tool calls that the command reported.
    pub tool_calls: Vec<ToolCall>,
    /// The events that the command reported, in order.
    pub events: Vec<Event>,
    /// The kinds of evidence that are complete.
    pub coverage: Coverage,
    /// The lines of stdout that look like the protocol but are invalid, with the reasons.
    pub unreadable: Vec<String>,
    /// The stderr.
    pub stderr: String,
    /// The exit code; `None` if a signal ended the command.
    pub exit_code: Option<i32>,
    /// The duration in milliseconds.
    pub latency_ms: f64,
}

impl CommandOutput {
    /// Returns the reason why a command with this exit code did not do its work.
    ///
    /// The reason is that the shell could not start the command, or that a signal ended the command. Returns `None` for
    /// any other exit code, which the command itself chose.
    pub fn broken_off(exit_code: Option<i32>) -> Option<String> {
        let Some(code) = exit_code else {
            return Some("a signal ended the command before it was done".to_owned());
        };
        match (code, Self::signal(code)) {
            (127, _) => Some("the command was not found (exit code 127)".to_owned()),
            (126, _) => Some("the command cannot be executed (exit code 126)".to_owned()),
            (_, Some(signal)) => Some(format!(
                "signal {signal} ended the command before it was done (exit code {code})"
            )),
            _ => None,
        }
    }

    /// Returns the signal that an exit code represents.
    ///
    /// Returns `None` if the exit code represents no signal.
    ///
    /// A shell exits with 128 plus the signal that ended its command.
    pub fn signal(exit_code: i32) -> Option<i32> {
        /// The highest number of the standard signals. Higher numbers are real-time signals for applications.
        const LAST: i32 = 31;
        let signal = exit_code.checked_sub(128)?;
        (cfg!(unix) && (1..=LAST).contains(&signal)).then_some(signal)
    }

    /// Returns the reason why [`unreadable`](Self::unreadable) lines make evidence unusable.
    ///
    /// Returns `None` if `unreadable` is empty.
    ///
    /// The data of these lines is lost, so a check that something is absent would pass without cause.
    pub fn lost(unreadable: &[String]) -> Option<String> {
        let first = unreadable.first()?;
        let more = match unreadable.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        Some(format!("the output of the command has a line that cannot be read: {first}{more}"))
    }
}

/// Commands: programs that run once, as agents under test or in a workspace.
pub trait Commands: Send + Sync {
    /// Runs a command and parses the protocol lines of its output. Fails if the command cannot be started, or is
    /// stopped because of its timeout or too much output.
    fn run_command<'a>(
        &'a self,
        command: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<CommandOutput, ProviderError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_above_128_is_a_signal() {
        for (code, broken_off) in [
            (Some(0), None),
            (Some(1), None),
            (Some(126), Some("exit code 126")),
            (Some(127), Some("was not found")),
            (Some(128), None),
            (Some(130), Some("signal 2 ended the command")),
            (Some(137), Some("signal 9 ended the command before it was done (exit code 137)")),
            (Some(143), Some("signal 15")),
            (Some(159), Some("signal 31")),
            (Some(160), None),
            (Some(255), None),
            (Some(-1), None),
            (Some(i32::MIN), None),
            (None, Some("a signal ended the command")),
        ] {
            let broken_off = broken_off.filter(|_| cfg!(unix) || code.is_none_or(|it| it <= 128));
            let why = CommandOutput::broken_off(code);
            assert_eq!(why.is_some(), broken_off.is_some(), "{code:?}");
            assert!(why.unwrap_or_default().contains(broken_off.unwrap_or_default()), "{code:?}");
        }
    }
}
