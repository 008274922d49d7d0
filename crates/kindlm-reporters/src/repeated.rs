//! Describes the repeats of a case, in the same words for all reports.

use kindlm_types::{
    AnyReport, CaseResult, Decision, ExecutionError, RateTest, ecma, error_cause_key, interval_text,
};

use crate::amount::percent;
use crate::plain::one_line;

/// Returns the error of a case if every execution failed with an error of the same cause.
///
/// Returns `None` if an execution has results or an answered request, or was not run.
pub(crate) fn only_error(case: &CaseResult) -> Option<&ExecutionError> {
    let mut errors = case.executions.iter().map(|it| {
        let error = it.error.as_ref().filter(|_| it.results.is_empty())?;
        (error.code().is_some() && it.execution.requests == 0).then_some(error)
    });
    let first = errors.next()??;
    let key = error_cause_key(first);
    errors.all(|it| it.is_some_and(|it| error_cause_key(it) == key)).then_some(first)
}

/// The cases whose only result is an error of the same cause. A report shows only the first of them.
pub(crate) struct AlikeCases {
    cause: String,
    /// The name of the first case, which shows the error.
    pub(crate) first: String,
    /// The number of the other cases.
    pub(crate) others: u64,
    /// The names of the first few other cases.
    pub(crate) names: Vec<String>,
}

impl AlikeCases {
    /// The maximum number of other cases that are named.
    const NAMED: usize = 5;

    /// Returns a group that begins with a case.
    pub(crate) fn new(cause: String, first: String) -> Self {
        Self { cause, first, others: 0, names: Vec::new() }
    }

    /// Adds a case to the group with this cause. Returns false if there is no such group.
    pub(crate) fn join(groups: &mut [Self], cause: Option<&str>, name: &str) -> bool {
        let Some(group) = groups.iter_mut().find(|it| Some(it.cause.as_str()) == cause) else {
            return false;
        };
        group.others += 1;
        if group.names.len() < Self::NAMED {
            group.names.push(one_line(name));
        }
        true
    }
}

/// Describes the pass rate of the repeats, as `3/5 repeats held (60.0%, 95% CI 23.1 to 88.2)`.
///
/// With fewer than two judged repeats, the text has no interval. Returns `None` for a single repeat, or if no repeat
/// was executed.
pub(crate) fn held(case: &CaseResult) -> Option<String> {
    let counts = case.repeat_counts();
    if case.executions.len() < 2 || counts.executed() == 0 {
        return None;
    }
    let held = format!("{}/{} repeats held", counts.held(), counts.executed());
    Some(match interval(case) {
        Some(interval) => format!("{held} ({interval})"),
        None => held,
    })
}

/// Describes the share of repeats that must hold, for a failed case, as `needs 40.0%`.
///
/// Returns `None` if the case held, if it has fewer than two repeats, or if all repeats must hold. Also returns `None`
/// if the repeats may end early, because [`end`] describes such repeats.
pub(crate) fn needed(report: &AnyReport<'_>, case: &CaseResult) -> Option<String> {
    if case.outcome.held() || case.early_end.is_some() || case.executions.len() < 2 {
        return None;
    }
    let test = report.suite.tests.iter().find(|it| it.name == case.case)?;
    (test.pass_rate_min < 1.0).then(|| format!("needs {}%", percent(test.pass_rate_min)))
}

/// Describes the pass rate of the judged repeats, as `60.0%, 95% CI 23.1 to 88.2`.
///
/// Returns `None` with fewer than two judged repeats.
pub(crate) fn interval(case: &CaseResult) -> Option<String> {
    let judged = case.judged().filter(|it| it.total() > 1)?;
    let interval = case.pass_interval()?;
    Some(format!("{}%, {}", percent(judged.rate()), interval_text(interval)))
}

/// Describes why the repeats ended; `None` if their number was fixed.
///
/// An example is `18 of at most 60 repeats, decided: passes ≥ 95% rather than ≤ 80% (errors ≤ 5%)`.
pub(crate) fn end(case: &CaseResult) -> Option<String> {
    let end = case.early_end?;
    let count = format!("{} of at most {} repeats", case.executions.len(), end.max);
    Some(match (end.test, end.decision) {
        (None, Some(_)) => format!("{count}, settled: no further repeat can change the verdict"),
        (None, None) => format!("{count}, not settled"),
        (Some(test), Some(Decision::Pass)) => {
            let (pass, fail) = (share(test.pass), share(test.fail));
            format!("{count}, decided: passes ≥ {pass} rather than ≤ {fail} ({})", errors(test))
        }
        (Some(test), Some(Decision::Fail)) => {
            let (pass, fail) = (share(test.pass), share(test.fail));
            format!("{count}, decided: passes ≤ {fail} rather than ≥ {pass} ({})", errors(test))
        }
        (Some(test), None) => {
            let (pass, fail) = (share(test.pass), share(test.fail));
            format!("{count}, undecided: neither ≥ {pass} nor ≤ {fail} is shown")
        }
    })
}

