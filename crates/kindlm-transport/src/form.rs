//! The forms in which a model is asked for a structured answer.

use schemars::JsonSchema;
use serde::Deserialize;

/// How a model is asked for an answer of a certain form. Each form is accepted by more servers than the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StructuredOutput {
    /// With a JSON Schema that the server enforces.
    Schema,
    /// With a tool that the model must call; its arguments are the answer.
    Tool,
    /// With instructions alone.
    None,
}
