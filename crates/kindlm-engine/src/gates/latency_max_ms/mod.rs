//! `latencyMaxMs`: the maximum average latency.

use kindlm_types::{CaseResult, GateResult, Mean, ecma};

use super::compare::{at_most, missing_evidence, nothing_to_measure};
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
    build: |threshold| Box::new(LatencyMaxMs { threshold, ..LatencyMaxMs::default() }),
};

#[derive(Clone, Debug, Default)]
struct LatencyMaxMs {
    threshold: f64,
    latency: Mean,
    /// True if an execution ended with an error.
    has_failed: bool,
    /// True if an execution ended without an error, for example with a reply from the response store.
    has_finished: bool,
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
        for it in &case.executions {
            self.has_failed |= it.error.is_some();
            self.has_finished |= it.error.is_none();
        }
    }

    fn finish(&self) -> GateResult {
        let id = REGISTRATION.meta.id;
        let max = ecma::number(self.threshold);
        let Some(latency) = self.latency.value() else {
            if self.has_failed && !self.has_finished {
                let message = format!(
                    "Latency avg: all executions failed or were not run, so the gate cannot hold (max: {max} ms)"
                );
                return missing_evidence(id, self.threshold, message);
            }
            let message = format!("Latency avg: nothing to measure, no latency (max: {max} ms)");
            return nothing_to_measure(id, self.threshold, message);
        };
        let actual = ecma::to_fixed(latency, 0);
        let message = format!("Latency avg: {actual} ms (max: {max} ms)");
        at_most(id, latency, self.threshold, message)
    }
}
