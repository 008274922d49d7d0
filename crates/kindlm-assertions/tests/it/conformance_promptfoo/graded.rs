//! promptfoo's results for checks that a model grades, compared with ours.
//!
//! The grader of a vector is a list of replies. If it is asked again, it gives the same reply. Where promptfoo reports
//! that the grader failed (`graderError`) or threw, our check must be errored or a problem of the configuration.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kindlm_assertions::{Candidate, Evidence, OutputComparison, Setup, compile_with};
use kindlm_testing::examples::with_marks;
use kindlm_types::script::{ScriptAnswer, ScriptOutcome, ScriptValue};
use kindlm_types::{
    Answer, Answers, AskError, Execution, Message, ProviderError, ProviderErrorKind, Question, Role,
};
use serde_json::{Map, Value, json};

use super::{CheckOutcome, Differences, check_outcome, execution};
use crate::support::{Memory, yaml};

const FILE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/conformance/promptfoo/model_graded.jsonl");

/// The vectors that are not run here, with the reason.
#[rustfmt::skip]
const NOT_RUN: &[(&str, &[&str])] = &[
    ("not part of the product: a grader that searches the web", &["search-rubric"]),
];

const UNREADABLE: &str =
    "a reply without a readable verdict is errored: neither a pass nor a failure";

#[rustfmt::skip]
const DIFFERENCES: Differences<'_> = &[
    (UNREADABLE, &[
        "context-faithfulness/7", "context-faithfulness/9", "context-faithfulness/11",
        "factuality/7", "factuality/11", "factuality/12", "factuality/14",
        "llm-rubric/6", "llm-rubric/13", "llm-rubric/34",
        "model-graded-closedqa/5", "model-graded-closedqa/6", "model-graded-closedqa/7",
        "model-graded-closedqa/10",
    ]),
    ("a verdict that contradicts its score is errored", &["llm-rubric/12", "llm-rubric/15", "llm-rubric/16"]),
    ("a grader that fails is errored", &["context-faithfulness/16", "model-graded-closedqa/12"]),
    ("replies are JSON, not YAML: what is nearly JSON is asked for again", &["llm-rubric/27", "llm-rubric/28"]),
    ("the category is described in our own words", &["factuality/8", "factuality/17", "model-graded-factuality/1"]),
    ("`threshold` counts for every check", &["factuality/23"]),
    ("JSON may stand on several lines", &["g-eval/14"]),
    ("no further call sums the windows up: the reasons of those that do not fit are given", &["conversation-relevance/2", "conversation-relevance/5"]),
    ("the labels are part of the configuration, so one that is missing is a mistake", &["classifier/4"]),
    ("a reply that chooses no output is errored, and so is a number that is none of them", &["select-best/4", "select-best/5", "select-best/7"]),
    ("no provider has a similarity call of its own", &["similar/14", "similar:dot/2"]),
];

/// The grader of a vector, with its replies.
struct Grader<'v> {
    vector: &'v Value,
    used: BTreeSet<usize>,
    /// The questions so far with their replies.
    ///
    /// A repeated question gets the same reply.
    told: Vec<(String, Result<Answer, AskError>)>,
}

impl Grader<'_> {
    fn answer(&mut self, question: &Question, round: usize) -> Result<Answer, AskError> {
        match question {
            Question::Judge(question) => {
                let again = self.told.iter().find(|(asked, _)| {
                    question.user.starts_with(&format!("{asked}\n\nAn earlier reply"))
                });
                if let Some((_, reply)) = again {
                    return reply.clone();
                }
                let reply = self.reply(&question.user, round);
                self.told.push((question.user.clone(), reply.clone()));
                reply
            }
            Question::Embedding(question) => self.embedding(&question.text),
            Question::Script(_) => {
                let value = self.vector["output"]["ctx"].clone();
                let outcome = ScriptOutcome::Returned(ScriptValue::from(value));
                Ok(Answer::Script(ScriptAnswer::new(outcome)))
            }
        }
    }

    /// Returns the next reply of the question's stage.
    ///
    /// The stage is needed because promptfoo asks in another order.
    fn reply(&mut self, user: &str, round: usize) -> Result<Answer, AskError> {
        let requests = self.vector["requests"].as_array().unwrap();
        let stage = |request: &Value| match request["label"].as_str() {
            Some("g-eval" | "context-faithfulness-nli") => 1,
            _ => 0,
        };
        let asked = requests.iter().enumerate().find(|(index, request)| {
            let criterion = request["vars"]["criteria"].as_str().filter(|_| requests.len() > 2);
            !self.used.contains(index)
                && stage(request) == round.min(1)
                && criterion.is_none_or(|it| user.contains(it))
        });
        let index = asked.map(|(index, _)| index);
        self.used.extend(index);
        match index.and_then(|it| self.vector["grader"]["replies"].get(it)) {
            None if self.vector["grader"].get("moderation").is_some() => {
                self.service("moderation", "flags")
            }
            None if self.vector["grader"].get("classification").is_some() => {
                self.service("classification", "scores")
            }
            Some(Value::String(text)) => Ok(Answer::from_text(text, "grader")),
            Some(error) if error.get("$error").is_some() => {
                Err(failed(&error["$error"].to_string()))
            }
            Some(other) => Ok(Answer::from_text(other.to_string(), "grader")),
            None => Err(failed("the grader is not asked this")),
        }
    }

    /// Returns the reply of the vector's service as a judge's reply; `null` is a failed service.
    fn service(&self, service: &str, key: &str) -> Result<Answer, AskError> {
        let said = &self.vector["grader"][service];
        if said.is_null() {
            return Err(failed("boom"));
        }
        let mut reply = json!({});
        reply[key] = said.clone();
        Ok(Answer::from_text(reply.to_string(), "grader"))
    }

    fn embedding(&self, text: &str) -> Result<Answer, AskError> {
        let known = &self.vector["grader"]["embeddings"];
        let vector = known.get(text).or_else(|| known.get("*"));
        let Some(vector) = vector else { return Err(failed(&format!("no embedding for {text}"))) };
        let numbers = vector.as_array().unwrap().iter().map(|it| it.as_f64().unwrap());
        Ok(Answer::from_vector(numbers.collect::<Vec<_>>()))
    }
}

