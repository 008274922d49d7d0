//! Aggregation of the repeats of one case on one model.

use std::borrow::Cow;

use kindlm_types::{
    AssertionResult, CaseResult, CheckCounts, Class, ExecutionError, ExecutionResult, Outcome,
    ScoreSummary, Severity, Verdict,
};

use crate::checks::{Check, checks};

/// The tolerance for comparing scores, rates and amounts.
///
/// With this tolerance, the average of 0.7, 0.8 and 0.9 reaches a threshold of 0.8.
pub(crate) const TOLERANCE: f64 = 1e-9;

/// The reason why repeats could not be aggregated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AggregateError {
    /// There are no repeats.
    #[error("cannot aggregate zero executions: a case result needs at least one")]
    Empty,
}

/// Aggregates all repeats of one case on one model.
///
/// The name and the model come from the first repeat. A repeat passes if its outcome is `passed` or `scored`. The pass
/// rate counts only repeats that could be judged. The case is errored if any repeat is errored, and skipped if no
/// repeat was judged. Otherwise it passes if the rate reaches `pass_rate_min` (0 to 1, with a tolerance of 1e-9). A
/// passing case is `scored` if one of its repeats is `scored`.
///
/// These do not count:
///
/// - in any number: repeats with the outcome `skipped` that were not carried out;
/// - in the number of repeats: executions with a not-run error;
/// - in the pass rate: repeats in which no check applied;
/// - in scores and counts of checks: skipped and errored checks;
/// - in the mean latency: executions with cached replies, and executions with an error.
///
/// The failure codes come from gate-severity failures, errored checks, and errors of executions.
///
/// The checks in a set have codes, counts and scores like other checks, whether the set holds or not. The set itself
/// has a code and a score, but is not counted as a check. The aggregate score, which a case with a `threshold` has, is
/// not counted either.
///
/// Fails if `executions` is empty.
pub fn aggregate(
    mut executions: Vec<ExecutionResult>,
    pass_rate_min: f64,
    tags: Vec<String>,
) -> Result<CaseResult, AggregateError> {
    executions.sort_by_key(|it| it.execution.repeat);
    let first = executions.first().ok_or(AggregateError::Empty)?;
    let mut case = CaseResult {
        tags,
        ..CaseResult::new(&first.execution.case, &first.execution.model, Outcome::Skipped)
    };
    let mut tally = Tally::default();
    // An execution without an applicable check was carried out, so it has a cost and a latency.
    let was_run = |it: &&ExecutionResult| it.outcome != Outcome::Skipped || it.is_unchecked();
    for it in executions.iter().filter(was_run) {
        tally.add(it);
        add(&mut case, it);
    }
    tally.finish(&mut case, pass_rate_min);
    case.executions = executions;
    Ok(case)
}

fn add(case: &mut CaseResult, it: &ExecutionResult) {
    if !matches!(it.error, Some(ExecutionError::NotRun { .. })) {
        case.repeats += 1;
    }
    case.cost.add(&it.execution);
    case.total_tokens = case.total_tokens.saturating_add(it.execution.usage.total_tokens);
    let is_counted = |it: &Check<'_>| it.result.parts().is_empty() && it.result.is_check();
    for check in checks(&it.results).filter(is_counted) {
        count(&mut case.checks, check.result);
    }
    let counts = |it: &Check<'_>| {
        it.severity == Severity::Gate || matches!(it.result.verdict, Verdict::Errored { .. })
    };
    let of_checks =
        checks(&it.results).filter(counts).filter_map(|it| it.result.verdict.code().cloned());
    let of_error = it.error.as_ref().and_then(ExecutionError::code);
    for code in of_checks.chain(of_error) {
        if !case.failure_codes.contains(&code) {
            case.failure_codes.push(code);
        }
    }
}

fn count(counts: &mut CheckCounts, result: &AssertionResult) {
    let passed = match result.verdict {
        Verdict::Pass => 1,
        Verdict::Fail { .. } => 0,
        Verdict::Errored { .. } | Verdict::Skipped { .. } => return,
    };
    match result.class {
        Class::Deterministic => {
            counts.deterministic_passed += passed;
            counts.deterministic_total += 1;
        }
        Class::Probabilistic => {
            counts.probabilistic_passed += passed;
            counts.probabilistic_total += 1;
        }
    }
}

/// Running totals from which rates and means are computed at the end.
#[derive(Default)]
struct Tally<'a> {
    passed: u32,
    scored: u32,
    failed: u32,
    errored: u32,
    latency_sum: f64,
    latencies: u32,
    scores: Vec<Scores<'a>>,
}

struct Scores<'a> {
    of: &'a AssertionResult,
    turn: Option<&'a str>,
    label: Cow<'a, str>,
    sum: f64,
    min: f64,
    max: f64,
    count: u32,
}

impl<'a> Tally<'a> {
    fn add(&mut self, it: &'a ExecutionResult) {
        match it.outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Scored => self.scored += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Errored => self.errored += 1,
            Outcome::Skipped => {}
        }
        if let Some(latency) = it.execution.latency_ms
            && !it.execution.spend.cached
            && it.error.is_none()
        {
            self.latency_sum += latency;
            self.latencies += 1;
        }
        for (position, check) in checks(&it.results).enumerate() {
            if let Some(score) = check.result.score {
                self.score(position, check, score.get());
            }
        }
    }

    /// Adds a score to the scores of the same check in other repeats.
    ///
    /// Repeats mostly have the same checks at the same positions, so `position` is tried first.
    fn score(&mut self, position: usize, check: Check<'a>, score: f64) {
        let same = |it: &Scores<'_>| {
            it.label == check.label
                && it.of.assertion == check.result.assertion
                && it.turn == check.turn
        };
        let found = match self.scores.get(position) {
            Some(it) if same(it) => Some(position),
            _ => self.scores.iter().position(same),
        };
        match found.and_then(|index| self.scores.get_mut(index)) {
            Some(it) => {
                it.sum += score;
                it.min = it.min.min(score);
                it.max = it.max.max(score);
                it.count += 1;
            }
            None => self.scores.push(Scores {
                of: check.result,
                turn: check.turn,
                label: check.label,
                sum: score,
                min: score,
                max: score,
                count: 1,
            }),
        }
    }

    fn finish(self, case: &mut CaseResult, pass_rate_min: f64) {
        let held = self.passed + self.scored;
        let judged = held + self.failed;
        if judged > 0 {
            case.pass_rate = f64::from(held) / f64::from(judged);
        }
        if self.latencies > 0 {
            case.latency_avg_ms = Some(self.latency_sum / f64::from(self.latencies));
        }
        case.errored_repeats = self.errored;
        case.outcome = if self.errored > 0 {
            Outcome::Errored
        } else if judged == 0 {
            Outcome::Skipped
        } else if case.pass_rate + TOLERANCE < pass_rate_min {
            Outcome::Failed
        } else if self.scored > 0 {
            Outcome::Scored
        } else {
            Outcome::Passed
        };
        case.scores = self.scores.into_iter().map(Scores::summary).collect();
    }
}

impl Scores<'_> {
    fn summary(self) -> ScoreSummary {
        let label = match self.turn {
            Some(turn) => format!("{turn}: {}", self.label),
            None => self.label.into_owned(),
        };
        ScoreSummary {
            assertion: self.of.assertion.clone(),
            label,
            class: self.of.class,
            mean: self.sum / f64::from(self.count),
            min: self.min,
            max: self.max,
            count: self.count,
        }
    }
}
