//! Parses messages in all the forms that instrumentations use.

use kindlm_types::Role;
use serde_json::{Map, Value};

use crate::attributes::{list, unpacked};

/// A message of a conversation with a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordedMessage {
    pub(crate) role: Role,
    /// The text of the message; `None` if it has no text.
    pub(crate) text: Option<String>,
    pub(crate) thoughts: Vec<String>,
    /// The tool calls that the message requests.
    pub(crate) calls: Vec<RequestedCall>,
    /// The results of tool calls in the message.
    pub(crate) answers: Vec<Answered>,
    pub(crate) finish_reason: Option<String>,
    /// True if the message or a part of it is marked as a refusal.
    pub(crate) is_refusal: bool,
    /// The types of the unsupported parts, or what is wrong with them. An unsupported part may contain any evidence.
    pub(crate) not_understood: Vec<String>,
}

/// The types of parts that contain neither text nor a tool call.
const MEDIA: [&str; 14] = [
    "blob",
    "file",
    "uri",
    "media",
    "image",
    "image_url",
    "input_image",
    "audio",
    "input_audio",
    "video",
    "document",
    "input_file",
    "redacted_thinking",
    "step-start",
];

/// A tool call that a model requests, or that a tool span records.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RequestedCall {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    /// The arguments as they are recorded; `None` if they are not recorded.
    pub(crate) arguments: Option<Value>,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answered {
    pub(crate) id: Option<String>,
    pub(crate) output: Value,
}

impl RecordedMessage {
    pub(crate) fn text(role: Role, text: &str) -> Self {
        Self { text: Some(text.to_owned()), ..Self::empty(role) }
    }

    fn empty(role: Role) -> Self {
        Self {
            role,
            text: None,
            thoughts: Vec::new(),
            calls: Vec::new(),
            answers: Vec::new(),
            finish_reason: None,
            is_refusal: false,
            not_understood: Vec::new(),
        }
    }

    /// Returns true if the message has text, a tool call or a tool result.
    pub(crate) fn has_content(&self) -> bool {
        self.text.is_some() || !self.calls.is_empty() || !self.answers.is_empty()
    }

    /// Returns true if the message has reasoning or unsupported parts.
    fn has_more(&self) -> bool {
        !self.thoughts.is_empty() || !self.not_understood.is_empty()
    }

    /// Parses a message. Returns `None` if the value is not an object, or if the message has neither content, reasoning
    /// nor unsupported parts.
    pub(crate) fn parse(value: &Value, default: Role) -> Option<Self> {
        let outer = value.as_object()?;
        let inner = outer.get("message").and_then(unpacked);
        let object = inner.as_ref().and_then(Value::as_object).unwrap_or(outer);
        let role = word(object, &["role"]).map_or(default, role);
        let mut message = Self::empty(role);
        message.finish_reason = word(object, &["finish_reason"])
            .or_else(|| word(outer, &["finish_reason"]))
            .map(str::to_owned);
        for key in ["parts", "contents", "content"] {
            if let Some(content) = object.get(key) {
                message.add_content(content);
            }
        }
        if let Some(text) = word(object, &["refusal"]).filter(|it| !it.is_empty()) {
            message.is_refusal = true;
            message.add_text(text);
        }
        if let Some(calls) = object.get("tool_calls") {
            message.add_calls(calls);
        }
        if role == Role::Tool && message.answers.is_empty() {
            let id = word(object, &["tool_call_id", "id"]).map(str::to_owned);
            if let Some(output) = message.text.take() {
                message.answers.push(Answered { id, output: Value::String(output) });
            }
        }
        (message.has_content() || message.has_more()).then_some(message)
    }

    fn add_content(&mut self, content: &Value) {
        match content {
            // The text of a user, system or tool message may be a list of parts as JSON. The text of a model is never
            // parsed.
            Value::String(text) if self.role != Role::Assistant && text.starts_with("[{") => {
                match unpacked(content) {
                    Some(Value::Array(parts)) if parts.iter().all(is_part) => {
                        self.add_parts(&parts);
                    }
                    _ => self.add_text(text),
                }
            }
            Value::String(text) => self.add_text(text),
            Value::Array(parts) => self.add_parts(parts),
            Value::Object(_) if is_part(content) => self.add_part(content),
            Value::Object(_) => self.add_parts(&list(content.clone())),
            _ => {}
        }
    }

