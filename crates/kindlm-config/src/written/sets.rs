//! Sets of prompt assertions.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// A set of rules that prompts and tests refer to by its name.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AssertionSetEntry {
    /// Your own version name of the set. Reports show it beside the digest.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) version: Option<String>,
    /// The description of the set.
    #[serde(default)]
    #[expect(dead_code, reason = "for those who read the file")]
    pub(crate) description: Option<String>,
    /// The rules.
    #[schemars(length(min = 1))]
    pub(crate) assertions: Vec<Value>,
}
