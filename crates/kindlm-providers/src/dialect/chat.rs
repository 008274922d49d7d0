//! Parts of the chat dialect. OpenAI introduced the dialect, and most vendors use it with variations.

use std::borrow::Cow;

use kindlm_types::{
    FinishReason, Message, Prompt, ProviderError, Role, ToolCall, ToolChoice, ToolSpec, Usage,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::answer::{counted, non_empty};
use super::content::PartForms;

/// Sets a key of an object, unless the value is `None`.
pub(crate) fn put(object: &mut Map<String, Value>, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object.insert(key.to_owned(), value.into());
    }
}

/// Returns the stop sequences; `None` without stop sequences.
pub(crate) fn stop(prompt: &Prompt) -> Option<Value> {
    let stop = &prompt.params.stop_sequences;
    (!stop.is_empty()).then(|| json!(stop))
}

/// Returns the conversation as JSON values. Fails if the API does not accept a part of a message.
pub(crate) fn messages(prompt: &Prompt, forms: PartForms) -> Result<Vec<Value>, ProviderError> {
    // Texts and JSON values always serialize, so the fallback to `null` is never used.
    let value = |it: Line<'_>| serde_json::to_value(it).unwrap_or_default();
    prompt.messages.iter().map(|it| Line::from_message(it, forms).map(value)).collect()
}

/// A message in the chat dialect.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    role: &'static str,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<RequestedCall<'a>>,
}

/// The content of a message in the chat dialect.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Value>),
}

/// A tool call in an assistant message of the conversation.
#[derive(Serialize)]
struct RequestedCall<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: Cow<'a, str>,
}

impl<'a> Line<'a> {
    /// Returns a message. Fails if the API does not accept a part of it.
    pub(crate) fn from_message(
        message: &'a Message,
        forms: PartForms,
    ) -> Result<Self, ProviderError> {
        let calls = message.tool_calls.iter().map(|call| RequestedCall {
            id: &call.id,
            kind: FUNCTION,
            function: Function { name: &call.name, arguments: arguments_text(call) },
        });
        let content = if message.parts.is_empty() {
            Content::Text(&message.content)
        } else {
            Content::Parts(forms.encode_parts(message)?)
        };
        Ok(Self {
            role: message.role.as_str(),
            content,
            tool_call_id: message.tool_call_id.as_deref().filter(|_| message.role == Role::Tool),
            tool_calls: calls.collect(),
        })
    }
}

const FUNCTION: &str = "function";

/// Returns a message with only its role and content.
pub(crate) fn role_and_content(message: &Message) -> Map<String, Value> {
    let mut out = Map::new();
    put(&mut out, "role", Some(message.role.as_str()));
    put(&mut out, "content", Some(message.content.clone()));
    out
}

/// Returns the tools as JSON; `None` without tools.
pub(crate) fn tools(prompt: &Prompt) -> Option<Value> {
    offered(prompt).map(|it| json!(it))
}

/// A tool definition in the chat dialect.
#[derive(Serialize)]
pub(crate) struct Offered<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: &'a ToolSpec,
}

/// Returns the tool definitions; `None` without tools.
pub(crate) fn offered(prompt: &Prompt) -> Option<Vec<Offered<'_>>> {
    let tools = prompt.tools.iter().map(|function| Offered { kind: FUNCTION, function });
    (!prompt.tools.is_empty()).then(|| tools.collect())
}

/// Returns the tool choice; `None` without a choice. Also `None` without tools, because vendors would then reject a
/// choice.
pub(crate) fn tool_choice(prompt: &Prompt) -> Option<&'static str> {
    let choice = prompt.tool_choice.as_ref().filter(|_| !prompt.tools.is_empty())?;
    Some(match choice {
        ToolChoice::Auto => "auto",
        ToolChoice::Required => "required",
        ToolChoice::None => "none",
    })
}

/// Returns the arguments of a call as JSON text. Malformed arguments stay unchanged.
pub(crate) fn arguments_text(call: &ToolCall) -> Cow<'_, str> {
    match (&call.malformed_arguments, &call.arguments) {
        (Some(text), _) => text.into(),
        (None, Value::Null) => "{}".into(),
        (None, arguments) => arguments.to_string().into(),
    }
}

