//! `output-equals`: the structured output is exactly this value.

use std::sync::Arc;

use kindlm_types::{AssertionResult, CheckedText, Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::grade::{Grade, parsed};
use crate::core::on::{judged_value, shown};
use crate::core::result_evidence::{absent, json_diff, whole};
use crate::shared::compare::equal;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "output-equals";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output, as JSON, is exactly this value.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The output is another value, or not JSON; with `not-` it is this value, or not JSON.",
            },
            Code { code: EVIDENCE_MISSING, summary: "The source did not record the output." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The expected output.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The expected value. The order of keys does not matter, and the order of items does. Numbers are compared by
    /// value.
    value: Value,
}

#[derive(Debug)]
struct OutputEquals {
    value: Value,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value } = config::parse_config(value)?;
    Ok(Arc::new(OutputEquals { value, label: own.label("Output equals"), own }))
}

impl Assertion for OutputEquals {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_OUTPUT }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let value = match judged_value(evidence.execution, ID, &self.label) {
            Ok(value) => value,
            Err(results) => return results,
        };
        let (pass, reason) = match parsed(evidence.execution) {
            // An output that is not JSON fails with `not-` too, because `not-` expects another JSON value.
            None => (false, format!("the output is not JSON: {}", shown(&value))),
            Some(found) => {
                let is = equal(&found, &self.value);
                let (found, wanted) = (shown(&found), shown(&self.value));
                (is != self.own.negate, format!("The output is {found}, expected {wanted}"))
            }
        };
        let output = &evidence.execution.output;
        vec![Grade::with(pass, reason).result(ID, &self.label).with_failure_evidence(|| {
            [match parsed(evidence.execution) {
                None => absent(["valid JSON"]),
                Some(_) if self.own.negate => {
                    whole(CheckedText::Output, output, "the unwanted output")
                }
                Some(found) => json_diff(&self.value, &found),
            }]
        })]
    }
}
