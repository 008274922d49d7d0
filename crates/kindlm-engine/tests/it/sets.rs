//! Checks in sets count in cases and gates like other checks.

use kindlm_engine::{aggregate, evaluate_gates, gates};
use kindlm_types::{
    ASSERT_SET, AssertionResult, CaseResult, Class, Execution, ExecutionResult, FailureCode,
    GateOutcome, Outcome, Score, SetRule, Severity, Verdict,
};
use serde_json::json;

fn case(result: AssertionResult) -> CaseResult {
    let results = vec![result];
    let repeat = ExecutionResult::new(Execution::default(), results);
    aggregate(vec![repeat], 1.0, Vec::new()).unwrap()
}

fn set(verdict: Verdict, components: Vec<AssertionResult>) -> AssertionResult {
    let rule = SetRule { checks: components.len(), ..SetRule::default() };
    let set = AssertionResult::new(ASSERT_SET, "Set", verdict);
    AssertionResult { components, set: Some(rule), ..set }
}

fn failing(id: &str, code: &'static str) -> AssertionResult {
    AssertionResult::fail(id, id, FailureCode::new(code), "")
}

fn scored(id: &str, score: f64) -> AssertionResult {
    let result = AssertionResult::pass(id, id).with_score(Score::new(score).unwrap());
    AssertionResult { class: Class::Probabilistic, ..result }
}

/// Returns the outcome and the measured value of one gate for one case.
fn gate(id: &str, threshold: f64, case: &CaseResult) -> (GateOutcome, Option<f64>) {
    let (gates, problems) = gates::compile(json!({ id: threshold }).as_object().unwrap());
    assert_eq!(problems, []);
    let results = evaluate_gates(&gates, std::slice::from_ref(case));
    let found = results.into_iter().find(|it| it.gate == id).unwrap();
    (found.outcome, found.actual)
}

#[test]
fn gates_see_failures_in_a_set_that_holds() {
    let parts = |deep: AssertionResult| {
        vec![AssertionResult::pass("equals", "Equals"), set(Verdict::Pass, vec![deep])]
    };
    for (id, assertion, code) in [
        ("piiFailuresMax", "pii", "PII_DETECTED"),
        ("keywordFailuresMax", "keywords", "KEYWORD_DENIED"),
        ("schemaFailuresMax", "schema", "SCHEMA_INVALID"),
    ] {
        let broken = case(set(Verdict::Pass, parts(failing(assertion, code))));
        assert_eq!(broken.outcome, Outcome::Passed);
        assert_eq!(gate(id, 0.0, &broken), (GateOutcome::Violated, Some(1.0)), "{id}");
        let held = case(set(Verdict::Pass, parts(AssertionResult::pass(assertion, assertion))));
        assert_eq!(gate(id, 0.0, &held), (GateOutcome::Held, Some(0.0)), "{id}");
    }
}

#[test]
fn scores_in_a_set_are_measured() {
    let parts = vec![scored("judge", 0.5), scored("drift", 0.75)];
    let case = case(set(Verdict::Pass, vec![set(Verdict::Pass, parts)]));
    assert_eq!(gate("judgeAvgMin", 0.6, &case), (GateOutcome::Violated, Some(0.5)));
    assert_eq!(gate("driftScoreMax", 0.2, &case), (GateOutcome::Violated, Some(0.25)));
    let labels: Vec<&str> = case.scores.iter().map(|it| it.label.as_str()).collect();
    assert_eq!(labels, ["Set", "Set > Set", "Set > Set > judge", "Set > Set > drift"]);
}

#[test]
fn rates_are_over_the_parts_and_not_over_the_set() {
    let failed = AssertionResult { class: Class::Probabilistic, ..failing("judge", "LOW") };
    let parts = vec![
        AssertionResult::pass("equals", "Equals"),
        failing("regex", "NO_MATCH"),
        scored("judge", 1.0),
        failed,
        AssertionResult::skipped("drift", "Drift", "no baseline"),
    ];
    let case = case(set(Verdict::Pass, parts));
    let checks = case.checks;
    assert_eq!((checks.deterministic_passed, checks.deterministic_total), (1, 2));
    assert_eq!((checks.probabilistic_passed, checks.probabilistic_total), (1, 2));
    assert_eq!(gate("deterministicPassRate", 0.9, &case), (GateOutcome::Violated, Some(0.5)));
    assert_eq!(gate("probabilisticPassRate", 0.9, &case), (GateOutcome::Violated, Some(0.5)));
}

#[test]
fn the_parts_of_a_soft_set_do_not_speak_against_the_case() {
    let pii = || vec![failing("pii", "PII_DETECTED")];
    let low = Verdict::Fail { code: FailureCode::new("LOW"), message: String::new() };
    let soft = case(set(low, pii()).with_severity(Severity::Soft));
    assert_eq!(soft.failure_codes, []);
    let part = failing("pii", "PII_DETECTED").with_severity(Severity::Soft);
    assert_eq!(case(set(Verdict::Pass, vec![part])).failure_codes, []);
    assert_eq!(case(set(Verdict::Pass, pii())).failure_codes.len(), 1);
}

#[test]
fn a_soft_part_that_is_low_is_found_though_the_set_holds() {
    let low = || failing("keywords", "LOW").with_severity(Severity::Soft);
    let nested = set(Verdict::Pass, vec![set(Verdict::Pass, vec![low()])]);
    for (parts, findings, outcome) in [
        (vec![low()], 1, Outcome::Scored),
        (vec![nested], 1, Outcome::Scored),
        // A set with a threshold may hold although one of its checks fails.
        (vec![failing("pii", "PII_DETECTED")], 0, Outcome::Passed),
        (vec![AssertionResult::pass("pii", "PII")], 0, Outcome::Passed),
    ] {
        let result = set(Verdict::Pass, parts);
        assert_eq!(result.findings().len(), findings);
        assert_eq!(Outcome::from_results([&result]), outcome);
        assert_eq!(case(result).findings().len(), findings);
    }
}

#[test]
fn parts_of_scripts_and_negated_sets_are_no_checks() {
    let pii = || vec![failing("pii", "PII_DETECTED"), scored("judge", 0.1)];
    let script = AssertionResult {
        components: vec![set(Verdict::Pass, pii())],
        ..AssertionResult::pass("javascript", "Script")
    };
    let mut negated = set(Verdict::Pass, pii());
    negated.set = Some(SetRule { is_negated: true, checks: 2, threshold: None });
    for result in [set(Verdict::Pass, vec![script.clone()]), script, negated] {
        let case = case(result);
        assert_eq!(case.failure_codes, []);
        assert_eq!((case.checks.deterministic_total, case.checks.probabilistic_total), (1, 0));
        assert_eq!(gate("judgeAvgMin", 0.5, &case), (GateOutcome::NothingToMeasure, None));
    }
}

#[test]
fn a_provider_failure_in_a_set_is_reported() {
    let obstacle = |code: FailureCode| AssertionResult::errored("judge", "Judge", code, "");
    let parts = vec![obstacle(FailureCode::SCRIPT_ERROR), obstacle(FailureCode::PROVIDER_ERROR)];
    let code = FailureCode::new("SET_PART_ERRORED");
    let result = set(Verdict::Errored { code, message: String::new() }, parts);
    assert!(result.failed_by_provider());
    let codes: Vec<String> = case(result).failure_codes.iter().map(ToString::to_string).collect();
    assert_eq!(codes, ["SET_PART_ERRORED", "SCRIPT_ERROR", "PROVIDER_ERROR"]);
}
