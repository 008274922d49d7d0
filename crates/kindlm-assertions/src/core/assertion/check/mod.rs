//! A configured assertion, together with the options that every assertion takes.

mod traits;

use std::sync::Arc;

use kindlm_types::Severity;
use serde_json::Value;

use super::{Assertion, Meta};
use crate::core::judging::JudgeBlock;
use crate::core::scripting::View;

pub use traits::{LooksAt, Series, Traits};

/// The options that every entry in list form takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The effect of a failure.
    pub severity: Severity,
    /// True if pass and fail are swapped for `not-`. It is false if the assertion applies `not-` itself.
    pub negate: bool,
    /// The lowest score that passes, in place of the assertion's own decision.
    ///
    /// It is `None` if the assertion applies the threshold itself.
    pub threshold: Option<f64>,
    /// The weight of the score in the weighted mean; 1 by default.
    pub weight: f64,
    /// The name of the metric that the score is counted under.
    pub metric: Option<String>,
    /// The label that replaces the assertion's own label in results.
    pub label: Option<String>,
    /// True if a failure of this check ends the execution.
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
    /// The configured assertion.
    pub assertion: Arc<dyn Assertion>,
    /// The traits of the configured assertion.
    pub traits: Arc<Traits>,
    /// The options of this check.
    pub options: Options,
    /// True if the check must not hold. Either the assertion or the check itself applies `not-`.
    pub is_negated: bool,
    /// The changes to the output before the assertion sees it, in order.
    pub views: Vec<View>,
    /// The `value` after its templates were rendered or its file was read.
    ///
    /// It is `None` if it is equal to the written value, or if it may contain a secret.
    pub rendered: Option<Value>,
    /// The traits of the assertion with its templates as written.
    ///
    /// It is `None` if the check has no templates, or without
    /// [`Setup::with_written_labels`](crate::Setup::with_written_labels).
    pub written: Option<Arc<Traits>>,
    /// The configuration as JSON, if the label of the check does not contain all of it.
    ///
    /// It is `None` for a check that was made without a block, or if the configuration may contain a secret.
    pub config: Option<Arc<str>>,
    /// The place of the check in the configuration.
    ///
    /// It is a JSON pointer from the `expect` block, and empty for a check that was made without a block.
    pub at: String,
    /// The judges and their options; `None` if the check asks no judge.
    ///
    /// If the options name no judge, the suite chooses it.
    pub judging: Option<Arc<JudgeBlock>>,
    /// True if neither the check nor its block names a judge, so that the suite chooses it.
    ///
    /// For a set, it is true if this holds for a check inside.
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
