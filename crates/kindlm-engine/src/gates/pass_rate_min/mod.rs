//! `passRateMin`: how many of the cases pass.

use kindlm_types::{CaseResult, GateResult};

use super::compare::{at_least, percent, run};
use super::{Gate, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "passRateMin",
        summary: "The least share of test cases that must pass.",
        since: "0.1.0",
        threshold: Threshold::Rate,
        default: Some(0.95),
        docs: include_str!("docs.md"),
    },
    build: |threshold| Box::new(PassRateMin { threshold }),
};

#[derive(Debug)]
struct PassRateMin {
    threshold: f64,
}

impl Gate for PassRateMin {
    #[expect(clippy::cast_precision_loss, reason = "counts of results stay far below 2^52")]
    fn evaluate(&self, cases: &[CaseResult]) -> GateResult {
        let total = run(cases).count();
        let passed = run(cases).filter(|case| case.passed()).count();
        // An empty run is not a green run: its rate is 0.
        let rate = if total > 0 { passed as f64 / total as f64 } else { 0.0 };
        let message = format!("Pass rate: {} (min: {})", percent(rate), percent(self.threshold));
        at_least(REGISTRATION.meta.id, rate, self.threshold, message)
    }
}
