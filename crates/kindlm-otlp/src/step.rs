//! Interprets spans of all supported conventions.
//!
//! These are the old and new `GenAI` conventions of OpenTelemetry, `OpenLLMetry` (Traceloop), `OpenInference`, and
//! Vercel's AI SDK.

use kindlm_types::{Role, SpanMapping, Usage};
use serde_json::{Map, Value};

use crate::attributes::{indexed, unpacked};
use crate::message::{RecordedMessage, RequestedCall};
use crate::span::{OtlpSpan, SpanEvent};

/// The kind of step that a span represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A model request.
    Inference,
    /// A tool call.
    Tool,
    /// The work of an agent.
    Agent,
    /// Any other span, such as a wrapper around agents or an unrelated request.
    Other,
}

// The attributes of tool spans: one list for each fact about a call. If a span has several attributes of a list, the
// first of them counts.
const TOOL_NAME: [&str; 3] = ["gen_ai.tool.name", "tool.name", "ai.toolCall.name"];
const TOOL_ID: [&str; 3] = ["gen_ai.tool.call.id", "ai.toolCall.id", "tool_call.id"];
const TOOL_ARGUMENTS: [&str; 6] = [
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.arguments",
    "ai.toolCall.args",
    "tool_call.function.arguments",
    "traceloop.entity.input",
    "input.value",
];
const TOOL_RESULT: [&str; 5] = [
    "gen_ai.tool.call.result",
    "gen_ai.tool.result",
    "ai.toolCall.result",
    "traceloop.entity.output",
    "output.value",
];
/// The attributes with the whole input of a span as one text.
const INPUT: [&str; 3] = ["input.value", "traceloop.entity.input", "ai.prompt"];
/// The attributes with the whole output of a span as one text.
const OUTPUT: [&str; 4] =
    ["output.value", "traceloop.entity.output", "ai.response.text", "final_result"];
const OPERATION: &str = "gen_ai.operation.name";

/// Returns the kind that the span declares. Without a declaration, the attributes determine the kind.
pub(crate) fn kind(span: &OtlpSpan, mapping: &SpanMapping) -> Kind {
    if let Some(kind) = declared(span) {
        return kind;
    }
    if span.text("gen_ai.tool.name").is_some() {
        return Kind::Tool;
    }
    let single = [
        "gen_ai.request.model",
        "gen_ai.output.messages",
        "llm.model_name",
        mapping.model_attr.as_str(),
        mapping.output_text_attr.as_str(),
        mapping.output_tokens_attr.as_str(),
    ];
    let shows = single.iter().any(|it| span.attributes.contains_key(*it))
        || ["gen_ai.prompt.", "gen_ai.completion."].iter().any(|it| span.has_prefix(it));
    if shows { Kind::Inference } else { Kind::Other }
}

/// Returns the kind that the span declares in an attribute, if any.
fn declared(span: &OtlpSpan) -> Option<Kind> {
    let by_operation = match span.text(OPERATION) {
        Some("chat" | "text_completion" | "generate_content") => Some(Kind::Inference),
        Some("execute_tool") => Some(Kind::Tool),
        Some("invoke_agent") => Some(Kind::Agent),
        Some("create_agent" | "invoke_workflow" | "embeddings" | "retrieval") => Some(Kind::Other),
        _ => None,
    };
    let by_openinference = || match span.text("openinference.span.kind")? {
        "LLM" => Some(Kind::Inference),
        "TOOL" => Some(Kind::Tool),
        "AGENT" => Some(Kind::Agent),
        _ => Some(Kind::Other),
    };
    let by_traceloop = || match span.text("traceloop.span.kind")? {
        "tool" => Some(Kind::Tool),
        "agent" => Some(Kind::Agent),
        _ => Some(Kind::Other),
    };
    let by_vercel = || {
        let operation = span.text("ai.operationId")?;
        Some(match operation.rsplit('.').next() {
            Some("doGenerate" | "doStream") => Kind::Inference,
            Some("toolCall") => Kind::Tool,
            _ => Kind::Other,
        })
    };
    let by_request = || match span.text("llm.request.type")? {
        "chat" | "completion" => Some(Kind::Inference),
        _ => Some(Kind::Other),
    };
    by_operation
        .or_else(by_openinference)
        .or_else(by_vercel)
        .or_else(by_traceloop)
        .or_else(by_request)
}

/// Returns the name of a span's agent.
///
/// The name is in an attribute or in the span name `invoke_agent <name>`. Otherwise, the span name is returned.
pub(crate) fn agent_name(span: &OtlpSpan) -> &str {
    let named = ["gen_ai.agent.name", "agent.name", "traceloop.entity.name"];
    span.first_text(&named)
        .or_else(|| span.name.strip_prefix("invoke_agent ").map(str::trim))
        .unwrap_or(&span.name)
}

