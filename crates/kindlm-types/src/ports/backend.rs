//! The services that a run needs: models, embeddings, commands, agents and scripts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::script::{ScriptAnswer, ScriptError, ScriptErrorKind, ScriptQuestion};
use crate::{
    AgentSession, AgentStart, BoxFuture, Coverage, Event, Prompt, ProviderError, ProviderErrorKind,
    Reply, ToolCall,
};

/// A command to run, as an agent under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    /// The command line, for `sh -c`. Variables are already quoted into it.
    pub command_line: String,
    /// The time limit.
    pub timeout: Duration,
    /// The working folder; that of the suite if absent.
    pub folder: Option<PathBuf>,
    /// Environment variables to set, in addition to those of KindLM.
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
    /// The `output_json` that the command reported.
    pub output_json: Option<Value>,
    /// The tool calls that the command reported.
    pub tool_calls: Vec<ToolCall>,
    /// The events that the command reported; empty if there are none.
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
    /// The shell could not start it, or a signal ended it. Any other exit code was chosen by the command: `None`.
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

    /// Returns the signal that an exit code represents. A shell exits with 128 plus the signal that ended its command.
    pub fn signal(exit_code: i32) -> Option<i32> {
        /// The highest number of the standard signals. Higher numbers are real-time signals for applications.
        const LAST: i32 = 31;
        let signal = exit_code - 128;
        (cfg!(unix) && (1..=LAST).contains(&signal)).then_some(signal)
    }

    /// Returns the reason why [`unreadable`](Self::unreadable) lines make evidence unusable.
    ///
    /// The data of these lines is lost, so negative checks would pass without cause.
    pub fn lost(unreadable: &[String]) -> Option<String> {
        let first = unreadable.first()?;
        let more = match unreadable.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        Some(format!("the command told what cannot be read: {first}{more}"))
    }
}

/// The budget for the attempts of one request.
pub trait Purse: Send + Sync {
    /// Reserves money for one more attempt, as much as for the first.
    ///
    /// A lost answer may still have to be paid for. The error says why the budget does not allow another attempt.
    fn another(&self) -> Result<(), String>;

    /// Releases the last reservation, for an attempt that was not made.
    fn not_made(&self);
}

/// The operations that a run needs from outside.
///
/// The engine does no I/O itself. Everything that uses the network or starts a process goes through this trait.
/// `provider` is a key of the suite's `providers`. Implementations retry if a retry may help. They give up after
/// `timeout`, which covers one attempt from sending to the last byte of the answer.
pub trait Backend: Send + Sync {
    /// Sends one request to a model.
    fn complete<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>>;

    /// Sends one request to a model, like [`complete`](Self::complete), within a budget.
    ///
    /// The first attempt is already reserved. Before a retry after a lost answer, the backend reserves money in
    /// `purse`. A backend that never retries can ignore it.
    fn complete_paid<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
        _purse: &'a dyn Purse,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        self.complete(provider, prompt, timeout)
    }

    /// Returns true if the backend itself limits the number of concurrent calls.
    ///
    /// The engine may then start more calls than can run. Calls that wait for one model do not block those to other
    /// models.
    fn bounds_itself(&self) -> bool {
        false
    }

    /// Returns true if the answer to this request is stored.
    ///
    /// Nothing is then sent, and nothing paid.
    fn recalls(&self, _provider: &str, _prompt: &Prompt) -> bool {
        false
    }

    /// Converts a text into an embedding vector.
    fn embed<'a>(
        &'a self,
        provider: &'a str,
        model: &'a str,
        text: &'a str,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Arc<[f64]>, ProviderError>>;

    /// Runs a command and parses the protocol lines of its output.
    fn run<'a>(
        &'a self,
        command: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<CommandOutput, ProviderError>>;

    /// Starts an agent for one execution, and waits until it is ready. Fails in a backend that starts no processes.
    fn start_agent<'a>(
        &'a self,
        start: &'a AgentStart,
    ) -> BoxFuture<'a, Result<Box<dyn AgentSession + 'a>, ProviderError>> {
        let message = "agents cannot be started here";
        let mut err = ProviderError::new(ProviderErrorKind::Unsupported, &*start.id, message);
        err.attempts = 0;
        Box::pin(std::future::ready(Err(err)))
    }

    /// Runs a user's script. Fails without a script host.
    fn script<'a>(
        &'a self,
        _question: &'a ScriptQuestion,
    ) -> BoxFuture<'a, Result<ScriptAnswer, ScriptError>> {
        Box::pin(std::future::ready(Err(ScriptError {
            kind: ScriptErrorKind::Runtime,
            message: "scripts cannot be run here: there is no script host".to_owned(),
            console: Vec::new(),
        })))
    }
}

/// A reference to a backend is a backend, so that it can be wrapped without being moved.
impl<B: Backend + ?Sized> Backend for &B {
    fn complete<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        (**self).complete(provider, prompt, timeout)
    }

    fn complete_paid<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
        purse: &'a dyn Purse,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        (**self).complete_paid(provider, prompt, timeout, purse)
    }

    fn bounds_itself(&self) -> bool {
        (**self).bounds_itself()
    }

    fn recalls(&self, provider: &str, prompt: &Prompt) -> bool {
        (**self).recalls(provider, prompt)
    }

    fn embed<'a>(
        &'a self,
        provider: &'a str,
        model: &'a str,
        text: &'a str,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Arc<[f64]>, ProviderError>> {
        (**self).embed(provider, model, text, timeout)
    }

    fn run<'a>(
        &'a self,
        command: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<CommandOutput, ProviderError>> {
        (**self).run(command)
    }

    fn start_agent<'a>(
        &'a self,
        start: &'a AgentStart,
    ) -> BoxFuture<'a, Result<Box<dyn AgentSession + 'a>, ProviderError>> {
        (**self).start_agent(start)
    }

    fn script<'a>(
        &'a self,
        question: &'a ScriptQuestion,
    ) -> BoxFuture<'a, Result<ScriptAnswer, ScriptError>> {
        (**self).script(question)
    }
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
            (None, Some("a signal ended the command")),
        ] {
            let broken_off = broken_off.filter(|_| cfg!(unix) || code.is_none_or(|it| it <= 128));
            let why = CommandOutput::broken_off(code);
            assert_eq!(why.is_some(), broken_off.is_some(), "{code:?}");
            assert!(why.unwrap_or_default().contains(broken_off.unwrap_or_default()), "{code:?}");
        }
    }
}
