//! `schemaFailuresMax`: the maximum number of schema failures. Each code counts once per case.

use kindlm_types::{CaseResult, CodeFamily, FailureCode, GateResult, ecma};

use super::compare::{at_most, counted};
use super::{Gate, Measurement, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "schemaFailuresMax",
        summary: "The highest number of schema failures.",
        since: "0.1.0",
        threshold: Threshold::Count,
        default: Some(0.0),
        docs: include_str!("docs.md"),
    },
    options: None,
    build: |threshold| Box::new(SchemaFailuresMax { threshold, failures: 0 }),
};

#[derive(Clone, Debug)]
struct SchemaFailuresMax {
    threshold: f64,
    failures: u32,
}

impl Gate for SchemaFailuresMax {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }
}

impl Measurement for SchemaFailuresMax {
    fn observe(&mut self, case: &CaseResult) {
        let is_one = |it: &&FailureCode| it.family() == CodeFamily::Schema;
        self.failures += counted(case.failure_codes.iter().filter(is_one));
    }

    fn finish(&self) -> GateResult {
        let failures = f64::from(self.failures);
        let message = format!(
            "Schema failures: {} (max: {})",
            ecma::number(failures),
            ecma::number(self.threshold)
        );
        at_most(REGISTRATION.meta.id, failures, self.threshold, message)
    }
}
