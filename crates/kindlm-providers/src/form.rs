//! How an answer gets its form: by a JSON Schema, by a tool that the model must call, or by its instructions alone.
//!
//! Servers that speak OpenAI's API do not all know `response_format: json_schema`. One that refuses it is asked with a
//! tool, and one that refuses that, too, is asked in words only. The judge's instructions describe the JSON in each case,
//! and the reader of its reply checks it.

use kindlm_transport::StructuredOutput;

/// Which form a provider is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormChoice {
    /// Always this one.
    Fixed(StructuredOutput),
    /// A JSON Schema, and the next form for models that refuse one.
    Automatic,
}
