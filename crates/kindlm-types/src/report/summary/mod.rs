//! The summary of a report: totals and groups for reporters, which do not compute them.

mod breakdown;
mod case;
mod causes;
mod paired;
mod tally;

pub use breakdown::{
    AssertionSummary, Breakdown, FailingCase, NAMED_FAILURES, PROMPT_ASSERTION, prompt_assertion_id,
};
pub use case::{ErrorFinding, Finding, RepeatCounts};
pub use causes::{CauseTotals, cause_key, error_cause_key};
pub use paired::ModelDifference;
pub use tally::Tally;

use kindlm_stats::Interval;

use crate::{
    CaseSource, Class, Cost, ExitStatus, FailureCode, GateResult, JudgeSpending, MeasuredRate,
    ProviderErrorKind, Report,
};

/// The totals over all cases of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SuiteTotals {
    /// The number of cases that were not skipped.
    pub cases: u64,
    /// The number of cases that held, and of which no repeat is scored.
    pub passed: u64,
    /// The number of cases that held, with at least one scored repeat (a soft check failed).
    pub scored: u64,
    /// The number of cases whose pass rate is too low or undecided.
    pub failed: u64,
    /// The number of failed cases whose repeats ended without a decision. They are part of `failed`.
    pub undecided: u64,
    /// The number of repeats that were not executed, because earlier repeats had decided the outcome.
    pub saved_repeats: u64,
    /// The number of cases that could not be executed or judged.
    pub errored: u64,
    /// The number of cases that were not run, or to which no check applied.
    pub skipped: u64,
    /// The number of executions, including repeats.
    pub executions: u64,
    /// The tokens of the models under test.
    pub tokens: u64,
    /// The money spent on the models under test.
    pub cost: Cost,
    /// The money spent on judges.
    pub judge_cost: Cost,
    /// The input tokens of judges that their providers read from a prompt cache.
    pub judge_cached_tokens: u64,
    /// The mean over the cases of the share of checks that passed, from 0 to 1; `None` if nothing was checked.
    ///
    /// See [`CaseResult::passed_share`].
    ///
    /// [`CaseResult::passed_share`]: crate::CaseResult::passed_share
    pub average_score: Option<f64>,
    /// The 95% confidence interval of the share of cases that held; `None` without cases.
    pub held_interval: Option<Interval>,
}

impl SuiteTotals {
    /// Returns the number of cases that held, out of those that were not skipped.
    pub fn held(&self) -> MeasuredRate {
        let count = self.passed + self.scored;
        MeasuredRate { count, total: self.cases, interval: self.held_interval }
    }

    /// Returns true if executions were counted, but all cases were skipped.
    pub fn unchecked(&self) -> bool {
        self.cases == 0 && self.executions > 0
    }

    /// Returns the number of cases that were run or skipped.
    pub fn listed(&self) -> u64 {
        self.cases + self.skipped
    }
}

/// The totals of the cases of one model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelTotals {
    /// The model's id in the suite.
    pub model: String,
    /// The totals of the model's cases.
    pub totals: SuiteTotals,
    /// The mean of the mean latencies of the model's cases, in milliseconds; `None` if nothing was measured.
    pub latency_avg_ms: Option<f64>,
    /// The time spent waiting for the provider over all cases and repeats, in milliseconds.
    pub latency_total_ms: f64,
    /// The cases that held in some repeats and failed in others, out of all cases with at least two executed repeats.
    pub flaky: MeasuredRate,
    /// The latency of an execution in milliseconds; `None` if nothing was measured.
    ///
    /// Replies from the response store are excluded.
    pub latency_ms: Option<Percentiles>,
    /// The tokens of an execution; `None` if no tokens were reported.
    pub tokens: Option<Percentiles>,
    /// The cost of an execution in US dollars; `None` if no cost is known.
    pub cost_usd: Option<Percentiles>,
    /// The histograms of the latency, the tokens and the cost; empty if nothing was measured.
    ///
    /// For each quantity, the histograms of all models have the same bins.
    pub distributions: Vec<Distribution>,
    /// The totals of the model's named scores, in order of first appearance.
    pub named_scores: Vec<NamedTotal>,
}

/// The histogram of a quantity over the executions of a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Distribution {
    /// The quantity.
    pub quantity: Quantity,
    /// The upper end of the last bin. The first bin starts at 0.
    pub end: f64,
    /// The number of executions in each bin. All bins have equal width. The last bin also counts the executions above
    /// `end`.
    pub bins: Vec<u64>,
    /// The percentiles of the model's executions.
    pub percentiles: Percentiles,
}

/// A quantity that is measured for each execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// The latency in milliseconds, without answers from the response store.
    Latency,
    /// The tokens of the prompts and answers.
    Tokens,
    /// The cost in US dollars, where it is known.
    Cost,
}

/// The percentiles of a quantity, to three significant digits.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
}

/// The total of one named score over the executions of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTotal {
    /// The score's name.
    pub name: String,
    /// The sum of the scores, each multiplied by its weight.
    pub sum: f64,
    /// The sum of the weights; above 0.
    pub weight: f64,
    /// The number of executions that have the score.
    pub count: u64,
}

