//! Prompts and sets of prompt assertions, in version 1 of the JSON report.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use kindlm_types::{AssertionSetInfo, PromptInfo};

/// A prompt of the suite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SuitePrompt {
    /// The prompt's name in the suite.
    pub name: String,
    /// The digest of the prompt's text.
    pub digest: String,
    /// The sets of assertions that the prompt refers to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assertion_sets: Vec<String>,
}

/// A set of prompt assertions of the suite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AssertionSet {
    /// The set's name; `prompts.<name>` for assertions that are defined in a prompt.
    pub name: String,
    /// The user's version label for the set; absent without a label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The digest of the set's assertions.
    pub digest: String,
    /// The number of assertions in the set.
    pub assertions: u64,
    /// The file that the set is loaded from, relative to the config file; absent for a set inside the config file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl From<PromptInfo> for SuitePrompt {
    fn from(it: PromptInfo) -> Self {
        Self { name: it.name, digest: it.digest, assertion_sets: it.assertion_sets }
    }
}

impl From<SuitePrompt> for PromptInfo {
    fn from(it: SuitePrompt) -> Self {
        Self { name: it.name, digest: it.digest, assertion_sets: it.assertion_sets }
    }
}

impl From<AssertionSetInfo> for AssertionSet {
    fn from(it: AssertionSetInfo) -> Self {
        let AssertionSetInfo { name, version, digest, assertions, file } = it;
        Self { name, version, digest, assertions, file }
    }
}

impl From<AssertionSet> for AssertionSetInfo {
    fn from(it: AssertionSet) -> Self {
        let AssertionSet { name, version, digest, assertions, file } = it;
        Self { name, version, digest, assertions, file }
    }
}
