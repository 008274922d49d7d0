//! The verdict in a script's return value.
//!
//! The return value is a boolean, a number, a grading result, or a text that contains one of these.

use kindlm_types::script::ScriptValue;
use kindlm_types::{AssertionResult, Bound, ResultEvidence, ecma};
use serde_json::{Map, Value};

use super::Interpreted;
use crate::core::grade::{Grade, PASSED};
use crate::core::result_evidence::measure;
use crate::core::scripting::grading::{is_grading, number_of, plain, with_rest};

/// The snake-case keys of a grading result, each with its replacement.
const SNAKE: [(&str, &str); 5] = [
    ("pass_", "pass"),
    ("named_scores", "namedScores"),
    ("named_score_weights", "namedScoreWeights"),
    ("component_results", "componentResults"),
    ("tokens_used", "tokensUsed"),
];

/// The deepest level of nested grading results whose keys are converted.
const DEEPEST: usize = 64;

impl Interpreted {
    pub(super) fn verdict(&self, value: &ScriptValue) -> AssertionResult {
        match value {
            ScriptValue::Json(Value::Bool(held)) => self.boolean(*held),
            ScriptValue::Number(number) => self.number(*number),
            ScriptValue::Json(Value::String(text)) => self.text(text),
            ScriptValue::Json(value @ (Value::Object(_) | Value::Array(_))) => self.object(value),
            ScriptValue::Json(value) => match number_of(value) {
                Some(number) => self.number(number),
                None => self.no_verdict(&format!("Instead got:\n{}", ecma::stringify(value))),
            },
            ScriptValue::Undefined => self.no_verdict("Instead got:\nundefined"),
            ScriptValue::Opaque { text, .. } => self.no_verdict(&format!("Instead got:\n{text}")),
        }
    }

    fn boolean(&self, held: bool) -> AssertionResult {
        let grade = Grade::from_pass(held != self.own.negate, || self.returned(held));
        self.result(grade)
    }

    /// Returns the result for a number, which passes if it is at least the threshold.
    ///
    /// Without a threshold, a number above 0 passes. `not-` inverts the verdict.
    fn number(&self, number: f64) -> AssertionResult {
        let held = self.own.threshold.map_or(number > 0.0, |threshold| number >= threshold);
        let pass = held != self.own.negate;
        let reason = if pass { PASSED.to_owned() } else { self.returned(held) };
        self.result(Grade { pass, score: number, reason })
            .with_failure_evidence(|| self.score_evidence(number))
    }

    /// Returns the result for a text: a boolean, a grading result as JSON, or a number.
    ///
    /// Any other text is not a verdict.
    fn text(&self, text: &str) -> AssertionResult {
        match text.to_ascii_lowercase().as_str() {
            "true" => return self.boolean(true),
            "false" => return self.boolean(false),
            _ => {}
        }
        if text.starts_with('{') {
            return match serde_json::from_str::<Value>(text) {
                Ok(value) => self.object(&value),
                Err(err) => {
                    self.not_executed(&format!("Invalid JSON: {err} when parsing result: {text}"))
                }
            };
        }
        match leading_number(text) {
            Some(number) => self.number(number),
            None => self.no_verdict(&format!("Instead got:\n{text}")),
        }
    }

    fn object(&self, value: &Value) -> AssertionResult {
        let value = in_camel_case(value, 0);
        let Some(object) = value.as_object().filter(|it| is_grading(it)) else {
            let shown = kindlm_schema::normalise_numbers(plain(&value));
            let shown = serde_json::to_string_pretty(&shown).unwrap_or_default();
            return self.no_verdict(&format!("Got instead:\n{shown}"));
        };
        let said = object.get("pass") == Some(&Value::Bool(true));
        let score = object.get("score").and_then(number_of).unwrap_or(f64::NAN);
        let mut reason =
            object.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut held = said;
        if let Some(threshold) = self.own.threshold.filter(|it| score < *it) {
            held = false;
            let name = self.language.name;
            let (score, threshold) = (ecma::number(score), ecma::number(threshold));
            let below = format!("{name} score {score} is less than threshold {threshold}");
            reason = if reason.is_empty() { below } else { format!("{below}: {reason}") };
        }
        let pass = held != self.own.negate;
        if self.own.negate {
            reason = if pass {
                PASSED.to_owned()
            } else {
                format!("{} code returned {held}", self.language.name)
            };
        }
        // If the script itself rejects the output with a sufficient score, the threshold does not explain the failure.
        let is_low = self.own.threshold.is_some_and(|it| score < it) != self.own.negate;
        let result = self.result(Grade { pass, score, reason });
        let evidence = || self.score_evidence(score).filter(|_| is_low);
        let result = result.with_failure_evidence(evidence);
        with_rest(self.language.id, result, object)
    }

