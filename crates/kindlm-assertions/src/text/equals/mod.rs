//! `equals`: the output is exactly this text or this value.

use std::sync::Arc;

use kindlm_types::{AssertionResult, CheckedText, Class, Execution, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config;
use crate::core::grade::{Grade, parsed, text};
use crate::core::result_evidence::{output_diff, whole};
use crate::shared::compare::equal;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "equals";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output equals a text, or (parsed as JSON) a value.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[Code { code: ASSERTION_FAILED, summary: "The output differs." }],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The expected output.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The expected text, number, boolean, object or list. An object or a list is compared with the output as JSON.
    value: Value,
}

#[derive(Debug)]
struct Equals {
    value: Value,
    label: String,
    negate: bool,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let config: Config = config::parse_config(value)?;
    Ok(Arc::new(Equals { value: config.value, label: own.label("Equals"), negate: own.negate }))
}

impl Equals {
    fn holds(&self, execution: &Execution) -> bool {
        match &self.value {
            Value::Object(_) | Value::Array(_) => {
                parsed(execution).is_some_and(|it| equal(&it, &self.value))
            }
            value => execution.output == text(value),
        }
    }
}

impl Assertion for Equals {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_OUTPUT }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let output = &evidence.execution.output;
        let grade = Grade::from_pass(self.holds(evidence.execution) != self.negate, || {
            let not = if self.negate { "not " } else { "" };
            format!("Expected output \"{output}\" to {not}equal \"{}\"", text(&self.value))
        });
        vec![grade.result(ID, &self.label).with_failure_evidence(|| {
            [if self.negate {
                whole(CheckedText::Output, output, "the unwanted output")
            } else {
                output_diff(&self.value, output, parsed(evidence.execution).as_deref())
            }]
        })]
    }
}
