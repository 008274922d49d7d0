//! `costMaxUsd`: the maximum cost of the run.

use kindlm_types::{CaseResult, ExactSum, Execution, GateOutcome, GateResult, ecma};

use super::compare::{at_most, dollars, nothing_to_measure};
use super::{Gate, Measurement, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "costMaxUsd",
        summary: "The highest cost of the run in US dollars, judges included; it also stops the run.",
        since: "0.1.0",
        threshold: Threshold::Amount,
        default: None,
        docs: include_str!("docs.md"),
    },
    options: None,
    build: |threshold| Box::new(CostMaxUsd { threshold, ..CostMaxUsd::default() }),
};

#[derive(Clone, Debug, Default)]
struct CostMaxUsd {
    threshold: f64,
    known_usd: ExactSum,
    unknown: u32,
    /// The number of executions of unknown cost in which an answer did not report its tokens.
    ///
    /// A configured price does not help, because the number of tokens is unknown.
    uncounted: u32,
    /// The number of executions in which a program reported the cost of only some requests.
    partly: u32,
    /// The number of executions of programs that reported no cost.
    unreported: u32,
    measured: bool,
}

impl Gate for CostMaxUsd {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }

    fn budget_usd(&self) -> Option<f64> {
        Some(self.threshold)
    }

    fn with_spent(&self, known_usd: f64, unknown: u32) -> Option<Box<dyn Gate>> {
        let mut gate = self.clone();
        gate.known_usd.add(known_usd);
        gate.unknown += unknown;
        gate.measured |= known_usd > 0.0 || unknown > 0;
        Some(Box::new(gate))
    }
}

impl Measurement for CostMaxUsd {
    fn observe(&mut self, case: &CaseResult) {
        self.known_usd.add(case.cost.known_usd);
        let count = |counts: fn(&Execution) -> bool| {
            let unknown = case.executions.iter().map(|it| &it.execution);
            let unknown = unknown.filter(|it| it.spent().is_none() && counts(it));
            u32::try_from(unknown.count()).unwrap_or(u32::MAX)
        };
        if [crate::COMMAND, crate::TRANSCRIPT].contains(&case.model.as_str()) {
            // Only the program itself can report its cost. Executions without any reported cost are counted in
            // `unreported` only.
            let partly = count(|it| it.spent_at_least().is_some());
            self.partly += partly;
            self.unknown += partly;
            self.unreported += case.cost.unknown.saturating_sub(partly);
            self.measured |= case.cost.known_usd > 0.0;
        } else {
            self.unknown += case.cost.unknown;
            self.uncounted += count(Execution::is_uncounted);
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
        let without = match self.unreported {
            0 => String::new(),
            1 => "; not counted: 1 execution whose program reports no cost".to_owned(),
            all => format!("; not counted: {all} executions whose programs report no cost"),
        };
        let message = match self.unknown {
            0 => format!("Cost: {known} (max: ${max}){without}"),
            unknown => {
                let s = if unknown == 1 { "" } else { "s" };
                let what = match (self.uncounted, self.partly) {
                    (_, 0) => "answers do not report their `usage` in full",
                    (0, _) => "programs report the `costUsd` of only some of their requests",
                    _ => "answers do not report their `usage` in full, or programs their `costUsd`",
                };
                let why = match (self.uncounted + self.partly).min(unknown) {
                    0 => "so give their models a `price`".to_owned(),
                    all if all == unknown => format!("as {what}"),
                    some => {
                        format!("for {some} as {what}; give the models of the others a `price`")
                    }
                };
                format!(
                    "Cost: at least {known} (max: ${max}); it is unknown for {unknown} execution{s}, {why}{without}"
                )
            }
        };
        let mut result = at_most(id, cost, self.threshold, message);
        // An unknown cost is not 0, so the gate cannot hold.
        if self.unknown > 0 {
            result.outcome = GateOutcome::Violated;
        }
        result
    }
}
