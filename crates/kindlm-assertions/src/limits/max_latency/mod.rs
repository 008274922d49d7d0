//! `max-latency`: an upper limit for the duration of the execution.

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

const ID: &str = "max-latency";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The execution took at most a number of milliseconds.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The measure is above the limit; with `not-` it is not.",
            },
            Code { code: EVIDENCE_MISSING, summary: "No time was recorded." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The limit for the duration.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The longest duration that passes, in milliseconds.
    #[schemars(range(min = 0))]
    value: f64,
}

#[derive(Debug)]
struct MaxLatency(Limit);

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value: most } = config::parse_config(value)?;
    let label = own.label(&format!("At most {most} ms"));
    Ok(Arc::new(MaxLatency(Limit { most, label, own })))
}

impl Assertion for MaxLatency {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.0.label.clone()), ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let unknown = "the latency is unknown: add `latency_ms` to the record";
        let measured = evidence.execution.latency_ms;
        self.0.result(ID, measured, ("latency", Some("ms")), Limit::milliseconds, unknown)
    }
}
