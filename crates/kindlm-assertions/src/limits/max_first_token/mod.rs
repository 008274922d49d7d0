//! `max-first-token`: an upper limit for the time to the first token.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Class, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::Limit;
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "max-first-token";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The first part of each answer came within a number of milliseconds.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The measure is above the limit; with `not-` it is not.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The time to the first token was not recorded.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The limit for the time to the first token.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The longest time in milliseconds.
    #[schemars(range(min = 0))]
    value: f64,
}

#[derive(Debug)]
struct MaxFirstToken(Limit);

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value: most } = config::parse_config(value)?;
    let label = own.label(&format!("First token within {most} ms"));
    Ok(Arc::new(MaxFirstToken(Limit { most, label, own })))
}

impl Assertion for MaxFirstToken {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.0.label.clone()), ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let unknown = "the time to the first token is unknown: it needs `stream: true` of the provider, a server that \
                       streams, and an answer that is not empty; a record needs `first_token_ms`";
        let measured = evidence.execution.first_token_ms;
        self.0.result(ID, measured, ("first token", Some("ms")), Limit::milliseconds, unknown)
    }
}
