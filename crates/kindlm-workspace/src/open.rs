//! A workspace that is ready for one agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use globset::GlobSet;
use kindlm_types::workspace::{Gather, Workspace};
use kindlm_types::{
    AgentFolder, BoxFuture, CommandSpec, Commands, Execution, OpenWorkspace, WorkFor,
    WorkspaceError, WorkspaceSpec,
};
use tempfile::TempDir;

use crate::changes::globs;
use crate::finish::{Finish, finish};
use crate::inside::Inside;
use crate::isolation::Wrap;
use crate::options::slug;
use crate::start::Start;
use crate::work::blocking;

/// A workspace that is ready for one agent.
#[derive(Debug)]
pub(crate) struct Open {
    spec: WorkspaceSpec,
    start: Arc<Start>,
    hidden: Vec<(PathBuf, PathBuf)>,
    wrap: Wrap,
    /// The folder where the agent works. In a worktree, it may be below the root of the checkout.
    folder: PathBuf,
    /// An open handle of `folder`, from before the agent started.
    inside: Arc<Inside>,
    /// The root of the checkout; `None` if the isolation is not a worktree.
    checkout: Option<Arc<Inside>>,
    /// The paths whose changes are ignored.
    ignore: GlobSet,
    keep: bool,
    timeout: Duration,
    /// The part of folder names that identifies the execution: its case, model and repeat.
    name: String,
    /// The temporary folder of the workspace; `None` after [`Self::remove`]. This field is declared before `root`, so
    /// that the folder is dropped before its parent.
    work: Option<TempDir>,
    root: Arc<TempDir>,
}

impl Open {
    pub(crate) async fn make(
        spec: &WorkspaceSpec,
        (start, hidden): (Arc<Start>, Vec<(PathBuf, PathBuf)>),
        wrap: Wrap,
        (root, work): (Arc<TempDir>, TempDir),
        keep: bool,
        of: WorkFor<'_>,
        commands: &dyn Commands,
    ) -> Result<Self, WorkspaceError> {
        // Each workspace has a separate parent folder, so that `..` does not show the work of other agents.
        let folder = start.copy_to(&work.path().join("work"), commands).await?;
        let ignore = globs(&spec.ignore).map_err(WorkspaceError)?;
        let is_guarded = wrap.is_sandbox();
        let (inside, checkout) = blocking({
            let (start, folder, ignore) = (Arc::clone(&start), folder.clone(), ignore.clone());
            move || {
                start.is_as_made(&ignore, is_guarded)?;
                let top = start.worktrees.as_ref().map(|it| Inside::open(it.top(&folder)));
                let top = top.transpose()?.map(Arc::new);
                Ok((Arc::new(Inside::open(&folder)?), top))
            }
        })
        .await?;
        let (spec, timeout, work) = (spec.clone(), of.timeout, Some(work));
        Ok(Self {
            spec,
            start,
            hidden,
            wrap,
            folder,
            inside,
            checkout,
            ignore,
            keep,
            timeout,
            name: slug(&of),
            work,
            root,
        })
    }

    async fn finish(
        &self,
        execution: &Execution,
        wanted: &[Gather],
        commands: &dyn Commands,
    ) -> Result<Workspace, WorkspaceError> {
        let task = Finish {
            spec: &self.spec,
            start: &self.start,
            hidden: &self.hidden,
            wrap: &self.wrap,
            folder: &self.folder,
            inside: &self.inside,
            checkout: self.checkout.as_ref(),
            ignore: &self.ignore,
            timeout: self.timeout,
            root: self.root.path(),
            name: &self.name,
            keep: self.keep,
        };
        let mut workspace = finish(task, execution, wanted, commands).await?;
        workspace.kept = self.keep.then(|| self.folder.display().to_string());
        Ok(workspace)
    }

    /// Ends the remaining processes, and removes the folder unless the user keeps it. Fails if the folder cannot be
    /// removed.
    async fn remove(&mut self, commands: &dyn Commands) -> Result<(), WorkspaceError> {
        self.wrap.end(&self.folder, commands).await;
        let work = self.work.take();
        if self.keep {
            return Ok(());
        }
        // Use a blocking task, because removing many files takes time.
        let removed = blocking(move || {
            let closed = work.map_or(Ok(()), TempDir::close);
            closed.map_err(|err| format!("the folder cannot be removed: {err}"))
        });
        removed.await
    }
}

impl OpenWorkspace for Open {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn command(&self, line: &str, timeout: Duration) -> CommandSpec {
        self.wrap.command(&self.folder, line, timeout, self.spec.network, &[])
    }

    fn for_agent(&self, env: &[String]) -> AgentFolder {
        self.wrap.agent(&self.folder, self.spec.network, env)
    }

    fn not_started(&self, exit_code: Option<i32>, stderr: &str) -> Option<String> {
        self.wrap.not_started(exit_code, stderr)
    }

    fn close<'a>(
        mut self: Box<Self>,
        execution: &'a Execution,
        wanted: &'a [Gather],
        commands: &'a dyn Commands,
    ) -> BoxFuture<'a, Result<Workspace, WorkspaceError>>
    where
        Self: 'a,
    {
        Box::pin(async move {
            let finished = self.finish(execution, wanted, commands).await;
            let removed = self.remove(commands).await;
            let left = self.folder.display().to_string();
            let is_left = removed.is_err() && self.folder.exists();
            match finished {
                Ok(workspace) if is_left => Ok(Workspace { kept: Some(left), ..workspace }),
                Err(err) if is_left => {
                    Err(WorkspaceError(format!("{err}; its folder could not be removed: `{left}`")))
                }
                finished => finished,
            }
        })
    }

    fn discard<'a>(mut self: Box<Self>, commands: &'a dyn Commands) -> BoxFuture<'a, ()>
    where
        Self: 'a,
    {
        Box::pin(async move {
            // The execution has already failed with another error, so an error here is ignored.
            let _ = self.remove(commands).await;
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // The run was stopped, so do not wait for the processes to end.
        if self.work.is_some() {
            self.wrap.abandon(&self.folder);
        }
    }
}