impl NamedTotal {
    /// Returns the weighted mean of the score.
    pub fn mean(&self) -> f64 {
        self.sum / self.weight
    }
}

/// The totals of the cases with one tag.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TagTotals {
    /// The tag.
    pub tag: String,
    /// The totals of the cases that have the tag.
    pub totals: SuiteTotals,
}

/// The totals of a report. Their size does not depend on the number of cases.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// The totals over all cases.
    pub totals: SuiteTotals,
    /// The number of deterministic checks that passed, out of those that were judged.
    pub deterministic: MeasuredRate,
    /// The number of probabilistic checks that passed, out of those that were judged.
    pub probabilistic: MeasuredRate,
    /// The totals of all models that have results.
    ///
    /// Models are in the order of the suite, followed by others such as `command`.
    pub models: Vec<ModelTotals>,
    /// The answers, tokens and money of each judge, without canaries, sorted by their ids.
    pub judges: Vec<JudgeSpending>,
    /// The totals by tag, in order of the tags' names.
    pub tags: Vec<TagTotals>,
    /// The totals of the cases without any tag; `None` if there are no such cases.
    pub untagged: Option<SuiteTotals>,
    /// The totals of each prompt assertion, in order of first appearance.
    pub assertions: Vec<AssertionSummary>,
    /// The causes why cases did not hold, the most frequent first; at most 500.
    ///
    /// If there are more than 500, the causes of the cases that finished first are listed.
    pub causes: Vec<CauseTotals>,
    /// The number of failures of causes that are not listed. A case counts once for each of these causes.
    pub failures_left_out: u64,
    /// The cases that held in some repeats and failed in others, out of all cases with at least two executed repeats.
    pub flaky: MeasuredRate,
    /// The distinct failure codes of all cases, including provider errors.
    ///
    /// The codes are in order of first appearance.
    pub failure_codes: Vec<FailureCode>,
    /// The first failure code in `CaseResult::failure_codes`, in the order of the plan; `None` without such a code.
    pub first_code: Option<FailureCode>,
    /// The distinct kinds of provider errors that aborted executions.
    ///
    /// The kinds are in order of first appearance.
    pub provider_error_kinds: Vec<ProviderErrorKind>,
    /// The number of executions with a reply from the response store.
    pub cached_executions: u64,
    /// The number of executions of unknown cost because an answer did not report its tokens.
    pub uncounted_executions: u64,
    /// The number of executions with an execution error, including executions that were not run.
    pub broken_off: u64,
    /// The number of executions that were not started or not finished, because the run stopped.
    pub not_run: u64,
    /// The number of executions that are unanswered or unjudged because of provider errors.
    pub failed_by_provider: u64,
    /// The exit status of the run. In a shard, gates do not affect it, because they apply to the whole run.
    pub exit_status: ExitStatus,
}

impl Summary {
    /// Returns the number of checks of a class that passed, out of those that were judged.
    pub fn checks(&self, class: Class) -> MeasuredRate {
        match class {
            Class::Deterministic => self.deterministic,
            Class::Probabilistic => self.probabilistic,
        }
    }
}

impl<C: CaseSource + ?Sized> Report<C> {
    /// Returns the totals of the report.
    ///
    /// A report that holds its cases in memory computes the totals on each call.
    pub fn summary(&self) -> Summary {
        let tally = self.cases.tally();
        // A run with executions that were not run cannot succeed, even if the gates hold for all other executions.
        let gates_hold = self.shard.is_some() || self.gates_passed();
        let mut status = if gates_hold && !tally.was_cut_short() {
            ExitStatus::Success
        } else {
            ExitStatus::GatesFailed
        };
        status = status.or(tally.exit_status());
        if self.run.interrupted {
            status = status.or(ExitStatus::Interrupted);
        }
        let mut summary = tally.summary(&self.models, &self.skipped, status);
        let spent = &mut summary.totals.judge_cost;
        for watch in &self.canaries {
            spent.known_usd += watch.known_cost_usd;
            spent.unknown = spent.unknown.saturating_add(u32::from(watch.cost_usd.is_none()));
        }
        summary
    }

    /// Returns the differences between the first model of the report and each other model, on their common tests.
    pub fn model_differences(&self) -> Vec<ModelDifference> {
        self.cases.tally().model_differences(&self.models)
    }

    /// Returns the totals over all cases.
    pub fn totals(&self) -> SuiteTotals {
        self.summary().totals
    }

    /// Returns the exit status of the run.
    ///
    /// In a shard, gates do not affect the status, because they apply to the whole run.
    pub fn exit_status(&self) -> ExitStatus {
        self.summary().exit_status
    }

    /// Returns true if every gate held.
    pub fn gates_passed(&self) -> bool {
        self.gates.iter().all(GateResult::passed)
    }

    /// Returns the gates that are violated.
    pub fn violated_gates(&self) -> impl Iterator<Item = &GateResult> {
        self.gates.iter().filter(|gate| !gate.passed())
    }
}
