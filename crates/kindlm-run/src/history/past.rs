//! The stored runs of a suite, with the results of their cases, for `kindlm history` and the page of `kindlm view`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use indexmap::IndexMap;
use kindlm_stats::Tally;
use kindlm_store::{Conditions, Runs};
use kindlm_types::{CaseResult, Cost, FileDigest, Outcome, RateCount, Report};
use kindlm_wire::v1::RunHead;

use crate::World;
use crate::suites::SuiteKey;

/// The stored runs of a suite. The results of a run are read once.
pub(crate) struct PastRuns {
    world: World,
    runs: Runs,
    of: SuiteKey,
    read: Mutex<HashMap<String, Arc<PastResults>>>,
}

/// The newest runs of a suite.
pub(super) struct Newest {
    /// The totals of the runs, oldest first.
    pub(super) heads: Vec<RunHead>,
    /// True if there are older runs.
    pub(super) has_older: bool,
}

/// The results of a run, and the files and settings that they depend on.
pub(crate) struct PastResults {
    /// The cases by name and model, in the order of the run.
    pub(crate) cases: IndexMap<(String, String), PastCase>,
    /// The files of the suite with their digests, sorted by path.
    pub(super) files: Vec<FileDigest>,
    /// The prompts, rules, models and judges.
    pub(super) conditions: Conditions,
}

/// The result of a case in a run.
pub(crate) struct PastCase {
    /// The outcome of the case over all repeats.
    pub(crate) outcome: Outcome,
    /// The number of repeats that held.
    pub(crate) held: u32,
    /// The number of repeats that held, failed or could not be judged.
    pub(crate) executed: u32,
    /// The number of repeats that held, and the number of repeats that were judged.
    pub(super) judged: RateCount,
    /// The counts of `judged` without repeats that use an answer of the response store; `None` if no other repeat was
    /// judged.
    ///
    /// A stored answer is the same in each run, so it proves nothing about another run.
    pub(super) fresh: Option<Tally>,
    /// The number of repeats that could not be judged.
    pub(super) errored: u32,
    /// True if the results of earlier repeats decided when the repeats ended.
    pub(super) ends_early: bool,
    /// True if the repeats ended without a decision.
    pub(super) is_undecided: bool,
    /// The mean share of checks that passed, from 0 to 1; `None` if nothing was checked.
    pub(super) score: Option<f64>,
    /// The money spent on the model under test.
    pub(super) cost: Cost,
    /// The mean latency in milliseconds; `None` if it was not measured.
    pub(super) latency_ms: Option<f64>,
    /// The digest of the prompt, the variables and the checks; `None` if it was not recorded.
    pub(super) digest: Option<String>,
    /// The digest of the variables and the checks; `None` if it was not recorded.
    pub(super) task_digest: Option<String>,
}

impl PastRuns {
    pub(crate) fn new(world: &World, runs: Runs, of: SuiteKey) -> Self {
        Self { world: world.clone(), runs, of, read: Mutex::default() }
    }

    /// Returns the totals of the newest runs of the suite, oldest first. Runs that cannot be read are left out, after a
    /// notice.
    pub(crate) fn heads(&self, limit: usize) -> Vec<RunHead> {
        let mut heads: Vec<RunHead> = self.newest_first().take(limit).collect();
        heads.reverse();
        heads
    }

    /// Returns the newest runs of the suite.
    pub(super) fn newest(&self, limit: usize) -> Newest {
        let mut all = self.newest_first();
        let mut heads: Vec<RunHead> = all.by_ref().take(limit).collect();
        heads.reverse();
        Newest { heads, has_older: all.next().is_some() }
    }

    fn newest_first(&self) -> impl Iterator<Item = RunHead> {
        let ids = self.runs.list().unwrap_or_else(|err| {
            self.world.notify(&format!("there is no history: {err}"));
            Vec::new()
        });
        ids.into_iter().rev().filter_map(|id| match self.runs.head(&id) {
            Ok(head) => Some(head).filter(|it| self.of.has_head(it)),
            Err(err) => {
                self.world.notify(&format!("the history has no run `{id}`: {err}"));
                None
            }
        })
    }

    /// Returns the results of a run. If the run cannot be read, sends a notice and returns `None`.
    pub(crate) fn results(&self, id: &str) -> Option<Arc<PastResults>> {
        let mut all = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all.get(id) {
            return Some(Arc::clone(found));
        }
        let mut cases = IndexMap::new();
        let read = self.runs.each_case(id, &mut |case| {
            let past = PastCase::from_case(&case);
            cases.insert((case.case, case.model), past);
        });
        match read {
            Ok(report) => {
                let results = Arc::new(PastResults::new(cases, &report));
                all.insert(id.to_owned(), Arc::clone(&results));
                Some(results)
            }
            Err(err) => {
                self.world.notify(&format!("the history has no run `{id}`: {err}"));
                None
            }
        }
    }
}

impl PastResults {
    fn new(cases: IndexMap<(String, String), PastCase>, report: &Report) -> Self {
        Self { cases, files: report.suite.files.clone(), conditions: Conditions::of_suite(report) }
    }
}

impl PastCase {
    fn from_case(case: &CaseResult) -> Self {
        let counts = case.repeat_counts();
        let (held, failed) = (counts.held(), counts.failed);
        let fresh = || case.executions.iter().filter(|it| !it.execution.spend.cached);
        let number =
            |matches: fn(Outcome) -> bool| fresh().filter(|it| matches(it.outcome)).count() as u64;
        let (fresh_held, fresh_failed) =
            (number(Outcome::held), number(|it| it == Outcome::Failed));
        Self {
            outcome: case.outcome,
            held,
            executed: counts.executed(),
            judged: RateCount { count: held.into(), total: u64::from(held) + u64::from(failed) },
            fresh: Tally::new(fresh_held, fresh_held + fresh_failed).ok(),
            errored: counts.errored,
            ends_early: case.early_end.is_some(),
            is_undecided: case.is_undecided(),
            score: case.passed_share(),
            cost: case.cost,
            latency_ms: case.latency_avg_ms,
            digest: case.digest.clone(),
            task_digest: case.task_digest.clone(),
        }
    }

    /// Returns true if the case held, and false if it failed; `None` if the case was not decided.
    pub(super) fn decided(&self) -> Option<bool> {
        match self.outcome {
            Outcome::Passed | Outcome::Scored => Some(true),
            Outcome::Failed if !self.is_undecided => Some(false),
            Outcome::Failed | Outcome::Errored | Outcome::Skipped => None,
        }
    }
}
