//! What a log says beside the messages.

use std::collections::BTreeSet;

use kindlm_types::wire::evaluate::RecordedTool;
use kindlm_types::{Channel, Coverage, Event, FinishReason, Problem, ToolSpec, Transcript, Usage};
use serde::Deserialize;
use serde_json::Value;

use super::parts::kind;

/// Adds what the log says beside the messages.
pub(super) fn add(value: &Value, transcript: Transcript) -> Result<Transcript, Problem> {
    let usage = usage(value)?;
    let cost_usd = number(value, "cost_usd")?;
    let latency_ms = number(value, "latency_ms")?;
    let tools = tools(value)?;
    let mut transcript = Transcript { usage, cost_usd, latency_ms, tools, ..transcript };
    let reason = ["finish_reason", "stop_reason"].iter().find_map(|it| value.get(*it)?.as_str());
    transcript.finish_reason = reason.map(|it| match it {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "max_tokens" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        other => FinishReason::from(other.to_owned()),
    });
    state(value, &mut transcript);
    if let Some(channels) = value.get("complete_for") {
        let channels = BTreeSet::<Channel>::deserialize(channels).map_err(|_| {
            let known: Vec<String> =
                Channel::ALL.iter().map(|it| format!("`{}`", it.as_str())).collect();
            let message = "`complete_for` is a list of kinds of evidence";
            Problem::new("/complete_for", message).with_help(format!("of {}", known.join(", ")))
        })?;
        transcript.coverage = Coverage::Only(channels);
    }
    Ok(transcript)
}

/// How a response of the Responses API ended, where it is the log's own.
fn state(value: &Value, transcript: &mut Transcript) {
    let Some(status) = value.get("status").and_then(Value::as_str) else { return };
    let words = |at: &str| value.pointer(at).and_then(Value::as_str);
    match status {
        "incomplete" => match words("/incomplete_details/reason") {
            Some("max_output_tokens") => transcript.finish_reason = Some(FinishReason::Length),
            Some("content_filter") => transcript.finish_reason = Some(FinishReason::ContentFilter),
            _ => transcript.gaps.push("its `status` is `incomplete`".to_owned()),
        },
        "failed" | "cancelled" => {
            let message = words("/error/message")
                .map_or_else(|| format!("the response has the status `{status}`"), str::to_owned);
            transcript.events.push(Event::Error { message });
        }
        "in_progress" | "queued" => {
            transcript.gaps.push(format!("its `status` is `{status}`"));
        }
        _ => {}
    }
}

/// The number at a key, which cannot be negative.
fn number(value: &Value, key: &str) -> Result<Option<f64>, Problem> {
    let Some(found) = value.get(key).filter(|it| !it.is_null()) else { return Ok(None) };
    let number = found.as_f64().filter(|it| *it >= 0.0);
    let message = || format!("`{key}` is not a number from 0");
    number.map(Some).ok_or_else(|| Problem::new(format!("/{key}"), message()))
}

/// The tokens, in the words of OpenAI or Anthropic; Anthropic counts those from the cache apart.
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
    let inner = |keys: [&str; 2]| {
        let found = keys.iter().find_map(|it| usage.get(*it)?.get("cached_tokens")?.as_u64());
        found.unwrap_or(0)
    };
    let read = count("cache_read_input_tokens")?;
    let written = count("cache_creation_input_tokens")?;
    let cached = read.unwrap_or_else(|| inner(["prompt_tokens_details", "input_tokens_details"]));
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
        (Some(tokens), _) | (None, Some(tokens)) => tokens,
        (None, None) => 0,
    };
    let total = count("total_tokens")?.unwrap_or_else(|| input.saturating_add(output));
    Ok(Some(Usage {
        input_tokens: input,
        output_tokens: output,
        total_tokens: total,
        cached_input_tokens: cached,
    }))
}

/// The tools of the request, in the words of OpenAI or Anthropic. Those that a server has of its own have no name of that kind.
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
    for tool in list {
        let mut tool = tool.clone();
        if let Some(schema) = tool.get_mut("input_schema").map(Value::take) {
            tool["parameters"] = schema;
        }
        let own = tool.get("function").is_none() && tool.get("parameters").is_none();
        if own {
            continue;
        }
        let index = tools.len();
        let tool = RecordedTool::deserialize(tool).map_err(|_| {
            let message = "a tool has a `name` and `parameters`, or those under `function`";
            Problem::new(format!("/tools/{index}"), message)
        })?;
        tools.push(tool.into());
    }
    Ok(tools)
}
