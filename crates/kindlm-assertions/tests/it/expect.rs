//! The problems of `expect` blocks, with the messages that users read.

use kindlm_assertions::{Evidence, Setup, compile};
use kindlm_testing::examples;
use kindlm_types::{Answers, Execution, FileError, Files, MemberPart};
use serde_json::{Value, json};

use crate::support::Memory;

fn files() -> Memory {
    let files = [
        ("ok.json", r#"{"type": "object"}"#),
        ("broken.json", "{"),
        ("bad.json", r#"{"properties": {"a": {"type": "strnig"}}}"#),
        ("remote.json", r#"{"$ref": "https://example.com/s.json"}"#),
        ("bom.json", "\u{feff}{}"),
    ];
    Memory(files.map(|(path, text)| (path.to_owned(), text.to_owned())).into_iter().collect())
}

/// Returns the ids of the checks in order, and the problems.
fn compiled(expect: &Value) -> (Vec<&'static str>, String) {
    let files = files();
    let (checks, problems) = compile(expect, &Setup::new(&files, None));
    (checks.iter().map(|it| it.meta.id).collect(), examples::show_problems(&problems))
}

#[test]
fn checks_keep_the_order_of_registry_and_list() {
    let (ids, problems) = compiled(&json!({
        "assert": [{"type": "cost", "maxUsd": 1}, {"type": "tool-calls", "tool": "c"}],
        "latency": {"maxMs": 5},
        "guardrails": {"keywords": {"deny": ["x"]}, "pii": {}},
        "judge": [{"criteria": "a"}, {"criteria": "b"}],
        "output": {"contains": ["x"]},
        "toolCalls": [{"tool": "a"}, {"tool": "b"}]
    }));
    assert_eq!(problems, "");
    let expected = [
        "tool-calls",
        "tool-calls",
        "schema",
        "pii",
        "keywords",
        "judge",
        "judge",
        "latency",
        "cost",
        "tool-calls",
    ];
    assert_eq!(ids, expected);
}

#[test]
fn empty_blocks_have_no_checks() {
    for expect in [json!({}), json!({"toolCalls": [], "guardrails": {}, "assert": [], "judge": []})]
    {
        assert_eq!(compiled(&expect), (vec![], String::new()));
    }
}

#[test]
fn every_problem_is_reported_with_its_place() {
    let lines: Vec<String> = [
        json!(null),
        json!([]),
        json!({"outptu": {}, "toolcalls": [], "asert": [], "zzzzzzzz": 1}),
        json!({"guardrails": {"ppi": {}, "keyword": {}}, "baseline": {"drfit": {}}}),
        json!({"guardrails": null, "baseline": []}),
        json!({"output": {"format": "json"}}),
        json!({"output": {"format": "json", "schemaFile": ""}}),
        json!({"output": {"format": "jsn", "maxLength": 0, "contains": "a", "notContains": [1]}}),
        json!({"output": {"format": "json", "schemaFile": "missing.json"}}),
        json!({"output": {"format": "json", "schemaFile": "broken.json"}}),
        json!({"output": {"format": "text", "schemaFile": "bad.json"}}),
        json!({"output": {"format": "json", "schemaFile": "remote.json"}}),
        json!({"output": {"format": "json", "schemaFile": "ok.json", "schema": {}}}),
        json!({"output": {"format": "json", "schema": {"properties": {"a": {"type": "strnig"}}}}}),
        json!({"output": null}),
        json!({"toolCalls": {"tool": "a"}}),
        json!({"toolCalls": [{"tool": ""}, {"argsMatch": []}, {"tool": "a", "order": -1, "argMatch": {}}, "a"]}),
        json!({"toolCalls": [{"tool": "a", "order": 1.5}, {"tool": "a", "argsSchema": "missing.json"}]}),
        json!({"toolCalls": [{"tool": "a", "argsSchemaResolved": {"type": 1}}]}),
        json!({"latency": {"maxMs": 0}, "cost": {"maxUsd": "1"}}),
        json!({"latency": {"maxMS": 5}}),
    ]
    .iter()
    .map(|expect| format!("{expect}\n{}", compiled(expect).1))
    .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn permissions_of_a_check_are_validated() {
    let webhook = "https://a.test/x";
    for (entry, pointer, part) in [
        (
            json!({"type": "python", "value": "True", "scripts": {"env": ["A=b"]}}),
            "/scripts/env/0",
            "`A=b`",
        ),
        (
            json!({"type": "not-ruby", "value": "true", "scripts": {"env": ["*"]}}),
            "/scripts/env/0",
            "`*`",
        ),
        (
            json!({"type": "pi", "value": "x", "scripts": {"net": ["a.test"], "env": ["WITHPI_API_KEY"]}}),
            "",
            "`api.withpi.ai`",
        ),
        (
            json!({"type": "webhook", "value": webhook, "scripts": {"net": ["b.test"]}}),
            "/value",
            "`a.test`",
        ),
    ] {
        let (_, problems) = compile(&json!({"assert": [entry]}), &Setup::new(&files(), None));
        let [problem] = problems.as_slice() else { panic!("{entry}: {problems:?}") };
        assert_eq!(problem.pointer, format!("/assert/0{pointer}"), "{entry}");
        assert!(problem.message.contains(part), "{entry}: {}", problem.message);
    }
    let granted =
        json!({"assert": [{"type": "webhook", "value": webhook, "scripts": {"net": ["a.test"]}}]});
    assert_eq!(compiled(&granted), (vec!["webhook"], String::new()));
}

#[test]
fn list_entries_report_their_problems() {
    let lines: Vec<String> = [
        json!({"type": "latency", "maxMs": 5}),
        json!("latency"),
        json!({"maxMs": 5}),
        json!({"type": 5}),
        json!({"type": "latncy", "maxMs": 5}),
        json!({"type": "not-latncy", "maxMs": 5}),
        json!({"type": "zzzzzzzzzzzzzzz"}),
        json!({"type": "not-search-rubric"}),
        json!({"type": "latency", "maxMs": 5, "severty": "soft"}),
        json!({"type": "latency", "maxMs": 5, "severity": "sotf"}),
        json!({"type": "latency", "maxMs": 5, "weight": -1, "threshold": "x", "label": "", "metric": null}),
        json!({"type": "latency", "maxMs": 5, "threshold": 1, "atLeast": 1}),
        json!({"type": "schema", "format": "json"}),
        json!({"type": "latency"}),
        json!({"type": "latency", "maxMs": 5, "require": true, "weight": 0}),
        json!({"type": "assert-set", "require": true, "weight": 0, "assert": [{"type": "is-json"}]}),
        json!({"type": "latency", "maxMs": 5, "require": true, "severity": "soft"}),
        json!({"type": "max-score", "require": true}),
        json!({"type": "max-score", "value": {"weights": {"contains": 2, "not-contains": 3}}}),
        json!({"type": "llm-rubric", "value": "kind", "jury": "veto"}),
        json!({"type": "llm-rubric", "value": "kind", "samples": 3, "quorum": 4}),
        json!({"type": "llm-rubric", "value": "kind", "threshold": 1.01}),
        json!({"type": "not-moderation", "atLeast": -0.1}),
        json!({"type": "assert-set", "threshold": 80, "assert": [{"type": "is-json"}]}),
        json!({"type": "keywords", "deny": ["x"], "threshold": 2}),
        json!({"type": "equals", "value": "x", "threshold": 1.5}),
        json!({"type": "not-includes", "value": "x", "threshold": -1}),
        json!({"type": "latency", "maxMs": 5, "threshold": 80}),
        json!({"type": "bleu", "value": "x", "threshold": 2}),
        json!({"type": "llm-rubric", "value": "kind", "rubricPrompt": "{{ outptu }}"}),
        json!({"type": "judge", "criteria": "kind", "rubricPrompt": "{{ output }}"}),
        json!({"type": "llm-rubric", "value": "kind", "models": ["a"], "jury": "veto", "agg": "mean", "samples": 1}),
        json!({"type": "llm-rubric", "value": "kind", "quorum": 1}),
        json!({"type": "llm-rubric", "value": "kind", "agg": "mean", "samples": 3, "quorum": 2}),
        json!({"type": "called-tool", "value": "a", "input": {"id": "{{ nope("}}),
        json!({"type": "max-score", "on": "json.answer"}),
        json!({"type": "select-best", "value": "short", "require": true}),
        json!({"type": "not-file-changed", "value": "src\\cart.ts"}),
        json!({"type": "file-changed", "value": "../x"}),
        json!({"type": "not-file-changed", "value": "{.git,x}/config"}),
        json!({"type": "not-file-changed", "value": "sub/.gi?/config"}),
        json!({"type": "not-in-diff", "value": "x", "path": ".g*"}),
        json!({"type": "not-file-changed", "value": "[.]git/hooks/**"}),
        json!({"type": "file-matches", "path": "src/", "value": "x"}),
    ]
    .iter()
    .map(|entry| format!("{entry}\n{}", compiled(&json!({"assert": [entry]})).1))
    .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn unknown_keys_are_located_at_the_key() {
    let expect = json!({"outptu": {}, "output": {"contain": []}});
    let (_, problems) = compile(&expect, &Setup::new(&files(), None));
    assert!(problems.iter().all(|it| it.place == MemberPart::Key), "{problems:?}");
}

#[test]
fn options_are_read_and_do_not_reach_the_assertion() {
    let expect = json!({"assert": [{
        "type": "not-schema", "contains": ["a"], "atLeast": 0.5, "severity": "soft", "weight": 2, "metric": "speed", "label": "quick"
    }]});
    let files = files();
    let (checks, problems) = compile(&expect, &Setup::new(&files, None));
    assert_eq!(problems, []);
    insta::assert_snapshot!(format!("{:#?}", checks[0].options));
}

#[test]
fn a_schema_with_a_byte_order_mark_is_read() {
    let (ids, problems) =
        compiled(&json!({"output": {"format": "json", "schemaFile": "bom.json"}}));
    assert_eq!((ids, problems.as_str()), (vec!["schema"], ""));
}

/// Files that count the number of reads.
struct Counting(std::sync::atomic::AtomicUsize);

impl Files for Counting {
    fn read_file(&self, _path: &str) -> Result<std::sync::Arc<str>, FileError> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok("{}".into())
    }

    fn glob(&self, _pattern: &str) -> Result<Vec<String>, FileError> {
        Ok(Vec::new())
    }
}

#[test]
fn a_schema_file_is_compiled_once_for_a_suite() {
    let files = Counting(0.into());
    let setup = Setup::new(&files, None);
    let expect = json!({
        "output": {"format": "json", "schemaFile": "a.json"},
        "toolCalls": [{"tool": "a", "argsSchema": "a.json"}, {"tool": "b", "argsSchema": "b.json"}]
    });
    for _ in 0..100 {
        assert_eq!(compile(&expect, &setup).1, []);
    }
    assert_eq!(files.0.into_inner(), 2);
}

#[test]
fn structured_output_is_taken_as_it_is() {
    let expect = json!({"output": {"format": "json", "schema": {"type": "object"}}});
    let (checks, _) = compile(&expect, &Setup::new(&files(), None));
    let execution = Execution {
        output: "not JSON".to_owned(),
        output_json: Some(json!({"a": 1})),
        ..Execution::default()
    };
    let evidence = Evidence {
        execution: &execution,
        answers: &Answers::default(),
        baseline: None,
        comparison: None,
    };
    assert!(checks[0].evaluate(&evidence).iter().all(|it| it.verdict.held()));
}
