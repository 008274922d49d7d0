//! Finds out what an agent has done, when it has finished.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use globset::GlobSet;
use kindlm_types::workspace::{
    CommandRan, FileChange, FileSeen, Gather, O11y, TestFormat, TestsRan, Workspace, in_ms,
};
use kindlm_types::{Backend, CommandOutput, CommandSpec, Execution, WorkspaceError, WorkspaceSpec};
use serde_json::json;

use crate::changes::changes;
use crate::inside::Inside;
use crate::isolation::Wrap;
use crate::reports;
use crate::start::{Start, blocking};
use crate::tree::Limits;

/// How much of a file a check gets to see, in bytes: 1 MiB.
const MAX_FILE: u64 = 1 << 20;
/// How large a report of tests may be, in bytes: 64 MiB.
const MAX_REPORT: u64 = 64 << 20;
/// How much of what a command writes is kept, in bytes.
const KEPT: usize = 16 * 1024;
/// Where tests that score an agent find out what it did.
const SUMMARIES: [&str; 2] = ["__kindlm__/results.json", "__niceeval__/results.json"];
/// What a user raises of a check that has a limit of its own.
const OWN_LIMIT: &str = "the `timeoutMs` of the check";

/// What is to be finished.
pub(crate) struct Finish<'a> {
    pub(crate) spec: &'a WorkspaceSpec,
    pub(crate) start: &'a Arc<Start>,
    pub(crate) hidden: &'a [(PathBuf, PathBuf)],
    pub(crate) wrap: &'a Wrap,
    pub(crate) folder: &'a Path,
    pub(crate) inside: &'a Arc<Inside>,
    pub(crate) ignore: &'a GlobSet,
    pub(crate) timeout: Duration,
}

/// Tells what changed, then puts in what was hidden, then runs what checks want to be run.
pub(crate) async fn finish(
    task: Finish<'_>,
    execution: &Execution,
    wanted: &[Gather],
    backend: &dyn Backend,
) -> Result<Workspace, WorkspaceError> {
    // The agent has finished: whatever it left running has no more to do with the folder.
    task.wrap.end(task.folder, backend).await;
    let (changes, files) = look(&task, wanted).await?;
    prepare(&task, execution).await?;
    let isolation = task.spec.isolation;
    let ignored = task.spec.ignore.clone();
    let mut workspace = Workspace { isolation, changes, ignored, files, ..Workspace::default() };
    for gather in wanted {
        match gather {
            Gather::File { .. } => {}
            Gather::Command { run, timeout } => {
                let (ran, _) = task.run(run, *timeout, &[], backend).await;
                workspace.commands.push(ran);
            }
            Gather::Tests { run, format, report, timeout } => {
                let tests = task.tests(run, *format, report.as_deref(), *timeout, backend).await?;
                workspace.tests.push(tests);
            }
        }
    }
    Ok(workspace)
}

/// What has changed, and the files that checks want to see.
async fn look(
    task: &Finish<'_>,
    wanted: &[Gather],
) -> Result<(Vec<FileChange>, Vec<FileSeen>), WorkspaceError> {
    let (start, inside) = (Arc::clone(task.start), Arc::clone(task.inside));
    let (limits, max_diff_bytes) = (Limits::of(task.spec), task.spec.max_diff_bytes);
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
        // Afterwards, so that it holds for all that was read.
        start.is_as_made(&ignore, is_guarded)?;
        let seen = |path: String| {
            let (text, problem) = match inside.text(&path, MAX_FILE) {
                Ok(text) => (text, None),
                Err(why) => (None, Some(why)),
            };
            FileSeen { path, text, problem }
        };
        Ok((changes, paths.into_iter().map(seen).collect()))
    })
    .await
}

