//! One rule that a prompt sets, as it is written.

use std::collections::BTreeMap;

use kindlm_types::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::core::judging::digest;
use crate::shared::template::fault;
use crate::shared::template::{Variables, is_template};

/// One rule that a prompt sets. What is serialized of it is what the judge is told.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rule {
    /// Names the rule in results.
    #[schemars(length(min = 1))]
    pub(super) id: String,
    /// The rule as the prompt has it; a template over the variables of the test.
    #[schemars(length(min = 1))]
    pub(super) instruction: String,
    /// Questions that must all be answered with yes, templates too; the instruction alone if there are none.
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
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum WhenEntry {
    /// A script that says `true` or `false`: an expression, the body of a function of `output` and `context`, or
    /// `file://` and a file.
    Script(#[schemars(length(min = 1))] String),
    /// Values that variables of the test must have; of a list, one of them.
    Vars(#[schemars(extend("minProperties" = 1))] BTreeMap<String, Value>),
}

impl Rule {
    /// What is wrong with the templates in it. Points from the rule.
    pub(super) fn faults(&self) -> impl Iterator<Item = Problem> {
        let criteria = self.criteria.iter().enumerate();
        let criteria = criteria.map(|(index, it)| (format!("/criteria/{index}"), it));
        let texts = std::iter::once(("/instruction".to_owned(), &self.instruction)).chain(criteria);
        texts.filter_map(|(at, text)| Some(fault(text)?.under(&at)))
    }

    /// Names what the rule says, as it is written: people's labels are about one text.
    pub(super) fn digest(&self) -> String {
        let texts = [&self.id, &self.instruction].into_iter().chain(&self.criteria);
        digest(&texts.map(String::as_str).collect::<Vec<_>>())
    }

    /// True if what the judge is told of it depends on variables.
    pub(super) fn is_template(&self) -> bool {
        is_template(&self.instruction) || self.criteria.iter().any(|it| is_template(it))
    }

    /// The rule with its variables filled in, or why that cannot be done.
    pub(super) fn filled(&self, variables: &Variables) -> Result<Self, String> {
        let criteria = self.criteria.iter().map(|it| variables.render(it));
        Ok(Self {
            instruction: variables.render(&self.instruction)?,
            criteria: criteria.collect::<Result<_, _>>()?,
            ..self.clone()
        })
    }
}
