//! `cost`: the cost of the execution.

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
use crate::core::recorded::reported;
use crate::core::result_evidence::{explained, measure};
use crate::{
    Assertion, Build, Code, EntryOptions, Evidence, ExpectPath, Meta, Registration, Setup, Traits,
};

const ID: &str = "cost";
const BUDGET_EXCEEDED: FailureCode = FailureCode::new("BUDGET_EXCEEDED");

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: Some(ExpectPath { pointer: "/cost", list: false }),
        summary: "The execution cost no more than an amount.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code { code: BUDGET_EXCEEDED, summary: "The execution cost more than the limit." },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The cost is unknown, because the price of the model is unknown.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The limit for the cost of the execution.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The highest cost that passes, in US dollars, over all requests of the execution.
    #[serde(default)]
    #[schemars(with = "f64", extend("exclusiveMinimum" = 0))]
    max_usd: Option<f64>,
}

/// The check with `maxUsd`: `threshold` and `not-` apply to its result.
#[derive(Debug)]
struct Cost {
    max_usd: f64,
    threshold: Option<f64>,
    negate: bool,
}

/// The check without `maxUsd`, as in promptfoo: `threshold` is the highest cost that passes, in US dollars.
#[derive(Debug)]
struct Threshold {
    max_usd: f64,
    negate: bool,
}

fn build(
    config: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let config: Config = parse_config(config)?;
    match (config.max_usd, own.threshold) {
        // With `maxUsd`, a `threshold` applies to the score, as in most assertions. Without `maxUsd`, `threshold` is
        // the limit.
        (Some(max_usd), threshold) => {
            Ok(Arc::new(Cost { max_usd, threshold, negate: own.negate }))
        }
        (None, Some(max_usd)) => Ok(Arc::new(Threshold { max_usd, negate: own.negate })),
        (None, None) => Err(vec![
            Problem::new("", "`maxUsd` is required")
                .with_kind(ProblemKind::MissingKey { key: "maxUsd".to_owned() })
                .with_help("`maxUsd`: The highest cost that passes, in US dollars, over all requests of the execution"),
        ]),
    }
}

/// Returns the cost, or the errored result if it is unknown.
fn cost(evidence: &Evidence<'_>, label: &str, max: &str) -> Result<f64, Vec<AssertionResult>> {
    let execution = evidence.execution;
    let reported = || reported(execution, "cost").and_then(Value::as_f64);
    execution.spend.cost_usd.or_else(reported).ok_or_else(|| {
        let message = format!(
            "The cost is unknown, so it cannot be compared with ${max}; {}",
            execution.why_uncounted().unwrap_or("configure the price of the model")
        );
        vec![AssertionResult::errored(ID, label, EVIDENCE_MISSING, message)]
    })
}

/// Returns the cost with its limit. With `negate`, the cost must be above the limit.
fn limited(cost: f64, max: f64, negate: bool) -> ResultEvidence {
    let bound = if negate { Bound::MoreThan } else { Bound::AtMost };
    measure("cost", cost, (max, bound), Some("USD"))
}

impl Assertion for Cost {
    fn traits(&self) -> Traits {
        Traits::OF_RECORD
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let max = ecma::number(self.max_usd);
        let label = format!("Cost <= ${max}");
        let cost = match cost(evidence, &label, &max) {
            Ok(cost) => cost,
            Err(errored) => return errored,
        };
        let result = if cost <= self.max_usd {
            AssertionResult::pass(ID, label)
        } else {
            let message = format!("Cost ${} exceeds max ${max}", ecma::to_fixed(cost, 4));
            AssertionResult::fail(ID, label, BUDGET_EXCEEDED, message)
        };
        let mut result = result
            .with_metadata("costUsd", normalise_numbers(json!(cost)))
            .with_failure_evidence(|| [limited(cost, self.max_usd, false)]);
        if let Some(threshold) = self.threshold {
            hold_against(threshold, &mut result);
        }
        if !self.negate {
            return vec![result];
        }
        explained(negate(ID, vec![result]), || [limited(cost, self.max_usd, true)])
    }
}

impl Assertion for Threshold {
    fn traits(&self) -> Traits {
        Traits { measures: true, ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let max = ecma::number(self.max_usd);
        let sign = if self.negate { ">" } else { "<=" };
        let label = format!("Cost {sign} ${max}");
        let cost = match cost(evidence, &label, &max) {
            Ok(cost) => cost,
            Err(errored) => return errored,
        };
        let shown = ecma::to_precision(cost, 2);
        let (verdict, reason) = match (cost <= self.max_usd, self.negate) {
            (true, false) | (false, true) => (Verdict::Pass, PASSED.to_owned()),
            (false, false) => {
                let message = format!("Cost {shown} is greater than threshold {max}");
                (Verdict::Fail { code: BUDGET_EXCEEDED, message: message.clone() }, message)
            }
            (true, true) => {
                let message = format!("Cost {shown} is less than or equal to threshold {max}");
                (Verdict::Fail { code: NEGATION_FAILED, message: message.clone() }, message)
            }
        };
        let result = AssertionResult::new(ID, label, verdict).with_reasoning(reason);
        let result = result.with_metadata("costUsd", normalise_numbers(json!(cost)));
        vec![result.with_failure_evidence(|| [limited(cost, self.max_usd, self.negate)])]
    }
}
