//! `max-tokens`: an upper limit for the tokens of the execution.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Channel, Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::Limit;
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "max-tokens";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The execution used at most a number of tokens, input and output together.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The measure is above the limit; with `not-` it is not.",
            },
            Code { code: EVIDENCE_MISSING, summary: "The source recorded no tokens, or not all." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The limit for tokens.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The highest number of tokens, input and output together.
    #[schemars(range(min = 0))]
    value: u32,
}

#[derive(Debug)]
struct MaxTokens(Limit);

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value: most } = config::parse_config(value)?;
    let label = own.label(&format!("At most {most} tokens"));
    Ok(Arc::new(MaxTokens(Limit { most: most.into(), label, own })))
}

impl Assertion for MaxTokens {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.0.label.clone()), ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let execution = evidence.execution;
        let usage = &execution.usage;
        // A source that counts no tokens, or only a part of them, gives no usable count.
        let known = usage.is_whole() && execution.is_complete_for(Channel::Usage);
        let tokens = if usage.input_tokens > 0 && usage.output_tokens > 0 {
            usage.input_tokens.saturating_add(usage.output_tokens)
        } else {
            usage.total_tokens
        };
        let shown = |count: f64| format!("{count} tokens");
        #[expect(clippy::cast_precision_loss, reason = "counts of tokens stay far below 2^52")]
        let measured = known.then_some(tokens as f64);
        let unknown = "the token count is unknown: the source recorded no tokens, or not all";
        self.0.result(ID, measured, ("tokens", Some("tokens")), shown, unknown)
    }
}
