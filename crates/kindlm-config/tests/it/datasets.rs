//! Tests of datasets.

use insta::assert_snapshot;
use kindlm_assertions::Evidence;
use kindlm_config::Loaded;
use kindlm_engine::{CaseBody, Subject};
use kindlm_types::{Answers, Execution, Verdict};

use crate::memory::{GOOD, Memory, load_with, render_all};

/// Loads [`GOOD`] with other tests.
fn suite_with(tests: &str, files: &Memory) -> Loaded {
    let start = GOOD.find("tests:").unwrap();
    load_with(&format!("{}tests: {tests}\n", &GOOD[..start]), files)
}

fn names(loaded: &Loaded) -> Vec<&str> {
    let cases = loaded.suite.as_ref().map(|it| it.cases.as_slice());
    cases
        .unwrap_or_else(|| panic!("{}", render_all(loaded)))
        .iter()
        .map(|it| it.name.as_str())
        .collect()
}

fn body(loaded: &Loaded, case: usize) -> CaseBody {
    loaded.suite.as_ref().unwrap().cases[case].body.body().unwrap().into_owned()
}

fn user(loaded: &Loaded, case: usize) -> String {
    let Subject::Prompt { messages } = body(loaded, case).subject else { panic!() };
    messages.last().unwrap().content.clone()
}

const JSONL: &str = r#"{"name": "a", "prompt": "greet", "vars": {"name": "A\u0041\/"}, "expect": {"output": {"contains": ["A"]}}}

{"prompt": "greet", "vars": {"name": "B"}, "expect": {"output": {"contains": ["B"]}}}
"#;

#[test]
fn every_line_of_jsonl_is_a_test() {
    let files = Memory::from_files([("cases.jsonl", JSONL)]);
    let loaded = suite_with("file://cases.jsonl", &files);
    assert_eq!(names(&loaded), ["a", "cases.jsonl:3"]);
    assert_eq!(user(&loaded, 0), "Greet AA/.");
}

#[test]
fn datasets_stand_among_tests_and_by_glob() {
    let files = Memory::from_files([
        (
            "cases/1.jsonl",
            r#"{"name": "one", "command": "x", "expect": {"latency": {"maxMs": 5}}}"#,
        ),
        (
            "cases/2.jsonl",
            "\u{feff}{\"name\": \"two\", \"command\": \"x\", \"expect\": {\"latency\": {\"maxMs\": 5}}}\r\n",
        ),
        (
            "more.yaml",
            "- name: three\n  prompt: greet\n  vars: { name: C }\n  expect: { output: { contains: [C] } }\n",
        ),
        ("last.json", r#"[{"name": "four", "command": "x", "expect": {"latency": {"maxMs": 5}}}]"#),
    ]);
    let tests = "\n  - file://cases/*.jsonl\n  - { name: middle, command: x, expect: { latency: { maxMs: 1 } } }\n  - file://./more.yaml\n  - file://last.json";
    assert_eq!(names(&suite_with(tests, &files)), ["one", "two", "middle", "three", "four"]);
}

#[test]
fn columns_of_csv_are_variables() {
    let csv = "name,tags,expect.output.contains,expect,repeat,skip,other\n\
        first,\"a, b\",\"[Ada]\",,2,,x\n\
        \"second, with\nlines\",,,\"latency: { maxMs: 5 }\",,because,y\n";
    let prompt = GOOD.replace("Greet {{name}}.", "Greet {{other}}.");
    let start = prompt.find("tests:").unwrap();
    let text = format!("{}tests: file://cases.csv\n", &prompt[..start]);
    let loaded = load_with(&text, &Memory::from_files([("cases.csv", csv)]));
    assert_eq!(names(&loaded), ["first", "second, with\nlines"]);
    assert_eq!(user(&loaded, 0), "Greet x.");
    let cases = &loaded.suite.as_ref().unwrap().cases;
    assert_eq!(
        (cases[0].tags.join("|"), cases[0].repeat, body(&loaded, 0).checks.len()),
        ("a|b".to_owned(), 2, 1)
    );
    assert_eq!((cases[1].skip.as_deref(), body(&loaded, 1).checks.len()), (Some("because"), 1));
}

#[test]
fn columns_with_names_of_other_test_keys_are_warned_about() {
    let csv = "name,prompt,vars.name,threshold,vars.cluster,expect.output.contains\na,greet,Ada,0.5,x,[z]\n";
    let loaded = suite_with("file://cases.csv", &Memory::from_files([("cases.csv", csv)]));
    assert_eq!(names(&loaded), ["a"]);
    assert_eq!(body(&loaded, 0).vars["threshold"], "0.5");
    let warned: Vec<&str> = loaded
        .warnings
        .iter()
        .map(|it| it.message.as_str())
        .filter(|it| it.contains("column"))
        .collect();
    let [only] = warned.as_slice() else { panic!("{warned:?}") };
    assert!(only.starts_with("the column `threshold` is a variable"), "{only}");
}

#[test]
fn problems_are_shown_in_the_dataset() {
    let bad = "{\"name\": \"a\", \"prompt\": \"gret\", \"expect\": {}}\n{\"name\": \"b\" \"prompt\"}\n{\"name\": \"a\", \"prompt\": \"greet\", \"expct\": {}}\n";
    let csv = "name,prompt,expect.output.contain\nx,greet,[a]\ny,greet\nz,greet,\"[a\"\n";
    let files = Memory::from_files([
        ("bad.jsonl", bad),
        ("bad.csv", csv),
        ("empty.jsonl", "\n"),
        ("map.yaml", "a: 1"),
        ("x.toml", ""),
    ]);
    let tests = "\n  - file://bad.jsonl\n  - file://bad.csv\n  - file://empty.jsonl\n  - file://map.yaml\n  - file://x.toml\n  - file://none.jsonl\n  - file://none-*.jsonl\n  - file://../up.jsonl\n  - cases.jsonl";
    assert_snapshot!(render_all(&suite_with(tests, &files)));
}

/// Loads [`GOOD`] with a default test, the tests of `cases.jsonl` and the test `c`.
fn with_default_test(default: &str) -> Loaded {
    let start = GOOD.find("tests:").unwrap();
    let text = format!(
        "{}defaults: {{ test: {default} }}\ntests:\n  - file://cases.jsonl\n  - {{ name: c }}\n",
        &GOOD[..start]
    );
    load_with(
        &text,
        &Memory::from_files([("cases.jsonl", "{\"name\": \"a\"}\n{\"name\": \"b\"}\n")]),
    )
}

#[test]
fn errors_of_defaults_are_shown_at_the_row_of_a_dataset() {
    let loaded =
        with_default_test("{ prompt: greet, models: [fats], vars: { name: A }, expect: {} }");
    let places: Vec<(&str, usize)> =
        loaded.diagnostics.iter().map(|it| (it.file(), it.position().line)).collect();
    assert_eq!(
        places,
        [("kindlm.yaml", 19), ("cases.jsonl", 1), ("cases.jsonl", 2)],
        "{}",
        render_all(&loaded)
    );
}

#[test]
fn invalid_default_test_is_the_only_error() {
    for (default, path) in [
        ("{ prompts: [greet], repaet: 2, expect: {} }", "defaults.test.repaet"),
        ("{ command: x, timeoutMs: soon, expect: {} }", "defaults.test.timeoutMs"),
        ("3", "defaults.test"),
    ] {
        let loaded = with_default_test(default);
        let paths: Vec<&str> = loaded.diagnostics.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, [path], "{}", render_all(&loaded));
    }
}

