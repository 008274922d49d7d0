//! Tool calls as the output of a model, in the formats of vendors' APIs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{ToolCall, ecma};

/// The format of an output that consists of tool calls, as in a vendor's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CallForm {
    /// A list of `{ id, type, function: { name, arguments } }`. If the answer also has a text: a message with
    /// `content` and `tool_calls`.
    Openai,
    /// A text: the text of the model and each `tool_use` block as JSON, with an empty line between them.
    Anthropic,
    /// A list of parts: `{ text }` and `{ functionCall: { name, args } }`.
    Gemini,
    /// A list of `{ function: { name, arguments } }`. If the answer also has a text: an object with `content` and
    /// `tool_calls`.
    Ollama,
}

impl CallForm {
    /// Returns the output of an answer with tool calls. `text` is the text beside the calls, which may be empty.
    pub fn output(self, text: &str, calls: &[ToolCall]) -> Value {
        let calls: Vec<Value> = calls.iter().map(|it| self.call(it)).collect();
        match self {
            Self::Openai if text.is_empty() => Value::Array(calls),
            Self::Openai => json!({"role": "assistant", "content": text, "tool_calls": calls}),
            Self::Anthropic => {
                let text = (!text.is_empty()).then(|| text.to_owned());
                let blocks = calls.iter().map(ecma::stringify);
                Value::String(text.into_iter().chain(blocks).collect::<Vec<_>>().join("\n\n"))
            }
            Self::Gemini => {
                let text = (!text.is_empty()).then(|| json!({"text": text}));
                text.into_iter().chain(calls).collect()
            }
            Self::Ollama if text.trim().is_empty() => Value::Array(calls),
            Self::Ollama => json!({"content": text, "tool_calls": calls}),
        }
    }

    fn call(self, call: &ToolCall) -> Value {
        let name = &call.name;
        // In the formats of OpenAI and Ollama, the arguments are JSON text. Malformed arguments stay unchanged.
        let text = || match &call.malformed_arguments {
            Some(text) => text.clone(),
            None if call.arguments.is_null() => "{}".to_owned(),
            None => ecma::stringify(&call.arguments),
        };
        let value = || match &call.malformed_arguments {
            Some(text) => json!(text),
            None if call.arguments.is_null() => json!({}),
            None => call.arguments.clone(),
        };
        match self {
            Self::Openai => {
                json!({"id": call.id, "type": "function", "function": {"name": name, "arguments": text()}})
            }
            Self::Anthropic => {
                json!({"type": "tool_use", "id": call.id, "name": name, "input": value()})
            }
            Self::Gemini => json!({"functionCall": {"name": name, "args": value()}}),
            Self::Ollama => json!({"function": {"name": name, "arguments": text()}}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_become_the_output_in_the_form_of_each_vendor() {
        let call = ToolCall {
            id: "c1".to_owned(),
            name: "delete".to_owned(),
            arguments: json!({"id": 7}),
            ..ToolCall::default()
        };
        let calls = [call];
        let openai = json!([{"id": "c1", "type": "function", "function": {"name": "delete", "arguments": "{\"id\":7}"}}]);
        let ollama = json!([{"function": {"name": "delete", "arguments": "{\"id\":7}"}}]);
        let gemini = json!({"functionCall": {"name": "delete", "args": {"id": 7}}});
        let anthropic = r#"{"type":"tool_use","id":"c1","name":"delete","input":{"id":7}}"#;
        for (form, text, expected) in [
            (CallForm::Openai, "", openai.clone()),
            (
                CallForm::Openai,
                "On it.",
                json!({"role": "assistant", "content": "On it.", "tool_calls": openai}),
            ),
            (CallForm::Anthropic, "", json!(anthropic)),
            (CallForm::Anthropic, "On it.", json!(format!("On it.\n\n{anthropic}"))),
            (CallForm::Gemini, "", json!([gemini])),
            (CallForm::Gemini, "On it.", json!([{"text": "On it."}, gemini])),
            (CallForm::Ollama, " ", ollama.clone()),
            (CallForm::Ollama, "On it.", json!({"content": "On it.", "tool_calls": ollama})),
        ] {
            assert_eq!(form.output(text, &calls), expected, "{form:?} {text}");
        }
    }

    #[test]
    fn malformed_arguments_stay_as_they_are() {
        let call = ToolCall {
            name: "f".to_owned(),
            malformed_arguments: Some("{a".to_owned()),
            ..ToolCall::default()
        };
        let output = CallForm::Openai.output("", &[call]);
        assert_eq!(output[0]["function"]["arguments"], "{a");
    }
}
