//! `mutationScoreMin`: the minimum share of harmful mutants that the checks notice.

use kindlm_types::{CaseResult, GateResult};

use super::{Gate, Measurement, Meta, Registration, Threshold, nothing_to_measure, percent};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "mutationScoreMin",
        summary: "The lowest share of harmful mutants that the checks notice; `kindlm mutate` measures it.",
        since: "0.1.0",
        threshold: Threshold::Rate,
        default: None,
        docs: include_str!("docs.md"),
    },
    options: None,
    build: |threshold| Box::new(MutationScoreMin { threshold }),
};

#[derive(Clone, Debug)]
struct MutationScoreMin {
    threshold: f64,
}

impl Gate for MutationScoreMin {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }

    fn mutation_score_min(&self) -> Option<f64> {
        Some(self.threshold)
    }
}

impl Measurement for MutationScoreMin {
    fn observe(&mut self, _case: &CaseResult) {}

    fn finish(&self) -> GateResult {
        let min = percent(self.threshold);
        let message = format!("Mutation score: measured by `kindlm mutate` (min: {min})");
        nothing_to_measure(REGISTRATION.meta.id, self.threshold, message)
    }
}
