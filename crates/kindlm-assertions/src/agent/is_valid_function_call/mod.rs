//! `is-valid-function-call`: the called functions exist, and their arguments fit.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Problem, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::agent::function_calls::{InOutput, any, output, result};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "is-valid-function-call";
const LABEL: &str = "Function call";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The model called offered functions, with arguments that conform to their schemas.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "There is no call, or a call does not conform to its function.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The offered tools or the calls are unknown, or a tool's schema is invalid.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The options of `is-valid-function-call`; there are none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "IsValidFunctionCallConfig")]
struct Config {}

#[derive(Debug)]
struct IsValidFunctionCall {
    negate: bool,
}

fn build(
    config: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let Config {} = parse_config(config)?;
    Ok(Arc::new(IsValidFunctionCall { negate: own.negate }))
}

impl Assertion for IsValidFunctionCall {
    fn traits(&self) -> Traits {
        Traits::OF_OUTPUT
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let execution = evidence.execution;
        let value = &output(execution);
        let nothing = "There is no valid-looking function call";
        let output = InOutput { value, calls: any(value), nothing };
        vec![result(ID, LABEL, execution, output, self.negate)]
    }
}
