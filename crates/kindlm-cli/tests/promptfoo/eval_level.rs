//! Runs whole promptfoo configs, and compares the results with the results of promptfoo.
//!
//! The success of the run must be equal, and each row's verdict, scores, output and variables. Intended differences
//! are listed with the reasons. The test fails if a listed difference does not occur.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// The vectors with intended differences.
const DIFFERENT: [(&str, &str); 4] = [
    ("unknown-type", "an unknown type is a config error: nothing is sent"),
    (
        "transforms-chain",
        "evidence stays as it came; the checks see what the transforms made of it",
    ),
    ("csv-expected", "a test that checks nothing has no score here; there it has 1"),
    ("nan-score", "a score that is no number is errored, not passed"),
];

fn vectors() -> Vec<Value> {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/conformance/promptfoo/eval_level.jsonl"
    );
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The result of a run of KindLM or promptfoo, in one format so that the two can be compared.
#[derive(Debug, PartialEq)]
struct Ran {
    passed_run: bool,
    rows: Vec<Value>,
}

fn ours(vector: &Value, folder: &Path) -> Result<Ran, String> {
    std::fs::write(folder.join("promptfooconfig.json"), vector["config"].to_string()).unwrap();
    for (name, content) in vector["files"].as_object().unwrap() {
        std::fs::write(folder.join(name), content.as_str().unwrap()).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_kindlm"));
    command.current_dir(folder).args(["test", "-c", "promptfooconfig.json", "-q"]);
    command.args(["--reporter", "json=report.json"]);
    let args: Vec<&str> =
        vector["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    match args.as_slice() {
        [] => {}
        ["--repeat", count] => _ = command.args(["--runs", count]),
        ["--filter-pattern", pattern] => _ = command.args(["--test", &format!("/{pattern}/")]),
        other => panic!("{other:?} has no equal here yet"),
    }
    let output = command.output().unwrap();
    let code = output.status.code().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if code > 1 {
        return Err(format!("exit code {code}: {stderr}"));
    }
    let report: Value =
        serde_json::from_slice(&std::fs::read(folder.join("report.json")).unwrap()).unwrap();
    let executions = report["cases"].as_array().unwrap().iter().flat_map(|case| {
        case["executions"].as_array().unwrap().iter().map(|it| {
            json!({
                "success": it["pass"],
                "score": it["score"],
                "output": it.get("outputJson").unwrap_or(&it["output"]),
                "vars": it["vars"],
                "namedScores": it.get("namedScores").cloned().unwrap_or_else(|| json!({})),
            })
        })
    });
    Ok(Ran { passed_run: code == 0, rows: sorted(executions.collect()) })
}

fn theirs(vector: &Value) -> Ran {
    let expect = &vector["expect"];
    let rows = expect["rows"].as_array().unwrap().iter().map(|it| {
        json!({
            "success": it["success"],
            "score": it["score"],
            "output": it["output"],
            "vars": it["vars"],
            "namedScores": it.get("namedScores").cloned().unwrap_or_else(|| json!({})),
        })
    });
    Ran { passed_run: expect["exit"] == 0, rows: sorted(rows.collect()) }
}

/// Sorts rows, because their order depends on the nesting of tests, prompts and providers.
fn sorted(rows: Vec<Value>) -> Vec<Value> {
    let mut rows: Vec<Value> = rows.into_iter().map(rounded).collect();
    rows.sort_by_key(Value::to_string);
    rows
}

/// Rounds numbers to nine decimals, in a uniform notation.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            let number = number.as_f64().unwrap();
            json!((number * 1e9).round() / 1e9)
        }
        Value::Array(items) => items.into_iter().map(rounded).collect(),
        Value::Object(map) => map.into_iter().map(|(key, it)| (key, rounded(it))).collect(),
        other => other,
    }
}

/// Derived metrics use sums of scores, as in promptfoo.
///
/// For a failed computation, KindLM reports a reason, and promptfoo reports 0.
#[test]
fn derived_metrics_agree_with_promptfoo() {
    let vectors = vectors();
    let vector = vectors.iter().find(|it| it["id"] == "derived-metrics").unwrap();
    let folder = tempfile::tempdir().unwrap();
    ours(vector, folder.path()).unwrap();
    let text = std::fs::read(folder.path().join("report.json")).unwrap();
    let report: Value = serde_json::from_slice(&text).unwrap();
    let theirs = &vector["expect"]["prompts"][0]["metrics"];
    for named in report["namedScores"].as_array().unwrap() {
        let name = named["name"].as_str().unwrap();
        assert_eq!(named["sum"].as_f64(), theirs["namedScores"][name].as_f64(), "{name}");
        assert_eq!(named["count"].as_f64(), theirs["namedScoresCount"][name].as_f64(), "{name}");
        assert_eq!(named["weight"].as_f64(), theirs["namedScoreWeights"][name].as_f64(), "{name}");
    }
    let mut names = Vec::new();
    for metric in report["derivedMetrics"].as_array().unwrap() {
        let (name, value) = (metric["name"].as_str().unwrap(), &metric["values"][0]);
        names.push(name);
        if name == "bad" {
            assert_eq!(value["error"], "no check gave a score named `nope`");
        } else {
            assert_eq!(value["value"].as_f64(), theirs["namedScores"][name].as_f64(), "{name}");
        }
    }
    assert_eq!(names, ["F1", "avgP", "chain", "bad"]);
}

fn show(ran: &Result<Ran, String>) -> String {
    match ran {
        Ok(ran) => {
            let rows: Vec<String> = ran.rows.iter().map(|it| format!("\n  {it}")).collect();
            format!("{}{}", if ran.passed_run { "passed" } else { "failed" }, rows.concat())
        }
        Err(why) => why.clone(),
    }
}

#[test]
fn configs_of_promptfoo_run_as_they_do_there() {
    let mut differing = Vec::new();
    let vectors = vectors();
    for vector in &vectors {
        let id = vector["id"].as_str().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let ours = ours(vector, folder.path());
        let theirs = theirs(vector);
        if ours.as_ref() != Ok(&theirs) {
            if !DIFFERENT.iter().any(|(it, _)| *it == id) {
                eprintln!("{id}\nours:   {}\ntheirs: {}", show(&ours), show(&Ok(theirs)));
            }
            differing.push(id.to_owned());
        }
    }
    let expected: Vec<&str> = DIFFERENT.iter().map(|(id, _)| *id).collect();
    assert_eq!(differing, expected, "the list of differences is not exact");
    assert_eq!(vectors.len(), 16);
}
