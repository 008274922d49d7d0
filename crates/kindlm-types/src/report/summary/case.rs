//! Findings over all repeats of a case.

use crate::{
    AssertionResult, CaseResult, ExecutionError, ExecutionResult, FinishReason, Mean, NamedScore,
    Outcome, RateCount, Severity, Verdict, named_scores, weighted_score,
};

/// The numbers of repeats of a case by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepeatCounts {
    /// The number of repeats that held, without a failed soft check.
    pub passed: u32,
    /// The number of repeats that held, but in which a soft check failed.
    pub scored: u32,
    /// The number of repeats in which a gate-severity check failed. In a test with a threshold, the number of repeats
    /// whose mean score is below the threshold, or in which a required check failed.
    pub failed: u32,
    /// The number of repeats that could not be executed or judged.
    pub errored: u32,
    /// The number of repeats that were not executed, or in which no check applied.
    pub skipped: u32,
}

impl RepeatCounts {
    /// Returns the number of passed and scored repeats.
    pub fn held(self) -> u32 {
        self.passed + self.scored
    }

    /// Returns the number of repeats that were not skipped.
    pub fn executed(self) -> u32 {
        self.held() + self.failed + self.errored
    }
}

/// A check that failed or is errored, with all repeats in which it has the same failure code.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding<'a> {
    /// The result of the check in the first of these repeats.
    pub result: &'a AssertionResult,
    /// The first of these repeats.
    pub execution: &'a ExecutionResult,
    /// The indices of the repeats, from 0.
    pub repeats: Vec<u32>,
}

/// A reason why executions could not be carried out, with the affected repeats.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ErrorFinding<'a> {
    /// The reason.
    pub error: &'a ExecutionError,
    /// The indices of the repeats, from 0.
    pub repeats: Vec<u32>,
}

impl ExecutionResult {
    /// Returns the weighted mean of the scores of the checks, as [`weighted_score`] computes it.
    ///
    /// Returns `None` if no check has a score, if all weights are 0, or if the sum overflows.
    pub fn score(&self) -> Option<f64> {
        weighted_score(&self.results)
    }

    /// Returns true if the execution was carried out, but no check applied.
    pub fn is_unchecked(&self) -> bool {
        self.outcome == Outcome::Skipped && self.error.is_none()
    }

    /// Returns the share of checks that passed, from 0 to 1.
    ///
    /// Returns `None` if all checks were skipped, or if there are no checks.
    ///
    /// Errored checks count as not passed; skipped checks are not counted.
    pub fn passed_share(&self) -> Option<f64> {
        let counted = |it: &&AssertionResult| !matches!(it.verdict, Verdict::Skipped { .. });
        let checks = || self.results.iter().filter(|it| it.is_check());
        let total = checks().filter(counted).count() as u64;
        let count = checks().filter(|it| it.verdict == Verdict::Pass).count() as u64;
        RateCount { count, total }.rate()
    }

    /// Returns the weighted mean of each named score, in order of first appearance.
    ///
    /// In each returned score, `weight` is the sum of the weights.
    pub fn named_scores(&self) -> Vec<NamedScore> {
        named_scores(&self.results)
    }
}

impl CaseResult {
    /// Returns the numbers of repeats by outcome.
    pub fn repeat_counts(&self) -> RepeatCounts {
        let mut counts = RepeatCounts::default();
        for execution in &self.executions {
            match execution.outcome {
                Outcome::Passed => counts.passed += 1,
                Outcome::Scored => counts.scored += 1,
                Outcome::Failed => counts.failed += 1,
                Outcome::Errored => counts.errored += 1,
                Outcome::Skipped => counts.skipped += 1,
            }
        }
        counts
    }

    /// Returns the mean of the share of passed checks over the repeats, from 0 to 1.
    ///
    /// Returns `None` if nothing was checked.
    pub fn passed_share(&self) -> Option<f64> {
        let mut mean = Mean::default();
        self.executions
            .iter()
            .filter_map(ExecutionResult::passed_share)
            .for_each(|it| mean.add(it));
        mean.value()
    }

    /// Returns true if the case held in one repeat and failed in another.
    pub fn is_flaky(&self) -> bool {
        let counts = self.repeat_counts();
        counts.held() > 0 && counts.failed > 0
    }

