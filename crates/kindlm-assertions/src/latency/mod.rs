//! `latency`: how long the model took.

use std::sync::Arc;

use kindlm_schema::normalise_numbers;
use kindlm_types::{AssertionResult, Class, FailureCode, Problem, ecma};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::codes::EVIDENCE_MISSING;
use crate::{Assertion, Build, Code, Evidence, ExpectPath, Meta, Registration, Setup};

const ID: &str = "latency";

/// Checks how long the model took.
pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: Some(ExpectPath { pointer: "/latency", list: false }),
        summary: "The model answered within a time.",
        since: "0.1.0",
        class: Class::Deterministic,
        codes: &[
            Code {
                code: FailureCode::PROVIDER_TIMEOUT,
                summary: "The answer took longer than `maxMs`.",
            },
            Code { code: EVIDENCE_MISSING, summary: "No latency was recorded." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: Config::json_schema,
    build: Build::Plain(build),
};

/// How long the model may take.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The longest time that passes, in milliseconds, over all requests of the execution.
    #[schemars(extend("exclusiveMinimum" = 0))]
    max_ms: f64,
}

#[derive(Debug)]
struct Latency {
    max_ms: f64,
}

fn build(config: &Value, _setup: &Setup<'_>) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let config =
        Config::deserialize(config).map_err(|err| vec![Problem::new("", err.to_string())])?;
    Ok(Arc::new(Latency { max_ms: config.max_ms }))
}

impl Assertion for Latency {
    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let max = ecma::number(self.max_ms);
        let label = format!("Latency <= {max}ms");
        let Some(latency) = evidence.execution.latency_ms else {
            let message = format!("No latency was recorded, so it cannot be held against {max}ms");
            return vec![AssertionResult::errored(ID, label, EVIDENCE_MISSING, message)];
        };
        let result = if latency <= self.max_ms {
            AssertionResult::pass(ID, label)
        } else {
            let message = format!("Latency {}ms exceeds max {max}ms", ecma::number(latency));
            AssertionResult::fail(ID, label, FailureCode::PROVIDER_TIMEOUT, message)
        };
        vec![result.with_metadata("latencyMs", normalise_numbers(json!(latency)))]
    }
}
