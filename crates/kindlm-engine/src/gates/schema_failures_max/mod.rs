//! `schemaFailuresMax`: how many kinds of schema failures the cases have.

use kindlm_types::{CaseResult, GateResult, ecma};

use super::compare::{at_most, count};
use super::{Gate, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "schemaFailuresMax",
        summary: "The most schema failures that are tolerated.",
        since: "0.1.0",
        threshold: Threshold::Count,
        default: Some(0.0),
        docs: include_str!("docs.md"),
    },
    build: |threshold| Box::new(SchemaFailuresMax { threshold }),
};

#[derive(Debug)]
struct SchemaFailuresMax {
    threshold: f64,
}

impl Gate for SchemaFailuresMax {
    fn evaluate(&self, cases: &[CaseResult]) -> GateResult {
        let failures = count(cases, |case| {
            case.failure_codes.iter().filter(|it| it.as_str().starts_with("SCHEMA_")).count()
        });
        let message = format!(
            "Schema failures: {} (max: {})",
            ecma::number(failures),
            ecma::number(self.threshold)
        );
        at_most(REGISTRATION.meta.id, failures, self.threshold, message)
    }
}
