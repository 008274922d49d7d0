//! The fresh copies of the workspace, in which commands and tests run after the agent has finished.
//!
//! A copy consists of the starting state, the agent's changes and the hidden files.
//!
//! Files that the agent left in ignored paths are not copied. An example is a replaced test runner in `node_modules`.
//! The path of the copy is new, so no process that the agent left running knows the path.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use globset::GlobSet;
use kindlm_types::workspace::{
    ChangeKind, CommandRan, FileChange, TestFormat, TestStatus, TestsRan, in_ms,
};
use kindlm_types::{CommandOutput, CommandSpec, Commands, FileTree, WorkspaceError};
use tempfile::TempDir;

use super::Finish;
use crate::inside::Inside;
use crate::options::folder;
use crate::reports;
use crate::start::Start;
use crate::tree::{Count, Limits};
use crate::work::blocking;

/// The maximum size of a test report: 64 MiB.
const MAX_REPORT: u64 = 64 << 20;
/// The number of bytes that a result keeps from the end of a command's output.
const KEPT: usize = 16 * 1024;
/// The setting that a timeout error names if the check sets a time limit.
const OWN_LIMIT: &str = "the `timeoutMs` of the check";
/// The files that describe the agent's actions to tests.
const SUMMARIES: [&str; 2] = ["__kindlm__/results.json", "__niceeval__/results.json"];

/// The entries of `.git` that belong to the agent's work, such as commits.
///
/// Settings and hooks are left out, because they can make git run programs.
const GIT_STATE: [&str; 10] = [
    "HEAD",
    "FETCH_HEAD",
    "MERGE_HEAD",
    "ORIG_HEAD",
    "index",
    "logs",
    "objects",
    "packed-refs",
    "refs",
    "shallow",
];
/// The file that points to the objects of the user's repository.
///
/// The agent's version of this file is not copied, because the fresh checkout has its own.
const ALTERNATES: &str = ".git/objects/info/alternates";

/// The data that makes up a fresh copy.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) start: Arc<Start>,
    /// The agent's folder.
    pub(crate) agent: Arc<Inside>,
    /// The root of the agent's checkout; `None` if the isolation is not a worktree.
    pub(crate) checkout: Option<Arc<Inside>>,
    /// The agent's changes.
    pub(crate) changes: Arc<Vec<FileChange>>,
    /// The source paths of the hidden files, by their paths in the workspace.
    pub(crate) hidden: Arc<BTreeMap<PathBuf, PathBuf>>,
    /// The agent's actions as JSON, for tests.
    pub(crate) summary: Arc<Vec<u8>>,
    /// The paths whose changes are ignored.
    pub(crate) ignore: GlobSet,
    /// The paths of protected files. The agent's changes to these files are discarded.
    pub(crate) protect: GlobSet,
    pub(crate) limits: Limits,
}

impl Parts {
    /// Adds the agent's changes, the hidden files and the agent's actions to a copy. Fails if the starting state was
    /// modified, or if a file cannot be copied.
    ///
    /// Before the call, the copy holds only the starting state.
    fn put_into(&self, copy: &Inside, top: Option<&Path>, is_guarded: bool) -> Result<(), String> {
        // The copy is only valid if the starting state is still unmodified.
        self.start.is_as_made(&self.ignore, is_guarded)?;
        if let (Some(agent), Some(top)) = (&self.checkout, top) {
            bring_git(agent, &Inside::open(top)?, self.limits)?;
        }
        self.bring_changes(copy)?;
        for (to, from) in self.hidden.iter() {
            copy.put(from, to).map_err(|err| {
                format!("cannot put `{}` into the workspace: {err}", to.display())
            })?;
        }
        for path in SUMMARIES {
            copy.write(Path::new(path), &self.summary)
                .map_err(|err| format!("cannot write `{path}` into the workspace: {err}"))?;
        }
        Ok(())
    }

