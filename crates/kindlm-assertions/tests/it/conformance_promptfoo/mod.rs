//! Comparison of promptfoo's results with ours.
//!
//! The modules `graded` and `similar` have the checks that ask a model. All other checks are in this file, `probes` and
//! `texts`.
//!
//! A module for each family of types lists its types and the exact vectors that differ, with the reason. If promptfoo
//! itself threw, our check must be errored or a problem of the configuration.

mod graded;
mod probes;
mod similar;
mod texts;

use std::collections::BTreeMap;
use std::path::Path;

use kindlm_assertions::{Check, Evidence, Setup, compile_with};
use kindlm_types::{Answers, AssertionResult, Execution, ecma};
use serde_json::{Value, json};

use crate::support::{Memory, yaml};

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/conformance/promptfoo/deterministic.jsonl"
);

/// The ids of vectors that differ, by reason.
type Differences<'a> = &'a [(&'a str, &'a [&'a str])];

/// The result of a check, or the error message of a check without a result.
#[derive(Debug, PartialEq)]
enum CheckOutcome {
    Result { pass: bool, score: f64, reason: String },
    Threw(String),
}

impl CheckOutcome {
    fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Result { pass, score, reason },
                Self::Result { pass: p, score: s, reason: r },
            ) => pass == p && (score - s).abs() <= 1e-9 && reason == r,
            (Self::Threw(_), Self::Threw(_)) => true,
            _ => false,
        }
    }
}

/// Runs the vectors of these types, with and without `not-`; the list of differences must be exact.
fn agree(types: &[&str], run: usize, differences: Differences<'_>) {
    let text = std::fs::read_to_string(Path::new(FILE)).unwrap();
    let (mut ran, mut differing) = (0, BTreeMap::new());
    for line in text.lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let Some(kind) = vector["assertion"]["type"].as_str() else { continue };
        if !types.contains(&kind.strip_prefix("not-").unwrap_or(kind)) {
            continue;
        }
        ran += 1;
        let (ours, theirs) = (ours(&vector), theirs(&vector["expect"]));
        if !ours.agrees(&theirs) {
            let id = vector["id"].as_str().unwrap().to_owned();
            differing.insert(id, format!("ours:   {ours:?}\ntheirs: {theirs:?}"));
        }
    }
    for (why, ids) in differences {
        for id in *ids {
            let listed = differing.remove(*id);
            assert!(listed.is_some(), "{id} agrees after all, or does not exist ({why})");
        }
    }
    let shown: Vec<String> =
        differing.iter().map(|(id, difference)| format!("{id}\n{difference}")).collect();
    assert!(shown.is_empty(), "{} differ:\n{}", shown.len(), shown.join("\n\n"));
    assert_eq!(ran, run, "vectors that were run");
}

/// Checks that all vectors run here or in `kindlm-cli`.
///
/// `kindlm-cli` runs and counts the vectors with questions to answer. All other vectors run here.
#[test]
fn every_vector_runs_here_or_needs_a_judge() {
    let text = std::fs::read_to_string(Path::new(FILE)).unwrap();
    let (mut here, mut elsewhere) = (0, 0);
    for line in text.lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let kind = vector["assertion"]["type"].as_str().unwrap_or("aggregate");
        let kind = kind.strip_prefix("not-").unwrap_or(kind);
        if texts::TYPES.contains(&kind) || probes::TYPES.contains(&kind) {
            here += 1;
        } else {
            let known = ["python", "webhook", "aggregate", "human"];
            assert!(known.contains(&kind), "no test runs `{}`", vector["id"]);
            elsewhere += 1;
        }
    }
    assert_eq!((here, elsewhere, here + elsewhere), (306, 26, 332));
}

fn theirs(expect: &Value) -> CheckOutcome {
    if let Some(message) = expect["throws"].as_str() {
        return CheckOutcome::Threw(message.to_owned());
    }
    CheckOutcome::Result {
        pass: expect["pass"].as_bool().unwrap(),
        score: expect["score"].as_f64().unwrap(),
        reason: expect["reason"].as_str().unwrap_or_default().to_owned(),
    }
}

fn ours(vector: &Value) -> CheckOutcome {
    let files = vector["files"].as_object().cloned().unwrap_or_default();
    let files =
        files.into_iter().map(|(path, text)| (path, text.as_str().unwrap_or_default().to_owned()));
    let files = Memory(files.collect());
    let expect = json!({"assert": [vector["assertion"]]});
    let execution = execution(vector);
    let (checks, problems) =
        compile_with(&expect, &Setup::new(&files, None).with_yaml(yaml), &execution.vars);
    if !problems.is_empty() {
        let lines: Vec<String> =
            problems.iter().map(|it| format!("{}: {}", it.pointer, it.message)).collect();
        return CheckOutcome::Threw(lines.join("; "));
    }
    let [check] = checks.as_slice() else { panic!("one entry, one check: {}", vector["id"]) };
    let evidence = Evidence {
        execution: &execution,
        answers: &Answers::default(),
        baseline: None,
        comparison: None,
    };
    check_outcome(check, &check.evaluate(&evidence))
}

fn check_outcome(check: &Check, results: &[AssertionResult]) -> CheckOutcome {
    let [result] = results else { panic!("{}: one entry, one result", check.meta.id) };
    match result.score {
        Some(score) => CheckOutcome::Result {
            pass: result.verdict.held(),
            score: score.get(),
            reason: result.reasoning.clone().unwrap_or_default(),
        },
        None => CheckOutcome::Threw(result.verdict.message().unwrap_or_default().to_owned()),
    }
}

/// Returns the evidence of a vector.
fn execution(vector: &Value) -> Execution {
    let (output, output_json) = match &vector["output"] {
        Value::String(text) => (text.clone(), None),
        value => (ecma::stringify(value), Some(value.clone())),
    };
    let trace = vector.get("trace").map(|it| serde_json::from_value(it.clone()).unwrap());
    Execution {
        output,
        output_json,
        vars: vector["vars"].as_object().cloned().unwrap_or_default(),
        latency_ms: vector["latencyMs"].as_f64(),
        provider_response: vector.get("providerResponse").cloned(),
        trace,
        tools: probes::tools(&vector["provider"]["config"]),
        ..Execution::default()
    }
}
