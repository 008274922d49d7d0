//! Tests of configuration shapes: all problems at once, in the user's terms.

use std::collections::BTreeMap;

use kindlm_schema::Shape;
use kindlm_types::{MemberPart, Problem};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// A model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is used")]
struct Model {
    /// Names the model in the rest of the file.
    #[schemars(length(min = 1))]
    id: String,
    /// Who answers.
    provider: Provider,
    /// How it samples.
    params: Option<Params>,
    #[serde(default)]
    tags: Vec<String>,
    /// Anything.
    extra: Option<Value>,
    timeout: Option<Timeout>,
    action: Option<Action>,
    #[serde(default)]
    limits: BTreeMap<String, u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Provider {
    Openai,
    Anthropic,
}

/// Sampling parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[derive(Default)]
struct Params {
    /// 0 is greedy.
    #[schemars(range(min = 0, max = 2))]
    temperature: Option<f64>,
    #[schemars(range(min = 1))]
    max_tokens: Option<u32>,
    #[schemars(inner(length(min = 1)), length(max = 2))]
    stop_sequences: Vec<String>,
    mode: Option<Mode>,
}

/// How it thinks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    /// Quickly.
    Fast,
    /// Slowly.
    Deep,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Timeout {
    Seconds(f64),
    Text(String),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
enum Action {
    Retry { times: u32 },
    Stop { reason: String },
}

fn show(problem: &Problem) -> String {
    let place = if problem.place == MemberPart::Key { " (key)" } else { "" };
    let help = problem.help.as_ref().map(|it| format!("\n    help: {it}")).unwrap_or_default();
    format!("{}{place}: {}{help}", problem.pointer, problem.message)
}

fn problems(value: &Value) -> String {
    Shape::from_type::<Model>().problems(value).iter().map(show).collect::<Vec<_>>().join("\n")
}

#[test]
fn accepts_values_that_deserialize() {
    for value in [
        json!({"id": "a", "provider": "openai"}),
        json!({"id": "a", "provider": "anthropic", "params": {"temperature": 0, "mode": "deep"}, "extra": null}),
        json!({"id": "a", "provider": "openai", "timeout": "5s", "action": {"type": "retry", "times": 2}}),
    ] {
        assert_eq!(problems(&value), "", "{value}");
        serde_json::from_value::<Model>(value).unwrap();
    }
}

#[test]
fn accepted_values_deserialize() {
    let shape = Shape::from_type::<Model>();
    for (key, value) in [
        ("limits", json!({"a": 5_000_000_000_u64})),
        ("limits", json!({"a": -1})),
        ("params", json!({"maxTokens": 1.5})),
        ("params", json!({"temperature": null})),
        ("params", json!([])),
        ("tags", json!(null)),
        ("action", json!({"type": "stop"})),
        ("timeout", json!(null)),
    ] {
        let mut model = json!({"id": "a", "provider": "openai"});
        model[key] = value;
        assert!(!shape.problems(&model).is_empty(), "{model}");
    }
}

#[test]
fn every_problem_is_found_in_the_order_of_the_document() {
    insta::assert_snapshot!(problems(&json!({
        "provder": "openai",
        "provider": "opnai",
        "id": "",
        "params": {"temprature": 1, "temperature": 3, "maxTokens": 0, "stopSequences": ["", "a", "b"], "mode": "dep"},
        "tags": "a",
        "limits": {"a/b": "x", "c": -1},
        "zzzzzzzzzzzz": 1
    })));
}

#[test]
fn optional_keys_do_not_accept_null() {
    insta::assert_snapshot!(problems(&json!({
        "id": null, "provider": null, "params": null, "timeout": null, "action": null, "extra": null
    })));
}

#[test]
fn alternatives_are_judged_by_the_one_that_was_meant() {
    let one = |key: &str, value: Value| {
        let mut model = json!({"id": "a", "provider": "openai"});
        model[key] = value;
        format!("{}\n{}", model[key], problems(&model))
    };
    let lines = [
        one("timeout", json!([1])),
        one("timeout", json!(true)),
        one("action", json!({"type": "rety", "times": 1})),
        one("action", json!({"type": "retry", "times": "x", "reasn": 1})),
        one("action", json!({"type": "stop"})),
        one("action", json!({"times": 1})),
        one("action", json!("retry")),
        one("params", json!({"mode": 5})),
    ];
    insta::assert_snapshot!(lines.join("\n\n"));
}

#[test]
fn a_text_that_needs_a_list_stays_a_text() {
    for (text, item) in
        [("stop", "stop"), ("true", "\"true\""), ("Null", "\"Null\""), ("0x1F", "\"0x1F\"")]
    {
        let value = json!({"id": "a", "provider": "openai", "params": {"stopSequences": text}});
        let help = Shape::from_type::<Model>().problems(&value).remove(0).help;
        assert_eq!(help, Some(format!("write it as a list: `[{item}]`")));
    }
}

#[test]
fn the_whole_value_may_be_at_fault() {
    let lines = [json!([]), json!(null), json!("x"), json!({})]
        .map(|it| format!("{it}\n{}", problems(&it)));
    insta::assert_snapshot!(lines.join("\n\n"));
}

#[test]
fn the_schema_has_texts_for_editors() {
    insta::assert_snapshot!(
        serde_json::to_string_pretty(Shape::from_type::<Model>().schema()).unwrap()
    );
}

#[test]
fn a_shape_that_is_no_schema_reports_a_bug_and_not_a_pass() {
    let problems = Shape::new(json!({"type": 5})).problems(&json!({}));
    assert!(problems[0].help.as_ref().unwrap().contains("bug in KindLM"));
}

#[test]
fn hand_written_shapes_work_too() {
    let shape = Shape::new(json!({
        "properties": {"a": {"type": "array", "uniqueItems": true}},
        "propertyNames": {"pattern": "^[a-z]+$"},
        "unevaluatedProperties": false
    }));
    let found = shape.problems(&json!({"a": [1, 2, 1], "B": 1}));
    insta::assert_snapshot!(found.iter().map(show).collect::<Vec<_>>().join("\n"));
}
