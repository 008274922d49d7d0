//! `is-valid-openai-tools-call`: whether the tools that were called, in the form of OpenAI, exist and got what they ask for.

mod mcp;

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Problem, ecma};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::config::read;
use crate::function_calls::{check, listed, output, seen, verdict};
use crate::grade::Grade;
use crate::{Assertion, Build, Code, Evidence, Meta, Own, Registration, Setup};

const ID: &str = "is-valid-openai-tools-call";
const LABEL: &str = "OpenAI tools call";

/// Checks the `tool_calls` of OpenAI against the tools that were offered.
pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The model called tools that it was offered, in the form of OpenAI, with arguments that fit their schemas.",
        since: "0.1.0",
        class: Class::Deterministic,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "There is no call, or one that does not fit its function.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "It is not known which tools the model was offered, or a tool's schema is broken.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: Config::json_schema,
    build: Build::Own(build),
};

/// The check has no options of its own.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "IsValidOpenaiToolsCallConfig")]
struct Config {}

#[derive(Debug)]
struct IsValidOpenaiToolsCall {
    negate: bool,
}

fn build(config: &Value, own: Own, _setup: &Setup<'_>) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let Config {} = read(config)?;
    Ok(Arc::new(IsValidOpenaiToolsCall { negate: own.negate }))
}

impl Assertion for IsValidOpenaiToolsCall {
    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let execution = evidence.execution;
        let label = &Own { negate: self.negate, threshold: None }.label(LABEL);
        let seen = seen(execution);
        if !seen.is_empty() {
            return vec![check(ID, label, execution, &seen, self.negate)];
        }
        let output = output(execution);
        if let Some(told) = output.as_str().and_then(mcp::told) {
            let negate = self.negate;
            return vec![Grade::with(told.succeeded != negate, told.reason).result(ID, label)];
        }
        let calls = output.get("tool_calls").unwrap_or(&output);
        vec![if let Some(calls) = listed(calls) {
            check(ID, label, execution, &calls, self.negate)
        } else {
            let shown = ecma::stringify(calls);
            let fault = format!("OpenAI did not return a valid-looking tools response: {shown}");
            verdict(ID, label, Some(fault), self.negate)
        }]
    }
}
