//! Lists stored runs, and removes old runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kindlm_reporters::{duration, one_line};
use kindlm_store::journal::{self, Journal};
use kindlm_store::{Baselines, Runs, open_report};
use kindlm_types::ExitStatus;
use serde::Serialize;

use crate::suites::{SuiteKey, file_name};
use crate::{Failure, SuiteFolder, World};

/// A run in the folder of runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StoredRun {
    /// The run's id.
    pub id: String,
    /// The suite's name; `None` if it cannot be read.
    pub suite: Option<String>,
    /// The file name of the suite's config, without the folder; `None` if it cannot be read.
    #[serde(skip)]
    pub config: Option<String>,
    /// The start of the run, in RFC 3339; `None` if it cannot be read.
    pub started_at: Option<String>,
    /// The state of the run.
    pub outcome: RunOutcome,
    /// The number of cases that held; `None` without a report.
    pub cases_held: Option<u64>,
    /// The number of cases that were not skipped; `None` without a report.
    pub cases: Option<u64>,
    /// The duration in milliseconds; `None` without a report.
    pub duration_ms: Option<f64>,
    /// True if the run's options left out test cases of the suite, or models of test cases.
    pub partial: bool,
    /// The labels of the baselines that were set from this run.
    pub baselines: Vec<String>,
}

/// The state of a stored run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum RunOutcome {
    /// All gates held.
    Passed,
    /// A gate is violated.
    Failed,
    /// A provider or KindLM failed, or nothing was judged.
    Errored,
    /// The user interrupted the run.
    Interrupted,
    /// A process is writing the run.
    Running,
    /// The run stopped without a report.
    Unfinished,
    /// The report cannot be read.
    Unreadable,
}

