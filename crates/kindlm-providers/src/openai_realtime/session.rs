//! An exchange with the Realtime API: its events, its tool calls, and its answer.

use kindlm_types::{
    FinishReason, Prompt, ProviderError, ProviderErrorKind, Reply, ToolCall, Usage, UsageSum, ecma,
};
use serde_json::{Value, json};

use super::{Output, Realtime, item_created};
use crate::dialect::answer::{counted, non_empty};
use crate::dialect::failure;
use crate::dialect::part::{self, Malformed};
use crate::{SocketExchange, Step};

/// The note that promptfoo adds to an answer after its tools were called.
const NOTE: &str = "\n\n[Function calls were made during processing]";

/// The state of an exchange.
pub(super) struct Session<'c> {
    codec: &'c Realtime,
    prompt: &'c Prompt,
    /// The texts of the answers whose calls the script answered.
    earlier: Vec<String>,
    /// The text of the current answer, from the events before its end.
    heard: String,
    /// The calls of the current answer, from the events before its end.
    heard_calls: Vec<Value>,
    has_audio: bool,
    /// The calls of all answers.
    calls: Vec<ToolCall>,
    usage: UsageSum,
}

/// The text and the calls of a finished answer.
#[derive(Default)]
struct Found {
    text: String,
    calls: Vec<Value>,
}

impl<'c> Session<'c> {
    pub(super) fn new(codec: &'c Realtime, prompt: &'c Prompt) -> Self {
        Self {
            codec,
            prompt,
            earlier: Vec::new(),
            heard: String::new(),
            heard_calls: Vec::new(),
            has_audio: false,
            calls: Vec::new(),
            usage: UsageSum::default(),
        }
    }

    /// Reads a finished answer. Returns the next step: the reply, or the calls to answer.
    fn finished(&mut self, response: &Value) -> Result<Step, ProviderError> {
        if response["status"] == "failed" {
            let error = json!({"error": response["status_details"]["error"]});
            return Err(self.failure(&error));
        }
        self.usage.add(usage(&response["usage"]));
        let Found { text, calls: written } = self.found(&response["output"])?;
        let mut calls = Vec::with_capacity(written.len());
        let before = part::calls_before(self.prompt) + self.calls.len();
        for (at, call) in written.iter().enumerate() {
            let made_up = format!("call_{}", before + at);
            let call = part::called(call, "arguments", &call["call_id"], &made_up);
            calls.push(call.map_err(malformed)?);
        }
        let finish_reason = finish(response, !calls.is_empty());
        let is_cut = !matches!(finish_reason, FinishReason::Stop | FinishReason::ToolCalls);
        let has_calls = !calls.is_empty() || !self.calls.is_empty();
        if text.is_empty() && (self.has_audio || !has_calls) && !is_cut {
            let why = if self.has_audio {
                "the answer is audio without a transcript"
            } else {
                "the answer has no text"
            };
            return Err(malformed(Malformed::faulty(why)));
        }
        if !calls.is_empty() && self.codec.answer_calls.is_some() && !is_cut {
            self.earlier.push(text);
            self.heard.clear();
            self.heard_calls.clear();
            self.has_audio = false;
            return Ok(Step::Answer(calls));
        }
        self.calls.extend(calls);
        Ok(Step::Done(Box::new(self.reply(text, finish_reason))))
    }

    /// Returns the text and the calls of an answer. Some servers send text and calls only in earlier events.
    fn found(&mut self, output: &Value) -> Result<Found, ProviderError> {
        let items = match output {
            Value::Null => &[][..],
            Value::Array(items) => items,
            other => return Err(malformed(Malformed::not_a("a list", "`output`", other))),
        };
        let mut found = Found::default();
        for item in items {
            match item["type"].as_str() {
                Some("message") => {
                    let content = &item["content"];
                    found.text.push_str(&text(content).map_err(malformed)?);
                    self.has_audio |= content.as_array().is_some_and(|it| it.iter().any(is_audio));
                }
                Some("function_call") => found.calls.push(item.clone()),
                Some("reasoning" | "mcp_list_tools") => {}
                Some(kind) => return Err(malformed(Malformed::unsupported_part(kind))),
                None => {
                    let why = Malformed::not_a("a text", "the `type` of an item", &item["type"]);
                    return Err(malformed(why));
                }
            }
        }
        if found.text.is_empty() {
            found.text = std::mem::take(&mut self.heard);
        }
        if found.calls.is_empty() {
            found.calls = std::mem::take(&mut self.heard_calls);
        }
        Ok(found)
    }