    /// Returns the score with its threshold; `None` without a threshold.
    fn score_evidence(&self, score: f64) -> Option<ResultEvidence> {
        let bound = if self.own.negate { Bound::LessThan } else { Bound::AtLeast };
        self.own.threshold.map(|it| measure("score", score, (it, bound), None))
    }

    /// Returns the failure reason for a script that returned this boolean.
    fn returned(&self, what: bool) -> String {
        format!("{} code returned {what}\n{}", self.language.name, self.code)
    }

    fn no_verdict(&self, what: &str) -> AssertionResult {
        let name = self.language.name;
        self.not_executed(&format!(
            "{name} assertion must return a boolean, number, or {{pass, score, reason}} object. {what}"
        ))
    }
}

/// Converts the known keys of a grading result and of its components to camel case; names of scores do not change.
fn in_camel_case(value: &Value, depth: usize) -> Value {
    let Value::Object(map) = value else { return value.clone() };
    if depth > DEEPEST {
        return value.clone();
    }
    let mut out = Map::new();
    for (key, value) in map {
        let known = SNAKE.iter().find(|(snake, camel)| snake == key && !map.contains_key(*camel));
        let key = known.map_or(key.as_str(), |(_, camel)| camel);
        let value = match value {
            Value::Array(parts) if key == "componentResults" => {
                parts.iter().map(|it| in_camel_case(it, depth + 1)).collect()
            }
            value => value.clone(),
        };
        out.insert(key.to_owned(), value);
    }
    Value::Object(out)
}

/// Returns the number at the start of a text, as JavaScript's `parseFloat` does.
///
/// Returns `None` if the text does not start with a number.
fn leading_number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.starts_with("Infinity") {
        return Some(sign * f64::INFINITY);
    }
    let run = |from: usize| digits.bytes().skip(from).take_while(u8::is_ascii_digit).count();
    let bytes = digits.as_bytes();
    let mut end = run(0);
    if bytes.get(end) == Some(&b'.') && (end > 0 || run(1) > 0) {
        end += 1 + run(end + 1);
    }
    if end > 0 && matches!(bytes.get(end), Some(b'e' | b'E')) {
        let signed = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = run(end + 1 + signed);
        if exponent > 0 {
            end += 1 + signed + exponent;
        }
    }
    digits.get(..end)?.parse::<f64>().ok().map(|it| sign * it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_number_is_read_as_javascript_reads_it() {
        for (text, expected) in [
            ("0.5", Some(0.5)),
            ("  -2e1x", Some(-20.0)),
            ("5.", Some(5.0)),
            (".5.5", Some(0.5)),
            ("+1e", Some(1.0)),
            ("Infinity!", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("", None),
            (".", None),
            ("abc", None),
            ("e5", None),
            ("nan", None),
        ] {
            assert_eq!(leading_number(text), expected, "{text:?}");
        }
    }

    #[test]
    fn grading_keys_are_renamed_but_score_names_are_kept() {
        let written = json!({
            "pass_": true, "score": 1, "reason": "r", "named_scores": {"named_scores": 1},
            "component_results": [{"pass_": false, "component_results": []}],
        });
        let expected = json!({
            "pass": true, "score": 1, "reason": "r", "namedScores": {"named_scores": 1},
            "componentResults": [{"pass": false, "componentResults": []}],
        });
        assert_eq!(in_camel_case(&written, 0), expected);
    }
}
