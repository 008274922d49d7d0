//! The evidence of failures, checked on the examples of the reference pages.

use std::collections::{BTreeMap, BTreeSet};

use kindlm_assertions::{Evidence, REGISTRY, Setup, assertions, compile};
use kindlm_testing::examples::{self, Recorded};
use kindlm_types::{
    Answer, Answers, AssertionResult, CheckedText, Class, Execution, NoFiles, Question,
    ResultEvidence, Verdict,
};
use serde_json::{Value, json};

use crate::support;

/// The rule-based assertions whose failure may have a reason and no other evidence.
const MAY_GIVE_A_REASON: [&str; 9] = [
    "assert-set",
    "events-satisfy",
    "guardrails",
    "javascript",
    "python",
    "ruby",
    "satisfies",
    "succeeded",
    "webhook",
];

/// Calls a function with each result of each example, and the execution that was judged.
fn for_each_result(mut then: impl FnMut(&AssertionResult, &Execution)) {
    for (group, registration) in
        REGISTRY.iter().flat_map(|it| it.assertions.iter().map(|entry| (it.name, entry)))
    {
        let page = std::fs::read_to_string(support::page(group, registration)).unwrap();
        for case in examples::cases(&page) {
            let recorded = Recorded::parse(case.input("execution").unwrap_or_default()).unwrap();
            for result in support::run(&case).unwrap().1 {
                then(&result, &recorded.execution);
            }
        }
    }
}

fn fails(result: &AssertionResult) -> bool {
    matches!(result.verdict, Verdict::Fail { .. })
}

fn has_votes(result: &AssertionResult) -> bool {
    result.judging.as_ref().is_some_and(|it| it.panel.is_some())
}

fn is_reason(evidence: &ResultEvidence) -> bool {
    matches!(evidence, ResultEvidence::Reason { .. })
}

#[test]
fn every_failure_has_evidence_and_nothing_else_has() {
    fn check(result: &AssertionResult) {
        let AssertionResult { label, evidence, .. } = result;
        if fails(result) {
            let has_failed_part = result.components.iter().any(fails);
            assert!(!evidence.is_empty() || has_votes(result) || has_failed_part, "{result:#?}");
            let is_open = result.class == Class::Probabilistic
                || MAY_GIVE_A_REASON.contains(&result.assertion.as_str());
            assert!(is_open || !evidence.iter().all(is_reason) || has_failed_part, "{result:#?}");
        } else {
            assert!(evidence.is_empty(), "{label}: {evidence:?}");
        }
        result.components.iter().for_each(check);
    }
    for_each_result(|result, _| check(result));
}

/// Returns the number of differences in the evidence.
fn differences(result: &AssertionResult) -> usize {
    let is_diff = |it: &&ResultEvidence| matches!(it, ResultEvidence::Diff { .. });
    result.evidence.iter().filter(is_diff).count()
}

#[test]
fn a_tie_has_its_difference_once() {
    let mut ties = 0;
    for_each_result(|result, _| {
        let is_tie = result.judging.as_ref().is_some_and(|it| it.tie);
        if result.assertion == "drift" && result.is_negated && is_tie {
            assert_eq!(differences(result), 1, "{result:#?}");
            ties += 1;
        }
    });
    assert!(ties > 0, "no example of `not-drift` is a tie");
}

