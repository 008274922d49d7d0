//! A folder that is ready for one agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kindlm_types::workspace::{Gather, Workspace};
use kindlm_types::{
    Backend, BoxFuture, CommandSpec, Execution, OpenWorkspace, WorkFor, WorkspaceError,
    WorkspaceSpec,
};
use tempfile::TempDir;

use crate::finish::{Finish, finish};
use crate::folders::FoldersOptions;
use crate::isolation::Wrap;
use crate::start::{Start, copy_start};

/// The variable that tells an agent where the suite is.
const SUITE: &str = "KINDLM_SUITE";
/// The variable that tells an agent where it works.
const WORKSPACE: &str = "KINDLM_WORKSPACE";

/// A folder that is ready for one agent.
#[derive(Debug)]
pub(crate) struct Open {
    spec: WorkspaceSpec,
    start: Arc<Start>,
    hidden: Vec<(PathBuf, PathBuf)>,
    wrap: Wrap,
    /// Where the agent works: the folder that was made, or one in it.
    folder: PathBuf,
    keep: bool,
    timeout: Duration,
    /// Whether nothing runs in it any more.
    ended: bool,
    /// Removed before that in which it is.
    work: TempDir,
    _root: Arc<TempDir>,
}

impl Open {
    pub(crate) async fn make(
        spec: &WorkspaceSpec,
        (start, hidden): (Arc<Start>, Vec<(PathBuf, PathBuf)>),
        wrap: Wrap,
        (root, work): (Arc<TempDir>, TempDir),
        keep: bool,
        of: WorkFor<'_>,
        backend: &dyn Backend,
    ) -> Result<Self, WorkspaceError> {
        let folder = if let Some(worktrees) = &start.worktrees {
            worktrees.like(&start.folder, work.path(), backend).await?
        } else {
            // In a folder of its own: what is beside it in `..` is nobody else's work.
            let folder = work.path().join("work");
            std::fs::create_dir(&folder).map_err(|err| {
                WorkspaceError(format!(
                    "cannot make a folder in `{}`: {err}",
                    work.path().display()
                ))
            })?;
            copy_start(&start.folder, &folder).await?;
            folder
        };
        let (spec, timeout) = (spec.clone(), of.timeout);
        let ended = false;
        Ok(Self { spec, start, hidden, wrap, folder, keep, timeout, ended, work, _root: root })
    }

    async fn finish(
        &self,
        execution: &Execution,
        wanted: &[Gather],
        backend: &dyn Backend,
    ) -> Result<Workspace, WorkspaceError> {
        let Self { spec, start, hidden, wrap, folder, timeout, .. } = self;
        let task = Finish { spec, start: &start.folder, hidden, wrap, folder, timeout: *timeout };
        let mut workspace = finish(task, execution, wanted, backend).await?;
        workspace.kept = self.keep.then(|| folder.display().to_string());
        Ok(workspace)
    }
}

impl OpenWorkspace for Open {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn command(&self, line: &str, timeout: Duration) -> CommandSpec {
        self.wrap.command(&self.folder, line, timeout, self.spec.network)
    }

    fn close<'a>(
        mut self: Box<Self>,
        execution: &'a Execution,
        wanted: &'a [Gather],
        backend: &'a dyn Backend,
    ) -> BoxFuture<'a, Result<Workspace, WorkspaceError>>
    where
        Self: 'a,
    {
        Box::pin(async move {
            let finished = self.finish(execution, wanted, backend).await;
            self.wrap.end(&self.folder, backend).await;
            self.ended = true;
            if let (Some(worktrees), false) = (&self.start.worktrees, self.keep) {
                worktrees.remove(self.work.path(), backend).await;
            }
            // Removing many files takes a while, and others should not wait for it.
            let removed = tokio::task::spawn_blocking(move || drop(self)).await;
            removed
                .map_err(|err| WorkspaceError(format!("the folder cannot be removed: {err}")))?;
            finished
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.ended {
            self.wrap.abandon(&self.folder);
        }
    }
}

/// What every command in a workspace knows about where it is.
pub(crate) fn variables(options: &FoldersOptions, folder: &Path) -> Vec<(String, String)> {
    let variable = |name: &str, path: &Path| (name.to_owned(), path.display().to_string());
    let suite = options.suite.canonicalize().unwrap_or_else(|_| options.suite.clone());
    vec![variable(SUITE, &suite), variable(WORKSPACE, folder)]
}
