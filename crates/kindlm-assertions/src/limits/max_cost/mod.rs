//! `max-cost`: an upper limit for the cost of the execution.

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

const ID: &str = "max-cost";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The execution cost at most a number of US dollars.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The measure is above the limit; with `not-` it is not.",
            },
            Code { code: EVIDENCE_MISSING, summary: "The cost is unknown." },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The limit for the cost.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The highest cost that passes, in US dollars.
    #[schemars(range(min = 0))]
    value: f64,
}

#[derive(Debug)]
struct MaxCost(Limit);

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value: most } = config::parse_config(value)?;
    let label = own.label(&format!("At most ${most}"));
    Ok(Arc::new(MaxCost(Limit { most, label, own })))
}

impl Assertion for MaxCost {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.0.label.clone()), ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let shown = |cost: f64| format!("${cost}");
        let no_price =
            "set the model's price with `models[].price`, or add `cost_usd` to the record";
        let why = evidence.execution.why_uncounted().unwrap_or(no_price);
        let unknown = format!("the cost is unknown: {why}");
        self.0.result(ID, evidence.execution.spend.cost_usd, ("cost", Some("USD")), shown, &unknown)
    }
}
