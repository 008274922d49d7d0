//! `matches`: the value conforms to a JSON Schema.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::grade::Grade;
use crate::core::on::judged_value;
use crate::core::schema_value::{Conforming, SchemaValue};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "matches";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The value conforms to a JSON Schema.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The value does not conform; with `not-` it does.",
            },
            Code { code: EVIDENCE_MISSING, summary: "The source did not record the output." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The schema that the value must conform to.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The schema, or `file://` and the path of a schema file.
    value: SchemaValue,
}

#[derive(Debug)]
struct Matches {
    schema: Conforming,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let Config { value } = config::parse_config(value)?;
    let schema = value.compile(setup)?;
    Ok(Arc::new(Matches { schema, label: own.label("Matches the schema"), own }))
}

impl Assertion for Matches {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_OUTPUT }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let value = match judged_value(evidence.execution, ID, &self.label) {
            Ok(value) => value,
            Err(results) => return results,
        };
        let fault = self.schema.fault(&value);
        let holds = fault.is_none() != self.own.negate;
        let is_json = || value.as_str().is_some_and(|it| serde_json::from_str::<Value>(it).is_ok());
        let reason = match fault {
            None => "The value conforms to the schema".to_owned(),
            // The most frequent cause is a value that holds JSON as text, which is hard to see.
            Some(fault) if is_json() => {
                format!("{fault}; the value is a text: use `on: json` for the parsed output")
            }
            Some(fault) => fault,
        };
        let result = Grade::with(holds, reason).result(ID, &self.label);
        let output = &evidence.execution.output;
        vec![result.with_failure_evidence(|| [self.schema.evidence(&value, output)])]
    }
}
