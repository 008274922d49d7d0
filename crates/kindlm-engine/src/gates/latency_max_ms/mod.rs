//! `latencyMaxMs`: the maximum average latency.

use kindlm_types::{CaseResult, GateResult, Mean, ecma};

use super::compare::{at_most, nothing_to_measure};
use super::{Gate, Measurement, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "latencyMaxMs",
        summary: "The highest average latency of the test cases, in milliseconds.",
        since: "0.1.0",
        threshold: Threshold::Amount,
        default: None,
        docs: include_str!("docs.md"),
    },
    options: None,
    build: |threshold| Box::new(LatencyMaxMs { threshold, latency: Mean::default() }),
};

#[derive(Clone, Debug)]
struct LatencyMaxMs {
    threshold: f64,
    latency: Mean,
}

impl Gate for LatencyMaxMs {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }
}

impl Measurement for LatencyMaxMs {
    fn observe(&mut self, case: &CaseResult) {
        if let Some(latency) = case.latency_avg_ms {
            self.latency.add(latency);
        }
    }

    fn finish(&self) -> GateResult {
        let id = REGISTRATION.meta.id;
        let max = ecma::number(self.threshold);
        let Some(latency) = self.latency.value() else {
            let message = format!("Latency avg: nothing to measure (max: {max} ms)");
            return nothing_to_measure(id, self.threshold, message);
        };
        let actual = ecma::to_fixed(latency, 0);
        let message = format!("Latency avg: {actual} ms (max: {max} ms)");
        at_most(id, latency, self.threshold, message)
    }
}
