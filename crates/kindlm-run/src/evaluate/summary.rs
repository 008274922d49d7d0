//! The summary of a stream of records.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use kindlm_types::{AssertionResult, Breakdown, Mean, Outcome, Verdict};
use kindlm_wire as wire;
use kindlm_wire::evaluate::{
    AssertionBreakdown, BatchResults, BatchSummary, EvaluatedResult, Evaluation,
};
use serde::Deserialize as _;
use serde_json::Value;

use crate::Failure;

/// The maximum number of prompt assertions with counts, which bounds the memory.
const ASSERTIONS: usize = 1_000;

/// The sums over all records, for any number of threads.
pub(super) struct Totals(Mutex<Sums>);

struct Sums {
    results: BatchResults,
    score: Mean,
    breakdown: Breakdown,
}

impl Default for Totals {
    fn default() -> Self {
        Self(Mutex::new(Sums {
            results: BatchResults::default(),
            score: Mean::default(),
            breakdown: Breakdown::with_limit(ASSERTIONS),
        }))
    }
}

impl Totals {
    /// Adds the result of the record on this line to the sums.
    pub(super) fn observe(&self, line: u64, evaluation: &Evaluation, results: &[AssertionResult]) {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Sums { results: counts, score, breakdown } = &mut *sums;
        match evaluation.outcome {
            Outcome::Passed | Outcome::Scored => counts.passed_cases += 1,
            Outcome::Failed => counts.failed_cases += 1,
            Outcome::Errored => counts.errored_cases += 1,
            Outcome::Skipped => counts.skipped_cases += 1,
        }
        if evaluation.outcome != Outcome::Skipped {
            counts.total_cases += 1;
        }
        if let Some(it) = evaluation.score {
            score.add(it);
        }
        let name = match &evaluation.id {
            Some(Value::String(id)) => id.clone(),
            Some(id) => id.to_string(),
            None => format!("line {line}"),
        };
        let position = usize::try_from(line).unwrap_or(usize::MAX);
        breakdown.observe(position, None, (&name, ""), results);
    }

    /// Counts a line that is not a valid record.
    pub(super) fn malformed(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).results.malformed_lines += 1;
    }

    /// Counts a record whose checks could not be evaluated.
    pub(super) fn errored(&self) {
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sums.results.errored_cases += 1;
        sums.results.total_cases += 1;
    }

    /// Returns true if no line was counted.
    pub(super) fn is_empty(&self) -> bool {
        let sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let BatchResults { total_cases, skipped_cases, malformed_lines, .. } = sums.results;
        total_cases + skipped_cases + malformed_lines == 0
    }

    /// Returns the number of results and their outcomes, as text. `kept` is the number of reused results.
    pub(super) fn describe(&self, kept: u64) -> String {
        let sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let BatchResults {
            passed_cases,
            failed_cases,
            errored_cases,
            skipped_cases,
            malformed_lines,
            ..
        } = sums.results;
        let all = passed_cases + failed_cases + errored_cases + skipped_cases + malformed_lines;
        let parts = [
            (passed_cases, "passed"),
            (failed_cases, "failed"),
            (errored_cases, "errored"),
            (skipped_cases, "skipped"),
            (malformed_lines, "malformed"),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        let results = if all == 1 { "1 result".to_owned() } else { format!("{all} results") };
        let parts =
            if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
        match kept {
            0 => results + &parts,
            kept => format!("{results}{parts}, {kept} of them from an earlier run"),
        }
    }

    /// Returns the summary of all records so far.
    pub(super) fn summary(
        &self,
        agent_id: Option<String>,
        test_suite: Option<String>,
        stopped: Option<String>,
    ) -> BatchSummary {
        let sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let assertions = sums.breakdown.summaries().into_iter();
        let results = BatchResults {
            average_score: sums.score.value(),
            assertion_breakdown: assertions
                .map(|it| (it.id.clone(), AssertionBreakdown::from(it)))
                .collect(),
            results_left_out: sums.breakdown.left_out(),
            ..sums.results.clone()
        };
        BatchSummary { agent_id, test_suite, stopped, results }
    }

    /// Writes the summary into a file.
    pub(super) fn write(
        &self,
        path: &Path,
        agent_id: Option<String>,
        test_suite: Option<String>,
        stopped: Option<String>,
    ) -> Result<(), Failure> {
        let summary = self.summary(agent_id, test_suite, stopped);
        let failed = |why: String| {
            Failure::internal(format!("cannot write the summary `{}`: {why}", path.display()))
        };
        let mut json =
            serde_json::to_vec_pretty(&summary).map_err(|err| failed(err.to_string()))?;
        json.push(b'\n');
        kindlm_store::write(path, &json).map_err(|err| failed(err.to_string()))
    }
}

