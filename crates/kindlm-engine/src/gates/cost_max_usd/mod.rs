//! `costMaxUsd`: what the run costs.

use kindlm_types::{CaseResult, Cost, GateOutcome, GateResult, ecma};

use super::compare::{at_most, dollars, nothing_to_measure, run};
use super::{Gate, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "costMaxUsd",
        summary: "The most that the run may cost, judges included, in US dollars; it also stops the run.",
        since: "0.1.0",
        threshold: Threshold::Amount,
        default: None,
        docs: include_str!("docs.md"),
    },
    build: |threshold| Box::new(CostMaxUsd { threshold }),
};

#[derive(Debug)]
struct CostMaxUsd {
    threshold: f64,
}

impl Gate for CostMaxUsd {
    fn evaluate(&self, cases: &[CaseResult]) -> GateResult {
        let id = REGISTRATION.meta.id;
        let max = ecma::number(self.threshold);
        let (mut cost, mut measured) = (Cost::default(), false);
        for case in run(cases) {
            // What a program spends is its own affair; what judging it costs is not.
            if case.model != crate::COMMAND {
                cost.known_usd += case.cost.known_usd;
                cost.unknown += case.cost.unknown;
                measured = true;
            }
            for it in &case.executions {
                cost.add(it.judge_cost_usd);
                measured |= it.judge_cost_usd != Some(0.0);
            }
        }
        if !measured {
            let message = format!("Cost: nothing to measure (max: ${max})");
            return nothing_to_measure(id, self.threshold, message);
        }
        let known = dollars(cost.known_usd);
        let message = match cost.unknown {
            0 => format!("Cost: {known} (max: ${max})"),
            unknown => format!(
                "Cost: at least {known} (max: ${max}); it is unknown for {unknown} execution{}, \
                 so give their models a `price`",
                if unknown == 1 { "" } else { "s" }
            ),
        };
        let mut result = at_most(id, cost.known_usd, self.threshold, message);
        // An unknown price is not 0: what cannot be measured cannot be said to hold.
        if cost.unknown > 0 {
            result.outcome = GateOutcome::Broken;
        }
        result
    }

    fn budget_usd(&self) -> Option<f64> {
        Some(self.threshold)
    }
}
