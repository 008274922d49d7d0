//! `contains-json`: the output has a JSON object, checked by an optional schema.

mod objects;
mod relaxed;

use std::sync::Arc;

use kindlm_types::{AssertionResult, CheckedText, Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, CHECK_GIVEN_UP};
use crate::core::config;
use crate::core::grade::Grade;
use crate::core::result_evidence::{absent, found as places};
use crate::core::schema_value::{Conforming, SchemaValue};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};
use std::ops::Range;

const ID: &str = "contains-json";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The output contains a JSON object, which conforms to a schema if there is one.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[Code {
            code: ASSERTION_FAILED,
            summary: "The output has no object, or none that conforms to the schema.",
        }],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The JSON object that the output must contain.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The JSON Schema that an object in the output must conform to. Without a schema, any object is accepted.
    value: Option<SchemaValue>,
}

#[derive(Debug)]
struct ContainsJson {
    schema: Option<Conforming>,
    label: String,
    negate: bool,
}

fn build(value: &Value, own: EntryOptions, setup: &Setup<'_>) -> Built {
    let config: Config = config::parse_config(value)?;
    let schema = config.value.map(|it| it.compile(setup)).transpose()?;
    Ok(Arc::new(ContainsJson { schema, label: own.label("Contains JSON"), negate: own.negate }))
}

impl ContainsJson {
    /// Returns the reason why no object is accepted; `None` if an object is accepted.
    fn fault(&self, objects: &[Value]) -> Option<String> {
        let mut fault = "Expected output to contain valid JSON".to_owned();
        for object in objects {
            match self.schema.as_ref().and_then(|it| it.fault(object)) {
                None => return None,
                Some(found) => fault = found,
            }
        }
        Some(fault)
    }
}

/// Returns the range of an object in the output with its description, for the evidence.
fn json(range: &Range<usize>) -> (Range<usize>, String) {
    (range.clone(), "JSON".to_owned())
}

impl Assertion for ContainsJson {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_OUTPUT }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let found = objects::find(&evidence.execution.output);
        let fault = self.fault(&found.objects);
        if fault.is_some() && found.given_up {
            let message = "the output has too many braces that may begin a JSON object, so the search was stopped; \
                use `is-json` for output that is JSON as a whole";
            return vec![AssertionResult::errored(ID, &self.label, CHECK_GIVEN_UP, message)];
        }
        let grade =
            Grade::from_pass(fault.is_none() != self.negate, || match (fault, &self.schema) {
                (Some(fault), _) => fault,
                (None, None) => "Expected output to not contain valid JSON".to_owned(),
                (None, Some(_)) => {
                    "Output contains JSON conforming to the provided schema".to_owned()
                }
            });
        let output = &evidence.execution.output;
        vec![grade.result(ID, &self.label).with_failure_evidence(|| {
            [match (&self.schema, found.objects.as_slice()) {
                _ if self.negate => {
                    places(CheckedText::Output, output, found.ranges.iter().map(json))
                }
                (Some(schema), [.., last]) => schema.evidence(last, output),
                _ => absent(["valid JSON"]),
            }]
        })]
    }
}
