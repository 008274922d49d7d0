//! The journal of a run, which is created before the first request, and continued by `kindlm test --resume`.

mod header;
mod kept;

use std::fmt::Write as _;

use kindlm_engine::{Plan, Suite, Targets, Unit};
use kindlm_store::journal::{
    Durability, Header, Index, Journal, JournalError, JournalWriter, PlannedCase,
};
use kindlm_store::{Digest, Folder, Runs};
use kindlm_types::{RunInfo, Summary};

use crate::project::{CONFIG, SuiteFolder};
use crate::secrets::Secrets;
use crate::suites::SuiteKey;
use crate::{Failure, World};

pub(crate) use kept::Kept;

/// The argument that marks a journal of `kindlm trace`. A run of `kindlm trace` cannot be resumed, because its spans
/// are not stored.
pub(crate) const TRACE: &str = "trace";

/// A past run to resume.
pub struct Past(Journal);

/// Finds the run to resume: by its id or the beginning of its id, or else the newest run of the suite.
///
/// # Errors
///
/// Fails if no such run or several such runs exist, or if the journal of the run cannot be read. Also fails if the run
/// belongs to another suite or to `kindlm trace`.
pub fn find(
    world: &World,
    place: &SuiteFolder,
    suite: &Suite,
    run: Option<&str>,
) -> Result<Past, Failure> {
    let runs = Runs::new(place.state());
    let open = |id: &str| {
        let folder = runs.run_folder(id).map_err(|err| Failure::store(&err))?;
        Journal::open(folder).map_err(|err| Failure::journal(&err))
    };
    let key = SuiteKey::new(place, &suite.info);
    let name = key.name();
    if let Some(id) = run {
        let id = &runs.complete_id(id).map_err(|err| Failure::store(&err))?;
        let journal = open(id).map_err(|failure| with_newest(failure, &runs))?;
        if !key.is_same(&journal) {
            let other = &journal.header().suite;
            return Err(Failure::input(format!(
                "the run `{id}` belongs to the suite `{other}`, and this is `{name}`"
            ))
            .with_help("name the config file of that suite with `-c`, or start a new run"));
        }
        if is_of_trace(&journal) {
            return Err(Failure::input(format!(
                "the run `{id}` is of `kindlm trace` and cannot be resumed: a traced run cannot be repeated"
            ))
            .with_help("run `kindlm trace` again"));
        }
        return Ok(Past(journal));
    }
    for id in runs.journals().map_err(|err| Failure::store(&err))?.iter().rev() {
        let folder = runs.run_folder(id).map_err(|err| Failure::store(&err))?;
        let journal = match Journal::open(folder) {
            Ok(journal) => journal,
            // The header is written before the first request, so a journal without a header has no answers to lose.
            Err(err @ JournalError::Unbegun { .. }) => {
                world.notify(&format!("skipped the run `{id}`: {err}"));
                continue;
            }
            Err(err) => return Err(Failure::journal(&err)),
        };
        // Several suites may share a folder.
        if key.has_journal(&journal) && !is_of_trace(&journal) {
            return Ok(Past(journal));
        }
    }
    Err(Failure::input(format!("there is no run of the suite `{name}` to resume"))
        .with_help("start one with `kindlm test`"))
}

/// Returns a digest of everything that the results of the planned cases depend on, except the number of repeats.
pub(crate) fn case_digest(suite: &Suite, files: &Folder, plan: &Plan) -> Result<Digest, Failure> {
    let info = RunInfo::default();
    let header = header::build_header(&info, (suite, files), plan, None, Vec::new())?;
    let mut parts = String::new();
    for (name, digest) in header.settings.iter().chain(&header.models) {
        let _ = writeln!(parts, "{name:?} {digest}");
    }
    for PlannedCase { case, model, prompt, tools, vars, checks, .. } in &header.cases {
        let _ = writeln!(parts, "{case:?} {model:?} {prompt} {tools} {vars} {checks}");
    }
    Ok(Digest::from_content(parts))
}

/// Returns true if the journal belongs to a run of `kindlm trace`.
pub(crate) fn is_of_trace(journal: &Journal) -> bool {
    journal.header().arguments.iter().any(|it| it == TRACE)
}

