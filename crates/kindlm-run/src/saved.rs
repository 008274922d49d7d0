//! Finds the report of a past run, and stores the report of a new run.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use kindlm_store::journal::{self, Journal, JournalError};
use kindlm_store::{ReportError, Runs, SavedCases, StoreError, open_report};
use kindlm_types::{AnyReport, Report};
use kindlm_wire::mutation::MutationReport;
use kindlm_wire::v1;

use crate::project::SuiteFolder;
use crate::suites::SuiteKey;
use crate::{Failure, World, resume};

/// A stored report, and its name in messages.
#[non_exhaustive]
pub struct Saved {
    /// The report; its cases are loaded one by one.
    pub report: Report<SavedCases>,
    /// The name for error messages, such as ``run `20261120-…` ``.
    pub name: String,
    /// The file of the report.
    pub(crate) path: PathBuf,
}

impl Saved {
    /// Returns the result of `kindlm mutate` that is stored beside the report.
    ///
    /// Returns `None` if there is no result of this run. If the result cannot be read, sends a notice and returns
    /// `None`.
    pub fn mutation(&self, world: &World) -> Option<MutationReport> {
        mutation_beside(world, &self.path, &self.report.run.id)
    }

    /// Stores the result of `kindlm mutate` beside the report, if the report is in the folder of its run.
    pub(crate) fn keep_mutation(&self, world: &World, result: &MutationReport) {
        let folder = self.path.parent().and_then(Path::file_name);
        // A report outside the folder of its run is the user's file, so write nothing beside it.
        if folder.is_none_or(|it| it != self.report.run.id.as_str()) {
            return;
        }
        match Runs::save_mutation(&self.path, result) {
            Ok(()) => world.notify("the page of the run shows this result, too: `kindlm view`"),
            Err(err) => world.notify(&format!("warning: the mutation result was not saved: {err}")),
        }
    }

    /// Checks that the report is of a whole run.
    ///
    /// # Errors
    ///
    /// Fails for the report of a shard, because gates apply to complete runs.
    pub fn require_whole_run(&self) -> Result<(), Failure> {
        let Some(shard) = &self.report.shard else { return Ok(()) };
        let (index, count) = (shard.index, shard.count);
        Err(Failure::input(format!("{} is shard {index} of {count}", self.name))
            .with_help("gates apply to a complete run; merge all shards with `kindlm merge` first"))
    }
}

/// Returns the mutation result beside a report.
///
/// Returns `None` if there is no result of the run `run`. If the result cannot be read, sends a notice and returns
/// `None`.
pub(crate) fn mutation_beside(world: &World, report: &Path, run: &str) -> Option<MutationReport> {
    Runs::mutation(report, run).unwrap_or_else(|err| {
        world.notify(&format!("warning: the mutation result is not shown: {err}"));
        None
    })
}

/// Finds the report of a run: by its id, in a file, or the newest report.
///
/// With `of`, the run must belong to that suite.
///
/// # Errors
///
/// Fails if no report exists, or if the report cannot be read or belongs to another suite. Also fails if the ids of
/// several runs begin with `run`, or if the named or the newest run stopped without a report.
pub fn find(
    world: &World,
    place: &SuiteFolder,
    run: Option<&str>,
    of: Option<&SuiteKey>,
) -> Result<Saved, Failure> {
    let runs = Runs::new(place.state());
    let Some(run) = run else {
        return newest(world, place, of)?.ok_or_else(|| no_run(place, of));
    };
    let saved = match as_file(&world.working_dir, run) {
        Some(path) => from_file(&path, run),
        None => by_id(&runs, run),
    }?;
    if let Some(of) = of {
        of.check(&saved.name, &saved.report)?;
    }
    Ok(saved)
}

/// Returns the newest report; `None` if there is no run. With `of`, only the runs of that suite count.
///
/// Runs that are still running are ignored, after a notice.
///
/// # Errors
///
/// Fails if the newest run has ended without a report, or if its report, its journal or the folder of runs cannot be
/// read.
pub fn newest(
    world: &World,
    place: &SuiteFolder,
    of: Option<&SuiteKey>,
) -> Result<Option<Saved>, Failure> {
    let runs = Runs::new(place.state());
    for run in newest_first(&runs, of)? {
        match run? {
            PastRun::Finished(saved) => return Ok(Some(*saved)),
            PastRun::Unfinished(journal) => check_still_going(world, &journal)?,
            PastRun::Unreadable(id, err) => return Err(unusable(&format!("run `{id}`"), &err)),
        }
    }
    Ok(None)
}

