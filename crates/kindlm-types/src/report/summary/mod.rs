//! The summary of a report: the counts, groups and orders that reporters show but never compute themselves.

mod breakdown;
mod case;
mod tally;

pub use breakdown::{
    AssertionSummary, Breakdown, FailingCase, NAMED_FAILURES, PROMPT_ASSERTION, prompt_assertion_id,
};
pub use case::{ErrorFinding, Finding, RepeatCounts};
pub use tally::Tally;

use crate::{
    CaseSource, Class, Cost, ExitStatus, FailureCode, GateResult, ProviderErrorKind, RateCount,
    Report,
};

/// Totals over all cases of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SuiteTotals {
    /// Cases of which something was checked.
    pub cases: u64,
    /// Cases in which everything held.
    pub passed: u64,
    /// Cases in which a soft check is below its threshold.
    pub scored: u64,
    /// Cases in which a gate-severity check failed.
    pub failed: u64,
    /// Cases that could not be executed or judged.
    pub errored: u64,
    /// Cases that were not run, or to which no check applied.
    pub skipped: u64,
    /// Executions, repeats included.
    pub executions: u64,
    /// Tokens of the models under test.
    pub tokens: u64,
    /// Money spent on the models under test.
    pub cost: Cost,
    /// Money spent on judges.
    pub judge_cost: Cost,
    /// Input tokens of judges that their providers read from a prompt cache.
    pub judge_cached_tokens: u64,
    /// The mean over the cases of the share of checks that passed (see [`CaseResult::passed_share`]), from 0 to 1;
    /// `None` where nothing was checked.
    ///
    /// [`CaseResult::passed_share`]: crate::CaseResult::passed_share
    pub average_score: Option<f64>,
}

impl SuiteTotals {
    /// Cases that held, out of those of which something was checked.
    pub fn held(&self) -> RateCount {
        RateCount { count: self.passed + self.scored, total: self.cases }
    }

    /// True if something was executed, and no check applied to any of it.
    pub fn unchecked(&self) -> bool {
        self.cases == 0 && self.executions > 0
    }

    /// Cases that were run or skipped.
    pub fn listed(&self) -> u64 {
        self.cases + self.skipped
    }
}

/// The totals of the cases of one model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTotals {
    /// The model's id in the suite.
    pub model: String,
    /// The totals of its cases.
    pub totals: SuiteTotals,
    /// The mean over its cases of their mean latency, in milliseconds; `None` if nothing was measured.
    pub latency_avg_ms: Option<f64>,
    /// Time spent waiting for the provider over all its cases and repeats, in milliseconds.
    pub latency_total_ms: f64,
    /// The totals of its named scores, in order of first appearance.
    pub named_scores: Vec<NamedTotal>,
}

/// The total of one named score over the executions of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTotal {
    /// Its name.
    pub name: String,
    /// The sum of the scores, each multiplied by the weight with which it counts.
    pub sum: f64,
    /// The sum of these weights; above 0.
    pub weight: f64,
    /// The number of executions that have the score.
    pub count: u64,
}

impl NamedTotal {
    /// The weighted mean.
    pub fn mean(&self) -> f64 {
        self.sum / self.weight
    }
}

/// The totals of the cases with one tag.
#[derive(Clone, Debug, PartialEq)]
pub struct TagTotals {
    /// The tag.
    pub tag: String,
    /// The totals of the cases that have it.
    pub totals: SuiteTotals,
}

/// The totals of a report. Its size does not depend on the number of cases.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Totals over all cases.
    pub totals: SuiteTotals,
    /// Checks by rules that passed, of those that were judged.
    pub deterministic: RateCount,
    /// Checks by a model that passed, of those that were judged.
    pub probabilistic: RateCount,
    /// All models that have results: in the order of the suite, then others such as `command`.
    pub models: Vec<ModelTotals>,
    /// The totals by tag, in order of the tags' names.
    pub tags: Vec<TagTotals>,
    /// The totals of the cases without any tag; `None` if there are no such cases.
    pub untagged: Option<SuiteTotals>,
    /// The counts of each prompt assertion, in order of first appearance.
    pub assertions: Vec<AssertionSummary>,
    /// The distinct failure codes of all cases, in order of first appearance; errors of providers included.
    pub failure_codes: Vec<FailureCode>,
    /// The first failure code that a case has.
    pub first_code: Option<FailureCode>,
    /// The distinct kinds of provider errors that executions broke off with, in order of first appearance.
    pub provider_error_kinds: Vec<ProviderErrorKind>,
    /// Executions that were answered from the response store.
    pub cached_executions: u64,
    /// Executions whose cost is unknown because no answer reported its tokens.
    pub uncounted_executions: u64,
    /// Executions that broke off, or were not run.
    pub broken_off: u64,
    /// Executions that were not run.
    pub not_run: u64,
    /// Executions that a provider's errors left unanswered or unjudged.
    pub failed_by_provider: u64,
    /// The exit status that this report calls for. The gates of a part of a run do not count: they are about the
    /// whole.
    pub exit_status: ExitStatus,
}

impl Summary {
    /// The number of checks of a class that passed, and of those that were judged.
    pub fn checks(&self, class: Class) -> RateCount {
        match class {
            Class::Deterministic => self.deterministic,
            Class::Probabilistic => self.probabilistic,
        }
    }
}

impl<C: CaseSource + ?Sized> Report<C> {
    /// The totals of the report.
    ///
    /// A report that holds its cases goes through all of them each time.
    pub fn summary(&self) -> Summary {
        let tally = self.cases.tally();
        // Executions that were not run prove nothing, whatever the gates make of the others.
        let holds = self.gates_passed() && !tally.was_cut_short();
        let mut status = if holds || self.shard.is_some() {
            ExitStatus::Success
        } else {
            ExitStatus::GatesFailed
        };
        status = status.or(tally.exit_status());
        if self.run.interrupted {
            status = status.or(ExitStatus::Interrupted);
        }
        tally.summary(&self.models, &self.skipped, status)
    }

    /// Totals over all cases.
    pub fn totals(&self) -> SuiteTotals {
        self.summary().totals
    }

    /// The exit status that this report calls for. The gates of a part of a run do not count: they are about the
    /// whole.
    pub fn exit_status(&self) -> ExitStatus {
        self.summary().exit_status
    }

    /// True if every gate held.
    pub fn gates_passed(&self) -> bool {
        self.gates.iter().all(GateResult::passed)
    }

    /// The gates that broke.
    pub fn broken_gates(&self) -> impl Iterator<Item = &GateResult> {
        self.gates.iter().filter(|gate| !gate.passed())
    }
}