/// Returns the tokens that a span records; `None` if it records no tokens.
pub(crate) fn usage(span: &OtlpSpan, mapping: &SpanMapping) -> Option<Usage> {
    let input = span.count(&[
        &mapping.input_tokens_attr,
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "llm.token_count.prompt",
        "ai.usage.inputTokens",
        "ai.usage.promptTokens",
    ]);
    let output = span.count(&[
        &mapping.output_tokens_attr,
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "llm.token_count.completion",
        "ai.usage.outputTokens",
        "ai.usage.completionTokens",
    ]);
    if input.is_none() && output.is_none() {
        return None;
    }
    let total = ["gen_ai.usage.total_tokens", "llm.usage.total_tokens", "llm.token_count.total"];
    let cached = [
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read",
        "ai.usage.cachedInputTokens",
    ];
    let cached = span.count(&cached);
    Some(Usage::counted(input, output, span.count(&total), cached))
}

/// Returns the time from the request to the first part of the answer, in milliseconds, if it is recorded.
pub(crate) fn first_token_ms(span: &OtlpSpan) -> Option<f64> {
    let seconds = span.first(&[
        "gen_ai.response.time_to_first_chunk",
        "gen_ai.response.time_to_first_token",
        "gen_ai.server.time_to_first_token",
    ]);
    let ms = seconds.and_then(Value::as_f64).map(|it| it * 1000.0);
    // Vercel's AI SDK records milliseconds.
    let by_vercel = || span.first(&["ai.response.msToFirstChunk"])?.as_f64();
    ms.or_else(by_vercel).filter(|it| *it >= 0.0)
}

/// Returns the model that answered, or else the requested model.
pub(crate) fn model<'s>(span: &'s OtlpSpan, mapping: &SpanMapping) -> Option<&'s str> {
    let names = ["gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.model.id"];
    span.first_text(&[mapping.model_attr.as_str()]).or_else(|| span.first_text(&names))
}

/// Returns the names of the model that answered and of the requested model.
///
/// Both names are returned, because a price may be known for only one of them.
pub(crate) fn models(span: &OtlpSpan, mapping: &SpanMapping) -> Vec<String> {
    let requested = span.first_text(&["gen_ai.request.model", "llm.model_name", "ai.model.id"]);
    let mut names: Vec<String> =
        model(span, mapping).into_iter().chain(requested).map(str::to_owned).collect();
    names.dedup();
    names
}

/// Returns the vendor's name, if it is recorded.
pub(crate) fn vendor<'s>(span: &'s OtlpSpan, mapping: &SpanMapping) -> Option<&'s str> {
    let names = ["gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system"];
    span.first_text(&[mapping.system_attr.as_str()]).or_else(|| span.first_text(&names))
}

/// Returns the last finish reason in the vendor's wording, if it is recorded.
pub(crate) fn finish_reason(span: &OtlpSpan) -> Option<String> {
    let value = span.first(&["gen_ai.response.finish_reasons", "ai.response.finishReason"])?;
    match unpacked(value) {
        Some(Value::Array(reasons)) => reasons.last()?.as_str().map(str::to_owned),
        _ => value.as_str().map(str::to_owned),
    }
}

/// Returns true if a span is a tool call without a tool name. A span name other than `execute_tool` names the tool.
pub(crate) fn is_nameless_tool(span: &OtlpSpan) -> bool {
    declared(span) == Some(Kind::Tool)
        && tool_name(span).is_none()
        && span.name.trim() == "execute_tool"
}

/// Returns the tool's name; `None` if it is not recorded.
fn tool_name(span: &OtlpSpan) -> Option<&str> {
    let by_traceloop = || span.text("traceloop.entity.name");
    let by_span = || span.name.strip_prefix("execute_tool ").map(str::trim);
    span.first_text(&TOOL_NAME).or_else(by_traceloop).or_else(by_span).filter(|it| !it.is_empty())
}

/// Returns the tool call that a tool span records, and its result, if recorded.
pub(crate) fn tool(span: &OtlpSpan) -> (RequestedCall, Option<Value>) {
    let name = tool_name(span);
    let arguments = TOOL_ARGUMENTS.iter().find_map(|key| {
        let value = span.attributes.get(*key)?;
        Some(if *key == "traceloop.entity.input" { inputs(value) } else { value.clone() })
    });
    let asked = RequestedCall {
        id: span.first_text(&TOOL_ID).map(str::to_owned),
        name: name.unwrap_or(&span.name).to_owned(),
        arguments,
    };
    (asked, span.first(&TOOL_RESULT).map(|it| unpacked(it).unwrap_or_else(|| it.clone())))
}

/// Returns the arguments in the function input that Traceloop records.
///
/// An object without `kwargs` or `inputs` is returned whole, and any other value unchanged.
fn inputs(value: &Value) -> Value {
    let Some(Value::Object(object)) = unpacked(value) else { return value.clone() };
    let inner = ["kwargs", "inputs"].iter().filter_map(|it| object.get(*it));
    let inner = inner.filter_map(Value::as_object).find(|it| !it.is_empty());
    inner.map_or(Value::Object(object.clone()), |it| Value::Object(it.clone()))
}

