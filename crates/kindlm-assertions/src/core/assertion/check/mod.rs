//! A configured assertion with the options that every assertion takes.

mod traits;

use std::sync::Arc;

use kindlm_types::Severity;
use serde_json::Value;

use super::{Assertion, Meta};
use crate::core::judging::JudgeBlock;
use crate::core::scripting::View;

pub use traits::{LooksAt, Traits};

/// The options that every entry of the list form takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The effect of a failure.
    pub severity: Severity,
    /// True if the check was written with `not-`: pass and fail change places.
    pub negate: bool,
    /// The least score that passes, instead of the assertion's own decision.
    pub threshold: Option<f64>,
    /// The share in the weighted mean score.
    pub weight: f64,
    /// The named score that the check contributes to.
    pub metric: Option<String>,
    /// Shown instead of the assertion's own label.
    pub label: Option<String>,
    /// True if the execution goes no further if the check does not hold.
    pub require: bool,
    /// Why the check is not made, if it is not.
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

/// A configured assertion, ready to be evaluated any number of times.
#[derive(Clone, Debug)]
pub struct Check {
    /// The facts about the assertion.
    pub meta: &'static Meta,
    /// The assertion.
    pub assertion: Arc<dyn Assertion>,
    /// Its traits.
    pub traits: Arc<Traits>,
    /// The options of this check.
    pub options: Options,
    /// The changes of the output before the check sees it, one after the other.
    pub views: Vec<View>,
    /// The configured value with its variables filled in, if there were any.
    pub rendered: Option<Value>,
    /// The place where it is written: JSON pointer from the `expect` block; empty for one that was made without a block.
    pub at: String,
    /// The judges and their options, if it asks judges; a model that is not named is the suite's.
    pub judging: Option<Arc<JudgeBlock>>,
    /// True if the judge is that of the suite; `false` if the check or its block names one.
    pub leaves_judge_open: bool,
}

impl Check {
    /// A check with default options.
    pub fn new(meta: &'static Meta, assertion: Arc<dyn Assertion>) -> Self {
        let (options, views) = (Options::default(), Vec::new());
        Self {
            meta,
            traits: Arc::new(assertion.traits()),
            assertion,
            options,
            views,
            rendered: None,
            at: String::new(),
            judging: None,
            leaves_judge_open: true,
        }
    }
}
