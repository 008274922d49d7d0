//! The protocol that programs speak on stdout.
//!
//! A line whose first characters are `{"kindlm":` declares something: a `tool_call` or an `output_json`.
//! Every other line is text, and so is a line that only looks like protocol.

use kindlm_types::ToolCall;
use serde_json::{Map, Value, json};

/// What a program wrote to stdout.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProtocolOutput {
    /// Everything that is not protocol, without white space around it.
    pub text: String,
    /// The tool calls it declared.
    pub tool_calls: Vec<ToolCall>,
    /// The last `output_json` it declared.
    pub output_json: Option<Value>,
}

/// Splits stdout into text and protocol lines.
///
/// ```
/// use kindlm_providers::command::protocol::parse;
///
/// let output = parse("Looking it up.\n{\"kindlm\":\"tool_call\",\"name\":\"lookup\",\"arguments\":{\"id\":7}}\n");
/// assert_eq!(output.text, "Looking it up.");
/// assert_eq!(output.tool_calls[0].arguments["id"], 7);
/// ```
pub fn parse(stdout: &str) -> ProtocolOutput {
    let mut output = ProtocolOutput::default();
    let mut text = Vec::new();
    let mut unnamed = 0;
    for line in stdout.split('\n') {
        match Declaration::read(line) {
            Some(Declaration::ToolCall(mut call)) => {
                if let Some(id) = call.id.take() {
                    output.tool_calls.push(call.with_id(id));
                } else {
                    output.tool_calls.push(call.with_id(format!("cmd_tc_{unnamed}")));
                    unnamed += 1;
                }
            }
            Some(Declaration::OutputJson(data)) => output.output_json = data,
            None => text.push(line),
        }
    }
    text.join("\n").trim().clone_into(&mut output.text);
    output
}

enum Declaration {
    ToolCall(DeclaredCall),
    OutputJson(Option<Value>),
}

struct DeclaredCall {
    id: Option<String>,
    name: String,
    arguments: Value,
    malformed_arguments: Option<String>,
}

impl Declaration {
    /// Reads a line; `None` if it is text.
    fn read(line: &str) -> Option<Self> {
        let line = line.trim_start();
        // The space after the brace is what most JSON writers put there by themselves.
        line.strip_prefix('{')?.trim_start().strip_prefix("\"kindlm\":")?;
        let mut object: Map<String, Value> = serde_json::from_str(line).ok()?;
        match object.get("kindlm")?.as_str()? {
            "tool_call" => {
                let name = object.get("name")?.as_str()?.to_owned();
                let id = object.get("id").and_then(Value::as_str).map(str::to_owned);
                let (arguments, malformed_arguments) = arguments(object.remove("arguments"));
                Some(Self::ToolCall(DeclaredCall { id, name, arguments, malformed_arguments }))
            }
            "output_json" => Some(Self::OutputJson(object.remove("data"))),
            _ => None,
        }
    }
}

impl DeclaredCall {
    fn with_id(self, id: String) -> ToolCall {
        ToolCall {
            id,
            name: self.name,
            arguments: self.arguments,
            malformed_arguments: self.malformed_arguments,
            ..ToolCall::default()
        }
    }
}

/// Arguments are an object or a list. What is neither is kept beside empty ones, so that it is seen.
fn arguments(declared: Option<Value>) -> (Value, Option<String>) {
    match declared {
        Some(structured @ (Value::Object(_) | Value::Array(_))) => (structured, None),
        None | Some(Value::Null) => (json!({}), None),
        Some(Value::String(text)) => (json!({}), Some(text)),
        Some(other) => (json!({}), Some(other.to_string())),
    }
}
