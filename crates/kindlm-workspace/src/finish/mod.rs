//! Collects the evidence from a workspace after the agent has finished.

mod score;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use globset::GlobSet;
use kindlm_types::workspace::{FileChange, Gather, O11y, RecordedFile, Workspace};
use kindlm_types::{Commands, Execution, WorkspaceError, WorkspaceSpec};
use serde_json::json;

use crate::changes::{changes, globs};
use crate::inside::Inside;
use crate::isolation::Wrap;
use crate::start::Start;
use crate::tree::Limits;
use crate::work::blocking;
use score::{Parts, Score, TestsToRun, hidden_files};

/// The maximum number of bytes of a file that checks can read: 1 MiB.
const MAX_FILE: u64 = 1 << 20;

/// The workspace to collect evidence from.
pub(crate) struct Finish<'a> {
    pub(crate) spec: &'a WorkspaceSpec,
    pub(crate) start: &'a Arc<Start>,
    pub(crate) hidden: &'a [(PathBuf, PathBuf)],
    pub(crate) wrap: &'a Wrap,
    /// The folder where the agent worked.
    pub(crate) folder: &'a Path,
    pub(crate) inside: &'a Arc<Inside>,
    /// The root of the agent's checkout; `None` if the isolation is not a worktree.
    pub(crate) checkout: Option<&'a Arc<Inside>>,
    pub(crate) ignore: &'a GlobSet,
    pub(crate) timeout: Duration,
    /// The folder for fresh copies.
    pub(crate) root: &'a Path,
    pub(crate) name: &'a str,
    pub(crate) keep: bool,
}

/// Finds the changes, and runs the commands and tests of the checks.
///
/// Fails if the agent replaced its folder, if the starting state was modified, or if a limit is exceeded. Also fails if
/// a file cannot be read, or if a fresh copy cannot be created or removed.
///
/// All commands run in one fresh copy, so that a command can use the results of another command. Each test run has a
/// separate fresh copy. Commands run the agent's code, which must not affect the tests.
pub(crate) async fn finish(
    task: Finish<'_>,
    execution: &Execution,
    wanted: &[Gather],
    commands: &dyn Commands,
) -> Result<Workspace, WorkspaceError> {
    // The agent has finished, so end its remaining processes.
    task.wrap.end(task.folder, commands).await;
    let (changes, files) = look(&task, wanted).await?;
    let changes = Arc::new(changes);
    let mut workspace = Workspace {
        isolation: task.spec.isolation,
        ignored: task.spec.ignore.clone(),
        files,
        ..Workspace::default()
    };
    if wanted.iter().any(|it| !matches!(it, Gather::File { .. })) {
        let parts = parts(&task, Arc::clone(&changes), wanted, execution).await?;
        score(&task, &parts, wanted, &mut workspace, commands).await?;
    }
    workspace.changes = Arc::unwrap_or_clone(changes);
    Ok(workspace)
}

/// Runs the commands and tests of the checks, and adds the results to `workspace`.
async fn score(
    task: &Finish<'_>,
    parts: &Parts,
    wanted: &[Gather],
    workspace: &mut Workspace,
    commands: &dyn Commands,
) -> Result<(), WorkspaceError> {
    let mut for_commands: Option<Score<'_>> = None;
    for gather in wanted {
        match gather {
            Gather::File { .. } => {}
            Gather::Command { run, timeout } => {
                let copy = match for_commands.take() {
                    Some(copy) => copy,
                    None => Score::make(task, parts, commands).await?,
                };
                let (ran, _) = copy.run(run, *timeout, &[], commands).await;
                workspace.commands.push(ran);
                for_commands = Some(copy);
            }
            Gather::Tests { run, format, report, timeout, .. } => {
                let copy = Score::make(task, parts, commands).await?;
                let report = report.as_deref();
                let tests = TestsToRun { run, format: *format, report, timeout: *timeout };
                workspace.tests.push(copy.tests(tests, commands).await?);
                copy.close(commands).await?;
            }
        }
    }
    match for_commands {
        Some(copy) => copy.close(commands).await,
        None => Ok(()),
    }
}

/// Returns the changes, and the files that the checks read. Fails if the agent replaced its folder, or if the starting
/// state was modified.
async fn look(
    task: &Finish<'_>,
    wanted: &[Gather],
) -> Result<(Vec<FileChange>, Vec<RecordedFile>), WorkspaceError> {
    let (start, inside) = (Arc::clone(task.start), Arc::clone(task.inside));
    let (limits, max_diff_bytes) = (Limits::from_spec(task.spec), task.spec.max_diff_bytes);
    let (ignore, is_guarded) = (task.ignore.clone(), task.wrap.is_sandbox());
    let paths: Vec<String> = wanted
        .iter()
        .filter_map(|it| match it {
            Gather::File { path } => Some(path.clone()),
            Gather::Command { .. } | Gather::Tests { .. } => None,
        })
        .collect();
    blocking(move || {
        inside.is_in_place()?;
        let before = (&start.inside, &start.tree);
        let changes = changes(before, &inside, &ignore, limits, max_diff_bytes)?;
        // Check the starting state after the comparison, so that a modification during the comparison is found.
        start.is_as_made(&ignore, is_guarded)?;
        let seen = |path: String| {
            let (text, problem) = match inside.text(&path, MAX_FILE) {
                Ok(text) => (text, None),
                Err(why) => (None, Some(why)),
            };
            RecordedFile { path, text, problem }
        };
        Ok((changes, paths.into_iter().map(seen).collect()))
    })
    .await
}

/// Collects the data for the fresh copies. Fails if a hidden file cannot be read, or if a `protect` glob is invalid.
async fn parts(
    task: &Finish<'_>,
    changes: Arc<Vec<FileChange>>,
    wanted: &[Gather],
    execution: &Execution,
) -> Result<Parts, WorkspaceError> {
    let summary = json!({"o11y": O11y::from_execution(execution)});
    let summary =
        serde_json::to_vec_pretty(&summary).map_err(|err| WorkspaceError(err.to_string()))?;
    let protect: Vec<String> = wanted
        .iter()
        .flat_map(|it| match it {
            Gather::Tests { protect, .. } => protect.clone(),
            Gather::File { .. } | Gather::Command { .. } => Vec::new(),
        })
        .collect();
    let hidden = task.hidden.to_vec();
    Ok(Parts {
        start: Arc::clone(task.start),
        agent: Arc::clone(task.inside),
        checkout: task.checkout.cloned(),
        changes,
        hidden: Arc::new(blocking(move || hidden_files(&hidden)).await?),
        summary: Arc::new(summary),
        ignore: task.ignore.clone(),
        protect: globs(&protect).map_err(WorkspaceError)?,
        limits: Limits::from_spec(task.spec),
    })
}
