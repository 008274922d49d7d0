//! `cost`: what the execution cost.

use std::sync::Arc;

use kindlm_schema::normalise_numbers;
use kindlm_types::{AssertionResult, Class, FailureCode, Problem, ecma};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::codes::EVIDENCE_MISSING;
use crate::{Assertion, Build, Code, Evidence, ExpectPath, Meta, Registration, Setup};

const ID: &str = "cost";
const BUDGET_EXCEEDED: FailureCode = FailureCode::new("BUDGET_EXCEEDED");

/// Checks what the execution cost.
pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: Some(ExpectPath { pointer: "/cost", list: false }),
        summary: "The execution cost no more than an amount.",
        since: "0.1.0",
        class: Class::Deterministic,
        codes: &[
            Code { code: BUDGET_EXCEEDED, summary: "The execution cost more than `maxUsd`." },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The cost is not known, because the price of the model is not.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: Config::json_schema,
    build: Build::Plain(build),
};

/// What the execution may cost.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The highest cost that passes, in US dollars, over all requests of the execution.
    #[schemars(extend("exclusiveMinimum" = 0))]
    max_usd: f64,
}

#[derive(Debug)]
struct Cost {
    max_usd: f64,
}

fn build(config: &Value, _setup: &Setup<'_>) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let config =
        Config::deserialize(config).map_err(|err| vec![Problem::new("", err.to_string())])?;
    Ok(Arc::new(Cost { max_usd: config.max_usd }))
}

impl Assertion for Cost {
    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let max = ecma::number(self.max_usd);
        let label = format!("Cost <= ${max}");
        let Some(cost) = evidence.execution.cost_usd else {
            let message = format!(
                "The cost is not known, so it cannot be held against ${max}; \
                 configure the price of the model"
            );
            return vec![AssertionResult::errored(ID, label, EVIDENCE_MISSING, message)];
        };
        let result = if cost <= self.max_usd {
            AssertionResult::pass(ID, label)
        } else {
            let message = format!("Cost ${} exceeds max ${max}", ecma::to_fixed(cost, 4));
            AssertionResult::fail(ID, label, BUDGET_EXCEEDED, message)
        };
        vec![result.with_metadata("costUsd", normalise_numbers(json!(cost)))]
    }
}
