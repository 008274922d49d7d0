//! One rule that a prompt sets, as it is written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One rule that a prompt sets. What is serialized of it is what the judge is told.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rule {
    /// Names the rule in results.
    #[schemars(length(min = 1))]
    pub(super) id: String,
    /// The rule as the prompt has it.
    #[schemars(length(min = 1))]
    pub(super) instruction: String,
    /// Questions that must all be answered with yes; the instruction alone if there are none.
    #[serde(default)]
    pub(super) criteria: Vec<String>,
    /// The share of the rule in the mean score, from 0; 1 if it is not given. A rule of weight 0 does not fail.
    #[serde(default, skip_serializing)]
    #[schemars(range(min = 0.0))]
    pub(super) weight: Option<f64>,
    /// When the rule applies; always if it is not given. Where it does not, it is skipped.
    #[serde(default, skip_serializing)]
    pub(super) when: Option<WhenEntry>,
}

/// When a rule applies.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum WhenEntry {
    /// A script that says `true` or `false`: an expression, the body of a function of `output` and `context`, or
    /// `file://` and a file.
    Script(#[schemars(length(min = 1))] String),
    /// Values that variables of the test must have; of a list, one of them.
    Vars(#[schemars(extend("minProperties" = 1))] BTreeMap<String, Value>),
}
