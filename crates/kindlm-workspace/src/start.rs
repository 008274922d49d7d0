//! The starting states of workspaces. Each starting state is created once, and copied for each agent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use globset::GlobSet;
use kindlm_types::workspace::{Container, Isolation};
use kindlm_types::{Commands, WorkspaceError, WorkspaceSpec};
use tempfile::TempDir;

use crate::copy::copy;
use crate::inside::Inside;
use crate::isolation::{Worktrees, Wrap};
use crate::options::folder;
use crate::tree::{Limits, Tree, walk, written_at};
use crate::work::{NAME, blocking, copy_start, run};

/// The minimum time limit of a setup, which may install the agent's tools.
const SETUP: Duration = Duration::from_mins(10);

/// A command that fails only if the isolation does not start.
const NOTHING: &str = "true";

/// The settings that determine a starting state.
///
/// Workspaces with equal keys share one starting state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StartKey {
    from: String,
    setup: Option<String>,
    isolation: Isolation,
    reference: Option<String>,
    container: Option<Container>,
    hidden: Vec<String>,
    network: bool,
    limits: (u64, u64),
}

impl StartKey {
    pub(crate) fn from_spec(spec: &WorkspaceSpec) -> Self {
        Self {
            from: spec.from.clone(),
            setup: spec.setup.clone(),
            isolation: spec.isolation,
            reference: spec.reference.clone(),
            container: spec.container.clone(),
            hidden: spec.hidden.iter().map(|it| it.from.clone()).collect(),
            network: spec.network,
            limits: (spec.max_bytes, spec.max_files),
        }
    }
}

/// The starting state of a workspace, in a folder where no agent works.
#[derive(Debug)]
pub(crate) struct Start {
    /// The folder with the starting state, from which the workspaces are copied.
    pub(crate) folder: PathBuf,
    /// An open handle of `folder`, from right after the setup.
    pub(crate) inside: Inside,
    /// The content of the folder.
    pub(crate) tree: Tree,
    /// The repository for further checkouts; `None` if the isolation is not a worktree.
    pub(crate) worktrees: Option<Worktrees>,
    _made: TempDir,
}

impl Start {
    /// Creates the folder with its starting state: a copy of the source, or a git checkout. Then runs the setup.
    ///
    /// Fails if a disk operation, git or the setup fails.
    pub(crate) async fn make(
        spec: &WorkspaceSpec,
        source: PathBuf,
        hidden: &[(PathBuf, PathBuf)],
        wrap: &Wrap,
        root: &TempDir,
        timeout: Duration,
        commands: &dyn Commands,
    ) -> Result<Self, WorkspaceError> {
        let made = folder(root.path(), "start-", false)?;
        let limits = Limits::from_spec(spec);
        let hidden: Vec<PathBuf> = hidden.iter().map(|(from, _)| from.clone()).collect();
        let mut at = made.path().join("start");
        let mut worktrees = None;
        if spec.isolation == Isolation::Worktree {
            let reference = spec.reference.as_deref().unwrap_or("HEAD");
            let found = Worktrees::find(&source, reference, &hidden, commands).await?;
            let checkout = made.path().join("worktree");
            let folder = found.check_out(&checkout, commands).await?;
            prepare(spec, &folder, wrap, timeout, commands).await?;
            // After the setup, the starting state does not need its repository.
            at = found.make_plain(&checkout, &at).await?;
            worktrees = Some(found);
        } else {
            let (from, to) = (source, at.clone());
            let name = format!("the folder `{}`", spec.from);
            blocking(move || {
                std::fs::create_dir(&to)
                    .map_err(|err| format!("cannot make `{}`: {err}", to.display()))?;
                copy(&from, &to, &hidden, limits, &name)
            })
            .await?;
            prepare(spec, &at, wrap, timeout, commands).await?;
        }
        let (inside, tree) = blocking({
            let at = at.clone();
            move || {
                let inside = Inside::open(&at)?;
                let tree = walk(&inside, limits).map_err(|err| err.describe(NAME))?;
                Ok((inside, tree))
            }
        })
        .await?;
        Ok(Self { folder: at, inside, tree, worktrees, _made: made })
    }

