//! The test vectors of the reference implementations for `schema`, `tool-calls`, `latency` and `cost`.
//!
//! `fixtures/conformance/README.md` names the reference implementations.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use kindlm_assertions::{Evidence, Setup, compile};
use kindlm_schema::normalise_numbers;
use kindlm_types::{Answers, AssertionResult, Execution, FileError, Files, Score, Spend, ToolCall};
use serde_json::{Value, json};

/// The fixtures, as the folder of a suite.
struct Fixtures;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/conformance");

impl Files for Fixtures {
    fn read_file(&self, path: &str) -> Result<Arc<str>, FileError> {
        let file = Path::new(FOLDER).join("kindlm").join(path);
        std::fs::read_to_string(file)
            .map(Arc::from)
            .map_err(|err| FileError::Other { path: path.to_owned(), message: err.to_string() })
    }

    fn glob(&self, _pattern: &str) -> Result<Vec<String>, FileError> {
        Ok(Vec::new())
    }
}

fn vectors(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(Path::new(FOLDER).join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the execution, the `expect` block and the results of a vector.
///
/// A vector has one of two formats.
fn read_vector(vector: &Value) -> (Execution, Value, Value) {
    let number = |key: &str| vector["input"][key].as_f64();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(input) = vector.get("input") {
        let execution = Execution {
            output: text(&input["outputText"]),
            latency_ms: number("latencyMs"),
            spend: Spend { cost_usd: number("costUsd"), ..Spend::default() },
            ..Execution::default()
        };
        let reference = vector.get("seedExpect").unwrap_or(&vector["expect"]);
        return (execution, input["expect"].clone(), reference["results"].clone());
    }
    let calls = vector["tool_calls"].as_array().cloned().unwrap_or_default();
    let execution = Execution {
        output: text(&vector["agent_output"]),
        tool_calls: calls
            .into_iter()
            .map(|call| serde_json::from_value::<ToolCall>(call).unwrap())
            .collect(),
        ..Execution::default()
    };
    (execution, vector["expect"].clone(), vector["results"].clone())
}

/// Returns our result in the format of the reference result.
///
/// A message or metadata that the reference result lacks is left out.
fn in_their_words(result: &AssertionResult, theirs: &Value) -> Value {
    let mut ours = json!({
        "label": result.label,
        "passed": result.verdict.held(),
        "score": result.score.map(Score::get),
    });
    let name = if theirs.get("assertionType").is_some() { "assertionType" } else { "type" };
    ours[name] = json!(result.assertion);
    if let Some(code) = result.verdict.code() {
        ours["failureCode"] = json!(code);
    }
    if theirs.get("failureMessage").is_some() {
        ours["failureMessage"] = json!(result.verdict.message());
    }
    if theirs.get("metadata").is_some() {
        ours["metadata"] = json!(result.metadata);
    }
    normalise_numbers(ours)
}

/// Runs all vectors of a file. `deliberate` lists the intended differences, with the reason.
fn run(file: &str, count: usize, deliberate: &[(&str, &str)]) {
    let setup = Setup::new(&Fixtures, None);
    let vectors = vectors(file);
    assert_eq!(vectors.len(), count, "vectors in {file}");
    let mut differing = BTreeMap::new();
    for vector in &vectors {
        let (execution, expect, theirs) = read_vector(vector);
        let (checks, problems) = compile(&expect, &setup);
        assert_eq!(problems, [], "{}", vector["id"]);
        let evidence = Evidence {
            execution: &execution,
            answers: &Answers::default(),
            baseline: None,
            comparison: None,
        };
        let results: Vec<AssertionResult> =
            checks.iter().flat_map(|check| check.evaluate(&evidence)).collect();
        let theirs = theirs.as_array().cloned().unwrap_or_default();
        let ours: Vec<Value> = results
            .iter()
            .enumerate()
            .map(|(index, result)| {
                in_their_words(result, theirs.get(index).unwrap_or(&Value::Null))
            })
            .collect();
        if ours.len() != theirs.len()
            || ours.iter().zip(&theirs).any(|(a, b)| *a != normalise_numbers(b.clone()))
        {
            let id = vector["id"].as_str().unwrap().to_owned();
            differing.insert(id, format!("ours {}\n  theirs {}", json!(ours), json!(theirs)));
        }
    }
    for (id, why) in deliberate {
        assert!(
            differing.remove(*id).is_some(),
            "{id} agrees after all: take it off the list ({why})"
        );
    }
    let report: Vec<String> = differing.iter().map(|(id, what)| format!("{id}: {what}")).collect();
    assert!(
        report.is_empty(),
        "{} of {count} in {file} differ:\n{}",
        report.len(),
        report.join("\n")
    );
}

#[test]
fn schema_agrees_on_every_vector() {
    run("kindlm/schema.jsonl", 202, &[]);
}

#[test]
fn tool_calls_agree_on_every_vector() {
    run("kindlm/tool_calls.jsonl", 259, &[]);
}

#[test]
fn latency_agrees_where_there_is_one() {
    let why = "no latency was recorded: that is errored here, where the original takes it for 0 and passes";
    run("kindlm-core/latency.jsonl", 23, &[("lat-undefined-1", why), ("lat-undefined-0.001", why)]);
}

#[test]
fn cost_agrees_on_every_vector() {
    run("kindlm-core/cost.jsonl", 21, &[]);
}
