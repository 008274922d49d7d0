//! A Rust test that uses only the facade crate.

use kindlm::{Execution, Outcome, ToolCall, check};
use serde_json::json;

fn execution() -> Execution {
    Execution {
        output: "I have refunded 249 EUR.".to_owned(),
        tool_calls: vec![ToolCall {
            name: "issue_refund".to_owned(),
            arguments: json!({"amount": 249}),
            ..ToolCall::default()
        }],
        ..Execution::default()
    }
}

#[test]
fn reports_the_failed_gates() {
    let expect = json!({
        "output": {"contains": ["refunded"]},
        "toolCalls": [{"tool": "issue_refund", "argsMatch": {"amount": 24.9}}],
    });
    let checked = check(&execution(), &expect).unwrap();
    assert_eq!(checked.outcome(), Outcome::Failed);
    assert_eq!(
        checked.to_string(),
        "Tool args: issue_refund: Argument mismatches: amount: expected 24.9, got 249\n"
    );
}

#[test]
fn a_check_that_needs_a_model_is_errored() {
    let expect = json!({"judge": [{"criteria": "Is polite"}]});
    assert_eq!(check(&execution(), &expect).unwrap().outcome(), Outcome::Errored);
}

#[test]
fn a_problem_has_its_place() {
    let err =
        check(&execution(), &json!({"assert": [{"type": "contain", "value": "x"}]})).unwrap_err();
    assert!(err.to_string().starts_with("`/assert/0/type`: "), "{err}");
    assert!(err.to_string().contains("contains"), "{err}");
}
