//! Measures of how alike two texts are, and the thresholds that they are held against.

use kindlm_types::{Problem, ecma};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Own;
use crate::core::check::TOLERANCE;
use crate::core::grade::Grade;

/// The texts that an output is compared with; the best comparison counts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum References {
    /// One text.
    One(String),
    /// Several texts, each as good as the others.
    Several(Vec<String>),
}

impl References {
    /// The texts, of which there must be one.
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

/// What a measure must reach, or with `not-` must not reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limit {
    /// The least measure that counts as alike.
    pub(crate) threshold: f64,
    /// True if the texts must not be alike.
    pub(crate) negate: bool,
}

impl Limit {
    /// The threshold of the entry, or this one.
    pub(crate) fn new(own: Own, default: f64) -> Self {
        Self { threshold: own.threshold.unwrap_or(default), negate: own.negate }
    }

    /// True if the texts are alike.
    pub(crate) fn is_met(self, measure: f64) -> bool {
        measure >= self.threshold - TOLERANCE
    }

    /// The score of a measure between 0 and 1: with `not-`, what is missing to 1.
    pub(crate) fn turned(self, measure: f64) -> f64 {
        if self.negate { 1.0 - measure } else { measure }
    }

    /// The grade of a measure, with its name in the reason.
    pub(crate) fn grade(self, name: &str, measure: f64) -> Grade {
        let met = self.is_met(measure);
        let graded = Grade::of(met != self.negate, || {
            let relation = if met { "greater than or equal to" } else { "less than" };
            let (shown, limit) = (ecma::to_fixed(measure, 4), ecma::number(self.threshold));
            format!("{name} score {shown} is {relation} threshold {limit}")
        });
        Grade { score: self.turned(measure), ..graded }
    }
}
