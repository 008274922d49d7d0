//! Finds the report of a past run.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use kindlm_store::journal::{self, Journal};
use kindlm_store::{ReportError, Runs, SavedCases, StoreError, open_report};
use kindlm_types::wire::v1;
use kindlm_types::{AnyReport, Report};

use crate::project::Place;
use crate::{Failure, Io, resume};

/// A report, and what it is called in messages.
pub(crate) struct Saved {
    /// The report, of which a case is read when it is asked for.
    pub(crate) report: Report<SavedCases>,
    /// Such as ``run `20261120-…` ``.
    pub(crate) name: String,
}

/// The report of a run: by its id, from a file, or that of the last run.
pub(crate) fn find(io: &mut Io, place: &Place, run: Option<&str>) -> Result<Saved, Failure> {
    let runs = Runs::new(place.state());
    let Some(run) = run else {
        let last = runs.last().map_err(|err| Failure::store(&err))?;
        check_finished(io, &runs, last.as_deref(), &|_| true)?;
        let id = last.ok_or_else(|| {
            Failure::input(format!("there is no run yet in `{}`", place.state().display()))
                .with_help("run `kindlm test` first, or name the file of a report")
        })?;
        return by_id(&runs, &id);
    };
    match as_file(&io.working_dir, run) {
        Some(path) => from_file(&path, run),
        None => by_id(&runs, run),
    }
}

/// Makes sure that no run began after `last` and was broken off: what is said of the last run would be of another one. One
/// that is still going is told and passed over.
pub(crate) fn check_finished(
    io: &mut Io,
    runs: &Runs,
    last: Option<&str>,
    is_meant: &dyn Fn(&Journal) -> bool,
) -> Result<(), Failure> {
    let newer = runs.unfinished_after(last).map_err(|err| Failure::store(&err))?;
    for journal in newer.iter().filter(|it| is_meant(it)) {
        let holder = journal.holder().map_err(|err| Failure::journal(&err))?;
        let Some(holder) = holder else { return Err(unfinished(journal, "the last run")) };
        let id = &journal.header().run;
        io.tell(&format!("the run `{id}` is still going ({holder}) and passed over"));
    }
    Ok(())
}

/// Keeps the report for `kindlm report`, `gate` and `baseline`. The run is no worse if that fails.
pub(crate) fn keep(io: &mut Io, place: &Place, report: &AnyReport<'_>, quiet: bool) {
    let id = &report.run.id;
    let kept = Runs::new(place.state()).save_with(id, |out| {
        // JSON is written a few bytes at a time: here that is no call.
        let mut out = BufWriter::with_capacity(1 << 16, out);
        v1::write_compact(report, &mut out)?;
        out.flush()
    });
    match kept {
        Ok(_) if quiet => {}
        Ok(_) => io.tell(&format!("run {id} kept in .kindlm/runs beside {}", place.name)),
        Err(err) => io.tell(&format!("warning: the run is not kept: {err}")),
    }
}

/// The file that a word names, if it does not name a run.
pub(crate) fn as_file(working_dir: &Path, run: &str) -> Option<PathBuf> {
    let path = working_dir.join(run);
    let looks_like = run.contains(['/', '\\']) || Path::new(run).extension().is_some();
    (looks_like || path.exists()).then_some(path)
}

fn from_file(path: &Path, named: &str) -> Result<Saved, Failure> {
    // The folder of a run, or the journal in it.
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
    Ok(Saved { report, name })
}

/// A run that was killed has no report: what is in its journal would be taken for the whole.
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
            format!("is still going ({holder}) and has no report yet"),
            "wait until it has ended".to_owned(),
        ),
        (Ok(None), Ok(index)) if index.done() as u64 >= planned => {
            ("has no report, as it was not written".to_owned(), how_to_finish(journal))
        }
        (Ok(None), _) => {
            ("has no report, as it was never finished".to_owned(), how_to_finish(journal))
        }
    };
    Failure::input(format!("{called} `{id}` {why}: {done}")).with_help(advice)
}

fn how_to_finish(journal: &Journal) -> String {
    if resume::is_of_trace(journal) {
        return "run `kindlm trace` again: what the agent did then is not done again".to_owned();
    }
    let id = &journal.header().run;
    // A suite that has changed since cannot go on.
    format!(
        "finish it with `kindlm test --resume {id}`, where it was begun, or start a new run with `kindlm test`"
    )
}

fn by_id(runs: &Runs, id: &str) -> Result<Saved, Failure> {
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
    Ok(Saved { report, name })
}

fn unusable(name: &str, err: &ReportError) -> Failure {
    Failure::input(format!("cannot use {name}: {err}"))
}
