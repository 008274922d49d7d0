//! The block `mutate`: the settings of `kindlm mutate`.

use schemars::JsonSchema;
use serde::Deserialize;

/// The settings of `kindlm mutate`, which measures the strength of the checks.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct MutateBlock {
    /// The mutants to leave out, because they are equivalent to the original. For example, `swap-calls` mutants are
    /// equivalent if the calls may come in any order.
    pub(crate) ignore: Vec<IgnoredEntry>,
}

/// The mutants of one operator.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IgnoredEntry {
    /// The id of the operator, such as `swap-calls`.
    #[schemars(length(min = 1), extend("enum" = operators()))]
    pub(crate) operator: String,
    /// The tests whose mutants are left out: a name, a part of it, or a glob. Default: all tests.
    #[schemars(length(min = 1))]
    pub(crate) test: Option<String>,
}

fn operators() -> Vec<&'static str> {
    kindlm_mutate::OPERATORS.into_iter().flatten().map(|it| it.id).collect()
}
