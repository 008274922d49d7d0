//! `is-valid-openai-function-call`: the function called in OpenAI's format exists, and its arguments fit.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Problem, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::agent::function_calls::{InOutput, any, output, result};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "is-valid-openai-function-call";
const LABEL: &str = "OpenAI function call";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The model called an offered function, in the form of OpenAI, with arguments that conform to its schema.",
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

/// The options of `is-valid-openai-function-call`; there are none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "IsValidOpenaiFunctionCallConfig")]
struct Config {}

#[derive(Debug)]
struct IsValidOpenaiFunctionCall {
    negate: bool,
}

fn build(
    config: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let Config {} = parse_config(config)?;
    Ok(Arc::new(IsValidOpenaiFunctionCall { negate: own.negate }))
}

impl Assertion for IsValidOpenaiFunctionCall {
    fn traits(&self) -> Traits {
        Traits::OF_OUTPUT
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let execution = evidence.execution;
        let value = &output(execution);
        let nothing = "OpenAI did not return a valid-looking function call";
        let output = InOutput { value, calls: any(value), nothing };
        vec![result(ID, LABEL, execution, output, self.negate)]
    }
}
