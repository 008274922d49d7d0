//! `keywordFailuresMax`: the maximum number of cases with a denied word, or without a required word.

use kindlm_types::{CaseResult, CodeFamily, FailureCode, GateResult, ecma};

use super::compare::at_most;
use super::{Gate, Measurement, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "keywordFailuresMax",
        summary: "The highest number of test cases with a keyword failure.",
        since: "0.1.0",
        threshold: Threshold::Count,
        default: Some(0.0),
        docs: include_str!("docs.md"),
    },
    options: None,
    build: |threshold| Box::new(KeywordFailuresMax { threshold, failures: 0 }),
};

#[derive(Clone, Debug)]
struct KeywordFailuresMax {
    threshold: f64,
    failures: u32,
}

impl Gate for KeywordFailuresMax {
    fn begin(&self) -> Box<dyn Measurement> {
        Box::new(self.clone())
    }
}

impl Measurement for KeywordFailuresMax {
    fn observe(&mut self, case: &CaseResult) {
        let is_one = |it: &FailureCode| it.family() == CodeFamily::Keyword;
        self.failures += u32::from(case.failure_codes.iter().any(is_one));
    }

    fn finish(&self) -> GateResult {
        let failures = f64::from(self.failures);
        let message = format!(
            "Keyword failures: {} (max: {})",
            ecma::number(failures),
            ecma::number(self.threshold)
        );
        at_most(REGISTRATION.meta.id, failures, self.threshold, message)
    }
}