fn no_run(place: &SuiteFolder, of: Option<&SuiteKey>) -> Failure {
    let state = place.state();
    match of {
        None => Failure::input(format!("there is no run yet in `{}`", state.display()))
            .with_help("run `kindlm test` first, or name the file of a report"),
        Some(of) => Failure::input(format!(
            "there is no run of the suite `{}` yet in `{}`",
            of.name(),
            state.display()
        ))
        .with_help(format!("run {} first, or name the file of a report", of.test_command())),
    }
}

/// A run in the folder of runs.
pub(crate) enum PastRun {
    /// The run has a report.
    Finished(Box<Saved>),
    /// The run has no report: it is still running, it was interrupted, or its report could not be written.
    Unfinished(Box<Journal>),
    /// The run has a report that cannot be read. The text is the run's id.
    Unreadable(String, ReportError),
}

/// Returns the runs of a folder, newest first. With `of`, the runs of other suites are left out.
///
/// Runs without a journal header and without a report are left out, because they sent nothing.
pub(crate) fn newest_first<'a>(
    runs: &'a Runs,
    of: Option<&'a SuiteKey>,
) -> Result<impl Iterator<Item = Result<PastRun, Failure>> + 'a, Failure> {
    let all = runs.all().map_err(|err| Failure::store(&err))?;
    Ok(all
        .into_iter()
        .rev()
        .filter_map(move |(id, has_report)| past_run(runs, id, has_report, of).transpose()))
}

fn past_run(
    runs: &Runs,
    id: String,
    has_report: bool,
    of: Option<&SuiteKey>,
) -> Result<Option<PastRun>, Failure> {
    // The journal names the suite of the run, so this does not read the whole report.
    if !has_report || of.is_some() {
        let folder = runs.run_folder(&id).map_err(|err| Failure::store(&err))?;
        match Journal::open(folder) {
            Ok(journal) if of.is_some_and(|it| !it.has_journal(&journal)) => return Ok(None),
            Ok(journal) if !has_report => return Ok(Some(PastRun::Unfinished(Box::new(journal)))),
            Err(JournalError::Unbegun { .. }) if !has_report => return Ok(None),
            Err(err) if !has_report => return Err(Failure::journal(&err)),
            Ok(_) | Err(_) => {}
        }
    }
    let name = format!("run `{id}`");
    Ok(match runs.open(&id) {
        Ok(report) if of.is_some_and(|it| !it.has_report(&report)) => None,
        Ok(report) => {
            let path = runs.path(&id).map_err(|err| Failure::store(&err))?;
            Some(PastRun::Finished(Box::new(Saved { report, name, path })))
        }
        Err(err) => Some(PastRun::Unreadable(id, err)),
    })
}

/// Sends a notice that a newer run is still running and is ignored.
///
/// Fails if that run has ended without a report. Otherwise, the user would get the report of an older run as the last
/// run.
pub(crate) fn check_still_going(world: &World, journal: &Journal) -> Result<(), Failure> {
    let holder = journal.holder().map_err(|err| Failure::journal(&err))?;
    let Some(holder) = holder else { return Err(unfinished(journal, "the last run")) };
    let id = &journal.header().run;
    world.notify(&format!("the run `{id}` is still running ({holder}) and ignored"));
    Ok(())
}

/// Removes temporary files of killed processes from the state folder, from `runs` and `baselines`, and from the folders
/// of runs.
///
/// The folders of runs are searched from the newest run to the first run with a report.
pub(crate) fn remove_abandoned(place: &SuiteFolder) {
    let state = place.state();
    let runs = Runs::new(&state);
    for folder in [&state, &state.join("runs"), &state.join("baselines")] {
        kindlm_store::remove_abandoned(folder);
    }
    for (id, has_report) in runs.all().unwrap_or_default().iter().rev() {
        if let Ok(folder) = runs.run_folder(id) {
            kindlm_store::remove_abandoned(&folder);
        }
        if *has_report {
            break;
        }
    }
}

