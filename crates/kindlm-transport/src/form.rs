//! The forms of structured output.

use schemars::JsonSchema;
use serde::Deserialize;

/// The form in which structured output is requested. Each form is supported by more servers than the form before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StructuredOutput {
    /// A JSON Schema that the server enforces.
    Schema,
    /// A tool that the model must call; its arguments are the answer.
    Tool,
    /// Instructions alone.
    None,
}