/// The pool keeps only some of the rows of this dataset compiled. It compiles the other rows again from their text,
/// without reading files.
#[test]
fn rows_that_have_nothing_in_common_are_still_whole() {
    let row = |it: usize| {
        serde_json::json!({
            "prompt": "greet",
            "vars": { "name": format!("Ada {it}"), "deep": { "n": it } },
            "tools": [{ "name": "find", "defaultResponse": it }],
            "conversation": [{ "turn": "first", "user": "I am {{name}}", "expect": { "latency": { "maxMs": it + 1 } } }],
            "expect": { "output": { "format": "json", "schemaFile": "s.json", "contains": [format!("Ada {it}")] } },
        })
        .to_string()
    };
    let rows: Vec<String> = (0..1_100).map(row).collect();
    let rows = rows.join("\n");
    let files =
        Memory::from_files([("cases.jsonl", rows.as_str()), ("s.json", "{\"type\": \"object\"}")]);
    let loaded = suite_with("file://cases.jsonl", &files);
    for case in [0, 1_023, 1_024, 1_099] {
        let body = body(&loaded, case);
        assert_eq!(user(&loaded, case), format!("Greet Ada {case}."));
        assert_eq!(body.vars["deep"]["n"], case);
        assert_eq!(body.tools[0].default_response, Some(case.into()));
        assert_eq!(body.conversation[0].user, Some(format!("I am Ada {case}")));
        assert_eq!(body.conversation[0].checks.len(), 1);
        let first = loaded.suite.as_ref().unwrap().cases[0].body.body().unwrap();
        assert_eq!(body.checks.len(), first.checks.len());
        let execution =
            Execution { output: format!("{{\"is\": \"Ada {case}\"}}"), ..Execution::default() };
        let answers = Answers::default();
        let evidence =
            Evidence { execution: &execution, answers: &answers, baseline: None, comparison: None };
        let verdicts = body.checks.iter().flat_map(|it| it.evaluate(&evidence));
        for result in verdicts {
            assert_eq!(result.verdict, Verdict::Pass, "{case}: {}", result.label);
        }
    }
}