    /// Creates a copy of the starting state at a new path.
    ///
    /// Returns the folder to work in. Fails if a disk operation or git fails.
    pub(crate) async fn copy_to(
        &self,
        at: &Path,
        commands: &dyn Commands,
    ) -> Result<PathBuf, WorkspaceError> {
        if let Some(worktrees) = &self.worktrees {
            return worktrees.like(&self.folder, at, commands).await;
        }
        std::fs::create_dir(at)
            .map_err(|err| WorkspaceError(format!("cannot make `{}`: {err}", at.display())))?;
        copy_start(&self.folder, at).await?;
        Ok(at.to_path_buf())
    }

    /// Fails if the starting state was modified after its creation, or cannot be read.
    ///
    /// Agents' folders are copied from the starting state, and compared with it.
    ///
    /// Ignored paths count too. Their changes are not reported, but all agents work with these files.
    ///
    /// With `is_guarded`, agents cannot write to the starting state. Then ignored paths may change, because only a
    /// process of the setup can have changed them.
    pub(crate) fn is_as_made(&self, ignore: &GlobSet, is_guarded: bool) -> Result<(), String> {
        let at = self.folder.display();
        let advice = "an agent, or a program that `setup` started, wrote outside its folder; choose `isolation: \
            bubblewrap` or `container`, and list files that `setup` continues to write in `workspace.ignore`";
        if self.inside.is_in_place().is_err() {
            return Err(format!(
                "{NAME}, `{at}`, was replaced by another folder and cannot be used: {advice}"
            ));
        }
        let now = walk(&self.inside, Limits::NONE).map_err(|err| err.describe(NAME))?;
        match written_at(&self.tree, &now, |path| is_guarded && ignore.is_match(path)) {
            None => Ok(()),
            Some(path) => {
                Err(format!("`{path}` in {NAME}, `{at}`, was changed after the setup: {advice}"))
            }
        }
    }
}

/// Checks that the sandbox, if any, starts. Then runs the setup.
///
/// Fails if the check or the setup fails. After a failure, ends the remaining processes of the check and the setup.
async fn prepare(
    spec: &WorkspaceSpec,
    folder: &Path,
    wrap: &Wrap,
    timeout: Duration,
    commands: &dyn Commands,
) -> Result<(), WorkspaceError> {
    let watched = Watched { wrap, folder, is_over: false };
    let prepared = async {
        if wrap.is_sandbox() {
            // The check uses the agent's network setting. The setup always has network access.
            let nothing = wrap.command(folder, NOTHING, timeout.max(SETUP), spec.network, &[]);
            let what = format!("the sandbox of `isolation: {}`", spec.isolation.as_str());
            run(&nothing, &what, Some(wrap), commands).await?;
        }
        if let Some(setup) = &spec.setup {
            let setup = wrap.command(folder, setup, timeout.max(SETUP), true, &[("CI", "1")]);
            run(&setup, "`workspace.setup`", Some(wrap), commands).await?;
        }
        Ok(())
    };
    let prepared = prepared.await;
    watched.over(prepared.is_err(), commands).await;
    prepared
}

/// A guard for the commands in a starting state.
///
/// If the guard is dropped before [`Watched::over`] has finished, it ends the commands' processes.
struct Watched<'a> {
    wrap: &'a Wrap,
    folder: &'a Path,
    is_over: bool,
}

impl Watched<'_> {
    /// Marks the commands as finished. After a failure, the remaining processes are ended.
    ///
    /// After a success, the processes keep running, because the agents may need them.
    async fn over(mut self, has_failed: bool, commands: &dyn Commands) {
        if has_failed {
            self.wrap.end(self.folder, commands).await;
        }
        self.is_over = true;
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.wrap.abandon(self.folder);
        }
    }
}
