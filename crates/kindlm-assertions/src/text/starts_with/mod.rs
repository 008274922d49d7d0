//! `starts-with`: the output begins with a text.

use std::sync::Arc;

use kindlm_types::{AssertionResult, CheckedText, Class, Problem, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config;
use crate::core::grade::Grade;
use crate::core::needles::quoted;
use crate::core::result_evidence::{absent, found};
use crate::{
    Assertion, BeginningRule, Build, Built, Code, EntryOptions, Evidence, Meta, Registration,
    Setup, StaysValid, Traits,
};

const ID: &str = "starts-with";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output begins with a text.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[Code {
            code: ASSERTION_FAILED,
            summary: "The output does not begin with the text.",
        }],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The expected beginning of the output.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The text that the output must begin with; not empty.
    value: String,
}

#[derive(Debug)]
struct StartsWith {
    value: String,
    label: String,
    negate: bool,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value } = config::parse_config(value)?;
    if value.is_empty() {
        let problem = Problem::new("/value", "the text to begin with is empty").with_help(
            "every output begins with an empty text: write the beginning, or remove the check",
        );
        return Err(vec![problem]);
    }
    let label = own.label(&format!("Starts with: {}", quoted(&value)));
    Ok(Arc::new(StartsWith { value, label, negate: own.negate }))
}

impl Assertion for StartsWith {
    fn traits(&self) -> Traits {
        let value = self.value.clone();
        // If the output is a prefix of the expected text, more output can still complete the text.
        let is_decided = BeginningRule::new(move |output| {
            output.starts_with(&value) || !value.starts_with(output)
        });
        Traits {
            label: Some(self.label.clone()),
            stays_valid: StaysValid::Beginning(is_decided),
            ..Traits::OF_OUTPUT
        }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let held = evidence.execution.output.starts_with(&self.value);
        let grade = Grade::from_pass(held != self.negate, || {
            let not = if self.negate { "not " } else { "" };
            format!("Expected output to {not}start with \"{}\"", self.value)
        });
        let (output, value) = (&evidence.execution.output, &self.value);
        vec![grade.result(ID, &self.label).with_failure_evidence(|| {
            [if held {
                found(CheckedText::Output, output, [(0..value.len(), value.clone())])
            } else {
                absent([value.as_str()])
            }]
        })]
    }
}
