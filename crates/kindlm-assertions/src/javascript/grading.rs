//! What a script's answer means: a boolean, a number, or an object with a verdict, a score and a reason.

use kindlm_types::script::{ScriptOutcome, ScriptValue};
use kindlm_types::{AssertionResult, NamedScore, Score, Verdict, ecma};
use serde_json::{Map, Value};

use super::{ID, JavaScript, SCRIPT_THREW};
use crate::codes::ASSERTION_FAILED;
use crate::grade::{Grade, PASSED};
use kindlm_types::FailureCode;
use kindlm_types::script::ScriptSource;

/// The code of a component that is none.
const NO_RESULT: &str = "is not a grading result: it needs a boolean `pass`";

/// The keys of a grading result that have a place of their own in a result.
const OWN_KEYS: [&str; 7] =
    ["pass", "score", "reason", "namedScores", "namedScoreWeights", "componentResults", "metadata"];

impl JavaScript {
    /// What the script's end means.
    pub(super) fn grade(&self, outcome: &ScriptOutcome) -> AssertionResult {
        let value = match outcome {
            ScriptOutcome::Returned(value) => value,
            ScriptOutcome::Threw { message, stack, thrown } => {
                // promptfoo reads `message` of whatever was thrown.
                let nothing = matches!(thrown.as_str(), "null" | "undefined") && message.is_none();
                let message = match message {
                    Some(message) => message.clone(),
                    None if nothing => {
                        format!("Cannot read properties of {thrown} (reading 'message')")
                    }
                    None => "undefined".to_owned(),
                };
                return self.threw(&message, stack, Some(thrown));
            }
        };
        match value {
            ScriptValue::Json(Value::Bool(held)) => {
                let pass = *held != self.own.negate;
                let grade = Grade::of(pass, || self.returned(*held));
                grade.result(ID, &self.label)
            }
            ScriptValue::Number(number) => self.number(*number),
            ScriptValue::Json(Value::Object(object)) if is_grading(object) => self.object(object),
            other => self.invalid(other),
        }
    }

    /// The reason of a script that said no.
    fn returned(&self, what: bool) -> String {
        format!("Custom function returned {what}\n{}", self.code)
    }

    /// A number passes from the threshold on; without one, above 0.
    fn number(&self, number: f64) -> AssertionResult {
        let held = self.own.threshold.map_or(number > 0.0, |threshold| number >= threshold);
        let pass = held != self.own.negate;
        let reason = if pass { PASSED.to_owned() } else { self.returned(self.own.negate) };
        Grade { pass, score: number, reason }.result(ID, &self.label)
    }

    fn object(&self, object: &Map<String, Value>) -> AssertionResult {
        let held = object.get("pass") == Some(&Value::Bool(true));
        let pass = held != self.own.negate;
        let own = object.get("reason").and_then(Value::as_str).unwrap_or_default();
        let reason = match (self.own.negate, pass) {
            (false, _) => own.to_owned(),
            (true, true) => PASSED.to_owned(),
            (true, false) => self.returned(true),
        };
        let score = object.get("score").and_then(number_of).unwrap_or(f64::NAN);
        let result = Grade { pass, score, reason }.result(ID, &self.label);
        with_rest(result, object)
    }

    /// What threw, cannot be read, or is no verdict. `not-` does not turn it round: nothing was said.
    pub(super) fn threw(
        &self,
        message: &str,
        stack: &str,
        thrown: Option<&str>,
    ) -> AssertionResult {
        let stack = match (stack, thrown) {
            ("", None) => format!("Error: {message}"),
            ("", Some(_)) => "undefined".to_owned(),
            (stack, _) => stack.to_owned(),
        };
        let reason =
            format!("Custom function threw error: {message}\nStack Trace: {stack}\n{}", self.code);
        let result =
            AssertionResult::fail(ID, &self.label, SCRIPT_THREW, &reason).with_reasoning(reason);
        match thrown {
            Some(thrown) if message == "undefined" => result.with_metadata("thrown", thrown),
            _ => result,
        }
    }

    /// What is none of the things that a script may return.
    fn invalid(&self, value: &ScriptValue) -> AssertionResult {
        let (kind, json) = match value {
            ScriptValue::Undefined => ("undefined", "undefined".to_owned()),
            ScriptValue::Number(number) => ("number", ecma::number(*number)),
            ScriptValue::Json(value) => (type_of(value), ecma::stringify(&plain(value))),
            ScriptValue::Opaque { type_name, .. } if type_name == "bigint" => {
                return self.threw("Do not know how to serialize a BigInt", "", None);
            }
            ScriptValue::Opaque { type_name, .. } => (type_name.as_str(), "undefined".to_owned()),
        };
        let message = match &self.source {
            ScriptSource::File { .. } if !json.starts_with(['{', '[']) && json != "null" => {
                format!(
                    "Invariant failed: Javascript assertion script must return a boolean, number, or object ({})",
                    self.code
                )
            }
            _ => format!(
                "Custom function must return a boolean, number, or GradingResult object. Got type {kind}: {json}"
            ),
        };
        self.threw(&message, "", None)
    }
}

