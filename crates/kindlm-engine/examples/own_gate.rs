//! A custom gate, which a `gates` block can name like a built-in gate.
//!
//! `cargo run -p kindlm-engine --example own_gate`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use kindlm_engine::gates::{
    Gate, Measurement, Meta, Registration, Threshold, at_most, built_in, compile_with,
};
use kindlm_types::{CaseResult, GateResult, Problem};
use serde_json::json;

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
    |threshold| Box::new(CasesMax { threshold, cases: 0.0 }),
);

#[derive(Clone, Debug)]
struct CasesMax {
    threshold: f64,
    cases: f64,
}

impl Gate for CasesMax {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }
}

impl Measurement for CasesMax {
    fn observe(&mut self, _case: &CaseResult) {
        self.cases += 1.0;
    }

    fn finish(&self) -> GateResult {
        let message = format!("Cases: {} (max: {})", self.cases, self.threshold);
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