impl RunOutcome {
    /// Returns the state of a run that ended with this exit code.
    pub fn of_exit_code(code: u8) -> Self {
        let known = [
            (ExitStatus::Success, Self::Passed),
            (ExitStatus::GatesFailed, Self::Failed),
            (ExitStatus::Interrupted, Self::Interrupted),
        ];
        let found = known.into_iter().find(|(status, _)| status.code() == code);
        found.map_or(Self::Errored, |(_, outcome)| outcome)
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Errored => "errored",
            Self::Interrupted => "interrupted",
            Self::Running => "running",
            Self::Unfinished => "unfinished",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Returns the newest `limit` runs, newest first, and the number of older runs.
///
/// With `of`, the runs of other suites are left out.
///
/// # Errors
///
/// Fails if the folder of runs, the folder of baselines or a baseline cannot be read.
pub fn list(
    place: &SuiteFolder,
    of: Option<&SuiteKey>,
    limit: usize,
) -> Result<(Vec<StoredRun>, usize), Failure> {
    let labels = baselines(place)?;
    let (mut listed, older) = newest(place, of, limit)?;
    for run in &mut listed {
        run.baselines = labels.get(&run.id).cloned().unwrap_or_default();
    }
    Ok((listed, older))
}

/// Returns the same runs as [`list`], without the labels of their baselines. No baseline is read.
///
/// # Errors
///
/// Fails if the folder of runs cannot be read.
pub fn newest(
    place: &SuiteFolder,
    of: Option<&SuiteKey>,
    limit: usize,
) -> Result<(Vec<StoredRun>, usize), Failure> {
    let runs = Runs::new(place.state());
    let ids = ids(&runs, of)?;
    let listed: Result<_, _> = ids.iter().take(limit).map(|id| stored_run(&runs, id)).collect();
    Ok((listed?, ids.len().saturating_sub(limit)))
}

/// Returns a run by its whole id, without the labels of its baselines; `None` if there is no such run.
///
/// # Errors
///
/// Fails if `id` cannot be the id of a run, for example because it is a path.
pub fn find(place: &SuiteFolder, id: &str) -> Result<Option<StoredRun>, Failure> {
    let runs = Runs::new(place.state());
    let folder = runs.run_folder(id).map_err(|err| Failure::store(&err))?;
    if !folder.is_dir() {
        return Ok(None);
    }
    stored_run(&runs, id).map(Some)
}

/// Returns the ids of runs, newest first. With `of`, the runs of other suites are left out.
fn ids(runs: &Runs, of: Option<&SuiteKey>) -> Result<Vec<String>, Failure> {
    let mut all = Vec::new();
    for (id, has_report) in runs.all().map_err(|err| Failure::store(&err))?.into_iter().rev() {
        if of.is_none_or(|it| belongs(runs, &id, has_report, it)) {
            all.push(id);
        }
    }
    Ok(all)
}

/// Returns true if a run belongs to the suite. The journal names the suite, so the report is only read if there is no
/// readable journal.
fn belongs(runs: &Runs, id: &str, has_report: bool, of: &SuiteKey) -> bool {
    let Ok(folder) = runs.run_folder(id) else { return false };
    match Journal::open(folder) {
        Ok(journal) => of.has_journal(&journal),
        Err(_) => has_report && runs.open(id).is_ok_and(|it| of.has_report(&it)),
    }
}

/// Returns the labels of the baselines of each run.
fn baselines(place: &SuiteFolder) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let store = Baselines::new(place.state());
    let mut labels: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for label in store.list().map_err(|err| Failure::store(&err))? {
        let baseline = store.load(&label).map_err(|err| Failure::store(&err))?;
        if let Some(run) = baseline.run_id {
            labels.entry(run).or_default().push(label);
        }
    }
    Ok(labels)
}

fn stored_run(runs: &Runs, id: &str) -> Result<StoredRun, Failure> {
    let mut run = StoredRun {
        id: id.to_owned(),
        suite: None,
        config: None,
        started_at: None,
        outcome: RunOutcome::Unreadable,
        cases_held: None,
        cases: None,
        duration_ms: None,
        partial: false,
        baselines: Vec::new(),
    };
    let folder = runs.run_folder(id).map_err(|err| Failure::store(&err))?;
    let is_running = journal::holder_of(&folder).is_ok_and(|it| it.is_some());
    let path = folder.join(Runs::REPORT);
    let head = path.is_file().then(|| runs.head(id));
    if let Some(Ok(head)) = &head {
        run.suite = Some(head.suite.clone());
        run.config = head.config_path.as_deref().and_then(file_name);
        run.started_at = Some(head.started_at.clone());
        run.outcome = RunOutcome::of_exit_code(head.exit_code);
        (run.cases_held, run.cases) = (Some(head.held.count), Some(head.held.total));
        run.duration_ms = Some(head.duration_ms);
        run.partial = head.partial;
    } else if let Ok(journal) = Journal::open(&folder) {
        run.suite = Some(journal.header().suite.to_string());
        run.config = journal.header().config.as_deref().and_then(file_name);
        run.started_at = Some(journal.header().started_at.to_string());
    }
    if is_running {
        run.outcome = RunOutcome::Running;
    } else if head.is_none() {
        run.outcome = RunOutcome::Unfinished;
    }
    Ok(run)
}

/// Formats runs as a table for people.
pub fn table(runs: &[StoredRun]) -> String {
    let rows: Vec<[String; 6]> = runs.iter().map(row).collect();
    let mut text = String::new();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|it| it.get(column));
        cells.map(|it| it.chars().count()).max().unwrap_or_default()
    };
    for [id, started, outcome, held, time, suite] in &rows {
        let _ = writeln!(
            text,
            "{id:<0$}  {started:<1$}  {outcome:<2$}  {held:>3$}  {time:>4$}  {suite}",
            width(0),
            width(1),
            width(2),
            width(3),
            width(4),
        );
    }
    text
}

fn row(run: &StoredRun) -> [String; 6] {
    let started = run.started_at.as_deref().and_then(|it| it.parse::<Timestamp>().ok());
    let started = started.map(|it| it.strftime("%Y-%m-%d %H:%M:%S UTC").to_string());
    let held = match (run.cases_held, run.cases) {
        (Some(held), Some(all)) if run.partial => format!("{held} of {all} held (part)"),
        (Some(held), Some(all)) => format!("{held} of {all} held"),
        _ => String::new(),
    };
    let mut suite = one_line(run.suite.as_deref().unwrap_or("unknown suite"));
    if !run.baselines.is_empty() {
        let s = if run.baselines.len() == 1 { "" } else { "s" };
        let _ = write!(suite, "  (baseline{s} {})", run.baselines.join(", "));
    }
    [
        run.id.clone(),
        started.unwrap_or_else(|| "unknown start".to_owned()),
        run.outcome.word().to_owned(),
        held,
        run.duration_ms.map(duration).unwrap_or_default(),
        suite,
    ]
}

/// The conditions for removing a run. A removed run fulfils both conditions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prune {
    /// The number of newest runs to keep.
    pub keep: usize,
    /// The minimum age of a removed run; `None` for any age.
    pub older_than: Option<Duration>,
}