/// Stores the report for `kindlm report`, `gate` and `baseline`.
///
/// A failure is only shown as a warning.
pub fn keep(world: &World, place: &SuiteFolder, report: &AnyReport<'_>, quiet: bool) {
    let id = &report.run.id;
    let runs = Runs::new(place.state());
    let kept = runs.save_with(id, |out| {
        // The JSON writer makes many small writes, so buffer them.
        let mut out = BufWriter::with_capacity(1 << 16, out);
        v1::write_compact(report, &mut out)?;
        out.flush()
    });
    let kept = kept.and_then(|_| runs.save_head(&v1::RunHead::from_report(report)));
    match kept {
        Ok(()) if quiet => {}
        Ok(()) => world.notify(&format!("run {id} saved in .kindlm/runs beside {}", place.name)),
        Err(err) => world.notify(&format!("warning: the run was not saved: {err}")),
    }
}

/// Returns the path of a report that the user names.
///
/// A text with a path separator or a file extension is a path, even if no such file exists. Returns `None` for any
/// other text that names no file, because the text may be the id of a run.
pub fn as_file(working_dir: &Path, run: &str) -> Option<PathBuf> {
    let path = working_dir.join(run);
    let looks_like = run.contains(['/', '\\']) || Path::new(run).extension().is_some();
    (looks_like || path.exists()).then_some(path)
}

fn from_file(path: &Path, named: &str) -> Result<Saved, Failure> {
    // The user may name the folder of a run, or the journal in this folder.
    let folder = if path.ends_with(journal::FILE) { path.parent() } else { Some(path) };
    let folder = folder.filter(|it| it.is_dir());
    let path = folder.map_or_else(|| path.to_owned(), |it| it.join(Runs::REPORT));
    if let Some(Ok(journal)) = folder.filter(|_| !path.exists()).map(Journal::open) {
        return Err(unfinished(&journal, "the run"));
    }
    let name = format!("`{named}`");
    let report = open_report(&path).map_err(|err| match err {
        ReportError::Store(StoreError::Io { message, .. }) => {
            Failure::input(format!("cannot read {name}: {message}"))
        }
        err => unusable(&name, &err),
    })?;
    Ok(Saved { report, name, path })
}

/// Returns the failure for a run without a report.
fn unfinished(journal: &Journal, called: &str) -> Failure {
    let id = &journal.header().run;
    let planned: u64 = journal.header().cases.iter().map(|it| u64::from(it.repeats)).sum();
    let index = journal.index();
    let done = match &index {
        Ok(index) => format!("{} of {planned} executions are done", index.done()),
        Err(err) => err.to_string(),
    };
    let (why, advice) = match (journal.holder(), &index) {
        (Err(err), _) => return Failure::journal(&err),
        (Ok(Some(holder)), _) => (
            format!("is still running ({holder}) and has no report yet"),
            "wait until it has ended".to_owned(),
        ),
        (Ok(None), Ok(index)) if index.done() as u64 >= planned => {
            ("has no report, because writing it failed".to_owned(), how_to_finish(journal))
        }
        (Ok(None), _) => {
            ("has no report, because it was never finished".to_owned(), how_to_finish(journal))
        }
    };
    Failure::input(format!("{called} `{id}` {why}: {done}")).with_help(advice)
}

fn how_to_finish(journal: &Journal) -> String {
    if resume::is_of_trace(journal) {
        return "run `kindlm trace` again: a traced run cannot be repeated".to_owned();
    }
    let id = &journal.header().run;
    // If the suite has changed, the run cannot be resumed, so also suggest a new run.
    format!(
        "finish it with `kindlm test --resume {id}` in the folder where it was started, or start a new run with \
         `kindlm test`"
    )
}

fn by_id(runs: &Runs, id: &str) -> Result<Saved, Failure> {
    let id = &runs.complete_id(id).map_err(|err| Failure::store(&err))?;
    let name = format!("run `{id}`");
    let report = runs.open(id).map_err(|err| {
        let err = match err {
            ReportError::Store(err) => err,
            ReportError::Wire(_) => return unusable(&name, &err),
        };
        if let Ok(Ok(journal)) = runs.run_folder(id).map(Journal::open) {
            return unfinished(&journal, "the run");
        }
        let failure = Failure::store(&err);
        match runs.list().unwrap_or_default().as_slice() {
            [] => failure,
            known => {
                let newest = known.iter().rev().take(3).map(|it| format!("`{it}`"));
                let newest = newest.collect::<Vec<_>>().join(", ");
                failure.with_help(format!("the newest runs are {newest}"))
            }
        }
    })?;
    let path = runs.path(id).map_err(|err| Failure::store(&err))?;
    Ok(Saved { report, name, path })
}

fn unusable(name: &str, err: &ReportError) -> Failure {
    Failure::input(format!("cannot use {name}: {err}"))
}
