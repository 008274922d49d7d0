//! `driftScoreMax`: how far the outputs have moved from the baseline.

use kindlm_types::{CaseResult, GateResult, ecma};

use super::compare::{at_most, nothing_to_measure, run};
use super::{Gate, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "driftScoreMax",
        summary: "The most that any drift check may have moved from the baseline, as the mean of its repeats.",
        since: "0.1.0",
        threshold: Threshold::Rate,
        default: None,
        docs: include_str!("docs.md"),
    },
    build: |threshold| Box::new(DriftScoreMax { threshold }),
};

#[derive(Debug)]
struct DriftScoreMax {
    threshold: f64,
}

impl Gate for DriftScoreMax {
    fn evaluate(&self, cases: &[CaseResult]) -> GateResult {
        let id = REGISTRATION.meta.id;
        let scores = run(cases).flat_map(|case| &case.scores).filter(|it| it.assertion == "drift");
        let max = ecma::number(self.threshold);
        // A drift check scores how much has stayed; the drift is the rest.
        let Some(drift) = scores.map(|it| 1.0 - it.mean).reduce(f64::max) else {
            let message = format!("Drift score: nothing to measure (max: {max})");
            return nothing_to_measure(id, self.threshold, message);
        };
        let message = format!("Drift score: {} (max: {max})", ecma::to_fixed(drift, 3));
        at_most(id, drift, self.threshold, message)
    }
}
