//! The pieces of the chat dialect that OpenAI made and most vendors speak, each with an accent.

use std::borrow::Cow;

use kindlm_types::{FinishReason, Message, Prompt, Role, ToolCall, ToolChoice, ToolSpec, Usage};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::answer::{NoText, counted, non_empty};

/// Adds a member, unless there is nothing to say.
pub(crate) fn put(object: &mut Map<String, Value>, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        object.insert(key.to_owned(), value.into());
    }
}

/// The texts that end an answer, if there are any.
pub(crate) fn stop(prompt: &Prompt) -> Option<Value> {
    let stop = &prompt.params.stop_sequences;
    (!stop.is_empty()).then(|| json!(stop))
}

/// The conversation, for dialects that change something of it.
pub(crate) fn messages(prompt: &Prompt) -> Vec<Value> {
    // Texts and lists of them always have a tree.
    prompt
        .messages
        .iter()
        .map(|it| serde_json::to_value(Line::of(it)).unwrap_or_default())
        .collect()
}

/// A message as the dialect writes it.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    role: &'static str,
    content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Asked<'a>>,
}

/// A call that the model has asked for.
#[derive(Serialize)]
struct Asked<'a> {
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
    pub(crate) fn of(message: &'a Message) -> Self {
        let calls = message.tool_calls.iter().map(|call| Asked {
            id: &call.id,
            kind: FUNCTION,
            function: Function { name: &call.name, arguments: arguments_text(call) },
        });
        Self {
            role: message.role.as_str(),
            content: &message.content,
            tool_call_id: message.tool_call_id.as_deref().filter(|_| message.role == Role::Tool),
            tool_calls: calls.collect(),
        }
    }
}

const FUNCTION: &str = "function";

/// Who said what, and nothing else.
pub(crate) fn said(message: &Message) -> Map<String, Value> {
    let mut out = Map::new();
    put(&mut out, "role", Some(message.role.as_str()));
    put(&mut out, "content", Some(message.content.clone()));
    out
}

/// The tools, if there are any.
pub(crate) fn tools(prompt: &Prompt) -> Option<Value> {
    offered(prompt).map(|it| json!(it))
}

/// A tool as the dialect writes it.
#[derive(Serialize)]
pub(crate) struct Offered<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: &'a ToolSpec,
}

/// The tools, if there are any.
pub(crate) fn offered(prompt: &Prompt) -> Option<Vec<Offered<'_>>> {
    let tools = prompt.tools.iter().map(|function| Offered { kind: FUNCTION, function });
    (!prompt.tools.is_empty()).then(|| tools.collect())
}

/// Whether tools must be called. Without tools, vendors refuse to hear about it.
pub(crate) fn tool_choice(prompt: &Prompt) -> Option<&'static str> {
    let choice = prompt.tool_choice.as_ref().filter(|_| !prompt.tools.is_empty())?;
    Some(match choice {
        ToolChoice::Auto => "auto",
        ToolChoice::Required => "required",
        ToolChoice::None => "none",
    })
}

/// The arguments as the text that the model wrote.
fn arguments_text(call: &ToolCall) -> Cow<'_, str> {
    match (&call.malformed_arguments, &call.arguments) {
        (Some(text), _) => text.into(),
        (None, Value::Null) => "{}".into(),
        (None, arguments) => arguments.to_string().into(),
    }
}

/// The arguments as an object, for vendors that accept nothing else: what is none is wrapped.
pub(crate) fn arguments_object(call: &ToolCall) -> Value {
    match (&call.malformed_arguments, &call.arguments) {
        (Some(text), _) => json!({"_raw": text}),
        (None, Value::Null) => json!({}),
        (None, arguments @ Value::Object(_)) => arguments.clone(),
        (None, other) => json!({"_raw": other}),
    }
}

/// The tool calls of an answer, in order. Calls without an id are given `<made_up><n>`.
pub(crate) fn tool_calls(prompt: &Prompt, calls: &Value, made_up: &str) -> Vec<ToolCall> {
    let calls = calls.as_array().into_iter().flatten().filter(|call| call.is_object());
    (calls_before(prompt)..)
        .zip(calls)
        .map(|(index, call)| tool_call(call, &format!("{made_up}{index}")))
        .collect()
}

/// How many calls a conversation has had already, so that made-up ids stay unique in it.
pub(crate) fn calls_before(prompt: &Prompt) -> usize {
    prompt.messages.iter().map(|it| it.tool_calls.len()).sum()
}

/// One call: `{id, function: {name, arguments}}`, or the same without `function`.
fn tool_call(call: &Value, made_up: &str) -> ToolCall {
    let function = if call["function"].is_object() { &call["function"] } else { call };
    let (arguments, malformed_arguments) = arguments(&function["arguments"]);
    let id = match &call["id"] {
        Value::Number(number) => number.to_string(),
        other => non_empty(other).unwrap_or(made_up).to_owned(),
    };
    ToolCall {
        id,
        name: non_empty(&function["name"]).unwrap_or("unknown").to_owned(),
        arguments,
        malformed_arguments,
        ..ToolCall::default()
    }
}

