//! Tests of the scores: killed, survived and errored mutants, and the work of each check.

use kindlm_mutate::{Operator, Tally, Verdict, find};
use kindlm_types::{
    AssertionResult, Execution, ExecutionError, ExecutionResult, FailureCode, Outcome, Score,
    Severity,
};
use kindlm_wire::mutation::{MutantCounts, MutationReport};

const CODE: FailureCode = FailureCode::new("CODE");

fn fail(label: &str) -> AssertionResult {
    AssertionResult::fail("contains", label, CODE, "not there")
}

fn pass(label: &str) -> AssertionResult {
    AssertionResult::pass("contains", label)
}

fn errored(label: &str) -> AssertionResult {
    AssertionResult::errored("judge", label, CODE, "unreadable")
}

fn judged(results: Vec<AssertionResult>, threshold: Option<f64>) -> ExecutionResult {
    let execution = Execution { output: "mutant".to_owned(), ..Execution::default() };
    let outcome = Outcome::concluded(threshold, &results, false);
    ExecutionResult { outcome, ..ExecutionResult::new(execution, results) }
}

fn not_run() -> ExecutionResult {
    let reason = "the budget is used up".to_owned();
    ExecutionResult {
        outcome: Outcome::Errored,
        error: Some(ExecutionError::NotRun { reason }),
        ..judged(Vec::new(), None)
    }
}

fn operators(ids: &[&str]) -> Vec<&'static Operator> {
    ids.iter().filter_map(|id| find(id)).collect()
}

/// Judges one case: the original, and the mutants of `ids`.
fn tallied(
    threshold: Option<f64>,
    original: Vec<AssertionResult>,
    mutants: Vec<(&str, Option<ExecutionResult>)>,
    min: Option<f64>,
) -> MutationReport {
    let mut tally = Tally::default();
    let execution = Execution {
        case: "refund".to_owned(),
        model: "support".to_owned(),
        output: "original".to_owned(),
        ..Execution::default()
    };
    let ids: Vec<&str> = mutants.iter().map(|(id, _)| *id).collect();
    let case = tally.add_case(&execution, threshold, operators(&ids));
    tally.add_original(case, &judged(original, threshold));
    for (at, (_, result)) in mutants.into_iter().enumerate() {
        if let Some(result) = result {
            tally.add_mutant(case, at, &execution, &result);
        }
    }
    tally.report("run", "suite", min)
}

#[test]
fn a_failed_check_decides_even_beside_an_errored_one() {
    let soft = fail("a").with_severity(Severity::Soft);
    for (results, threshold, verdict) in [
        (vec![pass("a"), pass("b")], None, Some(Verdict::Survived)),
        (vec![pass("a"), fail("b")], None, Some(Verdict::Killed)),
        (vec![soft, pass("b")], None, Some(Verdict::Survived)),
        (vec![pass("a"), errored("b")], None, Some(Verdict::Errored)),
        (vec![fail("a"), errored("b")], None, Some(Verdict::Killed)),
        (vec![fail("a"), pass("b")], Some(0.5), Some(Verdict::Survived)),
        (vec![fail("a"), pass("b")], Some(0.6), Some(Verdict::Killed)),
        (vec![fail("a"), errored("b")], Some(0.6), Some(Verdict::Errored)),
    ] {
        let result = judged(results, threshold);
        assert_eq!(Verdict::from_result(&result, threshold), verdict, "{:?}", result.results);
    }
    assert_eq!(Verdict::from_result(&not_run(), None), None);
    let partly = ExecutionResult { results: vec![fail("a")], ..not_run() };
    assert_eq!(Verdict::from_result(&partly, None), Some(Verdict::Killed));
}

#[test]
fn mutants_of_an_original_without_a_result_do_not_count() {
    let mut tally = Tally::default();
    let execution =
        Execution { case: "refund".to_owned(), model: "m".to_owned(), ..Execution::default() };
    let case = tally.add_case(&execution, None, operators(&["empty", "truncate"]));
    tally.add_original(case, &not_run());
    tally.add_mutant(case, 0, &execution, &judged(vec![fail("a")], None));
    let report = tally.report("run", "suite", Some(0.5));
    assert_eq!(report.harmful, MutantCounts { not_judged: 2, ..MutantCounts::default() });
    assert_eq!((report.score, report.gate.map(|it| it.held)), (None, Some(false)));
    let reason = "the recorded execution was not judged, so its mutants do not count";
    assert_eq!(report.left_out[0].reason, reason);
}

