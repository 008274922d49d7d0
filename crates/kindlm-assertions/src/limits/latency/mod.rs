//! `latency`: the response time of the model.

use std::sync::Arc;

use kindlm_schema::normalise_numbers;
use kindlm_types::{
    AssertionResult, Bound, Class, FailureCode, Problem, ProblemKind, ResultEvidence, Severity,
    Verdict, ecma, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::core::check::{hold_against, negate};
use crate::core::codes::{EVIDENCE_MISSING, NEGATION_FAILED};
use crate::core::config::parse_config;
use crate::core::grade::PASSED;
use crate::core::result_evidence::{explained, measure};
use crate::{
    Assertion, Build, Code, EntryOptions, Evidence, ExpectPath, Meta, Registration, Setup, Traits,
};

const ID: &str = "latency";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: Some(ExpectPath { pointer: "/latency", list: false }),
        summary: "The model answered within a time limit.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: FailureCode::PROVIDER_TIMEOUT,
                summary: "The answer took longer than the limit.",
            },
            Code { code: EVIDENCE_MISSING, summary: "No latency was recorded." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The limit for the response time.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The longest time that passes, in milliseconds, over all requests of an execution.
    #[serde(default)]
    #[schemars(with = "f64", extend("exclusiveMinimum" = 0))]
    max_ms: Option<f64>,
}

/// The check with `maxMs`: `threshold` and `not-` apply to its result.
#[derive(Debug)]
struct Latency {
    max_ms: f64,
    threshold: Option<f64>,
    negate: bool,
}

/// The check without `maxMs`, as in promptfoo: `threshold` is the longest time that passes, in milliseconds.
#[derive(Debug)]
struct Threshold {
    max_ms: f64,
    negate: bool,
}

fn build(
    config: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let config: Config = parse_config(config)?;
    match (config.max_ms, own.threshold) {
        // With `maxMs`, a `threshold` applies to the score, as in most assertions. Without `maxMs`, `threshold` is
        // the limit.
        (Some(max_ms), threshold) => {
            Ok(Arc::new(Latency { max_ms, threshold, negate: own.negate }))
        }
        (None, Some(max_ms)) => Ok(Arc::new(Threshold { max_ms, negate: own.negate })),
        (None, None) => Err(vec![
            Problem::new("", "`maxMs` is required")
                .with_kind(ProblemKind::MissingKey { key: "maxMs".to_owned() })
                .with_help("`maxMs`: The longest time that passes, in milliseconds, over all requests of the execution"),
        ]),
    }
}

/// Returns the latency, or the errored result if it is unknown.
fn latency(evidence: &Evidence<'_>, label: &str, max: &str) -> Result<f64, Vec<AssertionResult>> {
    evidence.execution.latency_ms.ok_or_else(|| {
        let message = format!("No latency was recorded, so it cannot be compared with {max}ms");
        vec![AssertionResult::errored(ID, label, EVIDENCE_MISSING, message)]
    })
}

/// Returns the latency with its limit. With `negate`, the latency must be above the limit.
fn limited(latency: f64, max: f64, negate: bool) -> ResultEvidence {
    let bound = if negate { Bound::MoreThan } else { Bound::AtMost };
    measure("latency", latency, (max, bound), Some("ms"))
}

impl Assertion for Latency {
    fn traits(&self) -> Traits {
        Traits::OF_RECORD
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let max = ecma::number(self.max_ms);
        let label = format!("Latency <= {max}ms");
        let latency = match latency(evidence, &label, &max) {
            Ok(latency) => latency,
            Err(errored) => return errored,
        };
        let result = if latency <= self.max_ms {
            AssertionResult::pass(ID, label)
        } else {
            let message = format!("Latency {}ms exceeds max {max}ms", ecma::number(latency));
            AssertionResult::fail(ID, label, FailureCode::PROVIDER_TIMEOUT, message)
        };
        let mut result = result
            .with_metadata("latencyMs", normalise_numbers(json!(latency)))
            .with_failure_evidence(|| [limited(latency, self.max_ms, false)]);
        if let Some(threshold) = self.threshold {
            hold_against(threshold, &mut result);
        }
        if !self.negate {
            return vec![result];
        }
        explained(negate(ID, vec![result]), || [limited(latency, self.max_ms, true)])
    }
}

impl Assertion for Threshold {
    fn traits(&self) -> Traits {
        Traits { measures: true, ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let max = ecma::number(self.max_ms);
        let sign = if self.negate { ">" } else { "<=" };
        let label = format!("Latency {sign} {max}ms");
        let latency = match latency(evidence, &label, &max) {
            Ok(latency) => latency,
            Err(errored) => return errored,
        };
        let shown = ecma::number(latency);
        let (verdict, reason) = match (latency <= self.max_ms, self.negate) {
            (true, false) | (false, true) => (Verdict::Pass, PASSED.to_owned()),
            (false, false) => {
                let message = format!("Latency {shown}ms is greater than threshold {max}ms");
                let code = FailureCode::PROVIDER_TIMEOUT;
                (Verdict::Fail { code, message: message.clone() }, message)
            }
            (true, true) => {
                let message =
                    format!("Latency {shown}ms is less than or equal to threshold {max}ms");
                (Verdict::Fail { code: NEGATION_FAILED, message: message.clone() }, message)
            }
        };
        let result = AssertionResult::new(ID, label, verdict).with_reasoning(reason);
        let result = result.with_metadata("latencyMs", normalise_numbers(json!(latency)));
        vec![result.with_failure_evidence(|| [limited(latency, self.max_ms, self.negate)])]
    }
}
