//! `erroredMax`: the maximum number of errored executions. Executions with a failed provider do not count.

use kindlm_types::{CaseResult, ExecutionError, ExecutionResult, GateResult, Outcome, ecma};

use super::compare::{at_most, counted};
use super::{Gate, Measurement, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "erroredMax",
        summary: "The highest number of executions without a verdict for reasons other than a provider.",
        since: "0.1.0",
        threshold: Threshold::Count,
        default: Some(0.0),
        docs: include_str!("docs.md"),
    },
    options: None,
    build: |threshold| Box::new(ErroredMax { threshold, errored: 0 }),
};

#[derive(Clone, Debug)]
struct ErroredMax {
    threshold: f64,
    errored: u32,
}

impl Gate for ErroredMax {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }
}

/// Returns true if an execution was run but has no verdict, although all providers answered.
fn is_errored(execution: &ExecutionResult) -> bool {
    execution.outcome == Outcome::Errored
        && !execution.failed_by_provider()
        && !matches!(execution.error, Some(ExecutionError::NotRun { .. }))
}

impl Measurement for ErroredMax {
    fn observe(&mut self, case: &CaseResult) {
        self.errored += counted(case.executions.iter().filter(|it| is_errored(it)));
    }

    fn finish(&self) -> GateResult {
        let errored = f64::from(self.errored);
        let max = ecma::number(self.threshold);
        let message = format!("Errored: {} (max: {max})", ecma::number(errored));
        at_most(REGISTRATION.meta.id, errored, self.threshold, message)
    }
}