/// Rebuilds the results of prompt assertions from an evaluation.
///
/// The results have only the fields that the summary needs.
pub(super) fn results_of(evaluation: &Evaluation) -> Vec<AssertionResult> {
    let prompt_assertions = evaluation.results.iter().filter(|it| it.id.is_some());
    prompt_assertions.map(result_of).collect()
}

fn result_of(it: &EvaluatedResult) -> AssertionResult {
    let message = it.failure_message.clone().unwrap_or_default();
    let code = it.failure_code.clone().unwrap_or(kindlm_types::FailureCode::INTERNAL_ERROR);
    let verdict = match it.status {
        wire::v1::Status::Passed => Verdict::Pass,
        wire::v1::Status::Failed => Verdict::Fail { code, message },
        wire::v1::Status::Errored => Verdict::Errored { code, message },
        wire::v1::Status::Skipped => Verdict::Skipped { reason: message },
    };
    AssertionResult {
        reasoning: it.reasoning.clone(),
        cause: it.cause.clone(),
        metadata: it.metadata.clone(),
        ..AssertionResult::new(it.assertion.clone(), it.label.clone(), verdict)
    }
}

/// Returns the results of the parts of a check.
pub(super) fn parts_of(result: &EvaluatedResult) -> Vec<EvaluatedResult> {
    let parts = result.metadata.get("component_results").and_then(Value::as_array);
    let parts = parts.into_iter().flatten();
    parts.filter_map(|it| EvaluatedResult::deserialize(it).ok()).collect()
}

/// Returns true if a check, or a part of a check, is errored because a provider failed.
pub(super) fn failed_by_provider(results: &[EvaluatedResult]) -> bool {
    let in_parts = |it| failed_by_provider(&parts_of(it));
    let errored = |it: &&EvaluatedResult| it.status == wire::v1::Status::Errored;
    results.iter().filter(errored).any(|it| result_of(it).failed_by_provider() || in_parts(it))
}

#[cfg(test)]
mod tests {
    use kindlm_types::FailureCode;

    use super::*;

    #[test]
    fn provider_failures_of_earlier_results_are_recognized() {
        let errored = |code| AssertionResult::errored("judge", "j", code, "no answer");
        let set = |part: AssertionResult| AssertionResult {
            set: Some(kindlm_types::SetRule::default()),
            components: vec![part],
            ..errored(FailureCode::new("SET_ERRORED"))
        };
        let judge = || errored(FailureCode::new("JUDGE_EVAL_ERROR"));
        for (result, expected) in [
            (errored(FailureCode::PROVIDER_TIMEOUT), true),
            (judge().with_cause(FailureCode::PROVIDER_ERROR), true),
            (set(errored(FailureCode::PROVIDER_AUTH_FAILED)), true),
            (judge(), false),
            (set(judge()), false),
            (AssertionResult::fail("latency", "l", FailureCode::PROVIDER_TIMEOUT, "slow"), false),
        ] {
            assert_eq!(result.failed_by_provider(), expected, "{result:?}");
            let evaluation = Evaluation::new(None, &[result], None, false);
            let line = serde_json::to_string(&evaluation).unwrap();
            let earlier: Evaluation = serde_json::from_str(&line).unwrap();
            assert_eq!(failed_by_provider(&earlier.results), expected, "{line}");
        }
    }
}
