//! The runs that the server shows.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kindlm_reporters::{ServedRun, case_difference, one_line, serve_run};
use kindlm_store::{Baseline, ReportError, Runs, SavedCases, StoreError};
use kindlm_types::{CaseResult, CaseSource, Report};
use kindlm_wire::v1::RunHead;
use lru::LruCache;
use serde_json::{Value, json};

use crate::compare::{self, Side};
use crate::history::PastRuns;
use crate::saved::Saved;
use crate::suites::SuiteKey;
use crate::{SuiteFolder, World};

/// The maximum number of runs in the history.
const HISTORY: usize = 30;
/// The number of runs that stay in memory, in compressed form.
const OPEN: NonZeroUsize = NonZeroUsize::new(4).unwrap();

/// The reason why data cannot be served.
#[derive(Debug)]
pub(super) enum NotServed {
    /// There is no such run or part.
    Absent(String),
    /// The data cannot be read.
    Failed(String),
}

/// A run with its report open.
pub(super) struct OpenRun {
    report: Report<SavedCases>,
    head: RunHead,
    served: OnceLock<ServedRun>,
}

impl OpenRun {
    fn new(report: Report<SavedCases>) -> Self {
        let head = RunHead::of(&report);
        Self { report, head, served: OnceLock::new() }
    }

    pub(super) fn head(&self) -> &RunHead {
        &self.head
    }

    /// Returns the data for the page, which is rendered on the first request.
    pub(super) fn served(&self) -> Result<&ServedRun, NotServed> {
        if let Some(served) = self.served.get() {
            return Ok(served);
        }
        let served = serve_run(&self.report).map_err(|err| NotServed::Failed(err.to_string()))?;
        Ok(self.served.get_or_init(|| served))
    }

    fn side(&self) -> Result<Side, NotServed> {
        let results =
            Baseline::of(&self.report).map_err(|err| NotServed::Failed(err.to_string()))?;
        Ok(Side { name: format!("run `{}`", self.head.run), results })
    }

    fn case(&self, name: &str, model: &str) -> Result<Option<CaseResult>, NotServed> {
        let cases = &self.report.cases;
        let of_model =
            (0..cases.len()).filter(|at| cases.mark(*at).is_some_and(|it| it.model == model));
        for position in of_model {
            let case = cases.read(position).map_err(|err| NotServed::Failed(err.to_string()))?;
            if case.case == name {
                return Ok(Some(case.into_owned()));
            }
        }
        Ok(None)
    }
}

/// The run to show, and the other runs of its suite.
pub(super) struct Library {
    runs: Runs,
    past: PastRuns,
    shown: Arc<OpenRun>,
    open: Mutex<LruCache<String, Arc<OpenRun>>>,
}

impl Library {
    pub(super) fn new(world: &World, place: &SuiteFolder, saved: Saved) -> Self {
        let runs = Runs::new(place.state());
        let of = SuiteKey::new(place, &saved.report.suite);
        Self {
            past: PastRuns::new(world, runs.clone(), of),
            runs,
            shown: Arc::new(OpenRun::new(saved.report)),
            open: Mutex::new(LruCache::new(OPEN)),
        }
    }

    /// Opens a run of the folder by its whole id. An empty id is the run to show.
    pub(super) fn open(&self, id: &str) -> Result<Arc<OpenRun>, NotServed> {
        if id.is_empty() || id == self.shown.head.run {
            return Ok(Arc::clone(&self.shown));
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = open.get(id) {
            return Ok(Arc::clone(found));
        }
        let report = self.runs.open(id).map_err(|err| match err {
            ReportError::Store(StoreError::BadName { .. } | StoreError::NoSuchRun { .. }) => {
                NotServed::Absent(format!("there is no run `{}`", one_line(id)))
            }
            err => NotServed::Failed(format!("cannot read the run `{id}`: {err}")),
        })?;
        let run = Arc::new(OpenRun::new(report));
        open.put(id.to_owned(), Arc::clone(&run));
        Ok(run)
    }

    /// Returns the totals of the newest runs of the suite, oldest first.
    pub(super) fn heads(&self) -> Vec<RunHead> {
        self.past.heads(HISTORY)
    }

    /// Returns the outcomes of a case in the newest runs of the suite, oldest first.
    pub(super) fn history(&self, case: &str, model: &str) -> Vec<Value> {
        let key = (case.to_owned(), model.to_owned());
        let heads = self.heads();
        let found = heads.iter().filter_map(|head| {
            let results = self.past.results(&head.run)?;
            let past = results.cases.get(&key)?;
            Some(json!({
                "run": head.run,
                "startedAt": head.started_at,
                "outcome": past.outcome,
                "held": past.held,
                "of": past.executed,
            }))
        });
        found.collect()
    }

    /// Compares a run with the run `base`, as `kindlm compare` does without a margin.
    pub(super) fn compare(&self, base: &str, after: &OpenRun) -> Result<Value, NotServed> {
        let comparison = compare::compare(&self.base(base)?.side()?, &after.side()?, None);
        Ok(json!({ "comparison": comparison }))
    }

    fn base(&self, id: &str) -> Result<Arc<OpenRun>, NotServed> {
        if id.is_empty() {
            return Err(NotServed::Absent("the parameter `base` has no run".to_owned()));
        }
        self.open(id)
    }

    /// Returns both sides of a case, and the difference of their texts.
    pub(super) fn difference(
        &self,
        base: &str,
        after: &OpenRun,
        case: &str,
        model: &str,
    ) -> Result<Value, NotServed> {
        let before = self.base(base)?.case(case, model)?;
        let after = after.case(case, model)?;
        if before.is_none() && after.is_none() {
            return Err(NotServed::Absent("no run has this case".to_owned()));
        }
        Ok(case_difference(before.as_ref(), after.as_ref()))
    }
}