/// Returns the arguments as an object, for vendors that accept nothing else. `null` becomes `{}`. Any other value is
/// wrapped as `{"_raw": …}`.
pub(crate) fn arguments_object(call: &ToolCall) -> Value {
    match (&call.malformed_arguments, &call.arguments) {
        (Some(text), _) => json!({"_raw": text}),
        (None, Value::Null) => json!({}),
        (None, arguments @ Value::Object(_)) => arguments.clone(),
        (None, other) => json!({"_raw": other}),
    }
}

/// Converts a finish reason of the chat dialect. An unknown or missing reason becomes `Other`.
pub(crate) fn finish(word: Option<&str>) -> FinishReason {
    match word {
        Some("stop") => FinishReason::Stop,
        Some("length" | "model_length") => FinishReason::Length,
        Some("tool_calls" | "function_call") => FinishReason::ToolCalls,
        Some("content_filter") => FinishReason::ContentFilter,
        other => FinishReason::Other(other.unwrap_or("unknown").to_owned()),
    }
}

/// Returns the model's refusal, from the message or from its parts. Returns `None` without a refusal.
pub(crate) fn refusal(message: &Value) -> Option<String> {
    let mut parts = message["content"].as_array().into_iter().flatten();
    non_empty(&message["refusal"])
        .or_else(|| parts.find_map(|part| non_empty(&part["refusal"])))
        .map(str::to_owned)
}

/// Returns the structured answer from the calls of the answer tool. If calls differ, each different answer is a line of
/// the text, so that the contradiction is visible.
pub(crate) fn answers(calls: &[ToolCall]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for call in calls {
        let text = call.malformed_arguments.clone().unwrap_or_else(|| call.arguments.to_string());
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join("\n")
}

/// Returns the token usage. A missing total is the sum of input and output.
pub(crate) fn usage(usage: &Value) -> Usage {
    let [input, output, total] =
        ["prompt_tokens", "completion_tokens", "total_tokens"].map(|key| counted(&usage[key]));
    let cached = counted(&usage["prompt_tokens_details"]["cached_tokens"]);
    Usage::counted(input, output, total, cached)
}

/// Returns the name of the model that answered, or else of the requested model.
pub(crate) fn model(answer: &Value, prompt: &Prompt) -> String {
    non_empty(answer).unwrap_or(&prompt.model).to_owned()
}

/// Returns a schema name that vendors accept, with at most 64 characters. Characters except letters, digits, `_` and
/// `-` become `_`. An empty name becomes `answer`.
pub(crate) fn schema_name(name: &str) -> String {
    let cleaned: String = name
        .chars()
        .take(64)
        .map(|it| if it.is_ascii_alphanumeric() || it == '-' { it } else { '_' })
        .collect();
    if cleaned.is_empty() { "answer".to_owned() } else { cleaned }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_malformed_arguments_as_they_were() {
        let call = ToolCall { malformed_arguments: Some("{bad".to_owned()), ..ToolCall::default() };
        assert_eq!(arguments_text(&call), "{bad");
        assert_eq!(arguments_object(&call), json!({"_raw": "{bad"}));
    }

    #[test]
    fn finds_a_refusal_in_the_message_or_its_parts() {
        for (message, expected) in [
            (json!({"content": null, "refusal": "I cannot."}), Some("I cannot.")),
            (json!({"content": [{"type": "refusal", "refusal": "No."}]}), Some("No.")),
            (json!({"content": "Yes.", "refusal": null}), None),
            (json!({"content": "Yes.", "refusal": ""}), None),
            (json!({"content": [{"type": "text", "text": "Yes."}]}), None),
            (json!(null), None),
        ] {
            assert_eq!(refusal(&message).as_deref(), expected, "{message}");
        }
    }

    #[test]
    fn cleans_the_name_of_a_schema() {
        assert_eq!(schema_name("judge answer/1"), "judge_answer_1");
        assert_eq!(schema_name(""), "answer");
    }
}
