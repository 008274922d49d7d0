//! The results of cases and gates.

use kindlm_stats::{Confidence, Decision, Interval};

use crate::{Class, Execution, ExecutionResult, FailureCode, Outcome, SourcePlace};

/// The scores of one check over the repeats of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreSummary {
    /// The assertion's id.
    pub assertion: String,
    /// The check's label.
    pub label: String,
    /// The class of the check: judged by a rule or by a model.
    pub class: Class,
    /// The mean score over the repeats that have a score; from 0 to 1 unless a script gave the scores.
    pub mean: f64,
    /// The lowest score.
    pub min: f64,
    /// The highest score.
    pub max: f64,
    /// The number of repeats that have a score.
    pub count: u32,
}

/// The money spent, as far as the prices are known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// The sum of the known costs, in US dollars.
    pub known_usd: f64,
    /// The number of executions whose cost is not fully known.
    ///
    /// If this number is above 0, the true cost may be higher than `known_usd`.
    pub unknown: u32,
}

impl Cost {
    /// Adds the known cost of one execution. If a part of its cost is unknown, the execution is counted in `unknown`.
    pub fn add(&mut self, execution: &Execution) {
        self.known_usd += execution.spent_at_least().unwrap_or_default();
        self.unknown += u32::from(execution.spent().is_none());
    }

    /// Returns the total cost in US dollars; `None` if a part of it is unknown.
    pub fn usd(self) -> Option<f64> {
        (self.unknown == 0).then_some(self.known_usd)
    }
}

/// The numbers of checks that passed, and of checks that passed or failed. Skipped and errored checks are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckCounts {
    /// The number of deterministic checks that passed.
    pub deterministic_passed: u64,
    /// The number of deterministic checks that passed or failed.
    pub deterministic_total: u64,
    /// The number of probabilistic checks that passed.
    pub probabilistic_passed: u64,
    /// The number of probabilistic checks that passed or failed.
    pub probabilistic_total: u64,
}

/// The stopping rule that can end the repeats of a case early, with the decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EarlyEnd {
    /// The maximum number of repeats.
    pub max: u32,
    /// The test of the pass rate.
    ///
    /// `None` if the repeats end when no further repeat can change the verdict.
    pub test: Option<RateTest>,
    /// The decision; `None` if the repeats ended without one.
    pub decision: Option<Decision>,
}

/// A sequential test of the pass rate of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateTest {
    /// The pass rate that is high enough, from 0 to 1.
    pub pass: f64,
    /// The pass rate that is too low, from 0 to 1.
    pub fail: f64,
    /// The highest probability of a wrong pass, from 0 to 1.
    pub alpha: f64,
    /// The highest probability of a wrong failure, from 0 to 1.
    pub beta: f64,
}

/// One test case on one model, over all its repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseResult {
    /// The test case's name.
    pub case: String,
    /// The model's id in the suite; `command` or `transcript` for tests that run on no model.
    pub model: String,
    /// The test case's tags.
    pub tags: Vec<String>,
    /// The digest of the requests and checks of the case; `None` if it was not computed.
    pub digest: Option<String>,
    /// The digest of the case without the prompt, command or transcript that is tested.
    ///
    /// Two runs with equal digests measured the same task. `None` if the digest was not computed.
    pub task_digest: Option<String>,
    /// The name of the cluster of cases that depend on each other, if the test sets one.
    pub cluster: Option<String>,
    /// The position among the cases of the whole run, from 0, if the report covers a shard.
    pub plan_index: Option<u64>,
    /// The place of the test in the suite, if it is known.
    pub source: Option<SourcePlace>,
    /// The outcome of the case.
    ///
    /// The outcome is `errored` if any repeat is errored, and else `skipped` if no repeat was judged. Otherwise, the
    /// outcome depends on the pass rate.
    pub outcome: Outcome,
    /// Passed repeats / judged repeats, from 0 to 1; 0 if no repeat could be judged.
    pub pass_rate: f64,
    /// The number of repeats that were executed.
    pub repeats: u32,
    /// The number of repeats with the outcome `errored`: they could not be executed or judged.
    pub errored_repeats: u32,
    /// The scores of each check, in order of first appearance.
    pub scores: Vec<ScoreSummary>,
    /// The distinct failure codes of the case, in order of first appearance.
    ///
    /// The codes come from failed checks of gate severity, errored checks, and executions that were not completed.
    pub failure_codes: Vec<FailureCode>,
    /// The numbers of checks that passed, and of checks that were judged.
    pub checks: CheckCounts,
    /// The mean latency in milliseconds over the repeats that measured one; `None` without such repeats.
    ///
    /// Cached replies and aborted executions are excluded.
    pub latency_avg_ms: Option<f64>,
    /// The money spent over all repeats.
    pub cost: Cost,
    /// The tokens used over all repeats.
    pub total_tokens: u64,
    /// The stopping rule of the repeats; `None` if the number of repeats is fixed.
    pub early_end: Option<EarlyEnd>,
    /// The repeats, sorted by `repeat`.
    pub executions: Vec<ExecutionResult>,
}