/// Whether an object is a verdict: promptfoo's rules.
fn is_grading(object: &Map<String, Value>) -> bool {
    let is_object = |it: &Value| it.is_object() || it.is_array() || it.is_null();
    let all = |keys: &[&str], test: &dyn Fn(&Value) -> bool| {
        keys.iter().filter_map(|key| object.get(*key)).all(test)
    };
    object.get("pass").is_some_and(Value::is_boolean)
        && object.get("score").is_some_and(|it| number_of(it).is_some())
        && object.get("reason").is_some_and(Value::is_string)
        && all(&["namedScores", "namedScoreWeights", "tokensUsed"], &is_object)
        && all(&["componentResults"], &Value::is_array)
        && all(&["assertion"], &|it| it.is_object() || it.is_array() || it.is_null())
        && all(&["comment"], &Value::is_string)
}

/// Adds what a grading result says beside verdict, score and reason.
fn with_rest(mut result: AssertionResult, object: &Map<String, Value>) -> AssertionResult {
    let (named, ignored) = named_scores(object);
    result.named_scores = named;
    let components = object.get("componentResults").and_then(Value::as_array);
    for (index, part) in components.into_iter().flatten().enumerate() {
        result.components.push(component(part, index));
    }
    if let Some(Value::Object(metadata)) = object.get("metadata") {
        result.metadata.extend(metadata.iter().map(|(key, value)| (key.clone(), plain(value))));
    }
    for (key, value) in object {
        if !OWN_KEYS.contains(&key.as_str()) && !value.is_null() {
            result.metadata.entry(key.clone()).or_insert_with(|| plain(value));
        }
    }
    if !ignored.is_empty() {
        result.metadata.insert("ignoredNamedScores".to_owned(), ignored.into());
    }
    result
}

/// The named scores, and the names of those that are no finite numbers.
fn named_scores(object: &Map<String, Value>) -> (Vec<NamedScore>, Vec<String>) {
    let (mut named, mut ignored) = (Vec::new(), Vec::new());
    let weights = object.get("namedScoreWeights");
    let Some(Value::Object(scores)) = object.get("namedScores") else { return (named, ignored) };
    for (name, score) in scores {
        let weight = weights.and_then(|it| it.get(name)).and_then(number_of);
        let weight = weight.filter(|it| it.is_finite() && *it >= 0.0).unwrap_or(1.0);
        match number_of(score).map(Score::new) {
            Some(Ok(score)) => named.push(NamedScore { name: name.clone(), score, weight }),
            _ => ignored.push(name.clone()),
        }
    }
    (named, ignored)
}

/// One of several results that a script gives. Its verdict is told, not counted: the script has weighed it.
fn component(part: &Value, index: usize) -> AssertionResult {
    let label = format!("Part {}", index + 1);
    let Some((object, pass)) =
        part.as_object().and_then(|it| Some((it, it.get("pass")?.as_bool()?)))
    else {
        let message = format!("{} {NO_RESULT}", ecma::stringify(&plain(part)));
        return AssertionResult::errored(ID, label, FailureCode::SCRIPT_ERROR, message);
    };
    let reason = object.get("reason").and_then(Value::as_str);
    let kind = object.get("assertion").and_then(|it| it.get("type")).and_then(Value::as_str);
    let verdict = if pass {
        Verdict::Pass
    } else {
        let message = reason.unwrap_or("the script says that it does not hold").to_owned();
        Verdict::Fail { code: ASSERTION_FAILED, message }
    };
    let mut result = AssertionResult::new(kind.unwrap_or(ID), label, verdict);
    result.reasoning = reason.map(str::to_owned);
    let given = object.get("score").and_then(number_of).and_then(|it| Score::new(it).ok());
    result.score = given.or(result.score);
    with_rest(result, object)
}

/// A number, or what stands for one that JSON does not have.
fn number_of(value: &Value) -> Option<f64> {
    match value.get("$num").and_then(Value::as_str) {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        _ => value.as_f64(),
    }
}

/// The value as `JSON.stringify` has it: what is no finite number is null.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) if map.len() == 1 && map.contains_key("$num") => Value::Null,
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), plain(value))).collect(),
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Null | Value::Array(_) | Value::Object(_) => "object",
    }
}
