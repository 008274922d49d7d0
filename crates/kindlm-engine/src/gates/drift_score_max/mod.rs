//! `driftScoreMax`: the maximum drift of the outputs from the baseline.

use kindlm_types::{CaseResult, GateResult, ecma};

use super::compare::at_most;
use super::unjudged::Unjudged;
use super::{Gate, Measurement, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "driftScoreMax",
        summary: "The highest drift from the baseline of any drift check, as the mean of its repeats.",
        since: "0.1.0",
        threshold: Threshold::Rate,
        default: None,
        docs: include_str!("docs.md"),
    },
    options: None,
    build: |threshold| {
        Box::new(DriftScoreMax { threshold, drift: None, unjudged: Unjudged::default() })
    },
};

#[derive(Clone, Debug)]
struct DriftScoreMax {
    threshold: f64,
    /// The highest drift so far; `None` before the first drift.
    drift: Option<f64>,
    unjudged: Unjudged,
}

impl Gate for DriftScoreMax {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }
}

impl Measurement for DriftScoreMax {
    fn observe(&mut self, case: &CaseResult) {
        // The score of a drift check is the similarity; the drift is 1 minus the score.
        let scores = case.scores.iter().filter(|it| it.assertion == "drift");
        self.unjudged.add(case, |it| it.assertion == "drift");
        self.drift = self.drift.into_iter().chain(scores.map(|it| 1.0 - it.mean)).reduce(f64::max);
    }

    fn finish(&self) -> GateResult {
        let id = REGISTRATION.meta.id;
        let max = ecma::number(self.threshold);
        let Some(drift) = self.drift else {
            let limit = format!("max: {max}");
            return self.unjudged.result(
                id,
                self.threshold,
                "Drift score: ",
                "`drift` check",
                &limit,
            );
        };
        let (drift_text, errored) = (ecma::to_fixed(drift, 3), self.unjudged.text());
        let message = format!("Drift score: {drift_text} (max: {max}){errored}");
        at_most(id, drift, self.threshold, message)
    }
}
