//! Aggregation: the vectors of the reference implementation (`fixtures/conformance/kindlm`), and additional features.

use std::collections::BTreeMap;

use kindlm_engine::{AggregateError, aggregate};
use kindlm_types::{
    AssertionResult, CaseResult, Execution, ExecutionError, ExecutionResult, FailureCode, Outcome,
    ProviderErrorKind, Score, Severity, Spend, Usage,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::{close, failure, vectors};

#[test]
fn agrees_with_the_reference() {
    let vectors = vectors("kindlm/aggregate.jsonl");
    for vector in &vectors {
        let runs = vector["runs"].as_array().unwrap().iter().map(execution).collect();
        let case = aggregate(runs, 1.0, Vec::new()).unwrap();
        if let Err(difference) = compare(&case, &vector["expect"]) {
            panic!("{}: {difference}", vector["id"]);
        }
    }
    assert_eq!(vectors.len(), 90);
}

fn execution(run: &Value) -> ExecutionResult {
    let results: Vec<AssertionResult> =
        run["assertions"].as_array().unwrap().iter().map(result).collect();
    let tokens = |key: &str| run["tokenUsage"][key].as_u64().unwrap();
    let execution = Execution {
        case: text(&run["testCaseName"]),
        model: text(&run["modelId"]),
        repeat: u32::try_from(run["runIndex"].as_u64().unwrap()).unwrap(),
        output: text(&run["outputText"]),
        latency_ms: run["latencyMs"].as_f64(),
        usage: Usage {
            input_tokens: tokens("inputTokens"),
            output_tokens: tokens("outputTokens"),
            total_tokens: tokens("totalTokens"),
            ..Usage::default()
        },
        spend: Spend { cost_usd: run["costEstimateUsd"].as_f64(), ..Spend::default() },
        ..Execution::default()
    };
    ExecutionResult::new(execution, results)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn result(it: &Value) -> AssertionResult {
    let (id, label) = (text(&it["assertionType"]), text(&it["label"]));
    let score = Score::new(it["score"].as_f64().unwrap()).unwrap();
    if it["passed"].as_bool().unwrap() {
        return AssertionResult::pass(id, label).with_score(score);
    }
    let code = code(it["failureCode"].as_str().unwrap());
    AssertionResult::fail(id, label, code, "").with_score(score)
}

fn code(name: &str) -> FailureCode {
    serde_json::from_value(name.into()).unwrap()
}

fn compare(case: &CaseResult, expect: &Value) -> Result<(), String> {
    let numbers = [
        ("runCount", f64::from(case.repeats)),
        ("passRate", case.pass_rate),
        ("latencyAvgMs", case.latency_avg_ms.unwrap_or(0.0)),
        ("totalCostUsd", case.cost.known_usd),
        ("totalTokens", f64::from(u32::try_from(case.total_tokens).unwrap())),
    ];
    for (key, actual) in numbers {
        if !close(actual, expect[key].as_f64().unwrap()) {
            return Err(format!("{key} is {actual}, expected {}", expect[key]));
        }
    }
    let codes: Vec<&str> = case.failure_codes.iter().map(FailureCode::as_str).collect();
    let passed = case.outcome == Outcome::Passed;
    let same = (&case.case, &case.model)
        == (&text(&expect["testCaseName"]), &text(&expect["modelId"]))
        && expect["failureCodes"] == serde_json::json!(codes)
        && expect["passed"] == passed;
    if !same {
        return Err(format!("{:?}, {codes:?}, passed {passed}; expected {expect}", case.case));
    }
    let scores = expect["assertionScores"].as_object().unwrap();
    let keys: Vec<String> =
        case.scores.iter().map(|it| format!("{}:{}", it.assertion, it.label)).collect();
    if !keys.iter().eq(scores.keys()) {
        return Err(format!("scores of {keys:?}, expected {:?}", scores.keys()));
    }
    for (actual, (key, expected)) in case.scores.iter().zip(scores) {
        for (name, actual) in [("mean", actual.mean), ("min", actual.min), ("max", actual.max)] {
            if !close(actual, expected[name].as_f64().unwrap()) {
                return Err(format!("{name} of {key} is {actual}, expected {}", expected[name]));
            }
        }
    }
    Ok(())
}

/// Builds an execution with this outcome and fixed latency and cost.
fn ended(outcome: Outcome) -> ExecutionResult {
    let execution = Execution {
        latency_ms: Some(10.0),
        spend: Spend { cost_usd: Some(1.0), ..Spend::default() },
        ..Execution::default()
    };
    ExecutionResult {
        outcome,
        error: (outcome == Outcome::Skipped)
            .then(|| ExecutionError::NotRun { reason: "stopped".to_owned() }),
        ..ExecutionResult::new(execution, Vec::new())
    }
}

#[test]
fn refuses_zero_executions() {
    assert_eq!(aggregate(Vec::new(), 1.0, Vec::new()), Err(AggregateError::Empty));
}

#[test]
fn the_outcome_is_errored_then_by_the_rate() {
    use Outcome::{Errored, Failed, Passed, Scored, Skipped};
    for (outcomes, pass_rate_min, outcome, rate) in [
        (vec![Passed, Passed], 1.0, Passed, 1.0),
        (vec![Passed, Scored], 1.0, Scored, 1.0),
        (vec![Passed, Failed], 1.0, Failed, 0.5),
        (vec![Passed, Failed], 0.5, Passed, 0.5),
        (vec![Scored, Failed], 0.5, Scored, 0.5),
        (vec![Passed, Passed, Failed], 2.0 / 3.0, Passed, 2.0 / 3.0),
        (vec![Passed, Failed, Failed], 0.34, Failed, 1.0 / 3.0),
        (vec![Passed, Errored], 0.0, Errored, 1.0),
        (vec![Errored, Errored], 0.0, Errored, 0.0),
        (vec![Failed], 0.0, Passed, 0.0),
        (vec![Skipped], 1.0, Skipped, 0.0),
        (vec![Skipped, Passed], 1.0, Passed, 1.0),
    ] {
        let runs = outcomes.iter().copied().map(ended).collect();
        let case = aggregate(runs, pass_rate_min, vec!["tag".to_owned()]).unwrap();
        assert_eq!(case.outcome, outcome, "{outcomes:?} of {pass_rate_min}");
        assert!(close(case.pass_rate, rate), "{outcomes:?}: {}", case.pass_rate);
        assert_eq!(case.tags, ["tag"]);
        assert_eq!(case.executions.len(), outcomes.len());
        let count = |it| outcomes.iter().filter(|&&outcome| outcome == it).count();
        assert_eq!(case.errored_repeats as usize, count(Errored));
        assert_eq!(case.repeats as usize, outcomes.len() - count(Skipped));
    }
}

#[test]
fn missing_evidence_is_left_out_and_not_a_zero() {
    let mut cached = ended(Outcome::Passed);
    cached.execution.spend.cached = true;
    cached.execution.latency_ms = Some(0.0);
    cached.execution.spend.cost_usd = None;
    let mut broken = ended(Outcome::Errored);
    broken.execution.latency_ms = Some(99_999.0);
    broken.error = Some(ExecutionError::Provider(failure(ProviderErrorKind::Timeout)));
    let mut judged = ended(Outcome::Errored);
    judged.results = vec![
        AssertionResult::errored("judge", "tone", FailureCode::new("JUDGE_PARSE_ERROR"), ""),
        AssertionResult::skipped("drift", "Baseline drift", "no baseline"),
    ];
    let case = aggregate(vec![cached, broken, judged], 1.0, Vec::new()).unwrap();
    assert_eq!(case.latency_avg_ms, Some(10.0));
    assert_eq!((case.cost.known_usd, case.cost.unknown), (2.0, 1));
    assert!(case.scores.is_empty());
    assert_eq!(case.checks, kindlm_types::CheckCounts::default());
    let codes: Vec<&str> = case.failure_codes.iter().map(FailureCode::as_str).collect();
    assert_eq!(codes, ["PROVIDER_TIMEOUT", "JUDGE_PARSE_ERROR"]);
}

#[test]
fn an_execution_without_checks_is_skipped_and_has_its_cost() {
    let results = vec![AssertionResult::skipped("drift", "Baseline drift", "no baseline")];
    let outcome = Outcome::from_results(&results);
    let unchecked = ExecutionResult { error: None, results, ..ended(outcome) };
    for (others, outcome, rate, cost) in [
        (Vec::new(), Outcome::Skipped, 0.0, 2.0),
        (vec![ended(Outcome::Passed)], Outcome::Passed, 1.0, 3.0),
        (vec![ended(Outcome::Failed)], Outcome::Failed, 0.0, 3.0),
    ] {
        let mut runs = vec![unchecked.clone(), unchecked.clone()];
        runs.extend(others);
        let count = runs.len();
        let case = aggregate(runs, 1.0, Vec::new()).unwrap();
        assert_eq!((case.outcome, case.repeats as usize), (outcome, count));
        assert!(close(case.pass_rate, rate) && close(case.cost.known_usd, cost), "{case:?}");
        assert_eq!(case.latency_avg_ms, Some(10.0));
    }
}

#[test]
fn a_soft_failure_is_counted_and_fails_no_case() {
    let mut run = ended(Outcome::Scored);
    run.results = vec![
        AssertionResult::fail("pii", "PII", FailureCode::new("PII_DETECTED"), "")
            .with_severity(Severity::Soft),
    ];
    let case = aggregate(vec![run], 1.0, Vec::new()).unwrap();
    assert_eq!(case.outcome, Outcome::Scored);
    assert!(case.failure_codes.is_empty());
    assert_eq!(case.checks.deterministic_total, 1);
    assert_eq!(case.checks.deterministic_passed, 0);
    assert!(close(case.scores[0].mean, 0.0));
}

#[test]
fn the_same_check_in_two_turns_has_two_scores() {
    let in_turn = |turn: &str, score| {
        let mut result = AssertionResult::pass("says", "Says hi").with_score(score);
        result.turn = Some(turn.to_owned());
        result
    };
    let mut run = ended(Outcome::Passed);
    run.results = vec![in_turn("one", Score::ONE), in_turn("two", Score::ZERO)];
    let case = aggregate(vec![run.clone(), run], 1.0, Vec::new()).unwrap();
    let scores: BTreeMap<&str, f64> =
        case.scores.iter().map(|it| (it.label.as_str(), it.mean)).collect();
    assert_eq!(scores, BTreeMap::from([("one: Says hi", 1.0), ("two: Says hi", 0.0)]));
    assert_eq!(case.scores[0].count, 2);
}

fn any_run() -> impl Strategy<Value = ExecutionResult> {
    let result = (0..3_usize, 0.0..=1.0_f64, any::<bool>(), any::<bool>()).prop_map(
        |(label, score, passed, soft)| {
            let label = ["x", "y", "z"][label];
            let result = if passed {
                AssertionResult::pass("says", label)
            } else {
                AssertionResult::fail("says", label, FailureCode::new("NOT_SAID"), "")
            };
            let severity = if soft { Severity::Soft } else { Severity::Gate };
            result.with_score(Score::new(score).unwrap()).with_severity(severity)
        },
    );
    (proptest::collection::vec(result, 0..5), 0.0..9000.0_f64, proptest::option::of(0.0..1.0_f64))
        .prop_map(|(results, latency, cost)| {
            let mut run = ended(Outcome::from_results(&results));
            run.results = results;
            run.execution.latency_ms = Some(latency);
            run.execution.spend.cost_usd = cost;
            run
        })
}

proptest! {
    #[test]
    fn rates_and_scores_do_not_depend_on_the_order(
        runs in proptest::collection::vec(any_run(), 1..8),
        pass_rate_min in 0.0..=1.0_f64,
    ) {
        let forward = aggregate(runs.clone(), pass_rate_min, Vec::new()).unwrap();
        let backward = aggregate(runs.into_iter().rev().collect(), pass_rate_min, Vec::new()).unwrap();
        prop_assert_eq!(forward.outcome, backward.outcome);
        prop_assert_eq!(forward.checks, backward.checks);
        prop_assert!(close(forward.pass_rate, backward.pass_rate));
        prop_assert!(close(forward.cost.known_usd, backward.cost.known_usd));
        let latencies = forward.latency_avg_ms.zip(backward.latency_avg_ms);
        prop_assert!(latencies.is_some_and(|(a, b)| (a - b).abs() < 1e-6));
        let scores = |case: &CaseResult| -> BTreeMap<String, (f64, f64, f64, u32)> {
            let numbers = |it: &kindlm_types::ScoreSummary| (it.mean, it.min, it.max, it.count);
            case.scores.iter().map(|it| (it.label.clone(), numbers(it))).collect()
        };
        for (a, b) in scores(&forward).values().zip(scores(&backward).values()) {
            prop_assert!(close(a.0, b.0) && close(a.1, b.1) && close(a.2, b.2) && a.3 == b.3);
        }
        prop_assert!((0.0..=1.0).contains(&forward.pass_rate));
    }
}
