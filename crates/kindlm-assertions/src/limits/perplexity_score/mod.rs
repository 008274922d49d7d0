//! `perplexity-score`: the confidence of the model in its words, as a score.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Bound, Class, Problem, Severity, ecma, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::check::TOLERANCE;
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::grade::{Grade, PASSED};
use crate::core::recorded::{NO_LOG_PROBS, log_probs, missing, perplexity};
use crate::core::result_evidence::measure;
use crate::{Assertion, Build, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits};

const ID: &str = "perplexity-score";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The score 1 / (1 + perplexity) of the answer reaches a threshold.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The score is below the threshold; with `not-` it is not.",
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

const LABEL: &str = "Perplexity score";

/// The options of `perplexity-score`; there are none but `threshold`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {}

#[derive(Debug)]
struct PerplexityScore {
    threshold: Option<f64>,
    negate: bool,
}

#[expect(clippy::unnecessary_wraps, reason = "others have problems to report")]
fn build(
    _: &Value,
    own: EntryOptions,
    _setup: &Setup<'_>,
) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    Ok(Arc::new(PerplexityScore { threshold: own.threshold, negate: own.negate }))
}

impl Assertion for PerplexityScore {
    fn traits(&self) -> Traits {
        Traits { measures: true, ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let Some(log_probs) = log_probs(evidence.execution) else {
            return missing(ID, LABEL, NO_LOG_PROBS);
        };
        let score = 1.0 / (1.0 + perplexity(&log_probs));
        let reached = self.threshold.map(|it| score >= it - TOLERANCE);
        let pass = reached.is_none_or(|it| it != self.negate);
        let reason = match self.threshold.filter(|_| !pass) {
            None => PASSED.to_owned(),
            Some(threshold) => {
                let is = if self.negate { "greater than or equal to" } else { "less than" };
                let shown = ecma::to_fixed(score, 2);
                format!("Perplexity score {shown} is {is} threshold {}", ecma::number(threshold))
            }
        };
        let bound = if self.negate { Bound::LessThan } else { Bound::AtLeast };
        let limit = self.threshold.map(|it| measure("perplexity score", score, (it, bound), None));
        let score = if self.negate { 1.0 - score } else { score };
        vec![Grade { pass, score, reason }.result(ID, LABEL).with_failure_evidence(|| limit)]
    }
}
