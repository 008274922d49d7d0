//! `latencyMaxMs`: how long the answers take on average.

use kindlm_types::{CaseResult, GateResult, ecma};

use super::compare::{at_most, mean, nothing_to_measure, run};
use super::{Gate, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "latencyMaxMs",
        summary: "The most that the average latency of the test cases may be, in milliseconds.",
        since: "0.1.0",
        threshold: Threshold::Amount,
        default: None,
        docs: include_str!("docs.md"),
    },
    build: |threshold| Box::new(LatencyMaxMs { threshold }),
};

#[derive(Debug)]
struct LatencyMaxMs {
    threshold: f64,
}

impl Gate for LatencyMaxMs {
    fn evaluate(&self, cases: &[CaseResult]) -> GateResult {
        let id = REGISTRATION.meta.id;
        let max = ecma::number(self.threshold);
        let Some(latency) = mean(run(cases).filter_map(|case| case.latency_avg_ms)) else {
            let message = format!("Latency avg: nothing to measure (max: {max} ms)");
            return nothing_to_measure(id, self.threshold, message);
        };
        let actual = ecma::to_fixed(latency, 0);
        let message = format!("Latency avg: {actual} ms (max: {max} ms)");
        at_most(id, latency, self.threshold, message)
    }
}