    fn bring_changes(&self, copy: &Inside) -> Result<(), String> {
        let failed =
            |path: &str, err: io::Error| format!("cannot copy `{path}` of the agent: {err}");
        let wanted = self.changes.iter().filter(|it| !self.protect.is_match(&it.path));
        let (gone, there): (Vec<_>, Vec<_>) =
            wanted.partition(|it| it.change == ChangeKind::Deleted);
        let mut removed = HashSet::new();
        for change in gone {
            copy.remove(Path::new(&change.path)).map_err(|err| failed(&change.path, err))?;
            removed.insert(change.path.as_str());
        }
        for change in there.into_iter().filter(|it| self.has_room(&it.path, &removed)) {
            let path = Path::new(&change.path);
            copy.bring(&self.agent, path).map_err(|err| failed(&change.path, err))?;
        }
        Ok(())
    }

    /// Returns true if the agent's file at `path` can be copied without displacing a file that the agent kept.
    ///
    /// For example, a link named `node_modules` would displace all ignored files in that folder.
    fn has_room(&self, path: &str, removed: &HashSet<&str>) -> bool {
        let stays = |it: &str| self.start.tree.contains_key(it) && !removed.contains(it);
        let within = format!("{path}/");
        let below = self.start.tree.range(within.clone()..).map(|(it, _)| it.as_str());
        let has_below = below.take_while(|it| it.starts_with(&within)).any(stays);
        let mut above = path.match_indices('/').map(|(at, _)| &path[..at]);
        // No real file has this name, so the name stands for any file in the folder.
        let is_ignored_folder = self.ignore.is_match(format!("{within}\u{1}"));
        !has_below && !above.any(stays) && !is_ignored_folder
    }
}

/// Copies the agent's commits, branches and index into a fresh checkout.
///
/// If the agent removed its repository, the repository of the checkout is removed too. Fails if an entry cannot be
/// copied.
fn bring_git(agent: &Inside, copy: &Inside, limits: Limits) -> Result<(), String> {
    let git = Path::new(".git");
    let failed = |path: &Path, err: io::Error| {
        format!("cannot copy `{}` of the agent's checkout: {err}", path.display())
    };
    if !agent.entry(git).is_ok_and(|it| it.is_dir()) {
        return copy.remove(git).map_err(|err| failed(git, err));
    }
    let mut count = Count::new(limits);
    let mut open: Vec<PathBuf> = Vec::new();
    for name in GIT_STATE {
        let path = git.join(name);
        if name != "objects" {
            copy.remove(&path).map_err(|err| failed(&path, err))?;
        }
        open.push(path);
    }
    while let Some(path) = open.pop() {
        let metadata = match agent.entry(&path) {
            Ok(metadata) => metadata,
            Err(err) if err.kind() == io::ErrorKind::NotFound => continue,
            Err(err) => return Err(failed(&path, err)),
        };
        if metadata.is_dir() {
            // Git needs some of these folders even if they are empty, so create them.
            copy.make_dir(&path).map_err(|err| failed(&path, err))?;
            for item in agent.list(&path).map_err(|err| failed(&path, err))? {
                open.push(path.join(item.map_err(|err| failed(&path, err))?.file_name()));
            }
        } else if metadata.is_file() && path != Path::new(ALTERNATES) {
            count.add(metadata.len()).map_err(|err| err.describe("the agent's checkout"))?;
            copy.bring(agent, &path).map_err(|err| failed(&path, err))?;
        }
    }
    Ok(())
}