/// Returns the result of an entry for `drift`. The judge gives the drifts in turn.
fn drift_result(
    entry: &Value,
    (baseline, output): (&str, &str),
    drifts: &[f64],
) -> AssertionResult {
    let execution = Execution { output: output.to_owned(), ..Execution::default() };
    let expect = json!({"assert": [entry]});
    let (checks, problems) = compile(&expect, &Setup::new(&NoFiles, None));
    assert_eq!(problems, []);
    let mut answers = Answers::default();
    let mut drifts = drifts.iter().cycle();
    let mut results: Vec<AssertionResult> = loop {
        let evidence = Evidence { baseline: Some(baseline), ..Evidence::new(&execution, &answers) };
        let mut questions: Vec<Question> =
            checks.iter().flat_map(|it| it.questions(&evidence)).collect();
        questions.retain(|it| answers.get(it).is_none());
        let Some(question) = questions.pop() else {
            break checks.iter().flat_map(|it| it.evaluate(&evidence)).collect();
        };
        let Question::Judge(judge) = &question else { panic!("{question:?}") };
        let drift = drifts.next().unwrap();
        let reply = format!(r#"{{"driftScore": {drift}, "reasoning": "The day differs."}}"#);
        let reply = examples::with_marks(&reply, &judge.user);
        answers.insert(&question, Ok(Answer::from_text(reply, "judge")));
    };
    assert_eq!(results.len(), 1, "{results:#?}");
    results.remove(0)
}

const DAYS: (&str, &str) = ("It arrives on Monday.", "It arrives on Tuesday.");

#[test]
fn a_negated_check_with_several_votes_has_its_evidence() {
    let entry = json!({"type": "not-drift", "maxScore": 0.5, "samples": 3});
    let result = drift_result(&entry, DAYS, &[0.1]);
    assert!(fails(&result) && has_votes(&result), "{result:#?}");
    assert_eq!(differences(&result), 1, "{result:#?}");
}

#[test]
fn a_tie_below_the_threshold_has_its_difference() {
    let entry = json!({"type": "not-drift", "maxScore": 0.3, "threshold": 0.9});
    let result = drift_result(&entry, DAYS, &[0.1, 0.4]);
    assert!(fails(&result) && result.judging.as_ref().is_some_and(|it| it.tie), "{result:#?}");
    assert_eq!((differences(&result), result.evidence.len()), (1, 2), "{result:#?}");
}

#[test]
fn a_negated_check_above_the_threshold_has_no_measure() {
    let entry = json!({
        "type": "not-drift", "method": "field-diff", "maxScore": 0.1, "threshold": 0.5,
    });
    let outputs = (r#"{"a": 1, "b": 2, "c": 3, "d": 4}"#, r#"{"a": 1, "b": 2, "c": 3, "d": 5}"#);
    let result = drift_result(&entry, outputs, &[]);
    assert!(fails(&result), "{result:#?}");
    assert_eq!((differences(&result), result.evidence.len()), (1, 1), "{result:#?}");
}

#[test]
fn every_assertion_fails_in_an_example() {
    let mut failed = BTreeSet::new();
    for_each_result(|result, _| {
        if fails(result) {
            failed.insert(result.assertion.clone());
        }
    });
    let never: Vec<&str> =
        assertions().map(|it| it.meta.id).filter(|it| !failed.contains(*it)).collect();
    assert!(never.is_empty(), "add an example that fails to the pages of {never:?}");
}

#[test]
fn places_lie_within_the_output() {
    for_each_result(|result, execution| {
        for evidence in &result.evidence {
            let ResultEvidence::Matches { of, spans } = evidence else { continue };
            assert!(!spans.is_empty(), "{result:?}");
            for span in spans {
                assert!(span.start <= span.end, "{span:?}");
                let length = execution.output.chars().count() as u64;
                assert!(*of != CheckedText::Output || span.end <= length, "{result:#?}");
            }
        }
    });
}

#[test]
fn each_kind_of_evidence_has_its_form() {
    let mut kinds: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for_each_result(|result, _| {
        for evidence in &result.evidence {
            let evidence = serde_json::to_value(evidence).unwrap();
            let examples = kinds.entry(evidence["kind"].as_str().unwrap().to_owned()).or_default();
            // Two examples of different assertions show a kind well enough.
            let known = examples.iter().any(|it| it["assertion"] == result.assertion.as_str());
            if !known && examples.len() < 2 {
                examples.push(json!({"assertion": result.assertion, "evidence": evidence}));
            }
        }
    });
    let of_kinds: Vec<&str> = kinds.keys().map(String::as_str).collect();
    let all = [
        "absent",
        "command",
        "diff",
        "matches",
        "measure",
        "reason",
        "schema",
        "tests",
        "toolCall",
        "trajectory",
    ];
    assert_eq!(of_kinds, all);
    insta::assert_json_snapshot!(kinds);
}

/// Returns the evidence of the only result that failed.
fn evidence_of(check: &Value, execution: &Execution) -> Value {
    let expect = json!({"assert": [check]});
    let (checks, problems) = compile(&expect, &Setup::new(&NoFiles, None));
    assert_eq!(problems, [], "{check}");
    let answers = Answers::default();
    let evidence = Evidence::new(execution, &answers);
    let results: Vec<AssertionResult> =
        checks.iter().flat_map(|it| it.evaluate(&evidence)).filter(fails).collect();
    assert_eq!(results.len(), 1, "{check}: {results:#?}");
    serde_json::to_value(&results[0].evidence).unwrap()
}

#[test]
fn negated_limits_exclude_the_limit_itself() {
    let spans = "{ traceId: t, spans: [{ spanId: a, name: call, startTime: 1, endTime: 11 }] }";
    let recorded = format!("output: a\nlatencyMs: 100\ntrace: {spans}\n");
    let execution = Recorded::parse(&recorded).unwrap().execution;
    for (check, bound) in [
        (json!({"type": "not-latency", "maxMs": 100}), "moreThan"),
        (json!({"type": "not-latency", "threshold": 100}), "moreThan"),
        (json!({"type": "not-max-latency", "value": 100}), "moreThan"),
        (json!({"type": "not-trace-error-spans", "value": 0}), "moreThan"),
        (json!({"type": "not-trace-span-duration", "value": {"max": 10}}), "moreThan"),
        (json!({"type": "not-rouge-n", "value": "a", "threshold": 1}), "lessThan"),
    ] {
        assert_eq!(evidence_of(&check, &execution)[0]["bound"], bound, "{check}");
    }
}

#[test]
fn negated_checks_show_what_was_found() {
    let output = "Grüße an ADA, ada@example.org".to_owned();
    let execution = Execution { output, ..Execution::default() };
    let matches =
        |spans: Value| json!([{"kind": "matches", "of": {"text": "output"}, "spans": spans}]);
    for (check, expected) in [
        (
            json!({"type": "not-icontains", "value": "ada"}),
            matches(json!([
                {"start": 9, "end": 12, "what": "ada"}, {"start": 14, "end": 17, "what": "ada"}
            ])),
        ),
        (
            json!({"type": "not-regex", "value": "A.A"}),
            matches(json!([{"start": 9, "end": 12, "what": "/A.A/"}])),
        ),
        (
            json!({"type": "not-keywords", "allow": ["grüße"]}),
            matches(json!([{"start": 0, "end": 5, "what": "grüße"}])),
        ),
        (
            json!({"type": "not-schema", "contains": ["ADA"]}),
            matches(json!([{"start": 9, "end": 12, "what": "ADA"}])),
        ),
        // The places of personal data are shown, not the data.
        (
            json!({"type": "pii", "denyPatterns": [], "detectors": ["email"]}),
            matches(json!([{"start": 14, "end": 29, "what": "e-mail address"}])),
        ),
    ] {
        assert_eq!(evidence_of(&check, &execution), expected, "{check}");
    }
}

#[test]
fn a_selected_value_is_not_the_output() {
    let output = r#"{"city": "Bern"}"#.to_owned();
    let execution = Execution { output, ..Execution::default() };
    for (check, of) in [
        (json!({"type": "contains", "value": "Basel"}), json!({"text": "output"})),
        (
            json!({"type": "contains", "value": "Basel", "on": "json.city"}),
            json!({"text": "other", "name": "json.city"}),
        ),
        (
            json!({"type": "contains", "value": "Basel", "on": "json.town"}),
            json!({"text": "other", "name": "the record"}),
        ),
        (
            json!({"type": "assert-set", "on": "json.city", "assert": [
                {"type": "contains", "value": "Basel", "severity": "gate"}
            ]}),
            json!(null),
        ),
    ] {
        assert_eq!(evidence_of(&check, &execution)[0]["of"], of, "{check}");
    }
}
