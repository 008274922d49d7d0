//! `avgScoreMin`: the minimum average score of the cases.

use kindlm_types::{CaseResult, GateResult, Mean};

use super::compare::{at_least, missing_evidence, percent};
use super::floor::{self, Floor};
use super::{Gate, Measurement, Meta, Options, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "avgScoreMin",
        summary: "The lowest average score of the test cases: their shares of passed checks.",
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
    build: |threshold| Box::new(AvgScoreMin { threshold, scores: Mean::default() }),
};

static FLOOR: Floor = Floor {
    id: "avgScoreMin.low",
    name: "Average score",
    needs_cases: false,
    needs_scores: true,
    add: |case, scores| {
        if let Some(share) = case.passed_share() {
            // A share is from 0 to 1, so there is no error.
            let _ = scores.add(share, 1);
        }
    },
};

#[derive(Clone, Debug)]
struct AvgScoreMin {
    threshold: f64,
    scores: Mean,
}

impl Gate for AvgScoreMin {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }
}

impl Measurement for AvgScoreMin {
    fn observe(&mut self, case: &CaseResult) {
        case.passed_share().into_iter().for_each(|it| self.scores.add(it));
    }

    fn finish(&self) -> GateResult {
        let id = REGISTRATION.meta.id;
        let min = percent(self.threshold);
        let Some(average) = self.scores.value() else {
            let message = format!("Average score: nothing to measure (min: {min})");
            return missing_evidence(id, self.threshold, message);
        };
        let message = format!("Average score: {} (min: {min})", percent(average));
        at_least(id, average, self.threshold, message)
    }
}
