//! The forms of structured output. They are a JSON Schema, a tool that the model must call, and instructions alone.
//!
//! Some servers with OpenAI's API do not support `response_format: json_schema`. If a server refuses the schema, the
//! client asks with a tool. If the server refuses the tool too, the client sends the instructions alone. The judge's
//! instructions always describe the JSON, and the check validates the reply.

use kindlm_transport::StructuredOutput;

/// The selection of the structured-output form of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormChoice {
    /// Always this form.
    Fixed(StructuredOutput),
    /// A JSON Schema first. The client uses the next form when the server does not support a form.
    Automatic,
}
