//! `providerErrorsMax`: how many executions failed because of a provider.

use kindlm_types::{CaseResult, GateResult, ecma};

use super::compare::{at_most, count};
use super::{Gate, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "providerErrorsMax",
        summary: "The most executions that may fail because of a provider, after retries.",
        since: "0.1.0",
        threshold: Threshold::Count,
        default: Some(0.0),
        docs: include_str!("docs.md"),
    },
    build: |threshold| Box::new(ProviderErrorsMax { threshold }),
};

#[derive(Debug)]
struct ProviderErrorsMax {
    threshold: f64,
}

impl Gate for ProviderErrorsMax {
    fn evaluate(&self, cases: &[CaseResult]) -> GateResult {
        let errors = count(cases, |case| {
            case.executions.iter().filter(|it| it.failed_by_provider()).count()
        });
        let message = format!(
            "Provider errors: {} (max: {})",
            ecma::number(errors),
            ecma::number(self.threshold)
        );
        at_most(REGISTRATION.meta.id, errors, self.threshold, message)
    }
}
