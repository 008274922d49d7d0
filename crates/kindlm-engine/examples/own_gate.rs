//! A custom gate, which a `gates` block can name like a built-in gate.
//!
//! `cargo run -p kindlm-engine --example own_gate`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use kindlm_engine::gates::{
    Gate, Measurement, Meta, Options, Registration, Threshold, at_most, built_in, compile_with,
};
use kindlm_types::{CaseResult, GateResult, Outcome, Problem};
use serde_json::{Map, Value, json};

/// A gate on the number of test cases in a run.
pub(crate) static CASES_MAX: Registration = Registration::new(
    Meta {
        id: "casesMax",
        summary: "The most test cases that may run.",
        since: "1.0",
        threshold: Threshold::Count,
        default: None,
        docs: "",
    },
    |threshold| Box::new(CasesMax { threshold, only_failed: false, cases: 0.0 }),
)
.with_options(Options::new(schema, with_options));

#[derive(Clone, Debug)]
struct CasesMax {
    threshold: f64,
    only_failed: bool,
    cases: f64,
}

/// Returns the JSON Schema of the options object.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "value": { "type": "integer", "minimum": 0 },
            "onlyFailed": { "type": "boolean" },
        },
        "required": ["value"],
        "additionalProperties": false,
    })
}

/// Creates the gate of an options object, such as `{ value: 1, onlyFailed: true }`.
fn with_options(object: &Map<String, Value>) -> Result<Vec<Box<dyn Gate>>, Vec<Problem>> {
    if let Some(key) = object.keys().find(|it| !["value", "onlyFailed"].contains(&it.as_str())) {
        return Err(vec![Problem::key(format!("/{key}"), format!("unknown key `{key}`"))]);
    }
    let threshold = Threshold::Count.parse_value(object.get("value").unwrap_or(&Value::Null));
    let threshold =
        threshold.map_err(|it| vec![Problem::new("/value", format!("must be {it}"))])?;
    let only_failed = match object.get("onlyFailed") {
        None => false,
        Some(Value::Bool(it)) => *it,
        Some(_) => return Err(vec![Problem::new("/onlyFailed", "must be `true` or `false`")]),
    };
    Ok(vec![Box::new(CasesMax { threshold, only_failed, cases: 0.0 })])
}

impl Gate for CasesMax {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }
}

impl Measurement for CasesMax {
    fn observe(&mut self, case: &CaseResult) {
        if !self.only_failed || case.outcome == Outcome::Failed {
            self.cases += 1.0;
        }
    }

    fn finish(&self) -> GateResult {
        let what = if self.only_failed { "Failed cases" } else { "Cases" };
        let message = format!("{what}: {} (max: {})", self.cases, self.threshold);
        at_most(CASES_MAX.meta.id, self.cases, self.threshold, message)
    }
}

/// Parses a `gates` block that may also name the custom gate.
pub(crate) fn gates(block: &serde_json::Value) -> Result<Vec<Box<dyn Gate>>, Vec<Problem>> {
    let registry =
        built_in().with([&CASES_MAX]).map_err(|err| vec![Problem::new("", err.to_string())])?;
    let block = block.as_object().cloned().unwrap_or_default();
    let (gates, problems) = compile_with(&registry, &block);
    if problems.is_empty() { Ok(gates) } else { Err(problems) }
}

fn main() -> Result<(), String> {
    for gate in gates(&json!({ "casesMax": 1 })).map_err(|it| format!("{it:?}"))? {
        println!("{}", gate.evaluate(&[]).message);
    }
    Ok(())
}
