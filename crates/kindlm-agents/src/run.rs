//! Runs a command as an agent under test.

use std::path::Path;

use kindlm_process::{Failure, Guard, MAX_OUTPUT, Variables, capture_with, last_line};
use kindlm_types::{CommandOutput, CommandSpec, ProviderError, ProviderErrorKind};

use crate::protocol;

/// Runs a command as an agent under test, without stdin. Any exit code is a valid result.
///
/// The command runs in the folder of its `folder` field, or else in the suite's folder. Fails if the command cannot be
/// started, exceeds its timeout, or writes too much to stdout.
pub async fn run(command: &CommandSpec, suite: &Path) -> Result<CommandOutput, ProviderError> {
    run_guarded(command, suite, &Guard::default()).await
}

/// Runs a command like [`run`], with a guard that several commands share.
pub async fn run_guarded(
    command: &CommandSpec,
    suite: &Path,
    guard: &Guard,
) -> Result<CommandOutput, ProviderError> {
    let folder = command.folder.as_deref().unwrap_or(suite);
    let variables = Variables { without: &command.without, env: &command.env };
    let ran = capture_with(&command.command_line, folder, command.timeout, None, variables, guard)
        .await
        .map_err(|failure| error_of(failure, "command", command.raise))?;
    let read = protocol::parse(&ran.stdout);
    Ok(CommandOutput {
        text: read.text,
        output_json: read.output_json,
        tool_calls: read.tool_calls,
        events: read.events,
        coverage: read.coverage,
        unreadable: read.unreadable,
        stderr: ran.stderr,
        exit_code: ran.exit_code,
        latency_ms: ran.latency_ms,
    })
}

/// Converts a failure to run a command to a provider error. `raise` names the option that extends the timeout.
pub fn error_of(failure: Failure, provider: &str, raise: &str) -> ProviderError {
    match failure {
        Failure::NotStarted(message) => {
            let mut err = ProviderError::new(ProviderErrorKind::Command, provider, message);
            err.attempts = 0;
            err
        }
        Failure::TimedOut { after, stderr } => {
            let mut message = format!(
                "the command did not end within {} ms and was stopped; if it needs longer, raise {raise}",
                after.as_millis(),
            );
            if let Some(line) = last_line(&stderr) {
                message = format!("{message} (the end of its stderr: `{line}`)");
            }
            ProviderError::new(ProviderErrorKind::Timeout, provider, message)
        }
        Failure::TooMuchOutput => ProviderError::new(
            ProviderErrorKind::Command,
            provider,
            format!(
                "the command wrote more than {} MiB to stdout and was stopped",
                MAX_OUTPUT / (1024 * 1024),
            ),
        ),
    }
}
