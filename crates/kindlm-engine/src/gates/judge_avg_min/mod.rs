//! `judgeAvgMin`: the average of the judges' scores.

use kindlm_types::{CaseResult, GateResult};

use super::compare::{at_least, mean, nothing_to_measure, percent, run};
use super::{Gate, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "judgeAvgMin",
        summary: "The least average of all judge scores.",
        since: "0.1.0",
        threshold: Threshold::Rate,
        default: None,
        docs: include_str!("docs.md"),
    },
    build: |threshold| Box::new(JudgeAvgMin { threshold }),
};

#[derive(Debug)]
struct JudgeAvgMin {
    threshold: f64,
}

impl Gate for JudgeAvgMin {
    fn evaluate(&self, cases: &[CaseResult]) -> GateResult {
        let id = REGISTRATION.meta.id;
        let scores = run(cases).flat_map(|case| &case.scores).filter(|it| it.assertion == "judge");
        let min = percent(self.threshold);
        let Some(average) = mean(scores.map(|it| it.mean)) else {
            let message = format!("Judge avg: nothing to measure (min: {min})");
            return nothing_to_measure(id, self.threshold, message);
        };
        let message = format!("Judge avg: {} (min: {min})", percent(average));
        at_least(id, average, self.threshold, message)
    }
}
