//! `keywordFailuresMax`: how many cases say a denied word, or none that they should.

use kindlm_types::{CaseResult, GateResult, ecma};

use super::compare::{at_most, count};
use super::{Gate, Meta, Registration, Threshold};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "keywordFailuresMax",
        summary: "The most test cases with a keyword failure that are tolerated.",
        since: "0.1.0",
        threshold: Threshold::Count,
        default: Some(0.0),
        docs: include_str!("docs.md"),
    },
    build: |threshold| Box::new(KeywordFailuresMax { threshold }),
};

#[derive(Debug)]
struct KeywordFailuresMax {
    threshold: f64,
}

impl Gate for KeywordFailuresMax {
    fn evaluate(&self, cases: &[CaseResult]) -> GateResult {
        let failures = count(cases, |case| {
            usize::from(case.failure_codes.iter().any(|it| it.as_str().starts_with("KEYWORD_")))
        });
        let message = format!(
            "Keyword failures: {} (max: {})",
            ecma::number(failures),
            ecma::number(self.threshold)
        );
        at_most(REGISTRATION.meta.id, failures, self.threshold, message)
    }
}