/// Removes old runs, and returns their ids, newest first.
///
/// With `of`, only runs of that suite are removed. Two kinds of runs are never removed: runs that are still running,
/// and runs from which a baseline was set.
///
/// # Errors
///
/// Fails if runs or baselines cannot be read, if the lock of a run cannot be checked, or if a run cannot be removed.
pub fn prune(
    world: &World,
    place: &SuiteFolder,
    of: Option<&SuiteKey>,
    prune: Prune,
) -> Result<Vec<String>, Failure> {
    let runs = Runs::new(place.state());
    let baselines = baselines(place)?;
    let mut removed = Vec::new();
    for id in ids(&runs, of)?.into_iter().skip(prune.keep) {
        let folder = runs.run_folder(&id).map_err(|err| Failure::store(&err))?;
        let is_old = prune.older_than.is_none_or(|it| is_older(world, &folder, it));
        if !is_old || !may_remove(world, &folder, &id)? {
            continue;
        }
        if let Some(labels) = baselines.get(&id) {
            world.notify(&format!("kept the run `{id}` of the baseline `{}`", labels.join("`, `")));
            continue;
        }
        runs.remove(&id).map_err(|err| Failure::store(&err))?;
        removed.push(id);
    }
    Ok(removed)
}

/// The result of [`remove`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The run is removed.
    Removed,
    /// A process is writing the run, so it stays.
    Running,
    /// Baselines with these labels were set from the run, so it stays.
    HasBaselines(Vec<String>),
}

/// Removes one run.
///
/// # Errors
///
/// Fails if baselines cannot be read, if the lock of the run cannot be checked, or if the run cannot be removed.
pub fn remove(place: &SuiteFolder, id: &str) -> Result<Removal, Failure> {
    let runs = Runs::new(place.state());
    let folder = runs.run_folder(id).map_err(|err| Failure::store(&err))?;
    if journal::holder_of(&folder).map_err(|err| Failure::journal(&err))?.is_some() {
        return Ok(Removal::Running);
    }
    if let Some(labels) = baselines(place)?.remove(id) {
        return Ok(Removal::HasBaselines(labels));
    }
    runs.remove(id).map_err(|err| Failure::store(&err))?;
    Ok(Removal::Removed)
}

/// Returns true if the run began longer ago than `age`. A run with an unknown start is not old.
fn is_older(world: &World, folder: &Path, age: Duration) -> bool {
    let began = match Journal::open(folder) {
        Ok(journal) => Some(journal.header().started_at.to_string()),
        Err(_) => open_report(&folder.join(Runs::REPORT)).ok().map(|it| it.run.started_at),
    };
    let began = began.and_then(|it| it.parse::<Timestamp>().ok());
    let age = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
    began.is_some_and(|it| (world.now)().duration_since(it) > age)
}

/// Returns false, after a notice, if a process is writing the run.
fn may_remove(world: &World, folder: &Path, id: &str) -> Result<bool, Failure> {
    let holder = journal::holder_of(folder).map_err(|err| Failure::journal(&err))?;
    if let Some(holder) = holder {
        world.notify(&format!("kept the run `{id}`: it is still running ({holder})"));
        return Ok(false);
    }
    Ok(true)
}

/// The runs and the stored answers of a folder, which `kindlm clean` removes.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Leftovers {
    /// The ids of runs, newest first, without runs that are still running.
    pub runs: Vec<String>,
    /// The folder of stored answers; `None` if the folder has no files.
    pub responses: Option<PathBuf>,
    /// The description, one line for each kind.
    pub text: String,
}

/// Finds the runs and the stored answers of a folder.
///
/// # Errors
///
/// Fails if the folder of runs cannot be read, or if the lock of a run cannot be checked.
pub fn leftovers(world: &World, place: &SuiteFolder) -> Result<Leftovers, Failure> {
    let state = place.state();
    let store = Runs::new(&state);
    let mut found = Leftovers::default();
    let mut size = Size::default();
    for id in ids(&store, None)? {
        let folder = store.run_folder(&id).map_err(|err| Failure::store(&err))?;
        if may_remove(world, &folder, &id)? {
            size.add(&folder);
            found.runs.push(id);
        }
    }
    let count = |count: usize, one: &str| {
        if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
    };
    if !found.runs.is_empty() {
        let runs = count(found.runs.len(), "run");
        let _ = writeln!(found.text, "{}  {runs}, {}", state.join("runs").display(), size.text());
    }
    let responses = state.join("responses");
    let mut size = Size::default();
    size.add(&responses);
    if size.files > 0 {
        let files = count(size.files, "file");
        let _ = writeln!(found.text, "{}  {files}, {}", responses.display(), size.text());
        found.responses = Some(responses);
    }
    Ok(found)
}

