//! The verdict in a script's return value.
//!
//! The return value is a boolean, a number, or an object with a verdict, a score and a reason.

use kindlm_types::script::ScriptSource;
use kindlm_types::script::{ScriptOutcome, ScriptValue};
use kindlm_types::{AssertionResult, Bound, ecma};
use serde_json::{Map, Value};

use super::{ID, JavaScript};
use crate::core::grade::{Grade, PASSED};
use crate::core::result_evidence::measure;
use crate::core::scripting::grading::{SCRIPT_THREW, is_grading, number_of, plain, with_rest};

impl JavaScript {
    /// Returns the result for the outcome of the script.
    pub(super) fn grade(&self, outcome: &ScriptOutcome) -> AssertionResult {
        let value = match outcome {
            ScriptOutcome::Returned(value) => value,
            ScriptOutcome::Threw { message, stack, thrown } => {
                // promptfoo reads `message` of every thrown value.
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
                let grade = Grade::from_pass(pass, || self.returned(*held));
                grade.result(ID, &self.label)
            }
            ScriptValue::Number(number) => self.number(*number),
            ScriptValue::Json(Value::Object(object)) if is_grading(object) => self.object(object),
            other => self.invalid(other),
        }
    }

    /// Returns the failure reason for a script that returned `what`.
    fn returned(&self, what: bool) -> String {
        format!("Custom function returned {what}\n{}", self.code)
    }

    /// Returns the result for a number, which passes if it is at least the threshold.
    ///
    /// Without a threshold, a number above 0 passes. `not-` inverts the verdict.
    fn number(&self, number: f64) -> AssertionResult {
        let held = self.own.threshold.map_or(number > 0.0, |threshold| number >= threshold);
        let pass = held != self.own.negate;
        let reason = if pass { PASSED.to_owned() } else { self.returned(self.own.negate) };
        let bound = if self.own.negate { Bound::LessThan } else { Bound::AtLeast };
        Grade { pass, score: number, reason }.result(ID, &self.label).with_failure_evidence(|| {
            self.own.threshold.map(|it| measure("score", number, (it, bound), None))
        })
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
        with_rest(ID, result, object)
    }

    /// Returns the failure of a script that gave no valid verdict.
    ///
    /// The script threw, could not be loaded, or returned an invalid value. `not-` does not invert the failure.
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

    /// Returns the failure for a value that a script must not return.
    fn invalid(&self, value: &ScriptValue) -> AssertionResult {
        let (kind, json) = match value {
            ScriptValue::Undefined => ("undefined", "undefined".to_owned()),
            ScriptValue::Number(number) => ("number", ecma::number(*number)),
            ScriptValue::Json(value) => (type_of(value), ecma::stringify(&plain(value))),
            ScriptValue::Opaque { type_name, .. } if type_name == "bigint" => {
                return self.threw("Do not know how to serialize a BigInt", "", None);
            }
            ScriptValue::Opaque { type_name, text } if type_name == "object" => {
                ("object", text.clone())
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

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Null | Value::Array(_) | Value::Object(_) => "object",
    }
}
