//! `perplexity`: the perplexity of the answer, which is high if the model was unsure of its words.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Bound, Class, Problem, Severity, ecma, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::grade::Grade;
use crate::core::recorded::{NO_LOG_PROBS, log_probs, missing, perplexity};
use crate::core::result_evidence::measure;
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "perplexity";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The perplexity of the answer is no higher than a threshold.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The perplexity is above the threshold; with `not-` it is not.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The probabilities of the answer's tokens were not recorded.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

const LABEL: &str = "Perplexity";

/// The options of `perplexity`; there are none but `threshold`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {}

#[derive(Debug)]
struct Perplexity {
    threshold: Option<f64>,
    negate: bool,
}

#[expect(clippy::unnecessary_wraps, reason = "others have problems to report")]
fn build(
    _: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    Ok(Arc::new(Perplexity { threshold: own.threshold, negate: own.negate }))
}

impl Assertion for Perplexity {
    fn traits(&self) -> Traits {
        Traits { measures: true, ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let Some(log_probs) = log_probs(evidence.execution) else {
            return missing(ID, LABEL, NO_LOG_PROBS);
        };
        let perplexity = perplexity(&log_probs);
        let within = self.threshold.map(|it| perplexity <= it);
        let pass = within.is_none_or(|it| it != self.negate);
        let grade = Grade::from_pass(pass, || {
            let is = if self.negate { "less than or equal to" } else { "greater than" };
            let (shown, threshold) =
                (ecma::to_fixed(perplexity, 2), self.threshold.unwrap_or(f64::NAN));
            format!("Perplexity {shown} is {is} threshold {}", ecma::number(threshold))
        });
        vec![grade.result(ID, LABEL).with_failure_evidence(|| {
            let bound = if self.negate { Bound::MoreThan } else { Bound::AtMost };
            self.threshold.map(|it| measure("perplexity", perplexity, (it, bound), None))
        })]
    }
}
