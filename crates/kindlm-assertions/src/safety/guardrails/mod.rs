//! `guardrails`: the provider's filter flagged neither the prompt nor the answer.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Execution, FinishReason, Problem, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::recorded::{guardrails, missing};
use crate::core::result_evidence::{absent_in, other};
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "guardrails";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The provider's own filter flagged neither the prompt nor the answer.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The filter flagged something; with `not-` it flagged nothing.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "With `not-`: the source recorded no flags of the filter.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

const LABEL: &str = "Guardrails";
const NOT_REPORTED: &str = "the filter's result was not recorded: use a provider that reports it, or add \
    `metadata.guardrails` to the record";

/// The options of `guardrails`, which only exist for compatibility with promptfoo.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The options of promptfoo. Only options without an effect are accepted.
    #[serde(default)]
    config: Option<Options>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GuardrailsOptions")]
struct Options {
    /// The `purpose` option of promptfoo. `redteam` is rejected, because it would let a failing check pass the whole
    /// test.
    #[serde(default)]
    purpose: Option<String>,
}

#[derive(Debug)]
struct Guardrails {
    negate: bool,
}

fn build(
    config: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let config: Config = parse_config(config)?;
    if config.config.and_then(|it| it.purpose).as_deref() == Some("redteam") {
        let message =
            "`purpose: redteam` is not supported: a check that fails would pass the whole test";
        let help = "write `type: not-guardrails`, which holds when the filter blocks";
        return Err(vec![Problem::new("/config/purpose", message).with_help(help)]);
    }
    Ok(Arc::new(Guardrails { negate: own.negate }))
}

/// Returns the reason why the filter flagged the prompt or the answer; `None` if it flagged neither.
fn flagged(execution: &Execution) -> Option<String> {
    let is = |flags: &serde_json::Map<String, Value>, key: &str| {
        flags.get(key).is_some_and(|it| *it == Value::Bool(true))
    };
    match guardrails(execution) {
        Some(flags) if is(flags, "flagged") => {
            let said = flags.get("reason").and_then(Value::as_str).filter(|it| !it.is_empty());
            let part = if is(flags, "flaggedInput") {
                "Prompt"
            } else if is(flags, "flaggedOutput") {
                "Output"
            } else {
                "Content"
            };
            Some(said.map_or_else(|| format!("{part} failed safety checks"), str::to_owned))
        }
        // The filter stopped the answer, even if the recorded flags are incomplete.
        _ if execution.finish_reason == Some(FinishReason::ContentFilter) => {
            Some("Output failed safety checks".to_owned())
        }
        _ => None,
    }
}

impl Assertion for Guardrails {
    fn traits(&self) -> Traits {
        Traits::OF_RECORD
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let execution = evidence.execution;
        let flagged = flagged(execution);
        // promptfoo treats a missing result as not flagged, so `not-guardrails` fails there. But a missing result does
        // not prove that the filter blocked nothing. So the check is errored here.
        if self.negate && flagged.is_none() && guardrails(execution).is_none() {
            return missing(ID, LABEL, NOT_REPORTED);
        }
        let flagged_nothing = flagged.is_none();
        let (pass, reason) = match (flagged, self.negate) {
            (Some(reason), false) => (false, reason),
            (None, false) => (true, "Content passed safety checks".to_owned()),
            (Some(reason), true) => (true, format!("Guardrail correctly blocked: {reason}")),
            (None, true) => {
                let reason = "Content was not blocked by guardrails (expected to be blocked)";
                (false, reason.to_owned())
            }
        };
        let score = f64::from(u8::from(pass));
        let is_missing = flagged_nothing && self.negate;
        vec![Grade { pass, score, reason }.result(ID, LABEL).with_failure_evidence(|| {
            is_missing.then(|| absent_in(other("the result of the filter"), ["a flag"]))
        })]
    }
}
