//! `similar` and its variants, with the vectors of promptfoo's embedding model.

use kindlm_assertions::{Evidence, Setup, compile_with};
use kindlm_types::{
    Answer, Answers, Execution, NoFiles, ProviderError, ProviderErrorKind, Question,
};
use serde_json::{Value, json};

use super::{CheckOutcome, check_outcome, theirs};

const FILE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/conformance/promptfoo/model_graded.jsonl");

const DIFFERENCES: &[(&str, &str)] = &[
    (
        "similar/14",
        "there are no providers that compare by themselves: embeddings are compared here",
    ),
    (
        "similar:dot/2",
        "there are no providers that compare by themselves: embeddings are compared here",
    ),
];

/// Evaluates a vector with the embeddings of its model.
fn ours(vector: &Value) -> CheckOutcome {
    let execution = Execution {
        output: vector["output"].as_str().unwrap().to_owned(),
        vars: vector["vars"].as_object().cloned().unwrap_or_default(),
        ..Execution::default()
    };
    let expect = json!({"assert": [vector["assertion"]]});
    let (checks, problems) = compile_with(&expect, &Setup::new(&NoFiles, None), &execution.vars);
    if let Some(problem) = problems.first() {
        return CheckOutcome::Threw(problem.message.clone());
    }
    let mut answers = Answers::default();
    let evidence =
        Evidence { execution: &execution, answers: &answers, baseline: None, comparison: None };
    for question in checks[0].questions(&evidence) {
        let Question::Embedding(asked) = &question else { panic!("{question:?}") };
        let known = vector["grader"]["embeddings"][&asked.text].as_array();
        let known = known.map(|it| it.iter().map(|it| it.as_f64().unwrap()).collect());
        let answer = known.map(|it: Vec<f64>| Answer::from_vector(it)).ok_or_else(|| {
            let kind = ProviderErrorKind::Unsupported;
            ProviderError::new(kind, "grader", "it makes no embeddings").into()
        });
        answers.insert(&question, answer);
    }
    let evidence =
        Evidence { execution: &execution, answers: &answers, baseline: None, comparison: None };
    check_outcome(&checks[0], &checks[0].evaluate(&evidence))
}

#[test]
fn similarity_agrees() {
    let text = std::fs::read_to_string(FILE).unwrap();
    let (mut ran, mut differing) = (0, Vec::new());
    for line in text.lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let kind = vector["assertion"]["type"].as_str().unwrap_or_default();
        let kind = kind.strip_prefix("not-").unwrap_or(kind);
        if kind.split(':').next() != Some("similar") {
            continue;
        }
        ran += 1;
        let (ours, theirs) = (ours(&vector), theirs(&vector["expect"]));
        // Embeddings have single precision here.
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-6;
        let agrees = match (&ours, &theirs) {
            (
                CheckOutcome::Result { pass, score, reason },
                CheckOutcome::Result { pass: p, score: s, reason: r },
            ) => pass == p && near(*score, *s) && reason == r,
            (CheckOutcome::Threw(_), CheckOutcome::Threw(_)) => true,
            _ => false,
        };
        if !agrees {
            let id = vector["id"].as_str().unwrap().to_owned();
            if !DIFFERENCES.iter().any(|(it, _)| *it == id) {
                println!("{id}\nours:   {ours:?}\ntheirs: {theirs:?}");
            }
            differing.push(id);
        }
    }
    let expected: Vec<&str> = DIFFERENCES.iter().map(|(id, _)| *id).collect();
    assert_eq!(differing, expected);
    assert_eq!(ran, 13);
}
