//! `equals`: the output is exactly this text, or this value.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Problem};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::codes::ASSERTION_FAILED;
use crate::compare::equal;
use crate::grade::{Grade, text};
use crate::{Assertion, Build, Code, Evidence, Meta, Own, Registration, Setup};

const ID: &str = "equals";

/// Compares the output with a text or a value.
pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output is exactly a text, or as JSON exactly a value.",
        since: "0.1.0",
        class: Class::Deterministic,
        codes: &[Code { code: ASSERTION_FAILED, summary: "The output is another." }],
        docs: include_str!("docs.md"),
    },
    schema: Config::json_schema,
    build: Build::Own(build),
};

/// What the output must be.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// A text (or number, or boolean) that the output must be, or an object or list that it must be as JSON.
    value: Value,
}

#[derive(Debug)]
struct Equals {
    value: Value,
    negate: bool,
}

fn build(config: &Value, own: Own, _setup: &Setup<'_>) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let config =
        Config::deserialize(config).map_err(|err| vec![Problem::new("", err.to_string())])?;
    Ok(Arc::new(Equals { value: config.value, negate: own.negate }))
}

impl Equals {
    fn holds(&self, output: &str) -> bool {
        match &self.value {
            Value::Object(_) | Value::Array(_) => {
                serde_json::from_str(output).is_ok_and(|it: Value| equal(&it, &self.value))
            }
            value => output == text(value),
        }
    }
}

impl Assertion for Equals {
    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let output = &evidence.execution.output;
        let grade = Grade::of(self.holds(output) != self.negate, || {
            let not = if self.negate { "not " } else { "" };
            format!("Expected output \"{output}\" to {not}equal \"{}\"", text(&self.value))
        });
        vec![grade.result(ID, "Equals")]
    }
}
