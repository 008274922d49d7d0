//! The grading result that a script returns as an object: promptfoo's `GradingResult`.

use kindlm_types::{AssertionResult, FailureCode, NamedScore, Score, Verdict, ecma};
use serde_json::{Map, Value};

use crate::core::codes::ASSERTION_FAILED;
use crate::core::result_evidence;

/// The script threw, could not be loaded, or returned no valid verdict.
pub(crate) const SCRIPT_THREW: FailureCode = FailureCode::SCRIPT_THREW;

/// The error message for a component that is not a grading result.
const NO_RESULT: &str = "is not a grading result: it needs a boolean `pass`";

/// The keys of a grading result that map to fields of a result.
const OWN_KEYS: [&str; 7] =
    ["pass", "score", "reason", "namedScores", "namedScoreWeights", "componentResults", "metadata"];

/// Returns true if an object is a grading result, by promptfoo's rules.
pub(crate) fn is_grading(object: &Map<String, Value>) -> bool {
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

/// Adds the remaining fields: named scores, components, metadata and unknown keys.
pub(crate) fn with_rest(
    id: &str,
    mut result: AssertionResult,
    object: &Map<String, Value>,
) -> AssertionResult {
    let (named, ignored) = named_scores(object);
    result.named_scores = named;
    let components = object.get("componentResults").and_then(Value::as_array);
    for (index, part) in components.into_iter().flatten().enumerate() {
        result.components.push(component(id, part, index));
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

/// Returns the named scores, and the names of scores that are not finite numbers.
fn named_scores(object: &Map<String, Value>) -> (Vec<NamedScore>, Vec<String>) {
    let (mut named, mut ignored) = (Vec::new(), Vec::new());
    let weights = object.get("namedScoreWeights");
    let Some(Value::Object(scores)) = object.get("namedScores") else { return (named, ignored) };
    for (name, score) in scores {
        let weight = weights.and_then(|it| it.get(name)).and_then(number_of);
        let weight = weight.filter(|it| it.is_finite() && *it >= 0.0).unwrap_or(1.0);
        match number_of(score).map(Score::new) {
            Some(Ok(score)) => named.push(NamedScore::new(name.clone(), score, weight)),
            _ => ignored.push(name.clone()),
        }
    }
    (named, ignored)
}

/// Returns one component of a grading result.
///
/// The verdict of a component is shown but does not count, because the script has already considered it in the result.
fn component(id: &str, part: &Value, index: usize) -> AssertionResult {
    let label = format!("Part {}", index + 1);
    let Some((object, pass)) =
        part.as_object().and_then(|it| Some((it, it.get("pass")?.as_bool()?)))
    else {
        let message = format!("{} {NO_RESULT}", ecma::stringify(&plain(part)));
        return AssertionResult::errored(id, label, FailureCode::SCRIPT_ERROR, message);
    };
    let reason = object.get("reason").and_then(Value::as_str);
    let kind = object.get("assertion").and_then(|it| it.get("type")).and_then(Value::as_str);
    let verdict = if pass {
        Verdict::Pass
    } else {
        let message = reason.unwrap_or("the script returned a negative verdict").to_owned();
        Verdict::Fail { code: ASSERTION_FAILED, message }
    };
    let mut result = AssertionResult::new(kind.unwrap_or(id), label, verdict);
    result.reasoning = reason.map(str::to_owned);
    let given = object.get("score").and_then(number_of).and_then(|it| Score::new(it).ok());
    result.score = given.or(result.score);
    if let Verdict::Fail { message, .. } = &result.verdict {
        result.evidence.push(result_evidence::reason(message));
    }
    with_rest(id, result, object)
}

/// Returns a number, or a `NaN` or infinity that is written under the key `$num`.
///
/// JSON itself has no notation for `NaN` and infinities. For any other value, the result is `None`.
pub(crate) fn number_of(value: &Value) -> Option<f64> {
    match value.get("$num").and_then(Value::as_str) {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        _ => value.as_f64(),
    }
}

/// Returns the value as `JSON.stringify` writes it: numbers that are not finite become `null`.
pub(crate) fn plain(value: &Value) -> Value {
    match value {
        Value::Object(map) if map.len() == 1 && map.contains_key("$num") => Value::Null,
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), plain(value))).collect(),
        Value::Array(items) => items.iter().map(plain).collect(),
        other => other.clone(),
    }
}
