//! Asks models the questions of records.

use std::sync::atomic::{AtomicBool, Ordering};

use kindlm_assertions::{Check, Evidence};
use kindlm_engine::{Judged, Judges, Model, judge};
use kindlm_types::{Answers, Backend, Execution, Question};
use tokio::runtime::Runtime;

use crate::Failure;

/// Models to ask, or none; scripts are run in any case.
pub(super) struct Asking<'a> {
    judges: Judges<'a>,
    runtime: Runtime,
    /// True if there is a model to ask.
    has_judge: bool,
    /// True if a check asked a model although there is none.
    lacked_judge: AtomicBool,
}

impl<'a> Asking<'a> {
    /// Asks one of these models; `default` where a check names none. Without `models`, checks that want one are errored.
    pub(super) fn new(
        backend: &'a dyn Backend,
        models: Option<&'a [Model]>,
        default: Option<&'a str>,
        concurrency: usize,
        budget_usd: Option<f64>,
    ) -> Result<Self, Failure> {
        let judges = Judges::new(backend, models.unwrap_or_default(), default)
            .with_concurrency(concurrency)
            .with_budget(budget_usd);
        let (has_judge, lacked_judge) = (models.is_some(), AtomicBool::new(false));
        Ok(Self { judges, runtime: runtime()?, has_judge, lacked_judge })
    }

    /// True if a check asked a model although there is none.
    pub(super) fn lacked_judge(&self) -> bool {
        self.lacked_judge.load(Ordering::Relaxed)
    }

    /// Why models are not asked any more, if the budget is spent.
    pub(super) fn exhausted(&self) -> Option<&str> {
        self.judges.exhausted()
    }

    pub(super) fn has_judge(&self) -> bool {
        self.has_judge
    }

    /// Asks, waits, and evaluates.
    pub(super) fn judge(
        &self,
        checks: &[Check],
        execution: &Execution,
        baseline: Option<&str>,
    ) -> Judged {
        let judged = judge(checks, execution, baseline, &self.judges);
        let judged = self.runtime.handle().block_on(judged);
        if !self.has_judge && checks.iter().any(|it| asks_a_model(it, execution, baseline)) {
            self.lacked_judge.store(true, Ordering::Relaxed);
        }
        judged
    }
}

/// True if a check has a question for a model.
fn asks_a_model(check: &Check, execution: &Execution, baseline: Option<&str>) -> bool {
    let answers = Answers::default();
    let evidence = Evidence { execution, answers: &answers, baseline, contest: None };
    let is_for_model = |it: &Question| !matches!(it, Question::Script(_));
    check.questions(&evidence).iter().any(is_for_model)
}

fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|err| Failure::internal(format!("cannot start: {err}")))
}
