//! The JSON document of `kindlm compare --json`.

use std::borrow::Cow;

use kindlm_types::Comparison;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::VERSION;

/// The comparison of two runs as a document of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "KindLM comparison")]
pub struct ComparisonDocument<'a> {
    /// The version of this format; 1.
    #[schemars(extend("const" = 1))]
    pub schema_version: u32,
    /// The comparison.
    pub comparison: Cow<'a, Comparison>,
}

impl<'a> ComparisonDocument<'a> {
    /// Creates the document of a comparison.
    pub fn borrowing(comparison: &'a Comparison) -> Self {
        Self { schema_version: VERSION, comparison: Cow::Borrowed(comparison) }
    }
}

/// Returns the JSON Schema (draft 2020-12) of [`ComparisonDocument`] for serialization.
pub fn comparison_schema() -> Value {
    SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<ComparisonDocument<'_>>()
        .into()
}