    /// Returns the checks that failed or could not be judged, in order of first appearance.
    ///
    /// Repeats in which the same check of the same turn has the same failure code form one finding.
    pub fn findings(&self) -> Vec<Finding<'_>> {
        let mut findings: Vec<Finding<'_>> = Vec::new();
        for execution in &self.executions {
            let repeat = execution.execution.repeat;
            for result in execution.results.iter().flat_map(AssertionResult::findings) {
                match findings.iter_mut().find(|it| is_same_check(it.result, result)) {
                    Some(finding) if finding.repeats.last() == Some(&repeat) => {}
                    Some(finding) => finding.repeats.push(repeat),
                    None => findings.push(Finding { result, execution, repeats: vec![repeat] }),
                }
            }
        }
        findings
    }

    /// Returns the findings that explain why the case did not hold; no findings if the case held.
    ///
    /// Failed soft checks are left out, because they do not fail the case. Errored soft checks are included, because
    /// they make the case errored.
    pub fn failing_findings(&self) -> Vec<Finding<'_>> {
        let mut findings = if self.outcome.held() { Vec::new() } else { self.findings() };
        findings.retain(|it| {
            let is_errored = matches!(it.result.verdict, Verdict::Errored { .. });
            it.result.severity == Severity::Gate || is_errored
        });
        findings
    }

    /// Returns the checks that were skipped in a repeat, without duplicates.
    ///
    /// The checks are in order of first appearance.
    pub fn not_applied(&self) -> Vec<&AssertionResult> {
        let mut found: Vec<&AssertionResult> = Vec::new();
        let results = self.executions.iter().flat_map(|it| &it.results);
        for result in results.filter(|it| matches!(it.verdict, Verdict::Skipped { .. })) {
            if !found.iter().any(|it| is_same_check(it, result)) {
                found.push(result);
            }
        }
        found
    }

    /// Returns true if the case was executed, but no check applied.
    pub fn is_unchecked(&self) -> bool {
        self.outcome == Outcome::Skipped
            && self.executions.iter().any(ExecutionResult::is_unchecked)
    }

    /// Returns the reason why a skipped case has no result.
    ///
    /// The case was not run, or no check applied.
    pub fn why_skipped(&self) -> String {
        let because = |what: &str, why: Option<String>| match why.filter(|it| !it.is_empty()) {
            Some(why) => format!("{what}: {why}"),
            None => what.to_owned(),
        };
        if self.executions.iter().any(ExecutionResult::is_unchecked) {
            let reason = self.not_applied().into_iter().find_map(|it| match &it.verdict {
                Verdict::Skipped { reason } => Some(reason.clone()),
                _ => None,
            });
            return because("nothing was checked", reason);
        }
        because("not run", self.errors().first().map(|it| it.error.message()))
    }

    /// Returns the first repeat whose answer was refused, filtered or cut off, or that reached `maxTurns`.
    ///
    /// Returns `None` without such a repeat. The repeat's checks may have passed only because the answer is short.
    pub fn curtailed(&self) -> Option<&ExecutionResult> {
        self.executions.iter().find(|it| {
            it.execution.completeness.truncated
                || matches!(
                    it.execution.finish_reason,
                    Some(
                        FinishReason::Length | FinishReason::ContentFilter | FinishReason::Refusal
                    )
                )
        })
    }

    /// Returns the reasons why executions could not be carried out.
    ///
    /// The reasons are in order of first appearance.
    pub fn errors(&self) -> Vec<ErrorFinding<'_>> {
        let mut findings: Vec<ErrorFinding<'_>> = Vec::new();
        for execution in &self.executions {
            let Some(error) = &execution.error else { continue };
            let repeat = execution.execution.repeat;
            match findings.iter_mut().find(|it| it.error == error) {
                Some(finding) => finding.repeats.push(repeat),
                None => findings.push(ErrorFinding { error, repeats: vec![repeat] }),
            }
        }
        findings
    }

    /// Returns the repeat that best explains the outcome; `None` if all repeats passed.
    ///
    /// This is the first repeat that did not pass, preferably a repeat without an execution error.
    pub fn explaining_execution(&self) -> Option<&ExecutionResult> {
        let mut candidates = self.executions.iter().filter(|it| it.outcome != Outcome::Passed);
        let first = candidates.next();
        // Prefer a repeat with findings over a repeat that could not be executed.
        std::iter::once(first).flatten().chain(candidates).find(|it| it.error.is_none()).or(first)
    }

    /// Returns the time spent waiting for the provider over all repeats, in milliseconds.
    pub fn latency_total_ms(&self) -> f64 {
        self.executions.iter().filter_map(|it| it.execution.latency_ms).sum()
    }

    /// Returns the number of repeats with a reply from the response store.
    pub fn cached_repeats(&self) -> u32 {
        let cached = self.executions.iter().filter(|it| it.execution.spend.cached).count();
        u32::try_from(cached).unwrap_or(u32::MAX)
    }
}

