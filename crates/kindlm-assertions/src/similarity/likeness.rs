//! Shared parts of the measures of similarity: reference texts and thresholds.

use kindlm_types::{Bound, Problem, ResultEvidence, ecma};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::EntryOptions;
use crate::core::check::TOLERANCE;
use crate::core::grade::Grade;
use crate::core::result_evidence::{measure, text_diff};

/// The reference texts for an output.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum References {
    /// A single text.
    One(String),
    /// Several texts. Each measure has its own rule for several references.
    Several(Vec<String>),
}

impl References {
    /// Returns the texts; an empty list is a problem.
    pub(crate) fn texts(self) -> Result<Vec<String>, Vec<Problem>> {
        let texts = match self {
            Self::One(text) => vec![text],
            Self::Several(texts) => texts,
        };
        if texts.is_empty() {
            let problem = Problem::new("/value", "there is no text to compare the output with")
                .with_help("write at least one reference text");
            return Err(vec![problem]);
        }
        Ok(texts)
    }
}

/// The threshold of a measure. With `not-`, the measure must stay below the threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limit {
    /// The lowest measure that counts as similar.
    pub(crate) threshold: f64,
    /// True if the texts must not be similar.
    pub(crate) negate: bool,
}

impl Limit {
    /// Creates a limit from the threshold of the entry, or from this default.
    pub(crate) fn new(own: EntryOptions, default: f64) -> Self {
        Self { threshold: own.threshold.unwrap_or(default), negate: own.negate }
    }

    /// Returns true if the measure reaches the threshold, apart from rounding errors.
    pub(crate) fn is_met(self, measure: f64) -> bool {
        measure >= self.threshold - TOLERANCE
    }

    /// Returns the score of a measure from 0 to 1; with `not-`, 1 minus the measure.
    pub(crate) fn turned(self, measure: f64) -> f64 {
        if self.negate { 1.0 - measure } else { measure }
    }

    /// Returns the evidence of a failure: the measure with its threshold.
    ///
    /// Without `not-` and with a single reference text, the evidence also has the difference of the two texts.
    pub(crate) fn evidence(
        self,
        name: &str,
        actual: f64,
        output: &str,
        references: &[String],
    ) -> Vec<ResultEvidence> {
        let bound = if self.negate { Bound::LessThan } else { Bound::AtLeast };
        let mut evidence = vec![measure(name, actual, (self.threshold, bound), None)];
        if let ([only], false) = (references, self.negate) {
            evidence.push(text_diff(only, output));
        }
        evidence
    }

    /// Returns the grade of a measure. `name` is the name of the measure in the reason.
    pub(crate) fn grade(self, name: &str, measure: f64) -> Grade {
        let met = self.is_met(measure);
        let graded = Grade::from_pass(met != self.negate, || {
            let relation = if met { "greater than or equal to" } else { "less than" };
            let (shown, limit) = (ecma::to_fixed(measure, 4), ecma::number(self.threshold));
            format!("{name} score {shown} is {relation} threshold {limit}")
        });
        Grade { score: self.turned(measure), ..graded }
    }
}
