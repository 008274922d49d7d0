//! `probabilisticPassRate`: the minimum share of passed checks that are judged by a model.

use kindlm_types::{CaseResult, GateResult, RateCount};

use super::compare::{at_least, nothing_to_measure, percent};
use super::floor::{self, Floor};
use super::{Gate, Measurement, Meta, Options, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "probabilisticPassRate",
        summary: "The lowest share of checks judged by a model that must pass, over all repeats.",
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
    build: |threshold| Box::new(ProbabilisticPassRate { threshold, checks: RateCount::default() }),
};

static FLOOR: Floor = Floor {
    id: "probabilisticPassRate.low",
    name: "Probabilistic pass rate",
    needs_cases: false,
    needs_scores: false,
    add: |case, scores| {
        let checks = case.checks;
        floor::add(scores, checks.probabilistic_passed, checks.probabilistic_total);
    },
};

#[derive(Clone, Debug)]
struct ProbabilisticPassRate {
    threshold: f64,
    checks: RateCount,
}

impl Gate for ProbabilisticPassRate {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }
}

impl Measurement for ProbabilisticPassRate {
    fn observe(&mut self, case: &CaseResult) {
        self.checks.count += case.checks.probabilistic_passed;
        self.checks.total += case.checks.probabilistic_total;
    }

    fn finish(&self) -> GateResult {
        let id = REGISTRATION.meta.id;
        let min = percent(self.threshold);
        let Some(rate) = self.checks.rate() else {
            let message = format!("Probabilistic pass rate: nothing to measure (min: {min})");
            return nothing_to_measure(id, self.threshold, message);
        };
        let message = format!("Probabilistic pass rate: {} (min: {min})", percent(rate));
        at_least(id, rate, self.threshold, message)
    }
}