fn is_same_check(a: &AssertionResult, b: &AssertionResult) -> bool {
    let kind = |it: &AssertionResult| matches!(it.verdict, Verdict::Errored { .. });
    a.assertion == b.assertion
        && a.label == b.label
        && a.turn == b.turn
        && a.verdict.code() == b.verdict.code()
        && kind(a) == kind(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AGGREGATE_SCORE;
    use crate::{Execution, FailureCode};

    const CODE: FailureCode = FailureCode::new("KEYWORD_MISSING");

    fn repeat(index: u32, results: Vec<AssertionResult>) -> ExecutionResult {
        ExecutionResult::new(Execution { repeat: index, ..Execution::default() }, results)
    }

    fn case(executions: Vec<ExecutionResult>) -> CaseResult {
        CaseResult {
            tags: vec!["tone".to_owned(), "tone".to_owned()],
            pass_rate: 0.5,
            repeats: 2,
            failure_codes: vec![CODE],
            executions,
            ..CaseResult::new("greets", "a", Outcome::Failed)
        }
    }

    fn missing(message: &str) -> AssertionResult {
        AssertionResult::fail("keywords", "Keyword allow list", CODE, message)
    }

    #[test]
    fn skipped_cases_name_the_reason() {
        let skipped = || repeat(0, vec![AssertionResult::skipped("drift", "Drift", "no baseline")]);
        let not_run = |reason: &str| ExecutionResult {
            error: Some(crate::ExecutionError::NotRun { reason: reason.to_owned() }),
            outcome: Outcome::Skipped,
            ..repeat(1, Vec::new())
        };
        for (executions, expected) in [
            (vec![skipped()], "nothing was checked: no baseline"),
            (vec![not_run("the budget is spent")], "not run: the budget is spent"),
            (vec![not_run(""), skipped()], "nothing was checked: no baseline"),
            (vec![not_run("")], "not run"),
        ] {
            assert_eq!(case(executions).why_skipped(), expected);
        }
    }

    #[test]
    fn passed_share_counts_errored_but_not_skipped_checks() {
        let errored = || AssertionResult::errored("judge", "Judge: a", CODE, "unreadable");
        let skipped = || AssertionResult::skipped("drift", "Drift", "no baseline");
        let pass = || AssertionResult::pass("keywords", "a");
        for (results, expected) in [
            (vec![pass(), missing("a"), errored(), skipped(), pass()], Some(0.5)),
            (vec![skipped()], None),
            (vec![], None),
            // The aggregate score does not count as a check.
            (vec![pass(), missing("a"), AssertionResult::pass(AGGREGATE_SCORE, "all")], Some(0.5)),
        ] {
            assert_eq!(repeat(0, results).passed_share(), expected);
        }
        let repeats = vec![
            repeat(0, vec![pass()]),
            repeat(1, vec![pass(), missing("b")]),
            repeat(2, vec![skipped()]),
        ];
        assert_eq!(case(repeats).passed_share(), Some(0.75));
    }

    #[test]
    fn the_same_failure_in_several_repeats_is_one_finding() {
        let case = case(vec![
            repeat(0, vec![AssertionResult::pass("keywords", "Keyword allow list")]),
            repeat(1, vec![missing("a"), missing("b")]),
            repeat(2, vec![missing("c")]),
        ]);
        let findings = case.findings();
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].repeats, [1, 2]);
        assert_eq!(findings[0].result.verdict.message(), Some("a"));
        assert!(case.is_flaky());
        assert_eq!(case.explaining_execution().map(|it| it.execution.repeat), Some(1));
    }
}