/// Adds the mark of the question to the answer of a judge.
fn marked(answer: Answer, question: &Question) -> Answer {
    match (answer, question) {
        (Answer::Text { text, model, .. }, Question::Judge(question)) => {
            Answer::from_text(with_marks(&text, &question.user), model)
        }
        (answer, _) => answer,
    }
}

/// Returns a user prompt, for replies that are not JSON.
///
/// Our own prompts require JSON with a mark, so replies in prose would be unreadable.
fn own_prompt(kind: &str) -> Value {
    match kind {
        "g-eval" => json!({"steps": "{{ criteria }}", "evaluate": "{{ criteria }} {{ output }}"}),
        "context-faithfulness" => json!(["{{ answer }}", "{{ statements }}"]),
        "context-recall" | "context-relevance" => json!("{{ context }}"),
        "answer-relevance" => json!("{{ answer }}"),
        "conversation-relevance" => json!("{{ messages }}"),
        "select-best" => json!("{{ outputs }}"),
        "llm-rubric" | "trajectory:goal-success" => json!("{{ output }}"),
        _ => json!("{{ completion }}"),
    }
}

/// Returns true if the grader of a vector answers in plain text.
fn is_plain(vector: &Value) -> bool {
    let replies = vector["grader"]["replies"].as_array().into_iter().flatten();
    replies.into_iter().any(|it| it.as_str().is_some_and(|it| !it.contains('{')))
}

fn failed(message: &str) -> AskError {
    ProviderError::new(ProviderErrorKind::Server, "grader", message).into()
}

fn ours(vector: &Value) -> CheckOutcome {
    let files = vector["files"].as_object().cloned().unwrap_or_default();
    let files =
        files.into_iter().map(|(path, text)| (path, text.as_str().unwrap_or_default().to_owned()));
    let files = Memory(files.collect());
    let mut execution = execution(vector);
    execution.input = vec![Message::new(Role::User, "The prompt")];
    if vector["id"].as_str().is_some_and(|it| it.starts_with("context-relevance/11")) {
        // promptfoo does not use the prompt as the question.
        execution.input.clear();
    }
    let mut entry = vector["assertion"].clone();
    if entry["type"].as_str().is_some_and(|it| it.ends_with("classifier")) {
        // A judge needs the list of labels.
        entry["labels"] = json!(["positive", "negative"]);
    }
    let kind = entry["type"].as_str().unwrap_or_default();
    let kind = kind.strip_prefix("not-").unwrap_or(kind).to_owned();
    if is_plain(vector) && entry.get("rubricPrompt").is_none() {
        entry["rubricPrompt"] = own_prompt(&kind);
    }
    let expect = json!({"assert": [entry]});
    let (checks, problems) =
        compile_with(&expect, &Setup::new(&files, None).with_yaml(yaml), &execution.vars);
    if !problems.is_empty() {
        let lines: Vec<String> =
            problems.iter().map(|it| format!("{}: {}", it.pointer, it.message)).collect();
        return CheckOutcome::Threw(lines.join("; "));
    }
    let [check] = checks.as_slice() else { panic!("one entry, one check: {}", vector["id"]) };
    let mut grader = Grader { vector, used: BTreeSet::new(), told: Vec::new() };
    let mut answers = Answers::default();
    for round in 0.. {
        let evidence =
            Evidence { execution: &execution, answers: &answers, baseline: None, comparison: None };
        let mut new = check.questions(&evidence);
        new.retain(|it| answers.get(it).is_none());
        if new.is_empty() {
            return check_outcome(check, &check.evaluate(&evidence));
        }
        // A script runs before everything else, so it is not a round of the grader.
        let round = if vector["assertion"]["contextTransform"].is_string() { 0 } else { round };
        for question in new {
            let answer = grader.answer(&question, round).map(|it| marked(it, &question));
            answers.insert(&question, answer);
        }
    }
    unreachable!("the rounds end")
}