/// Arguments, which are JSON in a text, or JSON right away; what is not JSON is kept beside them.
pub(crate) fn arguments(written: &Value) -> (Value, Option<String>) {
    match written {
        Value::Null => (json!({}), None),
        Value::String(text) if text.trim().is_empty() => (json!({}), None),
        Value::String(text) => match serde_json::from_str(text) {
            Ok(Value::Null) => (json!({}), None),
            Ok(value) => (value, None),
            Err(_) => (Value::Null, Some(text.clone())),
        },
        other => (other.clone(), None),
    }
}

/// The text of an answer: a text, or a list of parts. No content is an empty text.
pub(crate) fn text(content: &Value) -> Result<String, NoText> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => parts.iter().map(text_of_part).collect(),
        other => Err(NoText::of(other)),
    }
}

/// The text of a part; empty if it is of a kind that has none, such as a thought.
fn text_of_part(part: &Value) -> Result<&str, NoText> {
    match part {
        Value::String(text) => Ok(text),
        Value::Object(_) => match part["type"].as_str() {
            None | Some("text" | "output_text") => text_at(part),
            Some(_) => Ok(""),
        },
        other => Err(NoText::of(other)),
    }
}

/// The text under the key `text`; empty if there is none.
pub(crate) fn text_at(part: &Value) -> Result<&str, NoText> {
    match &part["text"] {
        Value::Null => Ok(""),
        Value::String(text) => Ok(text),
        other => Err(NoText::of(other)),
    }
}

/// Why the model stopped.
pub(crate) fn finish(word: Option<&str>) -> FinishReason {
    match word {
        Some("stop") => FinishReason::Stop,
        Some("length" | "model_length") => FinishReason::Length,
        Some("tool_calls" | "function_call") => FinishReason::ToolCalls,
        Some("content_filter") => FinishReason::ContentFilter,
        other => FinishReason::Other(other.unwrap_or("unknown").to_owned()),
    }
}

/// The structured answer of calls to the tool that is its vessel. Calls that differ are all kept, so that a reader sees
/// that they contradict each other.
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

/// Tokens. A server that leaves out the total means the sum.
pub(crate) fn usage(usage: &Value) -> Usage {
    let [input, output, total] =
        ["prompt_tokens", "completion_tokens", "total_tokens"].map(|key| counted(&usage[key]));
    let cached = counted(&usage["prompt_tokens_details"]["cached_tokens"]);
    Usage::counted(input, output, total, cached)
}

/// The model that answered, or the one that was asked.
pub(crate) fn model(answer: &Value, prompt: &Prompt) -> String {
    non_empty(answer).unwrap_or(&prompt.model).to_owned()
}

/// A name that vendors accept for a schema: letters, digits, `_` and `-`, at most 64.
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
    fn reads_arguments_of_every_form() {
        for (written, expected, malformed) in [
            (json!("{\"a\":1}"), json!({"a": 1}), None),
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!(""), json!({}), None),
            (Value::Null, json!({}), None),
            (json!("null"), json!({}), None),
            (json!("[1]"), json!([1]), None),
            (json!("{bad"), Value::Null, Some("{bad")),
        ] {
            let read = arguments(&written);
            assert_eq!((&read.0, read.1.as_deref()), (&expected, malformed), "{written}");
        }
    }

    #[test]
    fn joins_the_parts_of_a_text_and_leaves_out_the_rest() {
        for (content, expected) in [
            (json!("x"), "x"),
            (
                json!([{"type": "text", "text": "a"}, {"type": "thinking", "text": "z"}, {"text": "b"}]),
                "ab",
            ),
            (json!(["a", "b"]), "ab"),
            (json!(null), ""),
            (json!([{"type": "image_url"}]), ""),
        ] {
            assert_eq!(text(&content).as_deref(), Ok(expected), "{content}");
        }
    }

    #[test]
    fn content_that_is_no_text_is_not_an_empty_one() {
        for (content, kind) in [
            (json!(42), "a number"),
            (json!(false), "a boolean"),
            (json!({"a": 1}), "an object"),
            (json!([42]), "a number"),
            (json!([{"type": "text", "text": {"a": 1}}]), "an object"),
        ] {
            assert_eq!(text(&content), Err(NoText(kind)), "{content}");
        }
    }

    #[test]
    fn repeats_malformed_arguments_as_they_were() {
        let call = ToolCall { malformed_arguments: Some("{bad".to_owned()), ..ToolCall::default() };
        assert_eq!(arguments_text(&call), "{bad");
        assert_eq!(arguments_object(&call), json!({"_raw": "{bad"}));
    }

    #[test]
    fn cleans_the_name_of_a_schema() {
        assert_eq!(schema_name("judge answer/1"), "judge_answer_1");
        assert_eq!(schema_name(""), "answer");
    }
}