/// Removes runs and stored answers.
///
/// # Errors
///
/// Fails if a folder cannot be removed.
pub fn clean(place: &SuiteFolder, leftovers: &Leftovers) -> Result<(), Failure> {
    let runs = Runs::new(place.state());
    for id in &leftovers.runs {
        runs.remove(id).map_err(|err| Failure::store(&err))?;
    }
    if let Some(folder) = &leftovers.responses {
        fs::remove_dir_all(folder).map_err(|err| {
            let why = kindlm_store::describe_io_error(&err);
            Failure::internal(format!("cannot remove `{}`: {why}", folder.display()))
        })?;
    }
    Ok(())
}

/// The number and the size of files below folders. Links are not followed.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    files: usize,
    bytes: u64,
}

impl Size {
    fn add(&mut self, folder: &Path) {
        for item in fs::read_dir(folder).into_iter().flatten().flatten() {
            match item.metadata() {
                Ok(it) if it.is_dir() => self.add(&item.path()),
                Ok(it) => {
                    self.files += 1;
                    self.bytes += it.len();
                }
                Err(_) => {}
            }
        }
    }

    fn text(self) -> String {
        match self.bytes {
            0..10_000 => format!("{} bytes", self.bytes),
            10_000..10_000_000 => format!("{} kB", self.bytes / 1000),
            _ => format!("{} MB", self.bytes / 1_000_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_store::Baseline;
    use kindlm_types::{CaseResult, Report, RunInfo};
    use kindlm_wire::v1;
    use std::sync::{Arc, Mutex};

    fn world(folder: &Path, said: &Arc<Mutex<Vec<String>>>) -> World {
        let said = Arc::clone(said);
        World {
            notices: Arc::new(move |text| said.lock().unwrap().push(text.to_owned())),
            now: || "2026-11-30T00:00:00Z".parse().unwrap(),
            ..World::new(folder, Arc::new(|_| None))
        }
    }

    fn save(place: &SuiteFolder, id: &str, started_at: &str) -> Report<Vec<CaseResult>> {
        let mut report = kindlm_testing::sample_report();
        report.run = RunInfo { id: id.to_owned(), started_at: started_at.to_owned(), ..report.run };
        let mut json = Vec::new();
        v1::write_compact(&report, &mut json).unwrap();
        Runs::new(place.state()).save(id, &String::from_utf8(json).unwrap()).unwrap();
        report
    }

    #[test]
    fn prune_keeps_new_runs_and_those_of_baselines() {
        let folder = tempfile::tempdir().unwrap();
        let said = Arc::default();
        let world = world(folder.path(), &said);
        let place = SuiteFolder::new(&world, Path::new("kindlm.yaml"));
        let first = save(&place, "a", "2026-10-01T00:00:00.000Z");
        save(&place, "b", "2026-10-02T00:00:00.000Z");
        save(&place, "c", "2026-11-28T00:00:00.000Z");
        save(&place, "d", "2026-10-03T00:00:00.000Z");
        Baselines::new(place.state()).set("old", &Baseline::from_report(&first).unwrap()).unwrap();
        let month = Some(Duration::from_hours(30 * 24));
        let removed = prune(&world, &place, None, Prune { keep: 1, older_than: month }).unwrap();
        assert_eq!(removed, ["b"]);
        assert_eq!(*said.lock().unwrap(), ["kept the run `a` of the baseline `old`"]);
        let (left, more) = list(&place, None, 2).unwrap();
        assert_eq!(left.iter().map(|it| &*it.id).collect::<Vec<_>>(), ["d", "c"]);
        assert_eq!(more, 1);
        let removed = prune(&world, &place, None, Prune::default()).unwrap();
        assert_eq!(removed, ["d", "c"]);
    }

    #[test]
    fn clean_leaves_baselines() {
        let folder = tempfile::tempdir().unwrap();
        let world = world(folder.path(), &Arc::default());
        let place = SuiteFolder::new(&world, Path::new("kindlm.yaml"));
        let report = save(&place, "a", "2026-10-01T00:00:00.000Z");
        Baselines::new(place.state()).set("old", &Baseline::from_report(&report).unwrap()).unwrap();
        fs::create_dir_all(place.state().join("responses/x")).unwrap();
        fs::write(place.state().join("responses/x/1.json"), "12345").unwrap();
        let found = leftovers(&world, &place).unwrap();
        assert!(found.text.ends_with("responses  1 file, 5 bytes\n"), "{}", found.text);
        clean(&place, &found).unwrap();
        assert!(leftovers(&world, &place).unwrap().text.is_empty());
        assert_eq!(Baselines::new(place.state()).list().unwrap(), ["old"]);
    }
}
