//! Asks judge models the questions of records.

use kindlm_assertions::{Check, Evidence};
use kindlm_engine::{Judgement, Judges, Model, ObserveResults, judge, judge_observed};
use kindlm_types::{Answers, Execution, Ports, Question};
use tokio::runtime::Runtime;

use crate::Failure;

/// The error of a record that needs a judge model, if no judge model is configured.
///
/// It ends the evaluation of a file or stream. A server reports it for the single record.
#[derive(Debug)]
pub(super) struct NoJudge;

impl From<NoJudge> for Failure {
    fn from(NoJudge: NoJudge) -> Self {
        Self::input("some checks need a judge model, but no model is configured").with_help(
            "name one with `--judge provider:model` (and `--base-url`, `--api-key-env`), or a file with `providers` and `models` with `-c`",
        )
    }
}

/// The judges of an evaluation, and the runtime for their requests. Scripts run even without a judge model.
pub(super) struct Asking<'a> {
    judges: Judges<'a>,
    runtime: Runtime,
    /// True if a judge model is configured.
    has_judge: bool,
}

impl<'a> Asking<'a> {
    /// Creates the judges; `default` is the model for checks that name no model.
    ///
    /// Without `models`, only scripts run.
    pub(super) fn new(
        ports: Ports<'a>,
        models: Option<&'a [Model]>,
        default: Option<&'a str>,
        concurrency: usize,
        budget_usd: Option<f64>,
    ) -> Result<Self, Failure> {
        let judges = Judges::new(ports, models.unwrap_or_default(), default)
            .with_concurrency(concurrency)
            .with_budget(budget_usd);
        Ok(Self { judges, runtime: runtime()?, has_judge: models.is_some() })
    }

    /// Returns the reason why no more questions are asked.
    ///
    /// Returns `None` if the budget is not used up.
    pub(super) fn exhausted(&self) -> Option<&str> {
        self.judges.exhausted()
    }

    pub(super) fn has_judge(&self) -> bool {
        self.has_judge
    }

    /// Asks the questions of the checks, and evaluates the checks with the answers.
    ///
    /// `observe` receives the results of each check when its questions are answered.
    ///
    /// # Errors
    ///
    /// Fails if a check needs a judge model and no judge model is configured.
    pub(super) fn judge(
        &self,
        checks: &[Check],
        execution: &Execution,
        baseline: Option<&str>,
        observe: Option<ObserveResults<'_>>,
    ) -> Result<Judgement, NoJudge> {
        if !self.has_judge && checks.iter().any(|it| asks_a_model(it, execution, baseline)) {
            return Err(NoJudge);
        }
        let (runtime, judges) = (self.runtime.handle(), &self.judges);
        Ok(match observe {
            None => runtime.block_on(judge(checks, execution, baseline, judges)),
            Some(observe) => {
                runtime.block_on(judge_observed(checks, execution, baseline, judges, observe))
            }
        })
    }
}

/// True if a check has a question for a model, which includes embedding models.
fn asks_a_model(check: &Check, execution: &Execution, baseline: Option<&str>) -> bool {
    let answers = Answers::default();
    let evidence = Evidence { execution, answers: &answers, baseline, comparison: None };
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