fn with_newest(failure: Failure, runs: &Runs) -> Failure {
    let known = runs.journals().unwrap_or_default();
    if known.is_empty() {
        return failure;
    }
    let newest = known.iter().rev().take(3).map(|it| format!("`{it}`"));
    failure.with_help(format!("the newest runs are {}", newest.collect::<Vec<_>>().join(", ")))
}

impl Past {
    /// Returns the id of the run.
    pub fn id(&self) -> &str {
        &self.0.header().run
    }

    /// Returns the arguments that were stored when the run started.
    pub fn arguments(&self) -> Vec<String> {
        self.0.header().arguments.iter().map(ToString::to_string).collect()
    }

    /// Returns the test cases of the run, each with its models.
    pub fn targets(&self) -> Targets {
        let mut targets = Targets::default();
        for planned in &self.0.header().cases {
            targets.insert(&planned.case, &planned.model);
        }
        targets
    }

    /// Returns the failure of a resumed run whose tests are all missing from the suite.
    pub(crate) fn nothing_left(&self) -> Failure {
        let run = &self.0.header().run;
        Failure::input(format!(
            "the run `{run}` cannot be resumed: none of its tests is in the suite"
        ))
        .with_help(START_ANEW)
    }

    /// Returns the part of the plan that is not done yet.
    ///
    /// Also reports damaged lines of the journal.
    pub(crate) fn open(&self, world: &World, suite: &Suite, plan: &Plan) -> Result<Plan, Failure> {
        let index = self.0.index().map_err(|err| Failure::journal(&err))?;
        let units = open_units(&index, suite, plan);
        report_damaged(world, &index, &units);
        Ok(Plan { units, ..plan.clone() })
    }
}

/// Returns the executions that the journal does not have, and that are still needed.
fn open_units(index: &Index, suite: &Suite, plan: &Plan) -> Vec<Unit> {
    plan.open_units(suite, |unit| {
        let case = suite.cases.get(unit.case)?;
        let place = index.get(&case.name, unit.target(suite), unit.repeat)?;
        place.is_done().then(|| place.outcome())
    })
}

/// Describes the number of finished executions.
pub(crate) fn done_of(done: usize, suite: &Suite, plan: &Plan) -> String {
    let at_most = if plan.may_end_early(suite) { "at most " } else { "" };
    format!("{done} of {at_most}{} executions are done", plan.units.len())
}

/// Reports damaged lines in the journal.
fn report_damaged(world: &World, index: &Index, open: &[Unit]) {
    let what = if open.is_empty() {
        "its execution is in another line too"
    } else {
        "its execution is run again, unless it is in another line too"
    };
    for line in index.damaged() {
        world.notify(&format!("warning: {line}; {what}"));
    }
}

const START_ANEW: &str = "undo that to resume the run, or start a new one with `kindlm test`";

/// The identity of a run, and the data that must be unchanged when the run is resumed.
pub(crate) struct Identity<'a> {
    /// The identity of the run.
    ///
    /// [`settle`](Self::settle) replaces its id and start time by the values of the resumed run.
    pub info: &'a mut RunInfo,
    /// The suite of the run.
    pub suite: &'a Suite,
    /// The files that the suite refers to.
    pub files: &'a Folder,
    /// The planned executions.
    pub plan: &'a Plan,
    /// The digest of the baseline; `None` without a baseline.
    pub baseline: Option<Digest>,
    /// The command-line arguments that affect the results.
    pub arguments: Vec<String>,
}

