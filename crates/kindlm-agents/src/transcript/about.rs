//! The data of a transcript other than its messages.

use std::collections::BTreeSet;

use kindlm_types::{Channel, Coverage, Event, FinishReason, Problem, ToolSpec, Transcript, Usage};
use kindlm_wire::evaluate::RecordedTool;
use serde::Deserialize;
use serde_json::Value;

use super::keys::text_at;
use super::parts::{kind, value_at};

/// Adds the data other than the messages to a transcript.
///
/// `calls_last` is true if the last answer calls a tool. Fails if the data is malformed.
pub(super) fn add(
    value: &Value,
    transcript: Transcript,
    calls_last: bool,
) -> Result<Transcript, Problem> {
    let usage = usage(value)?;
    let cost_usd = number(value, "cost_usd")?;
    let latency_ms = number(value, "latency_ms")?;
    let tools = tools(value)?;
    let mut transcript = Transcript { usage, cost_usd, latency_ms, tools, ..transcript };
    let reason = finish_reason(value, "")?;
    if reason == Some(FinishReason::ToolCalls) && !calls_last {
        let gap = "the model stopped to call tools, but its last answer has no call";
        transcript.gaps.push(gap.to_owned());
    }
    transcript.finish_reason = transcript.finished(reason);
    earlier(value, &mut transcript);
    state(value, &mut transcript)?;
    ended(&mut transcript);
    // The events that were added here belong to the last turn.
    if let Some(turn) = transcript.turns.last_mut() {
        turn.events.end = transcript.events.len();
    }
    if let Some(channels) = value.get("complete_for") {
        let channels = BTreeSet::<Channel>::deserialize(channels).map_err(|_| {
            let known: Vec<String> =
                Channel::ALL.iter().map(|it| format!("`{}`", it.as_str())).collect();
            let message = "`complete_for` must be a list of kinds of evidence";
            Problem::new("/complete_for", message).with_help(format!("use {}", known.join(", ")))
        })?;
        let lost = transcript.coverage.lost().clone();
        transcript.coverage = Coverage::new(Some(channels), lost);
    }
    Ok(transcript)
}

/// Returns the finish reason in a message or a log; `None` if the reason is not recorded. Fails if the reason is not a
/// text.
pub(super) fn finish_reason(value: &Value, at: &str) -> Result<Option<FinishReason>, Problem> {
    let own = match text_at(value, "finish_reason", at)? {
        None => text_at(value, "stop_reason", at)?,
        own => own,
    };
    Ok(own.map(FinishReason::of_vendor))
}

/// Records missing evidence if the request continues an earlier conversation. The Responses API stores that
/// conversation, but the log does not contain it.
fn earlier(value: &Value, transcript: &mut Transcript) {
    if value.get("messages").is_some() {
        return;
    }
    let goes_on = ["previous_response_id", "conversation"];
    if let Some(key) = goes_on.into_iter().find(|it| value_at(value, it).is_some()) {
        transcript.gaps.push(format!("it continues an earlier conversation (`{key}`)"));
    }
}

/// Records the final state of a response, and an error that the log reports. Only the Responses API has a state.
fn state(value: &Value, transcript: &mut Transcript) -> Result<(), Problem> {
    let text_of = |at: &str| value.pointer(at).and_then(Value::as_str);
    let error = value.get("error").filter(|it| !it.is_null() && **it != Value::Bool(false));
    let mut message = error.map(|error| {
        let message = text_of("/error/message").or(error.as_str());
        message.map_or_else(|| error.to_string(), str::to_owned)
    });
    match text_at(value, "status", "")? {
        None | Some("completed") => {}
        Some("incomplete") => match text_of("/incomplete_details/reason") {
            Some("max_output_tokens") => transcript.finish_reason = Some(FinishReason::Length),
            Some("content_filter") => transcript.finish_reason = Some(FinishReason::ContentFilter),
            _ => transcript.gaps.push("its `status` is `incomplete`".to_owned()),
        },
        Some(status @ ("failed" | "cancelled" | "expired")) => {
            message = message.or_else(|| Some(format!("the response has the status `{status}`")));
        }
        // The response is in progress, or its status is unknown.
        Some(status) => transcript.gaps.push(format!("its `status` is `{status}`")),
    }
    transcript.events.extend(message.map(|message| Event::Error { message }));
    Ok(())
}

