//! One rule of a prompt, as written in the configuration.

use std::collections::BTreeMap;

use kindlm_types::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::core::judging::digest;
use crate::shared::template::fault;
use crate::shared::template::{Variables, is_template};

/// A rule of a prompt. Its serialized fields are sent to the judge.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rule {
    /// The name of the rule in results.
    #[schemars(length(min = 1))]
    pub(super) id: String,
    /// The rule, as in the prompt. It may be a template with the variables of the test.
    #[schemars(length(min = 1))]
    pub(super) instruction: String,
    /// Questions that must all be answered with yes. They may be templates. By default, only the instruction counts.
    #[serde(default)]
    pub(super) criteria: Vec<String>,
    /// The weight of the rule in the mean score, at least 0; 1 by default. A rule of weight 0 does not fail the test.
    #[serde(default, skip_serializing)]
    #[schemars(range(min = 0.0))]
    pub(super) weight: Option<f64>,
    /// The condition under which the rule applies; by default, always. A rule that does not apply is skipped.
    #[serde(default, skip_serializing)]
    pub(super) when: Option<WhenEntry>,
}

/// The condition under which a rule applies.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum WhenEntry {
    /// A script that returns `true` or `false`.
    ///
    /// It is an expression, the body of a function of `output` and `context`, or `file://` and a file.
    Script(#[schemars(length(min = 1))] String),
    /// The values that variables of the test must have. If a list is given, one of its values must match.
    Vars(#[schemars(extend("minProperties" = 1))] BTreeMap<String, Value>),
}

impl Rule {
    /// Returns the problems of the templates in the rule. The pointers are relative to the rule.
    pub(super) fn faults(&self) -> impl Iterator<Item = Problem> {
        let criteria = self.criteria.iter().enumerate();
        let criteria = criteria.map(|(index, it)| (format!("/criteria/{index}"), it));
        let texts = std::iter::once(("/instruction".to_owned(), &self.instruction)).chain(criteria);
        texts.filter_map(|(at, text)| Some(fault(text)?.under(&at)))
    }

    /// Returns the digest of the rule as written.
    ///
    /// Human verdicts are stored under this digest, because they are valid only for the text of the rule.
    pub(super) fn digest(&self) -> String {
        let texts = [&self.id, &self.instruction].into_iter().chain(&self.criteria);
        digest(&texts.map(String::as_str).collect::<Vec<_>>())
    }

    /// Returns true if the text for the judge depends on variables.
    pub(super) fn is_template(&self) -> bool {
        is_template(&self.instruction) || self.criteria.iter().any(|it| is_template(it))
    }

    /// Returns the rule with its templates rendered, or the reason why that fails.
    pub(super) fn filled(&self, variables: &Variables) -> Result<Self, String> {
        let criteria = self.criteria.iter().map(|it| variables.render(it));
        Ok(Self {
            instruction: variables.render(&self.instruction)?,
            criteria: criteria.collect::<Result<_, _>>()?,
            ..self.clone()
        })
    }
}