/// Returns our result and theirs for each compared output.
///
/// Our check asks in one order only, as promptfoo does.
fn chosen(vector: &Value) -> Vec<(CheckOutcome, CheckOutcome)> {
    let mut entry =
        json!({"type": "select-best", "value": vector["select"]["criteria"], "orders": "one"});
    if is_plain(vector) {
        entry["rubricPrompt"] = own_prompt("select-best");
    }
    let setup = Setup::new(&kindlm_types::NoFiles, None);
    let (checks, problems) = compile_with(&json!({"assert": [entry]}), &setup, &Map::new());
    assert_eq!(problems, []);
    let [check] = checks.as_slice() else { panic!("one entry, one check") };
    let outputs = vector["select"]["outputs"].as_array().unwrap();
    let candidates: Vec<Candidate<'_>> = outputs
        .iter()
        .map(|output| {
            let output = output.as_str().unwrap();
            let execution = Execution {
                output: output.to_owned(),
                vars: vector["vars"].as_object().unwrap().clone(),
                ..Execution::default()
            };
            Candidate::new(output, Cow::Owned(execution), &[], true)
        })
        .collect();
    let mut grader = Grader { vector, used: BTreeSet::new(), told: Vec::new() };
    let mut answers = Answers::default();
    let mut pairs = Vec::new();
    for (own, candidate) in candidates.iter().enumerate() {
        let comparison = Some(OutputComparison::new(&candidates, own));
        let ours = loop {
            let evidence = Evidence {
                execution: &candidate.execution,
                answers: &answers,
                baseline: None,
                comparison,
            };
            let mut new = check.questions(&evidence);
            new.retain(|it| answers.get(it).is_none());
            if new.is_empty() {
                break check_outcome(check, &check.evaluate(&evidence));
            }
            for question in new {
                let answer = grader.answer(&question, 0).map(|it| marked(it, &question));
                answers.insert(&question, answer);
            }
        };
        let expect = &vector["expect"];
        let theirs = match expect["results"].get(own) {
            Some(result) => theirs(result),
            None => theirs(expect),
        };
        pairs.push((ours, theirs));
    }
    pairs
}

fn theirs(expect: &Value) -> CheckOutcome {
    if expect["metadata"]["graderError"] == true {
        return CheckOutcome::Threw(expect["reason"].as_str().unwrap_or_default().to_owned());
    }
    super::theirs(expect)
}

/// Returns true if two results agree. Scores agree to 1e-6, because similarities have single precision.
fn agrees(ours: &CheckOutcome, theirs: &CheckOutcome) -> bool {
    match (ours, theirs) {
        (
            CheckOutcome::Result { pass, score, reason },
            CheckOutcome::Result { pass: p, score: s, reason: r },
        ) => pass == p && (score - s).abs() <= 1e-6 && reason == r,
        _ => ours.agrees(theirs),
    }
}

#[test]
fn graded_checks_handle_replies_as_promptfoo_does() {
    let text = std::fs::read_to_string(Path::new(FILE)).unwrap();
    let (mut ran, mut left) = (0, 0);
    let mut differing = BTreeMap::new();
    for line in text.lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let id = vector["id"].as_str().unwrap();
        let kind = id.split('/').next().unwrap();
        let kind = kind.strip_prefix("not-").unwrap_or(kind);
        if NOT_RUN.iter().any(|(_, kinds)| kinds.contains(&kind)) {
            left += 1;
            continue;
        }
        ran += 1;
        let pairs = if kind == "select-best" {
            chosen(&vector)
        } else {
            vec![(ours(&vector), theirs(&vector["expect"]))]
        };
        if let Some((ours, theirs)) = pairs.iter().find(|(ours, theirs)| !agrees(ours, theirs)) {
            differing.insert(id.to_owned(), format!("ours:   {ours:?}\ntheirs: {theirs:?}"));
        }
    }
    for (why, ids) in DIFFERENCES {
        for id in *ids {
            let listed = differing.remove(*id);
            assert!(listed.is_some(), "{id} agrees after all, or does not exist ({why})");
        }
    }
    let shown: Vec<String> =
        differing.iter().map(|(id, difference)| format!("{id}\n{difference}")).collect();
    assert!(shown.is_empty(), "{} differ:\n{}", shown.len(), shown.join("\n\n"));
    assert_eq!((ran, left), (131, 2), "vectors that were run, and that were not");
}
