//! How an answer gets its form: by a JSON Schema, by a tool that the model must call, or by its instructions alone.
//!
//! Servers that speak OpenAI's API do not all know `response_format: json_schema`. One that refuses it is asked with a
//! tool, and one that refuses that, too, is asked in words only. The judge's instructions describe the JSON in each case,
//! and the reader of its reply checks it.

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

/// Which form a provider is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormChoice {
    /// Always this one.
    Fixed(StructuredOutput),
    /// A JSON Schema, and the next form for models that refuse one.
    Automatic,
}