impl<'a> Identity<'a> {
    /// Creates the identity of a planned run. `baseline` is the digest of the baseline's outputs.
    pub(crate) fn new(
        info: &'a mut RunInfo,
        (suite, files, plan): (&'a Suite, &'a Folder, &'a Plan),
        baseline: Option<Digest>,
        arguments: Vec<String>,
    ) -> Self {
        Self { info, suite, files, plan, baseline, arguments }
    }

    /// Checks that a resumed run is unchanged, and takes the id and start time of the run `past`.
    ///
    /// Fails if the suite, a judge setting, a model, a test or the baseline has changed.
    pub(crate) fn settle(&mut self, world: &World, past: &Past) -> Result<(), Failure> {
        let then = past.0.header();
        let differences = then.compare(&self.header()?);
        if !differences.is_empty() {
            let message = format!("the run `{}` cannot be resumed: {differences}", then.run);
            return Err(Failure::input(message).with_help(START_ANEW));
        }
        if let Some((before, now)) = &differences.version {
            world.notify(&format!("the run was started with KindLM {before}, and this is {now}"));
        }
        self.info.id = then.run.to_string();
        self.info.started_at = then.started_at.to_string();
        Ok(())
    }

    /// Creates the run's journal, or continues the journal of `past`.
    pub(crate) fn keep(
        &self,
        world: &World,
        place: &SuiteFolder,
        past: Option<Past>,
    ) -> Result<Kept, Failure> {
        let secrets = Secrets::new(world, &self.suite.providers);
        let runs = Runs::new(place.state());
        if let Some(Past(journal)) = past {
            let resumed = JournalWriter::resume(&journal, Durability::Flush);
            let (writer, index) = resumed.map_err(|err| Failure::journal(&err))?;
            runs.begin(&self.info.id).map_err(|err| Failure::store(&err))?;
            let open = open_units(&index, self.suite, self.plan);
            report_damaged(world, &index, &open);
            world.notify(&if open.is_empty() {
                format!("run {} is complete: nothing is sent, here is its report", self.info.id)
            } else {
                let done = done_of(index.done(), self.suite, self.plan);
                format!("run {}: {done}, going on", self.info.id)
            });
            let past = kept::EarlierRun { journal, index, is_complete: open.is_empty() };
            return Kept::new(writer, Some(past), secrets);
        }
        let help = |failure: Failure| {
            failure.with_help(
                "nothing was sent: answers are stored there as they arrive; to run without a journal, use \
                 `--no-journal`",
            )
        };
        let folder = runs.run_folder(&self.info.id).map_err(|err| Failure::store(&err))?;
        let header = self.header()?;
        // Register the run as the newest run before its journal is created, so that every journal belongs to a
        // registered run.
        runs.begin(&self.info.id).map_err(|err| help(Failure::store(&err)))?;
        let writer = JournalWriter::create(folder, &header, Durability::Flush);
        let writer = writer.map_err(|err| help(Failure::journal(&err)))?;
        Kept::new(writer, None, secrets)
    }

    fn header(&self) -> Result<Header<'_>, Failure> {
        let of = (self.suite, self.files as _);
        header::build_header(self.info, of, self.plan, self.baseline, self.arguments.clone())
    }
}

/// Returns the stored duration of a run in milliseconds.
///
/// Returns `None` if its report cannot be read.
pub(crate) fn duration_before(place: &SuiteFolder, id: &str) -> Option<f64> {
    let report = Runs::new(place.state()).each_case(id, &mut |_| {});
    Some(report.ok()?.run.duration_ms)
}

/// Returns the command that resumes a run, in backticks.
pub(crate) fn command(place: &SuiteFolder, id: &str) -> String {
    match place.name.as_str() {
        CONFIG => format!("`kindlm test --resume {id}`"),
        name => format!("`kindlm test -c {name} --resume {id}`"),
    }
}

/// Describes the missing executions, and the command that resumes the run.
///
/// An execution is missing if it was not run, or if a provider failed. Returns `None` if no execution is missing.
pub(crate) fn advice(place: &SuiteFolder, id: &str, summary: &Summary) -> Option<String> {
    let (not_run, errored) = (summary.not_run, summary.failed_by_provider);
    let what = match (not_run, errored) {
        (0, 0) => return None,
        (0, 1) => "1 execution was errored by a provider".to_owned(),
        (0, many) => format!("{many} executions were errored by a provider"),
        (1, _) => "1 execution was not run".to_owned(),
        (many, _) => format!("{many} executions were not run"),
    };
    let command = command(place, id);
    Some(format!("{what}: {command} runs only what is missing or errored"))
}
