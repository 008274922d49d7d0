//! The input and output formats of `kindlm evaluate`.

use kindlm_types::{AssertionResult, FailureCode, Outcome, Severity, ToolCall, Usage};
use kindlm_wire::evaluate::{Evaluation, PROMPT_ASSERTION, Record};
use serde_json::{Value, json};

const CODE: FailureCode = FailureCode::new("KEYWORD_MISSING");

fn pass() -> AssertionResult {
    AssertionResult::pass("keywords", "a")
}

fn fail() -> AssertionResult {
    AssertionResult::fail("keywords", "b", CODE, "no `b`")
}

fn soft() -> AssertionResult {
    fail().with_severity(Severity::Soft)
}

fn errored() -> AssertionResult {
    AssertionResult::errored("judge", "c", FailureCode::new("JUDGE_PARSE_ERROR"), "unreadable")
}

fn skipped() -> AssertionResult {
    AssertionResult::skipped("drift", "d", "no baseline")
}

#[test]
fn adds_up_the_results_of_checks() {
    for (results, threshold, score, counts, outcome) in [
        (vec![pass(), pass(), pass(), fail()], None, Some(0.75), (3, 1, 4), Outcome::Failed),
        (vec![pass(), pass(), pass(), fail()], Some(1.0), Some(0.75), (3, 1, 4), Outcome::Failed),
        (vec![pass(), pass(), pass(), fail()], Some(0.75), Some(0.75), (3, 1, 4), Outcome::Passed),
        (vec![pass(), soft()], None, Some(0.5), (1, 1, 2), Outcome::Scored),
        (vec![pass(), errored()], Some(0.1), Some(0.5), (1, 0, 2), Outcome::Errored),
        (vec![pass(), skipped()], None, Some(1.0), (1, 0, 1), Outcome::Passed),
        (vec![skipped()], None, None, (0, 0, 0), Outcome::Skipped),
        (vec![skipped()], Some(0.5), None, (0, 0, 0), Outcome::Skipped),
        (vec![], None, None, (0, 0, 0), Outcome::Skipped),
    ] {
        let it = Evaluation::new(None, &results, threshold, false);
        assert_eq!(it.score, score);
        assert_eq!((it.passed, it.failed, it.total), counts);
        assert_eq!(it.outcome, outcome, "{results:?} with threshold {threshold:?}");
    }
}

#[test]
fn writes_the_example_of_the_contract() {
    let prompt = AssertionResult::pass(PROMPT_ASSERTION, "cite_sources").with_reasoning("It does.");
    let called = AssertionResult::fail(
        "tool-calls",
        "Tool called: search",
        FailureCode::new("TOOL_CALL_MISSING"),
        "never called",
    )
    .with_metadata("called", json!([]));
    let evaluation = Evaluation::new(Some(json!("r1")), &[prompt, called, skipped()], None, false);
    assert_eq!(
        serde_json::to_value(&evaluation).unwrap(),
        json!({
            "id": "r1", "score": 0.5, "passed": 1, "failed": 1, "total": 2, "outcome": "failed",
            "results": [
                {"id": "cite_sources", "pass": true, "status": "passed", "type": "prompt-assertion",
                 "label": "cite_sources", "score": 1.0, "severity": "gate", "reasoning": "It does."},
                {"pass": false, "status": "failed", "type": "tool-calls", "label": "Tool called: search",
                 "score": 0.0, "severity": "gate", "failure_code": "TOOL_CALL_MISSING",
                 "failure_message": "never called", "metadata": {"called": []}},
                {"pass": true, "status": "skipped", "type": "drift", "label": "d", "score": null,
                 "severity": "gate", "reasoning": "no baseline"},
            ],
        })
    );
    let again: Evaluation =
        serde_json::from_value(serde_json::to_value(&evaluation).unwrap()).unwrap();
    assert_eq!(again, evaluation);
}

#[test]
fn every_field_of_a_record_is_optional_and_no_key_is_lost() {
    let record: Record = serde_json::from_value(json!({})).unwrap();
    assert_eq!(record, Record::default());
    let given = json!({
        "id": 7, "agent_output": null, "judge_reply": "…", "results": [1],
        "tool_calls": [{"name": "f", "arguments": {"x": 1.5}}], "vars": null, "events": null,
        "usage": {"input_tokens": 3, "completion_tokens": 4},
    });
    let record: Record = serde_json::from_value(given).unwrap();
    assert_eq!(record.id, Some(json!(7)));
    assert_eq!(record.agent_output, Some(Value::Null), "null is an output, absence is none");
    assert_eq!(record.extra.keys().collect::<Vec<_>>(), ["judge_reply", "results"]);
    assert_eq!(ToolCall::from(record.tool_calls[0].clone()).arguments, json!({"x": 1.5}));
    assert_eq!(Usage::from(record.usage.unwrap()).total_tokens, 7);
    let again: Record = serde_json::from_value(serde_json::to_value(&record).unwrap()).unwrap();
    assert_eq!(again, record);
}

#[test]
fn an_empty_text_is_no_arguments() {
    for (arguments, expected, malformed) in [
        (json!(r#"{"x": 1}"#), json!({"x": 1}), None),
        (json!(""), json!({}), None),
        (json!(" \n"), json!({}), None),
        (json!("null"), json!({}), None),
        (json!("{"), Value::Null, Some("{")),
        (json!("[1]"), Value::Null, Some("[1]")),
    ] {
        let given = json!({"tool_calls": [{"name": "f", "arguments": arguments}]});
        let record: Record = serde_json::from_value(given).unwrap();
        let call = ToolCall::from(record.tool_calls[0].clone());
        assert_eq!(call.arguments, expected, "{arguments}");
        assert_eq!(call.malformed_arguments.as_deref(), malformed, "{arguments}");
    }
}

#[test]
fn every_conformance_vector_is_a_record() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/conformance/kindlm");
    let mut count = 0;
    for name in ["aggregate", "gates", "judge", "keywords", "pii", "schema", "tool_calls"] {
        let text = std::fs::read_to_string(format!("{folder}/{name}.jsonl")).unwrap();
        for line in text.lines() {
            let record: Record = serde_json::from_str(line).unwrap();
            let given: Value = serde_json::from_str(line).unwrap();
            let kept = serde_json::to_value(&record).unwrap();
            for (key, value) in given.as_object().unwrap() {
                if !value.as_array().is_some_and(Vec::is_empty) && key != "tool_calls" {
                    assert_eq!(kept.get(key), Some(value), "{name}: {key}");
                }
            }
            count += 1;
        }
    }
    assert!(count > 500, "{count} vectors");
}

#[test]
fn reports_with_a_duplicate_key_are_invalid() {
    let start = r#"{"schemaVersion":1,"cases":[],"project":"a","#;
    for (more, expected) in [
        (r#""cases":[]}"#, "duplicate key `cases`"),
        (r#""project":"b"}"#, "duplicate key `project`"),
    ] {
        let json = format!("{start}{more}");
        let err = kindlm_wire::read_report(json.as_bytes(), &mut |_, _| {}).unwrap_err();
        assert!(err.to_string().contains(expected), "{err}");
    }
}
