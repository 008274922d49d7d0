//! `costMaxUsd`: what the run costs.

use kindlm_types::{CaseResult, ExactSum, GateOutcome, GateResult, ecma};

use super::compare::{at_most, dollars, nothing_to_measure};
use super::{Gate, Measurement, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "costMaxUsd",
        summary: "The most that the run may cost, judges included, in US dollars; it also stops the run.",
        since: "0.1.0",
        threshold: Threshold::Amount,
        default: None,
        docs: include_str!("docs.md"),
    },
    build: |threshold| {
        let known_usd = ExactSum::default();
        Box::new(CostMaxUsd { threshold, known_usd, unknown: 0, uncounted: 0, measured: false })
    },
};

#[derive(Clone, Debug)]
struct CostMaxUsd {
    threshold: f64,
    known_usd: ExactSum,
    unknown: u32,
    /// Among them those in which no answer told its tokens, so that no price helps.
    uncounted: u32,
    measured: bool,
}

impl Gate for CostMaxUsd {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }

    fn budget_usd(&self) -> Option<f64> {
        Some(self.threshold)
    }
}

impl Measurement for CostMaxUsd {
    fn observe(&mut self, case: &CaseResult) {
        // What a program spends, or was spent before, is its own affair; what judging it costs is not.
        if ![crate::COMMAND, crate::TRANSCRIPT].contains(&case.model.as_str()) {
            self.known_usd.add(case.cost.known_usd);
            self.unknown += case.cost.unknown;
            let uncounted = case.executions.iter().map(|it| &it.execution);
            let uncounted = uncounted.filter(|it| it.spent().is_none() && it.is_uncounted());
            self.uncounted += u32::try_from(uncounted.count()).unwrap_or(u32::MAX);
            self.measured = true;
        }
        for it in &case.executions {
            match it.judge_cost_usd {
                Some(usd) => self.known_usd.add(usd),
                None => self.unknown += 1,
            }
            self.measured |= it.judge_cost_usd != Some(0.0);
        }
    }

    fn finish(&self) -> GateResult {
        let id = REGISTRATION.meta.id;
        let max = ecma::number(self.threshold);
        if !self.measured {
            let message = format!("Cost: nothing to measure (max: ${max})");
            return nothing_to_measure(id, self.threshold, message);
        }
        let cost = self.known_usd.value();
        let known = dollars(cost);
        let message = match self.unknown {
            0 => format!("Cost: {known} (max: ${max})"),
            unknown => {
                let s = if unknown == 1 { "" } else { "s" };
                let why = match self.uncounted.min(unknown) {
                    0 => "so give their models a `price`".to_owned(),
                    all if all == unknown => {
                        "as answers do not tell their `usage` in full".to_owned()
                    }
                    some => format!(
                        "for {some} as answers do not tell their `usage` in full; give the models of the others a `price`"
                    ),
                };
                format!(
                    "Cost: at least {known} (max: ${max}); it is unknown for {unknown} execution{s}, {why}"
                )
            }
        };
        let mut result = at_most(id, cost, self.threshold, message);
        // An unknown price is not 0: what cannot be measured cannot be said to hold.
        if self.unknown > 0 {
            result.outcome = GateOutcome::Broken;
        }
        result
    }
}
