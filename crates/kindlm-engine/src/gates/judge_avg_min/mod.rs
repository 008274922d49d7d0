//! `judgeAvgMin`: the minimum average of the judges' scores.

use kindlm_types::{CaseResult, GateResult, Mean};

use super::compare::{at_least, nothing_to_measure, percent};
use super::floor::{self, Floor};
use super::{Gate, Measurement, Meta, Options, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "judgeAvgMin",
        summary: "The lowest average of all judge scores.",
        since: "0.1.0",
        threshold: Threshold::Rate,
        default: None,
        docs: include_str!("docs.md"),
    },
    options: Some(Options {
        are_recorded: true,
        schema: floor::schema,
        build: |object| Ok(vec![floor::build(&FLOOR, REGISTRATION.build, object)?]),
    }),
    build: |threshold| Box::new(JudgeAvgMin { threshold, scores: Mean::default() }),
};

static FLOOR: Floor = Floor {
    id: "judgeAvgMin.low",
    name: "Judge avg",
    needs_cases: false,
    needs_scores: false,
    add: |case, scores| {
        let judged = case.scores.iter().filter(|it| it.assertion == "judge");
        let means: Vec<f64> = judged.map(|it| it.mean).collect();
        // Scores are from 0 to 1, so there is no error.
        let _ = scores.add(means.iter().sum(), means.len() as u64);
    },
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
