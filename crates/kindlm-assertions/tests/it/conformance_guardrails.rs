//! The test vectors of the reference implementations for guardrails, `judge` and `drift`.
//!
//! The guardrails are `pii` and `keywords`. `fixtures/conformance/README.md` names the reference implementations. Lists
//! name the vectors with an intended difference, and its reason. A test fails if its list has too many or too few
//! vectors.

use std::collections::BTreeMap;
use std::sync::Arc;

use kindlm_assertions::{Assertion, Build, Evidence, Setup, compile, find};
use kindlm_testing::examples::with_marks;
use kindlm_types::ask::EmbeddingQuestion;
use kindlm_types::{
    Answer, Answers, AskError, AssertionResult, Execution, NoFiles, ProviderError,
    ProviderErrorKind, Question,
};
use serde_json::{Value, json};

fn vectors(file: &str) -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/conformance");
    let text = std::fs::read_to_string(format!("{folder}/{file}")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the configured assertions with this id in an `expect` block.
fn checks(id: &str, expect: &Value) -> Vec<Arc<dyn Assertion>> {
    let registration = find(id).unwrap();
    let path = registration.meta.path.unwrap();
    let setup = Setup::new(&NoFiles, None);
    let configs = match expect.pointer(path.pointer) {
        None => Vec::new(),
        Some(Value::Array(items)) if path.list => items.iter().collect(),
        Some(config) => vec![config],
    };
    let (Build::Plain(build) | Build::Judged(build)) = registration.build else {
        panic!("{id} has its own options")
    };
    configs.into_iter().map(|config| build(config, &setup).unwrap()).collect()
}

/// Asks the questions in rounds, and evaluates the checks.
fn judged(
    checks: &[Arc<dyn Assertion>],
    execution: &Execution,
    baseline: Option<&str>,
    mut reply: impl FnMut(&Question) -> Result<Answer, AskError>,
) -> Vec<AssertionResult> {
    let mut results = Vec::new();
    for check in checks {
        let mut answers = Answers::default();
        loop {
            let evidence = Evidence { execution, answers: &answers, baseline, comparison: None };
            let mut questions = check.questions(&evidence);
            questions.retain(|question| answers.get(question).is_none());
            if questions.is_empty() {
                break results.extend(check.evaluate(&evidence));
            }
            for question in questions {
                let answer = reply(&question).map(|it| marked(it, &question));
                answers.insert(&question, answer);
            }
        }
    }
    results
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

fn judge_answer(text: &str) -> Answer {
    Answer::from_text(text, "judge")
}

fn failed(message: &str) -> Result<Answer, AskError> {
    Err(ProviderError::new(ProviderErrorKind::Timeout, "openai", message).into())
}

/// Returns a result with the keys of the vectors. An errored result is not passed and has no score.
fn in_their_words(result: &AssertionResult) -> Value {
    let mut view = json!({
        "type": result.assertion,
        "label": result.label,
        "passed": result.verdict.held(),
        "score": result.score.map(kindlm_types::Score::get),
    });
    if !result.verdict.held() {
        view["failureCode"] = json!(result.verdict.code());
        // KindLM writes "1 PII match" and "2 PII matches", the reference implementation "match(es)".
        let counted = |it: &str| {
            it.replace(" PII matches ", " PII match(es) ").replace(" PII match ", " PII match(es) ")
        };
        view["failureMessage"] = json!(result.verdict.message().map(counted));
    }
    if let Some(reasoning) = &result.reasoning {
        view["reasoning"] = json!(reasoning);
    }
    view
}

/// Returns true if two lists of results agree on these keys.
///
/// Numbers agree to 1e-6, because embeddings have single precision. Errored and skipped results have no score here, and
/// 0 or 1 in the vectors.
fn agree(ours: &[Value], theirs: &[Value], keys: &[&str]) -> bool {
    ours.len() == theirs.len()
        && ours.iter().zip(theirs).all(|(ours, theirs)| {
            keys.iter().all(|&key| match (&ours[key], &theirs[key]) {
                (Value::Number(a), Value::Number(b)) => {
                    (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-6
                }
                (Value::Null, Value::Number(_)) if key == "score" => true,
                (a, b) => a == b,
            })
        })
}

/// The vectors that differ, to be compared with the list of intended differences.
#[derive(Default)]
struct Tally {
    run: usize,
    differing: BTreeMap<String, String>,
}

impl Tally {
    fn compare(&mut self, id: &str, ours: &[AssertionResult], theirs: &Value, keys: &[&str]) {
        self.run += 1;
        let ours: Vec<Value> = ours.iter().map(in_their_words).collect();
        let theirs = theirs.as_array().cloned().unwrap_or_default();
        if !agree(&ours, &theirs, keys) {
            self.differing.insert(id.to_owned(), format!("{ours:#?}\ninstead of\n{theirs:#?}"));
        }
    }

    fn finish(mut self, run: usize, deliberate: &[(&str, &[&str])]) {
        assert_eq!(self.run, run, "vectors that were run");
        for (why, ids) in deliberate {
            for id in *ids {
                let listed = self.differing.remove(*id);
                assert!(listed.is_some(), "{id} agrees after all, or does not exist ({why})");
            }
        }
        let ids: Vec<&String> = self.differing.keys().collect();
        assert!(self.differing.is_empty(), "{ids:?} differ: {:#?}", self.differing);
    }
}

/// The names that results give to the default patterns.
const NAMES: [(&str, &str); 3] = [
    (r"\b\d{3}-\d{2}-\d{4}\b", "US social security number"),
    (r"\b\d{4}[\s-]?\d{4}[\s-]?\d{4}[\s-]?\d{4}\b", "card number"),
    (r"\b[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Z|a-z]{2,}\b", "e-mail address"),
];

/// Returns the results of a vector, with our names of the default patterns.
///
/// The vectors name these patterns after their index, such as `pii-pattern-2`.
fn with_names(vector: &Value) -> Value {
    let mut results = vector["results"].clone();
    let defaults = json!(NAMES.map(|(pattern, _)| pattern));
    let patterns = vector.pointer("/expect/guardrails/pii/denyPatterns").unwrap_or(&defaults);
    let mut names: Vec<String> = Vec::new();
    for (index, pattern) in patterns.as_array().into_iter().flatten().enumerate() {
        let id = format!("pii-pattern-{index}");
        let known = NAMES.iter().find(|(it, _)| pattern == it);
        let name = known.map_or(id.as_str(), |it| it.1);
        let is_taken = names.iter().any(|it| it == name);
        names.push(if is_taken { format!("{name} ({id})") } else { name.to_owned() });
    }
    for text in results.as_array_mut().into_iter().flatten() {
        for key in ["label", "failureMessage"] {
            let Some(Value::String(text)) = text.get_mut(key) else { continue };
            for (index, name) in names.iter().enumerate() {
                for (before, after) in [("PII: ", ""), ("\"", "\"")] {
                    let id = format!("{before}pii-pattern-{index}{after}");
                    if text.ends_with(&id) {
                        *text = text.replace(&id, &format!("{before}{name}{after}"));
                    }
                }
            }
        }
    }
    results
}

const ALL: &[&str] = &["type", "label", "passed", "score", "failureCode", "failureMessage"];

#[test]
fn pii_and_keywords_agree_on_every_vector() {
    for (id, file, count) in
        [("pii", "kindlm/pii.jsonl", 107), ("keywords", "kindlm/keywords.jsonl", 70)]
    {
        let mut tally = Tally::default();
        for vector in vectors(file) {
            let output = vector["agent_output"].as_str().unwrap().to_owned();
            let execution = Execution { output, ..Execution::default() };
            let results = judged(&checks(id, &vector["expect"]), &execution, None, |_| failed("?"));
            let theirs = with_names(&vector);
            tally.compare(vector["id"].as_str().unwrap(), &results, &theirs, ALL);
        }
        tally.finish(count, &[]);
    }
}

#[test]
fn judge_agrees_wherever_the_reply_has_a_score() {
    let mut tally = Tally::default();
    for vector in vectors("kindlm/judge.jsonl") {
        let reply = vector["judge_reply"].as_str().unwrap();
        let checks = checks("judge", &vector["expect"]);
        let results = judged(&checks, &Execution::default(), None, |_| Ok(judge_answer(reply)));
        let id = vector["id"].as_str().unwrap();
        let keys = [ALL, &["reasoning"]].concat();
        tally.compare(id, &results, &vector["results"], &keys);
        if tally.differing.contains_key(id) {
            assert_eq!(results[0].verdict.code().unwrap().as_str(), "JUDGE_PARSE_ERROR", "{id}");
            assert_eq!(results[0].verdict.status(), "errored", "{id}");
        }
    }
    tally.finish(53, JUDGE_DIFFERENCES);
}

const UNREADABLE: &str = "design §6: a reply without a readable score is errored, never a silent 0";

const OTHER_SCALE: &str =
    "a score out of range belongs to another scale: it is errored, and not clamped";

#[rustfmt::skip]
const JUDGE_DIFFERENCES: &[(&str, &[&str])] = &[
    (UNREADABLE, &[
        "judge-019", "judge-020", "judge-021", "judge-022", "judge-023",
        "judge-024", "judge-025", "judge-026", "judge-027", "judge-028",
        "judge-029", "judge-030", "judge-031", "judge-036", "judge-040",
        "judge-041", "judge-042", "judge-043", "judge-044", "judge-045",
        "judge-046", "judge-047", "judge-048", "judge-049", "judge-050",
    ]),
    ("several different scores are no readable score: one may be quoted from the judged text", &[
        "judge-037", "judge-038", "judge-039",
    ]),
    (OTHER_SCALE, &[
        "judge-008", "judge-009", "judge-010", "judge-011", "judge-012", "judge-013", "judge-014",
    ]),
];

#[test]
fn judge_agrees_with_the_core_vectors() {
    let mut tally = Tally::default();
    for vector in vectors("kindlm-core/judge.jsonl") {
        let (id, input) = (vector["id"].as_str().unwrap(), &vector["input"]);
        if input["betaJudge"] == json!(true) {
            tally.compare(id, &beta(input), &vector["expect"]["results"], &CORE);
            continue;
        }
        let output = input["outputText"].as_str().unwrap().to_owned();
        let execution = Execution { output, ..Execution::default() };
        let mut results = Vec::new();
        for (index, check) in checks("judge", &input["expect"]).into_iter().enumerate() {
            results.extend(judged(&[check], &execution, None, |_| core_reply(input, index)));
        }
        match vector.get("seedExpect").filter(|it| it.get("results").is_some()) {
            Some(seed) => tally.compare(id, &results, &seed["results"], &ALL[1..]),
            None => tally.compare(id, &results, &vector["expect"]["results"], &CORE),
        }
    }
    tally.finish(52, CORE_JUDGE_DIFFERENCES);
}

/// Evaluates a vector with `betaJudge`, which means the median of three replies: here, `samples: 3`.
///
/// A repeated request for the same sample gets the same reply.
fn beta(input: &Value) -> Vec<AssertionResult> {
    let mut expect = input["expect"].clone();
    expect["judging"] = json!({"samples": 3, "agg": "median"});
    let (checks, problems) = compile(&expect, &Setup::new(&NoFiles, None));
    assert_eq!(problems, []);
    let checks: Vec<_> = checks.into_iter().map(|it| it.assertion).collect();
    let output = input["outputText"].as_str().unwrap().to_owned();
    let execution = Execution { output, ..Execution::default() };
    judged(&checks, &execution, None, |question| match question {
        Question::Judge(question) => core_reply(input, question.sample as usize),
        Question::Embedding(_) | Question::Script(_) => unreachable!("a judge is asked"),
    })
}

const CORE: [&str; 3] = ["passed", "score", "failureCode"];

/// Returns the judge's reply with this index from a vector.
///
/// The index is the index of the check, or of the sample in `beta`. A repeated request gets the same reply.
fn core_reply(input: &Value, index: usize) -> Result<Answer, AskError> {
    match &input["judgeReplies"][index] {
        Value::String(reply) => Ok(judge_answer(reply)),
        Value::Null => Err(AskError::NobodyToAsk {
            message: "No judge model configured for LLM-as-judge assertions".to_owned(),
        }),
        failure => failed(failure["throw"].as_str().unwrap()),
    }
}

#[rustfmt::skip]
const CORE_JUDGE_DIFFERENCES: &[(&str, &[&str])] = &[
    (UNREADABLE, &[
        "dot-score", "fence-number", "raw-newline-in-string", "refusal", "score-missing", "score-null",
        "single-quotes",
    ]),
    ("several different scores are no readable score: one may be quoted from the judged text", &["injected"]),
    (OTHER_SCALE, &["score-10-scale", "score-negative"]),
    ("a score given twice contradicts itself", &["dup-score"]),
    ("without a judge the code says so", &["no-judge-adapter-two"]),
    ("1e400 is no finite number, so there is no readable score", &["score-1e400"]),
    ("the median of two is the mean of both, not the higher one", &["beta-two-ok-order"]),
    ("braces in the prose around a reply do not make it unreadable", &["braces-after"]),
];

#[test]
fn drift_agrees_with_the_core_vectors() {
    let mut tally = Tally::default();
    for vector in vectors("kindlm-core/drift.jsonl") {
        let (id, input) = (vector["id"].as_str().unwrap(), &vector["input"]);
        let output = input["outputText"].as_str().unwrap().to_owned();
        let execution = Execution { output, ..Execution::default() };
        let baseline = input["baselineText"].as_str();
        let checks = checks("drift", &input["expect"]);
        let results = judged(&checks, &execution, baseline, |question| match question {
            Question::Judge(_) => core_reply(input, 0),
            Question::Embedding(question) => core_vector(input, question),
            Question::Script(_) => unreachable!("drift runs no scripts"),
        });
        match vector.get("seedExpect") {
            Some(seed) => tally.compare(id, &results, &seed["results"], &ALL[1..]),
            None => tally.compare(id, &results, &vector["expect"]["results"], &CORE),
        }
    }
    tally.finish(53, DRIFT_DIFFERENCES);
}

fn core_vector(input: &Value, question: &EmbeddingQuestion) -> Result<Answer, AskError> {
    let which = if input["baselineText"] == question.text { "baseline" } else { "output" };
    match &input["embeddings"][which] {
        Value::Array(numbers) => {
            let vector: Vec<f64> = numbers.iter().map(|it| it.as_f64().unwrap()).collect();
            Ok(Answer::from_vector(vector))
        }
        failure => failed(failure["throw"].as_str().unwrap()),
    }
}

#[rustfmt::skip]
const DRIFT_DIFFERENCES: &[(&str, &[&str])] = &[
    ("strings are compared by their Levenshtein distance", &["fd-string-case", "fd-nested-differ"]),
    ("the order of keys does not matter", &["fd-nested-key-order"]),
    ("without `fields` all top-level fields are compared, never none", &["fd-no-fields", "fd-empty-fields"]),
    ("a field that neither document has is errored, not equal", &[
        "fd-array-out-of-range", "fd-proto", "fd-through-string",
    ]),
    ("whole numbers are compared exactly, not as doubles", &["fd-number-precision"]),
    ("numeric strings are read, as for `judge`", &["judge-string"]),
    ("a reply that is `null` is an unreadable one, not a crash", &["judge-fence-null"]),
    ("vectors of different lengths cannot be compared: errored, not failed", &["emb-length-mismatch"]),
    ("vectors of zeros have no direction: errored, neither the same nor different", &["emb-zero"]),
    ("one label per method; the message says what the run had at hand", &["judge-no-adapter"]),
];
