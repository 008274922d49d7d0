//! `finish-reason`: the reason why the model stopped.

use std::borrow::Cow;
use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Execution, Problem, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::recorded::{missing, reported};
use crate::core::result_evidence::{other, text_diff, whole};
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "finish-reason";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The model stopped for a certain reason.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The model stopped for another reason; with `not-` for this reason.",
            },
            Code { code: EVIDENCE_MISSING, summary: "The source recorded no finish reason." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The expected stop reason.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The stop reason; case does not matter.
    ///
    /// It is `stop`, `length`, `tool_calls`, `content_filter`, `refusal`, or another word of the provider.
    #[schemars(length(min = 1))]
    value: String,
}

#[derive(Debug)]
struct FinishReason {
    value: String,
    negate: bool,
}

fn build(
    config: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let config: Config = parse_config(config)?;
    Ok(Arc::new(FinishReason { value: config.value, negate: own.negate }))
}

/// The error message for a missing stop reason, for the check and its negation.
const NOT_REPORTED: &str = "the finish reason was not recorded: use a provider that reports it, or add `finish_reason` to \
    the record";

fn reason_of(execution: &Execution) -> Option<Cow<'_, str>> {
    let own = execution.finish_reason.as_ref().map(|it| Cow::Borrowed(it.as_str()));
    own.or_else(|| reported(execution, "finishReason")?.as_str().map(Cow::Borrowed))
        .filter(|it| !it.is_empty())
}

impl Assertion for FinishReason {
    fn traits(&self) -> Traits {
        Traits::OF_RECORD
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let Self { value, negate } = self;
        let label = format!("Finish reason: {value}");
        let Some(reason) = reason_of(evidence.execution) else {
            return missing(ID, &label, NOT_REPORTED);
        };
        let same = value.to_lowercase() == reason.to_lowercase();
        let grade = Grade::from_pass(same != *negate, || {
            let not = if *negate { "not " } else { "" };
            format!("Expected finish reason {not}\"{value}\" but got \"{reason}\"")
        });
        vec![grade.result(ID, &label).with_failure_evidence(|| {
            [if *negate {
                whole(other("the finish reason"), &reason, value)
            } else {
                text_diff(value, &reason)
            }]
        })]
    }
}