/// Returns all hidden files by their paths in the workspace. Fails if a file or folder cannot be read.
///
/// If two files have the same path, the last one counts.
pub(crate) fn hidden_files(
    hidden: &[(PathBuf, PathBuf)],
) -> Result<BTreeMap<PathBuf, PathBuf>, String> {
    let mut files = BTreeMap::new();
    for (from, to) in hidden {
        let mut open = vec![(from.clone(), to.clone())];
        while let Some((from, to)) = open.pop() {
            let failed = |err: io::Error| format!("cannot read `{}`: {err}", from.display());
            if fs::metadata(&from).map_err(failed)?.is_file() {
                files.insert(to, from);
                continue;
            }
            for item in fs::read_dir(&from).map_err(failed)? {
                let name = item.map_err(failed)?.file_name();
                if !FileTree::leaves_out(&name) {
                    open.push((from.join(&name), to.join(&name)));
                }
            }
        }
    }
    Ok(files)
}

/// The parameters of a check's test run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestsToRun<'a> {
    pub(crate) run: &'a str,
    pub(crate) format: TestFormat,
    pub(crate) report: Option<&'a str>,
    pub(crate) timeout: Option<Duration>,
}

/// A fresh copy of the workspace, in which commands or tests run.
pub(crate) struct Score<'a> {
    task: &'a Finish<'a>,
    parts: Parts,
    folder: PathBuf,
    inside: Arc<Inside>,
    /// The temporary folder of the copy; `None` after the copy was closed.
    made: Option<TempDir>,
}

impl<'a> Score<'a> {
    pub(crate) async fn make(
        task: &'a Finish<'a>,
        parts: &Parts,
        commands: &dyn Commands,
    ) -> Result<Self, WorkspaceError> {
        let made = folder(task.root, &format!("{}-score-", task.name), task.keep)?;
        let at = task.start.copy_to(&made.path().join("work"), commands).await?;
        let inside = blocking({
            let (parts, at, is_guarded) = (parts.clone(), at.clone(), task.wrap.is_sandbox());
            move || {
                let inside = Inside::open(&at)?;
                let worktrees = parts.start.worktrees.as_ref();
                parts.put_into(&inside, worktrees.map(|it| it.top(&at)), is_guarded)?;
                Ok(inside)
            }
        })
        .await?;
        let (parts, inside) = (parts.clone(), Arc::new(inside));
        Ok(Self { task, parts, folder: at, inside, made: Some(made) })
    }

    /// Ends the remaining processes, and removes the copy unless the user keeps it. Fails if the copy cannot be
    /// removed.
    pub(crate) async fn close(mut self, commands: &dyn Commands) -> Result<(), WorkspaceError> {
        self.task.wrap.end(&self.folder, commands).await;
        let made = self.made.take();
        if self.task.keep {
            return Ok(());
        }
        blocking(move || {
            let closed = made.map_or(Ok(()), TempDir::close);
            closed.map_err(|err| format!("the folder in which tests ran cannot be removed: {err}"))
        })
        .await
    }

    /// Runs a command; returns its result and its whole stdout.
    ///
    /// The result holds only the end of the output.
    pub(crate) async fn run(
        &self,
        line: &str,
        timeout: Option<Duration>,
        env: &[(&str, &str)],
        commands: &dyn Commands,
    ) -> (CommandRan, String) {
        let Finish { wrap, spec, .. } = self.task;
        let timeout_ms = timeout.map(in_ms);
        let raise = if timeout.is_some() { OWN_LIMIT } else { CommandSpec::RAISE };
        let timeout = timeout.unwrap_or(self.task.timeout);
        let command = wrap.command(&self.folder, line, timeout, spec.network, env);
        let command = CommandSpec { raise, ..command };
        let ran = CommandRan { run: line.to_owned(), timeout_ms, ..CommandRan::default() };
        // An earlier command may have moved the copy away. No command may run in a folder that replaced the copy.
        if let Err(problem) = self.inside.is_in_place() {
            return (CommandRan { problem: Some(problem), ..ran }, String::new());
        }
        match commands.run_command(&command).await {
            Err(err) => {
                // KindLM has stopped the command, but its container may still run.
                wrap.end(&self.folder, commands).await;
                (CommandRan { problem: Some(err.message), ..ran }, String::new())
            }
            Ok(output) => {
                let problem = wrap
                    .not_started(output.exit_code, &output.stderr)
                    .or_else(|| CommandOutput::broken_off(output.exit_code));
                let ran = CommandRan {
                    exit_code: output.exit_code,
                    stdout: end_of(&output.text),
                    stderr: end_of(&output.stderr),
                    duration_ms: output.latency_ms,
                    problem,
                    ..ran
                };
                (ran, output.text)
            }
        }
    }

