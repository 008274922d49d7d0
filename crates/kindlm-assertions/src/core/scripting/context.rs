//! The arguments of scripts: the output and its context.

use std::sync::Arc;

use kindlm_types::workspace::Workspace;
use kindlm_types::{Channel, Execution, FinishReason, Message, ToolSpec, Written, ecma};
use serde_json::{Map, Value, json};

use crate::Evidence;
use crate::core::output::{output_value, prompt};

/// Returns the `output` of a script, as JSON.
///
/// The output is a text, structured output, or the tool calls of a model that wrote no text. The calls are in the
/// format of OpenAI's API. A text that looks like JSON stays a text.
pub(crate) fn output(evidence: &Evidence<'_>) -> Arc<str> {
    let text = ecma::stringify(&output_value(evidence.execution));
    evidence.answers.shared("output", &text, || text.as_str().into())
}

/// Returns the `context` of a script, as JSON, with the keys in promptfoo's order.
///
/// `config` is the value under the key `config` of the check.
pub(crate) fn context(evidence: &Evidence<'_>, config: Option<&Value>) -> Arc<str> {
    match config {
        None => evidence.answers.shared("context", "", || text(evidence.execution, None)),
        Some(config) => text(evidence.execution, Some(config)),
    }
}

fn text(execution: &Execution, config: Option<&Value>) -> Arc<str> {
    ecma::stringify(&Value::Object(value(execution, config))).into()
}

fn value(execution: &Execution, config: Option<&Value>) -> Map<String, Value> {
    let mut context = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            context.insert(key.to_owned(), value);
        }
    };
    let vars = Value::Object(execution.vars.clone());
    // A key that promptfoo always sets is present even if its value is unknown.
    let unknown = || json!({"$undefined": true});
    let written = execution.written.as_deref();
    let is_chat = written.is_some_and(|it| it.is_chat);
    put("prompt", prompt_of(&execution.input, is_chat).or_else(|| Some(unknown())));
    put("vars", Some(vars.clone()));
    let mut test = json!({"vars": vars});
    if !execution.case.is_empty() {
        test["description"] = json!(execution.case);
    }
    if !execution.test_metadata.is_empty() {
        test["metadata"] = Value::Object(execution.test_metadata.clone());
    }
    if let Some(options) = written.and_then(|it| some_map(&it.options)) {
        test["options"] = options;
    }
    if let Some(checks) = written.and_then(listed) {
        test["assert"] = checks;
    }
    if let Some(threshold) = written.and_then(|it| it.threshold) {
        test["threshold"] = json!(threshold);
    }
    put("test", Some(test));
    put("logProbs", Some(execution.log_probs.as_ref().map_or_else(unknown, |it| json!(it))));
    // `id` is a function in JavaScript and a text in other languages.
    let provider =
        || json!({"id": {"$returns": execution.model}, "config": provider_config(execution)});
    put("provider", Some(if execution.model.is_empty() { unknown() } else { provider() }));
    put("providerResponse", Some(provider_response(execution)));
    put("config", config.cloned());
    put("metadata", some_map(&metadata(execution)));
    let events = execution.events();
    // An incomplete list is left out. Otherwise, a check for the absence of a call would pass.
    put(
        "toolCalls",
        execution.is_complete_for(Channel::Actions).then(|| crate::core::on::calls(&events)),
    );
    let is_complete_for = Channel::ALL.into_iter().all(|it| execution.is_complete_for(it));
    put("events", serde_json::to_value(&events).ok().filter(|_| is_complete_for));
    put("workspace", execution.workspace.as_deref().map(workspace));
    put("trace", execution.trace.as_ref().and_then(|it| serde_json::to_value(it).ok()));
    context
}

/// Returns the workspace as the agent left it: its changes, and their diff if it was stored.
fn workspace(workspace: &Workspace) -> Value {
    json!({"changes": workspace.changes, "diff": workspace.diff().ok()})
}

