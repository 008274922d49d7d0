//! `is-valid-openai-tools-call`: the tools called in OpenAI's format exist, and their arguments fit.

mod mcp;

use std::sync::Arc;

use kindlm_types::{
    AssertionResult, CallForm, CheckedText, Class, Execution, Problem, Severity, ecma, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::agent::function_calls::{InOutput, listed, output, result};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::result_evidence::{absent, whole};
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "is-valid-openai-tools-call";
const LABEL: &str = "OpenAI tools call";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The model called offered tools, in the form of OpenAI, with arguments that conform to their schemas.",
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

/// The options of `is-valid-openai-tools-call`; there are none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "IsValidOpenaiToolsCallConfig")]
struct Config {}

#[derive(Debug)]
struct IsValidOpenaiToolsCall {
    negate: bool,
}

fn build(
    config: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let Config {} = parse_config(config)?;
    Ok(Arc::new(IsValidOpenaiToolsCall { negate: own.negate }))
}

impl Assertion for IsValidOpenaiToolsCall {
    fn traits(&self) -> Traits {
        Traits::OF_OUTPUT
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let execution = evidence.execution;
        let output = output(execution);
        let parse_outcome = output.as_str().and_then(mcp::parse_outcome);
        if let Some(parse_outcome) = parse_outcome.filter(|_| execution.tool_calls.is_empty()) {
            let label = &EntryOptions { negate: self.negate, threshold: None }.label(LABEL);
            let holds = parse_outcome.succeeded != self.negate;
            let text = output.as_str().unwrap_or_default();
            return vec![
                Grade::with(holds, parse_outcome.reason)
                    .result(ID, label)
                    .with_failure_evidence(|| [whole(CheckedText::Output, text, "tool result")]),
            ];
        }
        let value = output.get("tool_calls").unwrap_or(&output);
        let nothing = "OpenAI did not return a valid-looking tools response";
        // The output holds the tool calls in Anthropic's or Gemini's format. This check accepts only OpenAI's format.
        if is_other_form(execution) {
            let own = EntryOptions { negate: self.negate, threshold: None };
            let reason = format!("{nothing}: {}", ecma::stringify(value));
            let grade = Grade::from_pass(self.negate, || reason);
            return vec![
                grade
                    .result(ID, &own.label(LABEL))
                    .with_failure_evidence(|| [absent(["a function call"])]),
            ];
        }
        let output = InOutput { value, calls: listed(value), nothing };
        vec![result(ID, LABEL, execution, output, self.negate)]
    }
}

/// Returns true if the test turns recorded tool calls into output in Anthropic's or Gemini's format.
fn is_other_form(execution: &Execution) -> bool {
    let form = execution.written.as_deref().and_then(|it| it.calls_as_output);
    matches!(form, Some(CallForm::Anthropic | CallForm::Gemini)) && !execution.tool_calls.is_empty()
}