/// Describes the pass rate, pass@2 and pass^2; `None` for a case with fewer than two judged repeats.
///
/// An example is `flaky 3/5: 60.0%, 95% CI 23.1 to 88.2; pass@2 90.0%, pass^2 30.0%`.
///
/// pass@2 is the probability that at least one of two repeats passes, and pass^2 is the probability that two repeats
/// pass. These metrics are left out if all repeats agree. They are also left out if the repeats may end early, because
/// the estimates would be biased.
pub(crate) fn rate(case: &CaseResult) -> Option<String> {
    let interval = interval(case)?;
    let judged = case.judged()?;
    if !case.is_flaky() {
        return Some(interval);
    }
    let text = format!("flaky {}/{}: {interval}", judged.passed(), judged.total());
    if case.early_end.is_some() {
        return Some(text);
    }
    let (any, all) = (judged.pass_at(2).ok()?, judged.pass_all(2).ok()?);
    Some(format!("{text}; pass@2 {}%, pass^2 {}%", percent(any), percent(all)))
}

fn errors(test: RateTest) -> String {
    let (alpha, beta) = (share(test.alpha), share(test.beta));
    if alpha == beta {
        format!("errors ≤ {alpha}")
    } else {
        format!("wrong passes ≤ {alpha}, wrong failures ≤ {beta}")
    }
}

/// Formats a share in percent with at most two decimals, without zeros at the end.
fn share(share: f64) -> String {
    let text = ecma::to_fixed(share * 100.0, 2);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}%")
}

#[cfg(test)]
mod tests {
    use kindlm_types::{EarlyEnd, Outcome};

    use super::*;

    fn case(held: usize, failed: usize, early_end: Option<EarlyEnd>) -> CaseResult {
        let report = kindlm_testing::sample_report();
        let mut case = report.cases[0].clone();
        let first = case.executions[0].clone();
        let of = |outcome| kindlm_types::ExecutionResult { outcome, ..first.clone() };
        case.executions = vec![of(Outcome::Passed); held];
        case.executions.extend(vec![of(Outcome::Failed); failed]);
        CaseResult { early_end, ..case }
    }

    #[test]
    fn the_end_of_the_repeats_has_its_reason() {
        let test = |alpha| Some(RateTest { pass: 0.95, fail: 0.8, alpha, beta: 0.05 });
        let end = |max, test, decision| Some(EarlyEnd { max, test, decision });
        for (early_end, expected) in [
            (None, None),
            (
                end(60, test(0.05), Some(Decision::Pass)),
                Some(
                    "5 of at most 60 repeats, decided: passes ≥ 95% rather than ≤ 80% (errors ≤ 5%)",
                ),
            ),
            (
                end(60, test(0.125), Some(Decision::Fail)),
                Some(
                    "5 of at most 60 repeats, decided: passes ≤ 80% rather than ≥ 95% (wrong passes ≤ 12.5%, wrong \
                     failures ≤ 5%)",
                ),
            ),
            (
                end(5, test(0.05), None),
                Some("5 of at most 5 repeats, undecided: neither ≥ 95% nor ≤ 80% is shown"),
            ),
            (
                end(20, None, Some(Decision::Fail)),
                Some("5 of at most 20 repeats, settled: no further repeat can change the verdict"),
            ),
            (end(20, None, None), Some("5 of at most 20 repeats, not settled")),
        ] {
            assert_eq!(super::end(&case(3, 2, early_end)).as_deref(), expected);
        }
    }

    #[test]
    fn a_failed_case_states_the_rate_that_it_needs() {
        let mut report = kindlm_testing::sample_report();
        let failed = CaseResult { outcome: Outcome::Failed, ..case(1, 2, None) };
        for (rate, expected) in [(0.4, Some("needs 40.0%")), (1.0, None)] {
            report.suite.tests = vec![kindlm_types::TestInfo {
                name: failed.case.clone(),
                pass_rate_min: rate,
                ..kindlm_types::TestInfo::default()
            }];
            assert_eq!(needed(&report, &failed).as_deref(), expected);
        }
        assert_eq!(needed(&report, &case(3, 0, None)), None);
    }

    #[test]
    fn rates_of_repeats_have_their_interval() {
        let settled = Some(EarlyEnd { max: 20, test: None, decision: Some(Decision::Fail) });
        for (it, expected, chances) in [
            (
                case(3, 2, None),
                Some("3/5 repeats held (60.0%, 95% CI 23.1 to 88.2)"),
                Some("flaky 3/5: 60.0%, 95% CI 23.1 to 88.2; pass@2 90.0%, pass^2 30.0%"),
            ),
            (
                case(8, 2, settled),
                Some("8/10 repeats held (80.0%, 95% CI 34.2 to 99.1)"),
                Some("flaky 8/10: 80.0%, 95% CI 34.2 to 99.1"),
            ),
            (
                case(5, 0, None),
                Some("5/5 repeats held (100.0%, 95% CI 56.6 to 100.0)"),
                Some("100.0%, 95% CI 56.6 to 100.0"),
            ),
            (case(1, 0, None), None, None),
        ] {
            assert_eq!((held(&it).as_deref(), rate(&it).as_deref()), (expected, chances));
        }
    }
}
