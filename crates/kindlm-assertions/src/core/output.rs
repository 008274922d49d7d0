//! The output and the prompt of an execution as JSON values.

use kindlm_types::{Execution, Message, Role, ecma};
use serde_json::{Value, json};

/// The output as scripts see it: a text, the value that a source with structured output gave, or the calls of a model that
/// wrote no text.
pub(crate) fn output_value(execution: &Execution) -> Value {
    match &execution.output_json {
        // A command may declare structured output beside a text of its own; the text is what it said.
        Some(value) if execution.output.is_empty() || is_text_of(value, &execution.output) => {
            value.clone()
        }
        _ if execution.output.is_empty() && !execution.tool_calls.is_empty() => {
            let call = |it: &kindlm_types::ToolCall| {
                let arguments = match &it.malformed_arguments {
                    Some(text) => text.clone(),
                    None if it.arguments.is_null() => "{}".to_owned(),
                    None => ecma::stringify(&it.arguments),
                };
                json!({
                    "id": it.id,
                    "type": "function",
                    "function": {"name": it.name, "arguments": arguments},
                })
            };
            Value::Array(execution.tool_calls.iter().map(call).collect())
        }
        _ => Value::String(execution.output.clone()),
    }
}

/// True if a text is nothing but this value as JSON.
fn is_text_of(value: &Value, text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|it| it == *value)
}

/// The prompt as text: what the user said, or all messages as JSON if there is more than that.
pub(crate) fn prompt(input: &[Message]) -> Option<Value> {
    match input {
        [] => None,
        [only] if only.role == Role::User => Some(json!(only.content)),
        several => serde_json::to_value(several).ok().map(|it| json!(ecma::stringify(&it))),
    }
}