impl CaseResult {
    /// Creates a result without repeats, scores and costs.
    pub fn new(case: impl Into<String>, model: impl Into<String>, outcome: Outcome) -> Self {
        Self {
            case: case.into(),
            model: model.into(),
            tags: Vec::new(),
            digest: None,
            task_digest: None,
            cluster: None,
            plan_index: None,
            source: None,
            outcome,
            pass_rate: 0.0,
            repeats: 0,
            errored_repeats: 0,
            scores: Vec::new(),
            failure_codes: Vec::new(),
            checks: CheckCounts::default(),
            latency_avg_ms: None,
            cost: Cost::default(),
            total_tokens: 0,
            early_end: None,
            executions: Vec::new(),
        }
    }

    /// Returns true if the outcome is `passed` or `scored`.
    pub fn passed(&self) -> bool {
        self.outcome.held()
    }

    /// Returns the pass rate, from 0 to 1; `None` if no repeat was judged.
    pub fn judged_pass_rate(&self) -> Option<f64> {
        let is_judged = self.outcome != Outcome::Skipped && self.errored_repeats < self.repeats;
        is_judged.then_some(self.pass_rate)
    }

    /// Returns true if the test of the pass rate ended without a decision.
    ///
    /// The outcome of such a case is `failed`, because the repeats have not shown that the case passes.
    pub fn is_undecided(&self) -> bool {
        let is_open = self.early_end.is_some_and(|it| it.test.is_some() && it.decision.is_none());
        is_open && self.outcome == Outcome::Failed
    }

    /// Returns the 95% confidence interval of the pass rate; `None` if no repeat was judged.
    ///
    /// For a fixed number of repeats, the result is Wilson's interval. If the repeats may end early, Wilson's interval
    /// is too narrow, so the result is [`Tally::anytime`].
    ///
    /// [`Tally::anytime`]: kindlm_stats::Tally::anytime
    pub fn pass_interval(&self) -> Option<Interval> {
        let tally = self.judged()?;
        Some(match self.early_end {
            Some(_) => tally.anytime(Confidence::P95),
            None => tally.wilson(Confidence::P95),
        })
    }

    /// Returns the number of repeats that held, out of those that were judged; `None` if no repeat was judged.
    pub fn judged(&self) -> Option<kindlm_stats::Tally> {
        let counts = self.repeat_counts();
        let (held, failed) = (u64::from(counts.held()), u64::from(counts.failed));
        kindlm_stats::Tally::new(held, held + failed).ok()
    }

    /// Returns the number of planned repeats that were not executed; 0 if the number of repeats is fixed.
    pub fn unneeded_repeats(&self) -> u64 {
        let planned = self.early_end.map_or(0, |it| u64::from(it.max));
        planned.saturating_sub(self.executions.len() as u64)
    }

    /// Returns the number of repeats that an early decision made unnecessary; 0 without a decision.
    pub fn saved_repeats(&self) -> u64 {
        let decided = self.early_end.filter(|it| it.decision.is_some());
        let max = decided.map_or(0, |it| u64::from(it.max));
        max.saturating_sub(self.executions.len() as u64)
    }
}

/// The outcome of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateOutcome {
    /// The measured value meets the threshold.
    Held,
    /// The measured value does not meet the threshold.
    Violated,
    /// There was nothing to measure; the gate holds.
    NothingToMeasure,
}

/// The threshold of one gate, with the value measured over the whole run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GateResult {
    /// The gate's id, such as `passRateMin`.
    pub gate: String,
    /// The outcome.
    pub outcome: GateOutcome,
    /// The measured value; `None` if there was nothing to measure.
    pub actual: Option<f64>,
    /// The threshold.
    pub threshold: f64,
    /// The result as text: the measured value and the threshold, or the reason why nothing was measured.
    pub message: String,
}

impl GateResult {
    /// Creates the result of a gate without a measured value.
    pub fn new(
        gate: impl Into<String>,
        outcome: GateOutcome,
        threshold: f64,
        message: impl Into<String>,
    ) -> Self {
        Self { gate: gate.into(), outcome, actual: None, threshold, message: message.into() }
    }

    /// Sets the measured value.
    #[must_use]
    pub fn with_actual(mut self, actual: impl Into<Option<f64>>) -> Self {
        self.actual = actual.into();
        self
    }

    /// Returns true unless the gate is violated.
    pub fn passed(&self) -> bool {
        self.outcome != GateOutcome::Violated
    }
}