    /// Returns the reply. The texts of several answers are separate lines.
    fn reply(&mut self, text: String, finish_reason: FinishReason) -> Reply {
        let mut texts = std::mem::take(&mut self.earlier);
        texts.push(text);
        texts.retain(|it| !it.is_empty());
        let text = texts.join("\n");
        let calls = std::mem::take(&mut self.calls);
        let has_answered = calls.iter().any(|it| it.response.is_some());
        let base = match self.codec.output {
            Output::Note if has_answered => Reply::text(format!("{text}{NOTE}")),
            Output::Calls if !calls.is_empty() => {
                let calls: Vec<Value> = calls.iter().map(shown).collect();
                let output = json!({"text": text, "functionCalls": calls});
                let text = ecma::stringify(&output);
                Reply { output_json: Some(output), ..Reply::text(text) }
            }
            _ => Reply::text(text),
        };
        Reply {
            tool_calls: calls,
            usage: self.usage.total(),
            finish_reason,
            model: self.prompt.model.clone(),
            ..base
        }
    }

    /// Returns the error of an event. An event has no HTTP status, so the error has none.
    fn failure(&self, event: &Value) -> ProviderError {
        let word = |key: &str| event["error"][key].as_str().unwrap_or_default();
        let is_fault = [word("type"), word("code")].contains(&"server_error");
        let status = if is_fault { 500 } else { 400 };
        let err = failure::of_body(&self.codec.reader(), status, event);
        let is_limit = err.kind == ProviderErrorKind::RateLimited;
        let retryable = err.retryable || is_limit;
        ProviderError { status: None, retryable, ..err }
    }
}

impl SocketExchange for Session<'_> {
    fn receive(&mut self, message: &Value) -> Result<Step, ProviderError> {
        match message["type"].as_str().unwrap_or_default() {
            "error" => return Err(self.failure(message)),
            "response.output_text.delta"
            | "response.text.delta"
            | "response.output_audio_transcript.delta"
            | "response.audio_transcript.delta" => {
                self.heard.push_str(message["delta"].as_str().unwrap_or_default());
            }
            "response.output_audio.delta" | "response.audio.delta" => self.has_audio = true,
            "response.function_call_arguments.done" if message["name"].is_string() => {
                self.heard_calls.push(message.clone());
            }
            "response.done" => return self.finished(&message["response"]),
            // All other events are about the session, or repeat what `response.done` has.
            _ => {}
        }
        Ok(Step::WAIT)
    }

    fn respond(&mut self, calls: Vec<ToolCall>) -> Vec<Value> {
        let output = |call: &ToolCall| {
            let output = match call.response.clone().unwrap_or_default() {
                Value::String(text) => text,
                other => ecma::stringify(&other),
            };
            item_created(json!({
                "type": "function_call_output", "call_id": call.id, "output": output,
            }))
        };
        let mut messages: Vec<Value> = calls.iter().map(output).collect();
        messages.push(self.codec.create());
        self.calls.extend(calls);
        messages
    }
}

/// Returns the text of a message. The text of audio is its transcript.
fn text(content: &Value) -> Result<String, Malformed> {
    let Value::Array(parts) = content else { return Err(Malformed::no_text(content)) };
    let mut text = String::new();
    for written in parts {
        match written["type"].as_str() {
            Some("output_text" | "text") => text.push_str(part::text_at(written, "text")?),
            Some(_) if is_audio(written) => {
                text.push_str(non_empty(&written["transcript"]).unwrap_or_default());
            }
            Some(kind) => return Err(Malformed::unsupported_part(kind)),
            None => {
                return Err(Malformed::not_a("a text", "the `type` of a part", &written["type"]));
            }
        }
    }
    Ok(text)
}

fn is_audio(part: &Value) -> bool {
    matches!(part["type"].as_str(), Some("output_audio" | "audio"))
}

/// Returns a call in the format of the output `calls`.
fn shown(call: &ToolCall) -> Value {
    let mut shown = json!({"name": call.name, "arguments": call.arguments});
    if let Some(response) = &call.response {
        shown["result"] = response.clone();
    }
    shown
}

fn malformed(Malformed { why, kind }: Malformed) -> ProviderError {
    ProviderError::new(ProviderErrorKind::MalformedResponse, "openai-realtime", why)
        .with_malformed(kind)
}

/// Returns the reason why the model stopped.
fn finish(response: &Value, has_calls: bool) -> FinishReason {
    match (response["status"].as_str(), response["status_details"]["reason"].as_str()) {
        (None | Some("completed"), _) if has_calls => FinishReason::ToolCalls,
        (None | Some("completed"), _) => FinishReason::Stop,
        (Some("incomplete"), Some("max_output_tokens")) => FinishReason::Length,
        (Some("incomplete"), Some("content_filter")) => FinishReason::ContentFilter,
        (Some(status), reason) => FinishReason::Other(reason.unwrap_or(status).to_owned()),
    }
}

fn usage(usage: &Value) -> Usage {
    let [input, output, total] =
        ["input_tokens", "output_tokens", "total_tokens"].map(|key| counted(&usage[key]));
    let cached = counted(&usage["input_token_details"]["cached_tokens"]);
    Usage::counted(input, output, total, cached)
}
