//! A configured assertion, together with the options that every assertion takes.

mod rules;
mod traits;

use std::sync::Arc;

use kindlm_types::Severity;
use serde_json::Value;

use super::{Assertion, Meta};
use crate::core::judging::JudgeBlock;
use crate::core::scripting::View;

pub use rules::{BeginningRule, PassEvidence, StaysValid, VerdictRule};
pub use traits::{LooksAt, Series, Traits};

/// The options that every entry of an `assert` list takes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// The effect of a failure: a failed gate fails the execution, a failed soft check does not.
    pub severity: Severity,
    /// True if the check has `not-`, and [`Check::evaluate`] swaps pass and fail.
    ///
    /// False without `not-`, or if the assertion applies `not-` itself.
    pub negate: bool,
    /// The lowest score that passes, in place of the assertion's own decision.
    ///
    /// `None` without a threshold, or if the assertion applies the threshold itself.
    pub threshold: Option<f64>,
    /// The weight of the score in the weighted mean: 0 or more, 1 by default.
    pub weight: f64,
    /// The name of the metric that the score is counted under; `None` for no metric.
    pub metric: Option<String>,
    /// The label that replaces the assertion's own label in results; `None` keeps the assertion's own label.
    pub label: Option<String>,
    /// True if the later checks are skipped when this check fails or is errored.
    pub require: bool,
    /// The reason for skipping the check; `None` if the check is evaluated.
    pub skip: Option<String>,
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
            require: false,
            skip: None,
        }
    }
}

/// A configured assertion that can be evaluated any number of times.
#[derive(Clone, Debug)]
pub struct Check {
    /// The static facts about the assertion: id, summary, failure codes.
    pub meta: &'static Meta,
    /// The assertion, built from its configuration.
    pub assertion: Arc<dyn Assertion>,
    /// The traits of `assertion`, which depend only on its configuration.
    pub traits: Arc<Traits>,
    /// The options that are applied to the results of `assertion`.
    pub options: Options,
    /// True if the check is written with `not-`. Either the assertion or the check itself applies `not-`.
    pub is_negated: bool,
    /// The changes to the output before the assertion judges it, in order.
    pub views: Vec<View>,
    /// The `value` of the configuration after its templates were rendered or its file was read.
    ///
    /// `None` if the `value` did not change, or if it may contain a secret.
    pub rendered: Option<Value>,
    /// The traits of the assertion if its templates are not rendered.
    ///
    /// `None` if the check has no templates, or if the check was compiled without
    /// [`Setup::with_written_labels`](crate::Setup::with_written_labels).
    pub written: Option<Arc<Traits>>,
    /// The configuration as JSON, if the label of the check does not contain all of it.
    ///
    /// `None` if the label contains the whole configuration, or if the configuration may contain a secret. Also `None` for a
    /// check that was not compiled from an `expect` block.
    pub config: Option<Arc<str>>,
    /// The place of the check: a JSON pointer from the `expect` block.
    ///
    /// Empty for a check that was not compiled from an `expect` block.
    pub at: String,
    /// The judges and their options; `None` if the check asks no judge.
    ///
    /// If the options name no judge, the default judge of the suite is asked.
    pub judging: Option<Arc<JudgeBlock>>,
    /// True if neither the check nor its `expect` block names a judge. The default judge of the suite is then asked.
    ///
    /// For an `assert-set`, true if one of the checks inside asks the default judge.
    pub leaves_judge_open: bool,
}

impl Check {
    /// Creates a check with default options.
    pub fn new(meta: &'static Meta, assertion: Arc<dyn Assertion>) -> Self {
        let (options, views) = (Options::default(), Vec::new());
        Self {
            meta,
            traits: Arc::new(assertion.traits()),
            assertion,
            options,
            is_negated: false,
            views,
            rendered: None,
            written: None,
            config: None,
            at: String::new(),
            judging: None,
            leaves_judge_open: true,
        }
    }
}
