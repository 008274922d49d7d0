//! `output-matches`: the structured output conforms to a JSON Schema.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::grade::{Grade, parsed};
use crate::core::on::{judged_value, shown};
use crate::core::result_evidence::absent;
use crate::core::schema_value::{Conforming, SchemaValue};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "output-matches";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output, as JSON, conforms to a JSON Schema.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The output does not conform, or is not JSON; with `not-` it conforms, or is not JSON.",
            },
            Code { code: EVIDENCE_MISSING, summary: "The source did not record the output." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The schema that the output must conform to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The schema, or `file://` and the path of a schema file.
    value: SchemaValue,
}

#[derive(Debug)]
struct OutputMatches {
    schema: Conforming,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let Config { value } = config::parse_config(value)?;
    let schema = value.compile(setup)?;
    Ok(Arc::new(OutputMatches { schema, label: own.label("Output matches the schema"), own }))
}

impl Assertion for OutputMatches {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_OUTPUT }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let value = match judged_value(evidence.execution, ID, &self.label) {
            Ok(value) => value,
            Err(results) => return results,
        };
        let (pass, reason) = match parsed(evidence.execution) {
            // An output that is not JSON fails with `not-` too, because `not-` expects JSON that does not conform.
            None => (false, format!("the output is not JSON: {}", shown(&value))),
            Some(found) => match self.schema.fault(&found) {
                None => (!self.own.negate, "The output conforms to the schema".to_owned()),
                Some(fault) => (self.own.negate, fault),
            },
        };
        let output = &evidence.execution.output;
        vec![Grade::with(pass, reason).result(ID, &self.label).with_failure_evidence(|| {
            [match parsed(evidence.execution) {
                None => absent(["valid JSON"]),
                Some(found) => self.schema.evidence(&found, output),
            }]
        })]
    }
}