/// Returns the `assert` list of the test as written in the configuration.
///
/// Returns `None` if the `expect` block is unknown or has no such list.
fn listed(written: &Written) -> Option<Value> {
    let mut expect: Value = serde_json::from_str(written.expect.as_deref()?).ok()?;
    expect.get_mut("assert").map(Value::take)
}

/// Returns the request parameters under the names of OpenAI's API.
///
/// Users of promptfoo write these names for most providers.
fn provider_config(execution: &Execution) -> Value {
    let mut config = Map::new();
    let params = execution.written.as_deref().map(|it| &it.params);
    let tool = |it: &ToolSpec| json!({"type": "function", "function": it});
    let tools = &execution.tools;
    for (key, value) in [
        ("temperature", params.and_then(|it| it.temperature).map(|it| json!(it))),
        ("max_tokens", params.and_then(|it| it.max_tokens).map(|it| json!(it))),
        ("top_p", params.and_then(|it| it.top_p).map(|it| json!(it))),
        ("seed", params.and_then(|it| it.seed).map(|it| json!(it))),
        (
            "stop",
            params.map(|it| &it.stop_sequences).filter(|it| !it.is_empty()).map(|it| json!(it)),
        ),
        ("tools", (!tools.is_empty()).then(|| tools.iter().map(tool).collect())),
    ] {
        config.extend(value.map(|it| (key.to_owned(), it)));
    }
    Value::Object(config)
}

/// Returns the prompt; a prompt that was written as messages is indented JSON, as in promptfoo.
///
/// Without a message, the result is `None`.
fn prompt_of(input: &[Message], is_chat: bool) -> Option<Value> {
    if !is_chat || input.is_empty() {
        return prompt(input);
    }
    let message = |it: &Message| json!({"role": it.role, "content": it.content});
    let messages: Value = input.iter().map(message).collect();
    Some(json!(ecma::stringify_indented(&messages, 2)))
}

/// Returns the provider's own response, or a response built from known facts.
pub(super) fn provider_response(execution: &Execution) -> Value {
    // A program reports its whole response, with `output`. A provider's codec reports only the parts that the execution
    // lacks.
    let more = match &execution.provider_response {
        Some(Value::Object(parts)) if !parts.contains_key("output") => parts.clone(),
        Some(response) => return response.clone(),
        None => Map::new(),
    };
    let usage = execution.usage;
    let mut response = json!({"output": output_value(execution)});
    if usage.total_tokens > 0 {
        response["tokenUsage"] = json!({
            "total": usage.total_tokens,
            "prompt": usage.input_tokens,
            "completion": usage.output_tokens,
        });
    }
    for (key, value) in [
        ("cost", execution.spend.cost_usd.map(|it| json!(it))),
        ("latencyMs", execution.latency_ms.map(|it| json!(it))),
        ("cached", execution.spend.cached.then_some(json!(true))),
        ("finishReason", execution.finish_reason.as_ref().map(|it| json!(word(it)))),
        ("logProbs", execution.log_probs.as_ref().map(|it| json!(it))),
        ("metadata", some_map(&metadata(execution))),
    ] {
        if let Some(value) = value {
            response[key] = value;
        }
    }
    for (key, value) in more {
        response[key] = value;
    }
    response
}

/// Returns the metadata of the answer. The metadata of an agent's answer includes its tool calls, if all were recorded.
fn metadata(execution: &Execution) -> Map<String, Value> {
    let mut metadata = execution.metadata.clone();
    if metadata.contains_key("agent") && execution.is_complete_for(Channel::Actions) {
        for (key, calls) in crate::core::on::calls_in_metadata(&execution.events()) {
            metadata.entry(key).or_insert(calls);
        }
    }
    metadata
}

/// Returns the stop reason in OpenAI's words, as promptfoo does for all providers.
fn word(reason: &FinishReason) -> &str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::Refusal => "refusal",
        FinishReason::Other(word) => word,
    }
}

fn some_map(map: &Map<String, Value>) -> Option<Value> {
    (!map.is_empty()).then(|| Value::Object(map.clone()))
}