/// Records the consequence of the finish reason: missing evidence for a pause, and an error event for a failure.
fn ended(transcript: &mut Transcript) {
    let Some(FinishReason::Other(word)) = &transcript.finish_reason else { return };
    if word == "pause_turn" {
        transcript
            .gaps
            .push("the last answer is a pause (`pause_turn`), so its rest is missing".to_owned());
    } else if FinishReason::Other(word.clone()).is_failure() {
        let message = format!("the model stopped for the reason `{word}`");
        transcript.events.push(Event::Error { message });
    }
}

/// Returns the number at a key; `None` if it is absent. Fails if the value is negative or not a number.
fn number(value: &Value, key: &str) -> Result<Option<f64>, Problem> {
    let Some(found) = value.get(key).filter(|it| !it.is_null()) else { return Ok(None) };
    let number = found.as_f64().filter(|it| *it >= 0.0);
    let message = || format!("`{key}` must be a number of at least 0");
    number.map(Some).ok_or_else(|| Problem::new(format!("/{key}"), message()))
}

/// Returns the token usage, in the format of OpenAI or Anthropic. Returns `None` if it is absent. Fails if a number is
/// invalid or missing, or if the numbers contradict each other. In Anthropic's format, the input tokens do not include
/// cache tokens.
fn usage(value: &Value) -> Result<Option<Usage>, Problem> {
    let usage = match value.get("usage") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(usage)) => usage,
        Some(other) => {
            let message =
                format!("`usage` is {}, not an object with numbers of tokens", kind(other));
            return Err(Problem::new("/usage", message));
        }
    };
    let count = |key: &str| match usage.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(found) => found.as_u64().map(Some).ok_or_else(|| {
            let message = format!("`{key}` is not a whole number of tokens");
            Problem::new(format!("/usage/{key}"), message)
        }),
    };
    let inner =
        |keys: [&str; 2]| keys.iter().find_map(|it| usage.get(*it)?.get("cached_tokens")?.as_u64());
    let read = count("cache_read_input_tokens")?;
    let written = count("cache_creation_input_tokens")?;
    let cached = read.or_else(|| inner(["prompt_tokens_details", "input_tokens_details"]));
    let apart = read.unwrap_or(0).saturating_add(written.unwrap_or(0));
    let input = match (count("prompt_tokens")?, count("input_tokens")?) {
        (Some(tokens), _) => tokens,
        (None, Some(tokens)) => tokens.saturating_add(apart),
        (None, None) => {
            let message = "`usage` has neither `prompt_tokens` nor `input_tokens`";
            return Err(Problem::new("/usage", message));
        }
    };
    let output = match (count("completion_tokens")?, count("output_tokens")?) {
        (Some(tokens), _) | (None, Some(tokens)) => Some(tokens),
        (None, None) => None,
    };
    let usage = Usage::counted(Some(input), output, count("total_tokens")?, cached);
    match usage.contradiction() {
        None => Ok(Some(usage)),
        Some(message) => Err(Problem::new("/usage/total_tokens", message)),
    }
}

/// Returns the tools of the request, in the format of OpenAI or Anthropic. The vendor's built-in tools are left out.
/// Fails for a malformed tool.
fn tools(value: &Value) -> Result<Vec<ToolSpec>, Problem> {
    let list = match value.get("tools") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(other) => {
            let message = format!("`tools` is {}, not a list", kind(other));
            return Err(Problem::new("/tools", message));
        }
    };
    let mut tools = Vec::with_capacity(list.len());
    for (index, tool) in list.iter().enumerate() {
        let mut tool = tool.clone();
        if let Some(schema) = tool.get_mut("input_schema").map(Value::take) {
            tool["parameters"] = schema;
        }
        let own = tool.get("function").is_none() && tool.get("parameters").is_none();
        if own {
            continue;
        }
        let tool = RecordedTool::deserialize(tool).map_err(|_| {
            let message = "a tool has a `name` and `parameters`, or those under `function`";
            Problem::new(format!("/tools/{index}"), message)
        })?;
        tools.push(tool.into());
    }
    Ok(tools)
}
