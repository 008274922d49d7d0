//! Asks judge models the questions of records.

use kindlm_assertions::{Check, Evidence};
use kindlm_engine::{Judgement, Judges, Model, ObserveResults, judge, judge_observed, judge_of};
use kindlm_types::{Answers, Execution, Ports, Question};
use tokio::runtime::Runtime;

use super::caller::Caller;
use crate::Failure;

/// The error of a record that needs a judge model, if no judge model is configured.
///
/// The error ends the evaluation of a file or stream. A server reports the error for the single record.
#[derive(Debug)]
pub(super) struct NoJudge;

/// The reason why the checks of a record have no results.
#[derive(Debug)]
pub(super) enum NotJudged {
    NoJudge,
    /// The caller left during the evaluation.
    CallerLeft {
        /// True if judges may have been asked.
        asks_judges: bool,
    },
    /// The record has more scripts than an untrusted record may have.
    TooManyScripts {
        /// The number of scripts.
        count: usize,
        /// The highest permitted number.
        most: usize,
    },
}

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
    /// Without models, or if all models are agents, only scripts run.
    pub(super) fn new(
        ports: Ports<'a>,
        models: Option<&'a [Model]>,
        default: Option<&'a str>,
        concurrency: usize,
        budget_usd: Option<f64>,
    ) -> Result<Self, Failure> {
        let models = models.unwrap_or_default();
        let judges = Judges::new(ports, models, default)
            .with_concurrency(concurrency)
            .with_budget(budget_usd);
        // Agents do not judge.
        Ok(Self { judges, runtime: runtime()?, has_judge: judge_of(models, None).is_some() })
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
    /// Fails if a check needs a judge model and no judge model is configured, or if the caller leaves. If the caller
    /// leaves, requests and scripts that have not ended are cancelled.
    pub(super) fn judge(
        &self,
        checks: &[Check],
        execution: &Execution,
        baseline: Option<&str>,
        observe: Option<ObserveResults<'_>>,
        caller: &Caller,
    ) -> Result<Judgement, NotJudged> {
        let asks_models = || checks.iter().any(|it| asks_a_model(it, execution, baseline));
        if !self.has_judge && asks_models() {
            return Err(NotJudged::NoJudge);
        }
        let asks_judges = caller.can_leave() && asks_models();
        let judges = &self.judges;
        let judging = async {
            match observe {
                None => judge(checks, execution, baseline, judges).await,
                Some(observe) => judge_observed(checks, execution, baseline, judges, observe).await,
            }
        };
        self.runtime.handle().block_on(async {
            tokio::select! {
                biased;
                () = caller.must_end(asks_judges) => Err(NotJudged::CallerLeft { asks_judges }),
                judgement = judging => Ok(judgement),
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

/// Returns the number of scripts that the checks run before any question is answered.
pub(super) fn count_scripts(
    checks: &[Check],
    execution: &Execution,
    baseline: Option<&str>,
) -> usize {
    let answers = Answers::default();
    let evidence = Evidence { execution, answers: &answers, baseline, comparison: None };
    let questions = checks.iter().flat_map(|it| it.questions(&evidence));
    questions.filter(|it| matches!(it, Question::Script(_))).count()
}

fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|err| Failure::internal(format!("cannot start: {err}")))
}
