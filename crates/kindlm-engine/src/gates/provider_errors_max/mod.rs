//! `providerErrorsMax`: the maximum number of executions that failed because of a provider.

use kindlm_types::{CaseResult, GateResult, ecma};

use super::compare::{at_most, counted};
use super::{Gate, Measurement, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "providerErrorsMax",
        summary: "The highest number of executions that fail because of a provider, after retries.",
        since: "0.1.0",
        threshold: Threshold::Count,
        default: Some(0.0),
        docs: include_str!("docs.md"),
    },
    options: None,
    build: |threshold| Box::new(ProviderErrorsMax { threshold, errors: 0 }),
};

#[derive(Clone, Debug)]
struct ProviderErrorsMax {
    threshold: f64,
    errors: u32,
}

impl Gate for ProviderErrorsMax {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }
}

impl Measurement for ProviderErrorsMax {
    fn observe(&mut self, case: &CaseResult) {
        self.errors += counted(case.executions.iter().filter(|it| it.failed_by_provider()));
    }

    fn finish(&self) -> GateResult {
        let errors = f64::from(self.errors);
        let message = format!(
            "Provider errors: {} (max: {})",
            ecma::number(errors),
            ecma::number(self.threshold)
        );
        at_most(REGISTRATION.meta.id, errors, self.threshold, message)
    }
}
