//! Tests with several prompts, and tests that continue each other.

use kindlm_engine::{HISTORY, Subject, Suite};
use serde_json::{Map, Value, json};

use crate::memory::{Memory, brief, load_with};

fn suite(tests: &str) -> String {
    format!(
        r#"
kindlm: 1
project: demo
suite: {{ name: several }}
models: [openai:gpt-4o]
prompts:
  short: {{ user: "Hi {{{{x}}}}" }}
  long: {{ template: jinja, user: "{{% for it in _conversation %}}{{{{ it.output }}}} {{% endfor %}}{{{{x}}}}" }}
tests:
{tests}
"#
    )
}

fn loaded(tests: &str) -> Suite {
    let loaded = load_with(&suite(tests), &Memory::default());
    assert_eq!(brief(&loaded.diagnostics), [""; 0]);
    loaded.suite.unwrap()
}

fn last_message(suite: &Suite, case: usize, vars: &Map<String, Value>) -> String {
    match &suite.cases[case].body.body_with(vars).unwrap().subject {
        Subject::Prompt { messages } => messages.last().unwrap().content.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_test_runs_with_each_of_its_prompts() {
    let suite = loaded(
        "  - { name: t, prompts: [short, long], history: h, vars: { x: a }, expect: { output: { contains: [a] } } }",
    );
    let names: Vec<&str> = suite.cases.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["t · short", "t · long"]);
    assert_eq!(last_message(&suite, 0, &Map::new()), "Hi a");
    assert_ne!(suite.cases[0].digest, suite.cases[1].digest);
}

#[test]
fn a_history_fills_in_the_earlier_exchanges() {
    let suite = loaded(
        "  - { name: t, prompt: long, history: h, vars: { x: a }, expect: { output: { contains: [a] } } }",
    );
    assert_eq!(suite.cases[0].history.as_deref(), Some("h"));
    assert_eq!(last_message(&suite, 0, &Map::new()), "a");
    let earlier: Map<String, Value> =
        [(HISTORY.to_owned(), json!([{"output": "first"}]))].into_iter().collect();
    assert_eq!(last_message(&suite, 0, &earlier), "first a");
}

#[test]
fn prompts_and_histories_have_limits() {
    let expect = "expect: { output: { contains: [a] } }";
    for (test, expected) in [
        (
            format!("name: t, prompt: short, prompts: [long], vars: {{ x: a }}, {expect}"),
            "a test has either a `prompt` or `prompts`, not both",
        ),
        (format!("name: t, prompts: [], vars: {{ x: a }}, {expect}"), "must not be empty"),
        (
            "name: t, prompt: short, history: h, models: [openai:gpt-4o, openai:o3], vars: { x: a }, expect: { assert: [{ type: select-best, value: a }] }".to_owned(),
            "a test whose outputs are compared cannot have a `history`",
        ),
        (
            format!(
                "name: t, prompt: short, history: h, vars: {{ x: a }}, conversation: [{{ turn: first }}, {{ turn: next, user: Go }}], {expect}"
            ),
            "a test with a `conversation` cannot have a `history`",
        ),
    ] {
        let loaded = load_with(&suite(&format!("  - {{ {test} }}")), &Memory::default());
        let problems = brief(&loaded.diagnostics);
        assert!(problems.iter().any(|it| it.contains(expected)), "{test}: {problems:?}");
    }
}