/// Puts in what the agent must not see, and what tests want to know about it.
async fn prepare(task: &Finish<'_>, execution: &Execution) -> Result<(), WorkspaceError> {
    let summary = json!({"o11y": O11y::of(execution)});
    let summary =
        serde_json::to_vec_pretty(&summary).map_err(|err| WorkspaceError(err.to_string()))?;
    let (inside, hidden) = (Arc::clone(task.inside), task.hidden.to_vec());
    blocking(move || {
        for (from, to) in &hidden {
            inside.put(from, to).map_err(|err| {
                format!("cannot put `{}` into the workspace: {err}", to.display())
            })?;
        }
        for path in SUMMARIES {
            inside
                .write(Path::new(path), &summary)
                .map_err(|err| format!("cannot write `{path}` into the workspace: {err}"))?;
        }
        Ok(())
    })
    .await
}

impl Finish<'_> {
    /// Runs a command, and keeps the end of what it wrote; also gives all of its stdout.
    async fn run(
        &self,
        line: &str,
        timeout: Option<Duration>,
        env: &[(&str, &str)],
        backend: &dyn Backend,
    ) -> (CommandRan, String) {
        let timeout_ms = timeout.map(in_ms);
        let raise = if timeout.is_some() { OWN_LIMIT } else { CommandSpec::RAISE };
        let timeout = timeout.unwrap_or(self.timeout);
        let command = self.wrap.command(self.folder, line, timeout, self.spec.network, env);
        let command = CommandSpec { raise, ..command };
        let ran = CommandRan { run: line.to_owned(), timeout_ms, ..CommandRan::default() };
        // What ran before may have moved the folder away, and what is there now is nothing to be tested.
        if let Err(problem) = self.inside.is_in_place() {
            return (CommandRan { problem: Some(problem), ..ran }, String::new());
        }
        match backend.run(&command).await {
            Err(err) => {
                // It may be that only whoever started it was stopped.
                self.wrap.end(self.folder, backend).await;
                (CommandRan { problem: Some(err.message), ..ran }, String::new())
            }
            Ok(output) => {
                let problem = self
                    .wrap
                    .not_started(output.exit_code, &output.stderr)
                    .or_else(|| CommandOutput::broken_off(output.exit_code).map(str::to_owned));
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

    /// Runs tests, and reads what they report.
    async fn tests(
        &self,
        line: &str,
        format: TestFormat,
        report: Option<&str>,
        timeout: Option<Duration>,
        backend: &dyn Backend,
    ) -> Result<TestsRan, WorkspaceError> {
        let report = report.or(format.default_report()).map(str::to_owned);
        if let Some(path) = report.clone() {
            // One that is there already was not written by these tests.
            let inside = Arc::clone(self.inside);
            blocking(move || {
                let removed = inside.remove(Path::new(&path));
                removed.map_err(|err| format!("cannot remove the old report `{path}`: {err}"))
            })
            .await?;
        }
        // Colours would be in the messages; nextest wants to be asked for what it may still change.
        let env = [("NO_COLOR", "1"), ("NEXTEST_EXPERIMENTAL_LIBTEST_JSON", "1")];
        let (command, stdout) = self.run(line, timeout, &env, backend).await;
        let (inside, seen) = (Arc::clone(self.inside), self.seen_folder());
        let path = report.clone();
        // A report may be large, and others should not wait for its reading.
        let read = blocking(move || {
            let text = match path {
                None => stdout,
                Some(path) => inside.text(&path, MAX_REPORT)?.ok_or_else(|| {
                    format!("there is no report: the tests have not written `{path}`")
                })?,
            };
            reports::read(format, &text, &seen)
        });
        let (tests, problem) = match read.await {
            Ok(tests) => {
                let problem = reports::contradiction(command.exit_code, &tests);
                (tests, problem)
            }
            Err(why) => (Vec::new(), Some(why.0)),
        };
        let problem = command.problem.clone().or(problem);
        Ok(TestsRan { command, format, report, tests, problem })
    }

    /// The folder as the tests see it.
    fn seen_folder(&self) -> String {
        self.wrap.seen(self.folder).display().to_string()
    }
}

/// The end of a text: that is where commands say what went wrong.
fn end_of(text: &str) -> String {
    if text.len() <= KEPT {
        return text.to_owned();
    }
    let at = text.ceil_char_boundary(text.len() - KEPT);
    format!("[{at} bytes left out]\n{}", &text[at..])
}
