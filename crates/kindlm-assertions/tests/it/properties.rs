//! Properties that hold for every output and every list of arguments.

use kindlm_assertions::{Check, Evidence, Setup, compile};
use kindlm_types::{Answers, Execution, NoFiles, Spend, ToolCall, Verdict};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        // No templates, and no texts like `/(/`, which `argsMatch` rejects as patterns.
        "([^{/][^{]{0,5})?".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            object(inner).prop_map(Value::Object),
        ]
    })
}

fn object(values: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec(("[a-c/~]{0,2}", values), 0..4)
        .prop_map(|pairs| pairs.into_iter().collect())
}

fn call(arguments: Value, malformed: Option<String>) -> ToolCall {
    let malformed_arguments = malformed;
    ToolCall { name: "t".to_owned(), arguments, malformed_arguments, ..ToolCall::default() }
}

fn checks(expect: &Value) -> Vec<Check> {
    let (checks, problems) = compile(expect, &Setup::new(&NoFiles, None));
    assert_eq!(problems, []);
    checks
}

fn verdicts(checks: &[Check], execution: &Execution) -> Vec<Verdict> {
    let evidence =
        Evidence { execution, answers: &Answers::default(), baseline: None, comparison: None };
    checks.iter().flat_map(|check| check.evaluate(&evidence)).map(|it| it.verdict).collect()
}

/// Returns the value with the keys of all objects in reverse order.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(reversed).collect(),
        Value::Object(map) => {
            map.iter().rev().map(|(key, value)| (key.clone(), reversed(value))).collect()
        }
        other => other.clone(),
    }
}

#[test]
fn rounding_of_a_mean_drift_exceeds_no_limit() {
    let checks =
        checks(&json!({"baseline": {"drift": {"method": "field-diff", "maxScore": 0.15}}}));
    let answers = Answers::default();
    // One letter of ten and one of five differ: (0.1 + 0.2) / 2.
    let baseline = Some(r#"{"a": "aaaaaaaaaa", "b": "bbbbb"}"#);
    for (cost, output, held) in [
        (0.1 + 0.2, r#"{"a": "aaaaaaaaax", "b": "bbbbx"}"#, true),
        (0.300_001, r#"{"a": "aaaaaaaaxx", "b": "bbbbx"}"#, false),
    ] {
        let execution = Execution {
            output: output.to_owned(),
            spend: Spend { cost_usd: Some(cost), ..Spend::default() },
            ..Execution::default()
        };
        let evidence =
            Evidence { execution: &execution, answers: &answers, baseline, comparison: None };
        for result in checks.iter().flat_map(|check| check.evaluate(&evidence)) {
            assert_eq!(result.verdict.held(), held, "{result:?}");
        }
    }
}

proptest! {
    #[test]
    fn evaluating_never_panics_and_is_repeatable(
        output in "\\PC*",
        json in proptest::option::of(any_json()),
        arguments in any_json(),
        malformed in proptest::option::of(".{0,8}"),
        expected in object(any_json()),
        latency_ms in proptest::option::of(any::<f64>()),
        cost_usd in proptest::option::of(any::<f64>()),
    ) {
        let schema = json!({"type": "object", "properties": {"a": {"minimum": 0, "format": "date"}}});
        let checks = checks(&json!({
            "output": {"format": "json", "schema": schema, "contains": ["a", " "], "notContains": ["b"], "maxLength": 3},
            "toolCalls": [
                {"tool": "t", "argsMatch": expected, "argsSchemaResolved": schema, "order": 1, "responseContains": "x"},
                {"tool": "u", "shouldNotCall": true}
            ],
            "guardrails": {"keywords": {"deny": ["ß", "İ"], "allow": ["a"]}, "pii": {}},
            "latency": {"maxMs": 1}, "cost": {"maxUsd": 1},
            "assert": [{"type": "not-schema", "format": "json", "schema": true, "threshold": 0.5}]
        }));
        let execution = Execution {
            output,
            output_json: json,
            tool_calls: vec![call(arguments, malformed)],
            latency_ms, spend: Spend { cost_usd, ..Spend::default() },
            ..Execution::default()
        };
        prop_assert_eq!(verdicts(&checks, &execution), verdicts(&checks, &execution));
    }

    #[test]
    fn arguments_match_themselves_in_any_key_order(arguments in object(any_json())) {
        let checks = checks(&json!({"toolCalls": [{"tool": "t", "argsMatch": arguments}]}));
        let actual = reversed(&Value::Object(arguments));
        let execution = Execution { tool_calls: vec![call(actual, None)], ..Execution::default() };
        prop_assert_eq!(verdicts(&checks, &execution), [Verdict::Pass, Verdict::Pass]);
    }

    #[test]
    fn another_call_never_breaks_a_match(arguments in object(any_json()), other in any_json()) {
        let checks = checks(&json!({"toolCalls": [{"tool": "t", "argsMatch": arguments}]}));
        let calls = vec![call(other, None), call(Value::Object(arguments), None)];
        let execution = Execution { tool_calls: calls, ..Execution::default() };
        prop_assert_eq!(verdicts(&checks, &execution), [Verdict::Pass, Verdict::Pass]);
    }

    #[test]
    fn any_block_compiles_or_has_a_problem(block in any_json()) {
        let (_, problems) = compile(&block, &Setup::new(&NoFiles, None));
        let empty = block.as_object().is_some_and(Map::is_empty);
        prop_assert_eq!(problems.is_empty(), empty);
    }
}
