//! `judgeAvgMin`: the minimum average of the judges' scores.

use kindlm_types::{CaseResult, GateResult, Mean};

use super::compare::{at_least, nothing_to_measure, percent};
use super::{Gate, Measurement, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "judgeAvgMin",
        summary: "The lowest average of all judge scores.",
        since: "0.1.0",
        threshold: Threshold::Rate,
        default: None,
        docs: include_str!("docs.md"),
    },
    options: None,
    build: |threshold| Box::new(JudgeAvgMin { threshold, scores: Mean::default() }),
};

#[derive(Clone, Debug)]
struct JudgeAvgMin {
    threshold: f64,
    scores: Mean,
}

impl Gate for JudgeAvgMin {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }
}

impl Measurement for JudgeAvgMin {
    fn observe(&mut self, case: &CaseResult) {
        let scores = case.scores.iter().filter(|it| it.assertion == "judge");
        scores.for_each(|it| self.scores.add(it.mean));
    }

    fn finish(&self) -> GateResult {
        let id = REGISTRATION.meta.id;
        let min = percent(self.threshold);
        let Some(average) = self.scores.value() else {
            let message = format!("Judge avg: nothing to measure (min: {min})");
            return nothing_to_measure(id, self.threshold, message);
        };
        let message = format!("Judge avg: {} (min: {min})", percent(average));
        at_least(id, average, self.threshold, message)
    }
}