/// Returns the input messages that a span records.
///
/// The system instructions are first.
pub(crate) fn input(span: &OtlpSpan) -> Vec<RecordedMessage> {
    let structured = structured(span, "gen_ai.input.messages", Role::User);
    let mut messages = if structured.is_empty() {
        let lists = ["gen_ai.prompt", "llm.input_messages"];
        let indexed = lists.iter().map(|it| read_all(&indexed(&span.attributes, it), Role::User));
        indexed
            .chain([
                events(span, Direction::In),
                structured_in(&span.attributes, "ai.prompt.messages", Role::User),
            ])
            .find(|it| !it.is_empty())
            .unwrap_or_default()
    } else {
        structured
    };
    if let Some(system) = system_instructions(span) {
        messages.insert(0, system);
    }
    messages
}

fn system_instructions(span: &OtlpSpan) -> Option<RecordedMessage> {
    let value = span.attributes.get("gen_ai.system_instructions")?;
    let Some(parts) = unpacked(value) else {
        return Some(RecordedMessage::text(Role::System, value.as_str()?));
    };
    let mut message = Map::new();
    message.insert("parts".to_owned(), parts);
    RecordedMessage::parse(&Value::Object(message), Role::System)
}

/// Returns the output messages that a span records.
pub(crate) fn output(span: &OtlpSpan, mapping: &SpanMapping) -> Vec<RecordedMessage> {
    let structured = structured(span, "gen_ai.output.messages", Role::Assistant);
    if !structured.is_empty() {
        return structured;
    }
    for prefix in ["gen_ai.completion", "llm.output_messages"] {
        let messages = read_all(&indexed(&span.attributes, prefix), Role::Assistant);
        if !messages.is_empty() {
            return messages;
        }
    }
    let messages = events(span, Direction::Out);
    if !messages.is_empty() {
        return messages;
    }
    let text = span.first_text(&[mapping.output_text_attr.as_str(), "ai.response.text"]);
    let mut message = RecordedMessage::text(Role::Assistant, text.unwrap_or_default());
    message.text = text.map(str::to_owned);
    if let Some(calls) = span.attributes.get("ai.response.toolCalls") {
        message.add_calls(calls);
    }
    let is_empty = !message.has_content() && message.not_understood.is_empty();
    if is_empty { Vec::new() } else { vec![message] }
}

/// Returns the input that a span records as one text; `None` if it is not recorded.
pub(crate) fn whole_input(span: &OtlpSpan) -> Option<&str> {
    span.first_text(&INPUT)
}

/// Returns the output that a span records as one text; `None` if it is not recorded.
pub(crate) fn whole_output(span: &OtlpSpan) -> Option<&str> {
    span.first_text(&OUTPUT)
}

/// Parses the messages in an attribute of the span or of one of its events.
fn structured(span: &OtlpSpan, key: &str, role: Role) -> Vec<RecordedMessage> {
    let apart = span.events.iter().map(|it| &it.attributes);
    std::iter::once(&span.attributes)
        .chain(apart)
        .map(|it| structured_in(it, key, role))
        .find(|it| !it.is_empty())
        .unwrap_or_default()
}

fn structured_in(attributes: &Map<String, Value>, key: &str, role: Role) -> Vec<RecordedMessage> {
    match attributes.get(key).and_then(unpacked) {
        Some(Value::Array(messages)) => read_all(&messages, role),
        _ => Vec::new(),
    }
}

fn read_all(messages: &[Value], role: Role) -> Vec<RecordedMessage> {
    messages.iter().filter_map(|it| RecordedMessage::parse(it, role)).collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    In,
    Out,
}

/// Parses the messages in span events.
///
/// Older versions of the `GenAI` conventions have one event for each message.
fn events(span: &OtlpSpan, wanted: Direction) -> Vec<RecordedMessage> {
    let mut all = Vec::new();
    for SpanEvent { name, attributes, .. } in &span.events {
        let (direction, role) = match name.as_str() {
            "gen_ai.system.message" => (Direction::In, Role::System),
            "gen_ai.user.message" | "gen_ai.content.prompt" => (Direction::In, Role::User),
            "gen_ai.assistant.message" => (Direction::In, Role::Assistant),
            "gen_ai.tool.message" => (Direction::In, Role::Tool),
            "gen_ai.choice" | "gen_ai.content.completion" => (Direction::Out, Role::Assistant),
            _ => continue,
        };
        if direction != wanted {
            continue;
        }
        // In the oldest versions, one attribute of the event holds all messages.
        let packed = ["gen_ai.prompt", "gen_ai.completion"];
        match packed.iter().find_map(|it| attributes.get(*it)) {
            Some(packed) => match unpacked(packed) {
                Some(Value::Array(messages)) => all.extend(read_all(&messages, role)),
                Some(message) => all.extend(RecordedMessage::parse(&message, role)),
                None => all.extend(packed.as_str().map(|it| RecordedMessage::text(role, it))),
            },
            None => all.extend(RecordedMessage::parse(&Value::Object(attributes.clone()), role)),
        }
    }
    all
}
