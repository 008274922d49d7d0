//! Runs commands that must succeed, and blocking disk operations.

use std::path::Path;

use kindlm_types::{CommandOutput, CommandSpec, Commands, WorkspaceError};

use crate::copy::copy;
use crate::isolation::Wrap;
use crate::tree::Limits;

/// The name of the starting state in error messages.
pub(crate) const NAME: &str = "the start of the workspace";

/// Runs a command, and returns its stdout. Fails if the command does not start, or does not end with exit code 0.
///
/// `what` is the name of the command in error messages. `wrap` is the isolation of the command.
pub(crate) async fn run(
    command: &CommandSpec,
    what: &str,
    wrap: Option<&Wrap>,
    commands: &dyn Commands,
) -> Result<String, WorkspaceError> {
    let ran = commands.run_command(command).await;
    let ran = ran.map_err(|err| WorkspaceError(format!("{what}: {}", err.message)))?;
    if ran.exit_code == Some(0) {
        return Ok(ran.text);
    }
    if let Some(why) = wrap.and_then(|it| it.not_started(ran.exit_code, &ran.stderr)) {
        return Err(WorkspaceError(format!("{what}: {why}")));
    }
    let code = || ran.exit_code.map(|code| format!("ended with exit code {code}"));
    let ended = CommandOutput::broken_off(ran.exit_code)
        .map(|why| format!("failed: {why}"))
        .or_else(code)
        .unwrap_or_default();
    let said = if ran.stderr.trim().is_empty() { &ran.text } else { &ran.stderr };
    let lines: Vec<&str> = said.trim().lines().collect();
    let last = lines[lines.len().saturating_sub(5)..].join("\n");
    let last: String = last.chars().take(1000).collect();
    let colon = if last.is_empty() { "" } else { ": " };
    Err(WorkspaceError(format!("{what} {ended}{colon}{last}")))
}

/// Runs a disk operation on a thread for blocking work. Fails with the error of the operation, or if the operation
/// panics.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, WorkspaceError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(WorkspaceError),
        Err(err) => Err(WorkspaceError(format!("work on the disk was aborted: {err}"))),
    }
}

/// Copies a starting state to a folder. Fails if an entry cannot be copied.
///
/// The copy has no limits, because the limits were checked when the starting state was created.
pub(crate) async fn copy_start(start: &Path, to: &Path) -> Result<(), WorkspaceError> {
    let (from, to) = (start.to_path_buf(), to.to_path_buf());
    blocking(move || copy(&from, &to, &[], Limits::NONE, NAME)).await
}
