//! `passRateMin`: the minimum share of passed cases.

use kindlm_types::{CaseResult, GateResult, RateCount};

use super::compare::{at_least, nothing_to_measure, percent};
use super::floor::{self, Floor};
use super::{Gate, Measurement, Meta, Options, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "passRateMin",
        summary: "The lowest share of test cases that must pass.",
        since: "0.1.0",
        threshold: Threshold::Rate,
        default: Some(0.95),
        docs: include_str!("docs.md"),
    },
    options: Some(Options {
        are_recorded: true,
        schema: floor::schema,
        build: |object| Ok(vec![floor::build(&FLOOR, REGISTRATION.build, object)?]),
    }),
    build: |threshold| {
        Box::new(PassRateMin { threshold, cases: RateCount::default(), unchecked: 0 })
    },
};

static FLOOR: Floor = Floor {
    id: "passRateMin.low",
    name: "Pass rate",
    needs_cases: true,
    needs_scores: false,
    add: |case, scores| {
        if !case.is_unchecked() {
            floor::add(scores, u64::from(case.passed()), 1);
        }
    },
};

#[derive(Clone, Debug)]
struct PassRateMin {
    threshold: f64,
    cases: RateCount,
    unchecked: u64,
}

impl Gate for PassRateMin {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }
}

impl Measurement for PassRateMin {
    fn observe(&mut self, case: &CaseResult) {
        if case.is_unchecked() {
            self.unchecked += 1;
            return;
        }
        self.cases.count += u64::from(case.passed());
        self.cases.total += 1;
    }

    fn finish(&self) -> GateResult {
        if self.cases.total == 0 && self.unchecked > 0 {
            let message =
                format!("Pass rate: nothing to measure (min: {})", percent(self.threshold));
            return nothing_to_measure(REGISTRATION.meta.id, self.threshold, message);
        }
        // A run without cases must not pass, so its rate is 0.
        let rate = self.cases.rate().unwrap_or(0.0);
        let message = format!("Pass rate: {} (min: {})", percent(rate), percent(self.threshold));
        at_least(REGISTRATION.meta.id, rate, self.threshold, message)
    }
}