    fn add_parts(&mut self, parts: &[Value]) {
        for part in parts {
            self.add_part(part);
        }
    }

    fn add_text(&mut self, text: &str) {
        match &mut self.text {
            Some(before) => {
                before.push('\n');
                before.push_str(text);
            }
            None => self.text = Some(text.to_owned()),
        }
    }

    /// Adds the tool calls of a list, which may be JSON text.
    ///
    /// A value that is no list counts as an unsupported part. An example is JSON text that a length limit has cut.
    pub(crate) fn add_calls(&mut self, written: &Value) {
        let parsed = unpacked(written);
        let is_none = match parsed.as_ref().unwrap_or(written) {
            Value::Null => true,
            Value::String(text) => matches!(text.trim(), "" | "null"),
            Value::Array(calls) => calls.is_empty(),
            Value::Object(calls) => calls.is_empty(),
            _ => false,
        };
        if is_none {
            return;
        }
        let calls = parsed.map(list).unwrap_or_default();
        if calls.is_empty() {
            self.not_understood.push("a list of calls of another form".to_owned());
        }
        for call in &calls {
            self.add_call(call);
        }
    }

    fn add_call(&mut self, call: &Value) {
        match requested_call(call) {
            Some(call) => self.calls.push(call),
            None => self.not_understood.push("a call without a name".to_owned()),
        }
    }

    fn add_part(&mut self, part: &Value) {
        if let Value::String(text) = part {
            self.add_text(text);
            return;
        }
        let Some(outer) = part.as_object() else {
            if !part.is_null() {
                self.not_understood.push("a part that is no object".to_owned());
            }
            return;
        };
        let inner = outer.get("message_content").and_then(Value::as_object);
        let object = inner.unwrap_or(outer);
        let kind = word(object, &["type"]).unwrap_or("text");
        self.is_refusal |= kind == "refusal";
        match kind {
            "text" | "output_text" | "input_text" | "refusal" => {
                let keys = ["content", "text", "refusal"];
                if let Some(text) = word(object, &keys) {
                    self.add_text(text);
                } else if keys.iter().any(|it| object.get(*it).is_some_and(|it| !it.is_null())) {
                    self.not_understood.push("a text of another form".to_owned());
                }
            }
            "reasoning" | "thinking" => {
                let thought = word(object, &["content", "text", "thinking"]);
                self.thoughts.extend(thought.map(str::to_owned));
            }
            "tool_call" | "tool_use" | "tool-call" | "function_call" => self.add_call(part),
            "tool_call_response" | "tool_result" | "tool-result" | "function_call_output" => {
                let id = word(object, &["id", "tool_use_id", "toolCallId", "call_id"]);
                let output = ["response", "result", "content", "output"];
                let output = output.iter().find_map(|it| object.get(*it)).cloned();
                let output = output.unwrap_or_default();
                self.answers.push(Answered { id: id.map(str::to_owned), output });
            }
            media if MEDIA.contains(&media) => {}
            other => self.not_understood.push(other.to_owned()),
        }
    }
}

fn is_part(value: &Value) -> bool {
    value.as_object().is_some_and(|it| it.contains_key("type"))
}

/// Parses a tool call; returns `None` if it has no name.
///
/// The call may be inside a wrapper object, such as `{"tool_call": …}`.
fn requested_call(value: &Value) -> Option<RequestedCall> {
    let outer = value.as_object()?;
    let object = outer.get("tool_call").and_then(Value::as_object).unwrap_or(outer);
    let function = object.get("function").and_then(Value::as_object).unwrap_or(object);
    let arguments = ["arguments", "input", "args"].iter().find_map(|it| function.get(*it));
    Some(RequestedCall {
        id: word(object, &["id", "toolCallId", "call_id"]).map(str::to_owned),
        name: word(function, &["name", "toolName"])?.to_owned(),
        arguments: arguments.cloned(),
    })
}

fn word<'v>(object: &'v Map<String, Value>, keys: &[&str]) -> Option<&'v str> {
    keys.iter().find_map(|it| object.get(*it)?.as_str())
}

fn role(word: &str) -> Role {
    match word {
        "system" | "developer" => Role::System,
        "assistant" | "model" | "ai" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        _ => Role::User,
    }
}
