//! `is-json`: the output is JSON, checked by an optional schema.

use std::sync::Arc;

use kindlm_types::{AssertionResult, CheckedText, Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::ASSERTION_FAILED;
use crate::core::config;
use crate::core::grade::{Grade, parsed};
use crate::core::result_evidence::{absent, whole};
use crate::core::schema_value::{Conforming, SchemaValue};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "is-json";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output is JSON, and conforms to a schema if there is one.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[Code {
            code: ASSERTION_FAILED,
            summary: "The output is not JSON, or does not conform to the schema.",
        }],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The expected form of the output.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The JSON Schema that the output must conform to. Without a schema, any JSON is accepted.
    value: Option<SchemaValue>,
}

#[derive(Debug)]
struct IsJson {
    schema: Option<Conforming>,
    label: String,
    negate: bool,
}

fn build(value: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let config: Config = config::parse_config(value)?;
    let schema = config.value.map(|it| it.compile(setup)).transpose()?;
    Ok(Arc::new(IsJson { schema, label: own.label("Is JSON"), negate: own.negate }))
}

impl Assertion for IsJson {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_OUTPUT }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let fault = match (parsed(evidence.execution), &self.schema) {
            (None, _) => Some("Expected output to be valid JSON".to_owned()),
            (Some(_), None) => None,
            (Some(value), Some(schema)) => schema.fault(&value),
        };
        let grade =
            Grade::from_pass(fault.is_none() != self.negate, || match (fault, &self.schema) {
                (Some(fault), _) => fault,
                (None, None) => "Expected output to not be valid JSON".to_owned(),
                (None, Some(_)) => "Output is JSON conforming to the provided schema".to_owned(),
            });
        let output = &evidence.execution.output;
        vec![grade.result(ID, &self.label).with_failure_evidence(|| {
            [match (parsed(evidence.execution), &self.schema) {
                (None, _) => absent(["valid JSON"]),
                (Some(_), None) => whole(CheckedText::Output, output, "valid JSON"),
                (Some(value), Some(schema)) => schema.evidence(&value, output),
            }]
        })]
    }
}