#[test]
fn errored_and_missing_mutants_are_not_in_the_score() {
    let original = vec![pass("a"), pass("b")];
    let report = tallied(
        None,
        original,
        vec![
            ("empty", Some(judged(vec![fail("a"), fail("b")], None))),
            ("refusal", Some(judged(vec![fail("a"), pass("b")], None))),
            ("truncate", Some(judged(vec![pass("a"), pass("b")], None))),
            ("negate", Some(judged(vec![pass("a"), errored("b")], None))),
            ("add-promise", Some(not_run())),
            ("change-date", None),
            ("greeting", Some(judged(vec![fail("a"), pass("b")], None))),
            ("spaces", Some(judged(vec![pass("a"), pass("b")], None))),
        ],
        Some(0.6),
    );
    let counts = MutantCounts { killed: 2, survived: 1, errored: 1, not_judged: 2 };
    assert_eq!(report.harmful, counts);
    let counts = MutantCounts { killed: 1, survived: 1, errored: 0, not_judged: 0 };
    assert_eq!(report.harmless, counts);
    assert_eq!(report.score, Some(2.0 / 3.0));
    // A mutant without a judgement might survive, so the gate is not met.
    assert_eq!(report.gate.map(|it| it.held), Some(false));
    insta::assert_json_snapshot!(report);
}

#[test]
fn the_gate_needs_a_verdict_on_every_harmful_mutant() {
    for (last, held) in [
        (Some(judged(vec![fail("a")], None)), true),
        (Some(judged(vec![errored("a")], None)), false),
        (Some(not_run()), false),
        (None, false),
    ] {
        let killed = ("empty", Some(judged(vec![fail("a")], None)));
        let report = tallied(None, vec![pass("a")], vec![killed, ("refusal", last)], Some(0.9));
        assert_eq!((report.score, report.gate.map(|it| it.held)), (Some(1.0), Some(held)));
    }
}

#[test]
fn a_check_is_credited_with_what_only_it_kills() {
    let scored =
        |label: &str, score: f64| fail(label).with_score(Score::new(score).unwrap_or(Score::ZERO));
    for (threshold, mutant, alone) in [
        (None, vec![fail("a"), pass("b")], [1, 0]),
        (None, vec![fail("a"), fail("b")], [0, 0]),
        (Some(0.5), vec![scored("a", 0.0), scored("b", 0.4)], [0, 0]),
        (Some(0.5), vec![scored("a", 0.0), pass("b"), fail("c")], [1, 0]),
        (Some(0.8), vec![scored("a", 0.0), pass("b")], [1, 0]),
    ] {
        let original = vec![pass("a"), pass("b")];
        let report =
            tallied(threshold, original, vec![("empty", Some(judged(mutant, threshold)))], None);
        let found: Vec<u64> = report.checks.iter().map(|it| it.kills_alone).take(2).collect();
        assert_eq!((report.harmful.killed, found), (1, alone.to_vec()), "{threshold:?}");
    }
}

#[test]
fn soft_and_skipped_checks_are_not_listed() {
    let soft = || pass("soft").with_severity(Severity::Soft);
    let skipped = || AssertionResult::skipped("x", "skipped", "later");
    for threshold in [None, Some(0.9)] {
        let mutant = judged(vec![fail("a"), pass("b"), soft(), skipped()], threshold);
        let original = vec![pass("a"), pass("b"), soft()];
        let report = tallied(threshold, original, vec![("empty", Some(mutant))], None);
        let labels: Vec<&str> = report.checks.iter().map(|it| it.label.as_str()).collect();
        assert_eq!(labels, ["a", "b"], "{threshold:?}");
    }
}

#[test]
fn a_case_whose_original_fails_is_left_out() {
    let mutant = || vec![("empty", Some(judged(vec![fail("a")], None)))];
    for (original, reason) in [
        (vec![fail("a")], "the recorded execution does not pass the checks: a: not there"),
        (vec![errored("a")], "the recorded execution does not pass the checks: a: unreadable"),
        (
            vec![AssertionResult::skipped("x", "a", "later")],
            "the recorded execution does not pass the checks: no check of the case applies",
        ),
    ] {
        let report = tallied(None, original, mutant(), Some(0.0));
        assert_eq!((report.cases.len(), report.harmful.all()), (0, 0));
        assert_eq!(report.left_out.len(), 1);
        assert_eq!(report.left_out.first().map(|it| it.reason.as_str()), Some(reason));
        // Without a decided mutant there is no score, and a gate cannot be met.
        assert_eq!((report.score, report.gate.map(|it| it.held)), (None, Some(false)));
    }
}

#[test]
fn a_check_and_its_negation_are_counted_apart() {
    let negated = |result: AssertionResult| AssertionResult { is_negated: true, ..result };
    let report = tallied(
        None,
        vec![pass("refund"), negated(pass("refund"))],
        vec![("truncate", Some(judged(vec![fail("refund"), negated(pass("refund"))], None)))],
        None,
    );
    let checks: Vec<(&str, u64)> =
        report.checks.iter().map(|it| (it.assertion.as_str(), it.kills)).collect();
    assert_eq!(checks, [("contains", 1), ("not-contains", 0)]);
}
