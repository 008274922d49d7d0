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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keeps_as_text_what_only_looks_like_protocol() {
        for line in [
            r#"{"kindlm" :"tool_call","name":"f"}"#,
            r#"say {"kindlm":"tool_call","name":"f"}"#,
            r#"{"kindlm":"tool_call"}"#,
            r#"{"kindlm":"tool_call","name":"f"} x"#,
            r#"{"name":"f","kindlm":"tool_call"}"#,
            r#"{"kindlm":["tool_call"]}"#,
            r#"{"kindlm":"#,
        ] {
            let output = parse(line);
            assert_eq!((output.text.as_str(), output.tool_calls.len()), (line, 0));
        }
    }

    #[test]
    fn the_last_output_json_counts() {
        let line = |data: &str| format!("{{\"kindlm\":\"output_json\"{data}}}");
        for (stdout, expected) in [
            (format!("{}\n{}", line(",\"data\":1"), line(",\"data\":2")), Some(json!(2))),
            (line(",\"data\":null"), Some(Value::Null)),
            (line(""), None),
        ] {
            assert_eq!(parse(&stdout).output_json, expected, "{stdout}");
        }
    }

    proptest! {
        #[test]
        fn text_without_protocol_comes_back(text in "[^{]{0,80}") {
            let output = parse(&text);
            prop_assert_eq!(output.text.as_str(), text.trim());
            prop_assert!(output.tool_calls.is_empty());
        }

        /// Calls and text may be mixed in any way; neither disturbs the other.
        #[test]
        fn calls_and_text_are_told_apart(lines in proptest::collection::vec(proptest::option::of("[a-z]{1,8}"), 0..12)) {
            let stdout: Vec<String> = lines
                .iter()
                .map(|line| line.clone().unwrap_or_else(|| r#"{"kindlm":"tool_call","name":"f"}"#.to_owned()))
                .collect();
            let output = parse(&stdout.join("\n"));
            let text: Vec<&str> = lines.iter().flatten().map(String::as_str).collect();
            prop_assert_eq!(output.text, text.join("\n"));
            let ids: Vec<String> = output.tool_calls.into_iter().map(|it| it.id).collect();
            let calls = lines.iter().filter(|it| it.is_none()).count();
            prop_assert_eq!(ids, (0..calls).map(|it| format!("cmd_tc_{it}")).collect::<Vec<_>>());
        }
    }
}
