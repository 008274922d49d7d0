//! What workspaces start as: made once, and copied for each agent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kindlm_types::workspace::{Container, Isolation};
use kindlm_types::{Backend, CommandSpec, WorkspaceError, WorkspaceSpec};
use tempfile::TempDir;

use crate::copy::copy;
use crate::folders::folder;
use crate::isolation::{Worktrees, Wrap};
use crate::tree::{Limits, walk};

/// How long a setup may take at least: it may have to install what the agent works with.
const SETUP: Duration = Duration::from_mins(10);

/// What tells two starts apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StartKey {
    from: String,
    setup: Option<String>,
    isolation: Isolation,
    reference: Option<String>,
    container: Option<Container>,
    hidden: Vec<String>,
}

impl StartKey {
    pub(crate) fn of(spec: &WorkspaceSpec) -> Self {
        Self {
            from: spec.from.clone(),
            setup: spec.setup.clone(),
            isolation: spec.isolation,
            reference: spec.reference.clone(),
            container: spec.container.clone(),
            hidden: spec.hidden.iter().map(|it| it.from.clone()).collect(),
        }
    }
}

/// A folder that no agent works in.
#[derive(Debug)]
pub(crate) struct Start {
    /// The folder that is copied.
    pub(crate) folder: PathBuf,
    /// Where further worktrees come from.
    pub(crate) worktrees: Option<Worktrees>,
    made: TempDir,
}

impl Start {
    /// Makes it, and runs its setup.
    pub(crate) async fn make(
        spec: &WorkspaceSpec,
        source: PathBuf,
        hidden: &[(PathBuf, PathBuf)],
        wrap: &Wrap,
        root: &TempDir,
        timeout: Duration,
        backend: &dyn Backend,
    ) -> Result<Self, WorkspaceError> {
        let made = folder(root.path(), "start-", false)?;
        let start = if spec.isolation == Isolation::Worktree {
            let reference = spec.reference.as_deref().unwrap_or("HEAD");
            let worktrees = Worktrees::find(&source, reference, backend).await?;
            let folder = worktrees.check_out(made.path(), backend).await?;
            Self { folder, worktrees: Some(worktrees), made }
        } else {
            let limits = Limits { bytes: spec.max_bytes, files: spec.max_files };
            let except: Vec<PathBuf> = hidden.iter().map(|(from, _)| from.clone()).collect();
            let (from, to) = (source, made.path().to_path_buf());
            let name = format!("the folder `{}`", spec.from);
            blocking(move || {
                walk(&from, limits).map_err(|err| err.words(&name))?;
                copy(&from, &to, &except)
            })
            .await?;
            Self { folder: made.path().to_path_buf(), worktrees: None, made }
        };
        if let Some(setup) = &spec.setup {
            let mut command = wrap.command(&start.folder, setup, timeout.max(SETUP), true);
            command.env.push(("CI".to_owned(), "1".to_owned()));
            run(&command, "`workspace.setup`", backend).await?;
        }
        if let Some(worktrees) = &start.worktrees {
            // Nobody works with git here any more.
            worktrees.forget(start.made.path(), backend).await?;
        }
        Ok(start)
    }
}

/// Runs a command that must succeed; `what` names it.
pub(crate) async fn run(
    command: &CommandSpec,
    what: &str,
    backend: &dyn Backend,
) -> Result<String, WorkspaceError> {
    let ran = backend.run(command).await;
    let ran = ran.map_err(|err| WorkspaceError(format!("{what}: {}", err.message)))?;
    if ran.exit_code == Some(0) {
        return Ok(ran.text);
    }
    let ended = ran.exit_code.map_or_else(
        || "was ended by a signal".to_owned(),
        |code| format!("ended with exit code {code}"),
    );
    let said = if ran.stderr.trim().is_empty() { &ran.text } else { &ran.stderr };
    let lines: Vec<&str> = said.trim().lines().collect();
    let last = lines[lines.len().saturating_sub(5)..].join("\n");
    let last: String = last.chars().take(1000).collect();
    let colon = if last.is_empty() { "" } else { ": " };
    Err(WorkspaceError(format!("{what} {ended}{colon}{last}")))
}

/// Works on the disk without keeping others waiting.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, WorkspaceError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(WorkspaceError),
        Err(err) => Err(WorkspaceError(format!("work on the disk broke off: {err}"))),
    }
}

/// Copies a start to where an agent will work.
pub(crate) async fn copy_start(start: &Path, to: &Path) -> Result<(), WorkspaceError> {
    let (from, to) = (start.to_path_buf(), to.to_path_buf());
    blocking(move || copy(&from, &to, &[])).await
}
