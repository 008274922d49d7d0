//! Checks of an answer that was cut: a match in the recorded part decides, an absence does not.

use kindlm_assertions::{Evidence, Setup, compile};
use kindlm_types::{Answers, Execution, FinishReason, NoFiles, Turn, Verdict};
use serde_json::{Value, json};

fn verdicts(expect: &Value, execution: &Execution) -> String {
    let (checks, problems) = compile(expect, &Setup::new(&NoFiles, None));
    assert_eq!(problems, [], "{expect}");
    let answers = Answers::default();
    let evidence = Evidence { execution, answers: &answers, baseline: None, comparison: None };
    let results = checks.iter().flat_map(|it| it.evaluate(&evidence));
    let words = results.map(|it| match it.verdict {
        Verdict::Pass => "pass",
        Verdict::Fail { .. } => "fail",
        Verdict::Errored { .. } => "errored",
        Verdict::Skipped { .. } => "skipped",
    });
    words.collect::<Vec<_>>().join(" ")
}

fn listed(check: &Value) -> Value {
    json!({"assert": [check]})
}

fn execution_with(text: &str, reason: FinishReason) -> Execution {
    Execution {
        output: text.to_owned(),
        requests: 1,
        finish_reason: Some(reason),
        ..Execution::default()
    }
}

#[test]
fn a_cut_answer_is_decided_by_matches_only() {
    let text = "Dear Ada, order 42 was sent to ada@example.com yest";
    for (expect, whole, cut) in [
        (json!({"output": {"contains": ["Ada"]}}), "pass", "pass"),
        (json!({"output": {"contains": ["Bob"]}}), "fail", "errored"),
        (json!({"output": {"notContains": ["Ada"]}}), "fail", "fail"),
        (json!({"output": {"notContains": ["Bob"]}}), "pass", "errored"),
        (json!({"output": {"maxLength": 10}}), "fail", "fail"),
        (json!({"output": {"maxLength": 100}}), "pass", "errored"),
        (json!({"output": {"format": "json", "schema": {}}}), "fail", "errored"),
        (json!({"guardrails": {"keywords": {"deny": ["Ada"]}}}), "fail", "fail"),
        (json!({"guardrails": {"keywords": {"deny": ["Bob"]}}}), "pass", "errored"),
        (json!({"guardrails": {"pii": {"denyPatterns": ["a@e"]}}}), "fail", "fail"),
        (json!({"guardrails": {"pii": {"denyPatterns": ["b@e"]}}}), "pass", "errored"),
        (json!({"toolCalls": [{"tool": "f", "shouldNotCall": true}]}), "pass", "errored"),
        (json!({"toolCalls": [{"tool": "f"}]}), "fail", "errored"),
        (listed(&json!({"type": "contains", "value": "Ada"})), "pass", "pass"),
        (listed(&json!({"type": "not-contains", "value": "Bob"})), "pass", "errored"),
        (listed(&json!({"type": "icontains-any", "value": ["ADA", "x"]})), "pass", "pass"),
        (listed(&json!({"type": "includes", "value": "Ada"})), "pass", "pass"),
        (listed(&json!({"type": "excludes", "value": "Bob"})), "pass", "errored"),
        (listed(&json!({"type": "regex", "value": "[0-9]+"})), "pass", "pass"),
        (listed(&json!({"type": "regex", "value": "yest$"})), "pass", "errored"),
        (listed(&json!({"type": "regex", "value": r"yest\b"})), "pass", "errored"),
        (listed(&json!({"type": "regex", "value": "order (?!43)"})), "pass", "errored"),
        (listed(&json!({"type": "not-regex", "value": "[0-9]+"})), "fail", "fail"),
        (listed(&json!({"type": "not-regex", "value": "Bob"})), "pass", "errored"),
        (listed(&json!({"type": "starts-with", "value": "Dear"})), "pass", "pass"),
        (listed(&json!({"type": "not-starts-with", "value": "Hi"})), "pass", "pass"),
        (listed(&json!({"type": "equals", "value": text})), "pass", "errored"),
        (listed(&json!({"type": "is-json"})), "fail", "errored"),
        (listed(&json!({"type": "not-is-json"})), "pass", "errored"),
        (listed(&json!({"type": "not-called-tool", "value": "f"})), "pass", "errored"),
        (listed(&json!({"type": "used-no-tools"})), "pass", "errored"),
        (listed(&json!({"type": "max-tool-calls", "value": 0})), "pass", "errored"),
        (listed(&json!({"type": "message-includes", "value": "Ada"})), "pass", "pass"),
        (listed(&json!({"type": "not-message-includes", "value": "Bob"})), "pass", "errored"),
        (listed(&json!({"type": "no-failed-actions"})), "pass", "errored"),
        (
            listed(&json!({"type": "excludes", "on": "finishReason", "value": "Bob"})),
            "pass",
            "pass",
        ),
        (listed(&json!({"type": "excludes", "on": "output", "value": "Bob"})), "pass", "errored"),
        (listed(&json!({"type": "excludes", "on": "vars", "value": "Bob"})), "pass", "pass"),
    ] {
        assert_eq!(verdicts(&expect, &execution_with(text, FinishReason::Stop)), whole, "{expect}");
        for reason in [
            FinishReason::Length,
            FinishReason::ContentFilter,
            FinishReason::Other("MAX_TOKENS".to_owned()),
            FinishReason::Other("error".to_owned()),
        ] {
            assert_eq!(
                verdicts(&expect, &execution_with(text, reason.clone())),
                cut,
                "{reason:?}: {expect}"
            );
        }
    }
}

#[test]
fn an_answer_of_a_refusal_is_whole() {
    let refused = execution_with("I can't help with that.", FinishReason::Refusal);
    assert_eq!(verdicts(&json!({"output": {"notContains": ["Bob"]}}), &refused), "pass");
}

/// Checks a conversation in which an answer before the last answer was cut.
///
/// The cut does not affect checks of the last answer, but the cut answer may have had a denied word.
#[test]
fn an_answer_that_was_cut_on_the_way_is_remembered() {
    let turn = |unread: Option<&str>, text: &str| Turn {
        text: text.to_owned(),
        unread: unread.map(str::to_owned),
        ..Turn::default()
    };
    let cut = Execution {
        turns: vec![turn(Some("it was cut"), "Dear A"), turn(None, "Bye.")],
        ..execution_with("Bye.", FinishReason::Stop)
    };
    for (expect, expected) in [
        (json!({"output": {"notContains": ["Bob"]}}), "pass"),
        (json!({"guardrails": {"keywords": {"deny": ["Bob"]}}}), "errored"),
        (json!({"toolCalls": [{"tool": "f", "shouldNotCall": true}]}), "errored"),
    ] {
        assert_eq!(verdicts(&expect, &cut), expected, "{expect}");
    }
}
