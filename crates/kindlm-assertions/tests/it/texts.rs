//! Tests of the checks of the text: problems of their configuration, and hostile outputs.

use kindlm_assertions::{Evidence, Setup, compile};
use kindlm_types::{Answers, Execution, NoFiles};
use serde_json::{Value, json};

#[test]
fn an_impossible_check_is_a_config_problem() {
    let mut lines = Vec::new();
    for entry in [
        json!({"type": "contains", "value": ""}),
        json!({"type": "contains", "value": true}),
        json!({"type": "contains"}),
        json!({"type": "contains", "value": "a", "ignoreCase": true}),
        json!({"type": "icontains-any", "value": ""}),
        json!({"type": "contains-all", "value": "\"unterminated"}),
        json!({"type": "contains-all", "value": 5}),
        json!({"type": "starts-with", "value": ""}),
        json!({"type": "regex", "value": ""}),
        json!({"type": "regex", "value": "(a"}),
        json!({"type": "regex", "value": "(?i)a"}),
        json!({"type": "is-json", "value": {"type": "nonsense"}}),
        json!({"type": "is-json", "value": "{\"type\": \"nonsense\"}"}),
        json!({"type": "is-json", "value": "[1]"}),
        json!({"type": "is-json", "value": "{a"}),
        json!({"type": "contains-json", "value": 5}),
        json!({"type": "contains-json", "value": "analyze_code"}),
        json!({"type": "is-xml", "value": "a..b"}),
        json!({"type": "is-xml", "value": {"required": ["a"]}}),
        json!({"type": "is-html", "value": "p"}),
        json!({"type": "is-sql", "value": "MySQL"}),
        json!({"type": "is-sql", "value": {"databaseType": "MySQLL"}}),
        json!({"type": "is-sql", "value": {"allowedTables": ["orders", "select::null::("]}}),
        json!({"type": "levenshtein", "value": "a", "threshold": -1}),
        json!({"type": "bleu", "value": []}),
        json!({"type": "meteor", "value": [1]}),
        json!({"type": "rouge-n", "value": ["a"]}),
        json!({"type": "word-count", "value": {}}),
        json!({"type": "word-count", "value": "two"}),
        json!({"type": "word-count", "value": {"min": 3, "max": 2}}),
    ] {
        let (checks, problems) = compile(&json!({"assert": [entry]}), &Setup::new(&NoFiles, None));
        assert!(checks.is_empty() && !problems.is_empty(), "{entry}");
        lines.push(entry.to_string());
        for problem in problems {
            let help = problem.help.map(|it| format!(" ({it})")).unwrap_or_default();
            lines.push(format!("  {}: {}{help}", problem.pointer, problem.message));
        }
    }
    insta::assert_snapshot!(lines.join("\n"));
}

/// Returns checks of the text, each with a value that is expensive to check.
fn entries() -> Value {
    json!([
        {"type": "equals", "value": {"a": 1}},
        {"type": "contains", "value": "xyz"},
        {"type": "icontains", "value": "xyz"},
        {"type": "contains-any", "value": "x1, y1"},
        {"type": "contains-all", "value": "x1, y1"},
        {"type": "starts-with", "value": "xyz"},
        {"type": "regex", "value": "(\\w+\\s?)+$"},
        {"type": "is-json", "value": {"required": ["zz"]}},
        {"type": "contains-json", "value": {"required": ["zz"]}},
        {"type": "is-xml", "value": "a.b.c"},
        {"type": "contains-xml", "value": "a.b.c"},
        {"type": "is-html"},
        {"type": "contains-html"},
        {"type": "is-sql", "value": {"allowedTables": ["select::null::zz"], "allowedColumns": ["select::null::zz"]}},
        {"type": "contains-sql"},
        {"type": "levenshtein", "value": "abc".repeat(4_000), "threshold": 10},
        {"type": "rouge-n", "value": "a b c"},
        {"type": "bleu", "value": ["a b c", "b c d e"]},
        {"type": "gleu", "value": "a b c"},
        {"type": "meteor", "value": "a b c ".repeat(1_000)},
        {"type": "word-count", "value": {"max": 10}},
    ])
}

#[test]
fn hostile_outputs_are_judged() {
    let (checks, problems) = compile(&json!({"assert": entries()}), &Setup::new(&NoFiles, None));
    assert!(problems.is_empty(), "{problems:?}");
    for piece in [
        "a ",
        "{",
        "{\"a\":[",
        "{a: ",
        "}{",
        "<a>",
        "<a",
        "<a b=\"",
        "<!--",
        "<![CDATA[",
        "</a>",
        "&",
        "&amp",
        "(",
        "SELECT ",
        "a OR ",
        "```\n",
        "```sql\n",
        "\"",
        "\\",
        "'",
        "a.",
        ",",
        "\u{0}",
        "\u{1f600}",
        "<a x1='' ",
        "<b xmlns:a='b'>",
        "//",
        "{//",
        "[",
    ] {
        let output = piece.repeat(20_000 / piece.len());
        let execution = Execution { output, ..Execution::default() };
        let evidence = Evidence {
            execution: &execution,
            answers: &Answers::default(),
            baseline: None,
            comparison: None,
        };
        for check in &checks {
            let results = check.evaluate(&evidence);
            assert_eq!(results.len(), 1, "{} of many {piece:?}", check.meta.id);
        }
    }
}