    /// Runs tests, and parses their report. A missing or invalid report is a problem in the result. Fails only if the
    /// old report cannot be removed.
    pub(crate) async fn tests(
        &self,
        tests: TestsToRun<'_>,
        commands: &dyn Commands,
    ) -> Result<TestsRan, WorkspaceError> {
        let TestsToRun { run, format, report, timeout } = tests;
        let report = report.or(format.default_report()).map(str::to_owned);
        if let Some(path) = report.clone() {
            // Remove an existing report, because these tests did not write it.
            let inside = Arc::clone(&self.inside);
            blocking(move || {
                let removed = inside.remove(Path::new(&path));
                removed.map_err(|err| format!("cannot remove the old report `{path}`: {err}"))
            })
            .await?;
        }
        // Disable colors in the output. nextest needs the second variable for its experimental JSON format.
        let env = [("NO_COLOR", "1"), ("NEXTEST_EXPERIMENTAL_LIBTEST_JSON", "1")];
        let (command, stdout) = self.run(run, timeout, &env, commands).await;
        let (inside, hidden) = (Arc::clone(&self.inside), Arc::clone(&self.parts.hidden));
        let seen = self.task.wrap.inner_path(&self.folder).display().to_string();
        let path = report.clone();
        // Parse in a blocking task, because a report may be large.
        let read = blocking(move || {
            are_as_put(&inside, &hidden)?;
            let text = match path {
                None => stdout,
                Some(path) => inside.text(&path, MAX_REPORT)?.ok_or_else(|| {
                    format!("there is no report: the tests did not write `{path}`")
                })?,
            };
            let is_file = |path: &str| inside.entry(Path::new(path)).is_ok_and(|it| it.is_file());
            reports::parse_tests(format, &text, &seen, is_file)
        });
        let (mut tests, problem) = match read.await {
            Ok(tests) => {
                let problem = reports::contradiction(command.exit_code, &tests);
                (tests, problem)
            }
            Err(why) => (Vec::new(), Some(why.0)),
        };
        // The report of an aborted command is only reliable for tests that failed.
        if command.problem.is_some() {
            tests.retain(|it| it.status == TestStatus::Failed);
        }
        let problem = command.problem.clone().or(problem);
        Ok(TestsRan { command, format, report, tests, problem })
    }
}

impl Drop for Score<'_> {
    fn drop(&mut self) {
        // The copy was not closed, because the run was stopped or a test run failed.
        if self.made.is_some() {
            self.task.wrap.abandon(&self.folder);
        }
    }
}

/// Fails if a hidden file was modified.
///
/// The tested code, or a process of the agent, may have replaced the file by tests that pass.
fn are_as_put(copy: &Inside, hidden: &BTreeMap<PathBuf, PathBuf>) -> Result<(), String> {
    for (to, from) in hidden {
        let at = to.display();
        match copy.is_like(from, to) {
            Ok(true) => {}
            Ok(false) => {
                return Err(format!("the hidden file `{at}` was changed while the tests ran"));
            }
            Err(err) => return Err(format!("cannot read the hidden file `{at}`: {err}")),
        }
    }
    Ok(())
}

/// Returns a note and the last [`KEPT`] bytes of a text, because commands print errors last.
///
/// A short text is returned unchanged.
fn end_of(text: &str) -> String {
    if text.len() <= KEPT {
        return text.to_owned();
    }
    let at = text.ceil_char_boundary(text.len() - KEPT);
    format!("[{at} bytes left out]\n{}", &text[at..])
}
