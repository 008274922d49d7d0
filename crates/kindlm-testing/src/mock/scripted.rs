//! A mock model that follows a script in its prompt, for tests of real agents.
//!
//! The script is `SCRIPT [step, …]` in a message of the user. The last script in a prompt counts. Each step is one
//! answer of the model: a text or a list of parts. A part is `{"text": …}` or `{"tool": …, "input": {…}}`. In the
//! Responses API, a part may also be `{"search": …}`, and a `tool` part may have a `namespace`. The step
//! `{"status": 401}` refuses the request. After the last step, the model answers `done`; without a script, the model
//! answers `ok`.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{MockReply, MockRequest};

/// The tokens of each answer: input including cached tokens, and output.
pub const TOKENS: (u64, u64) = (150, 50);

/// Replies to a streamed request in the format of Anthropic's API. Requests other than `POST …/messages` get `{}`.
pub fn anthropic(request: &MockRequest) -> MockReply {
    let body = request.json();
    if request.method != "POST" || !request.path.contains("/messages") {
        return MockReply::json(&json!({}));
    }
    if request.path.contains("count_tokens") {
        return MockReply::json(&json!({"input_tokens": 10}));
    }
    let step = step(&body["messages"], |it| it["role"] == "assistant");
    if let Some(status) = refusal(&step) {
        let error = json!({"type": "authentication_error", "message": "refused by the script"});
        let body = json!({"type": "error", "error": error}).to_string();
        return MockReply::raw(status, "application/json", body);
    }
    let id = request.body.len();
    let mut events = vec![(
        "message_start",
        json!({"message": {
            "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": body["model"],
            "content": [], "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 100, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 1},
        }}),
    )];
    let mut reason = "end_turn";
    for (index, part) in parts(&step).iter().enumerate() {
        let (block, delta) = if let Some(tool) = part.get("tool") {
            reason = "tool_use";
            let call = format!("toolu_{id}_{index}");
            (
                json!({"type": "tool_use", "id": call, "name": tool, "input": {}}),
                json!({"type": "input_json_delta", "partial_json": part["input"].to_string()}),
            )
        } else {
            (
                json!({"type": "text", "text": ""}),
                json!({"type": "text_delta", "text": part["text"]}),
            )
        };
        events.push(("content_block_start", json!({"index": index, "content_block": block})));
        events.push(("content_block_delta", json!({"index": index, "delta": delta})));
        events.push(("content_block_stop", json!({"index": index})));
    }
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    events.push(("message_delta", json!({"delta": delta, "usage": {"output_tokens": TOKENS.1}})));
    events.push(("message_stop", json!({})));
    stream(events)
}

/// Replies to a streamed request in the format of `OpenAI`'s Responses API. A request other than POST gets an empty
/// list.
pub fn responses(request: &MockRequest) -> MockReply {
    let body = request.json();
    if request.method != "POST" {
        return MockReply::json(&json!({"object": "list", "data": [], "models": []}));
    }
    let is_own = |it: &Value| {
        it["role"] == "assistant"
            || it["type"].as_str().is_some_and(|it| it.ends_with("_call") || it == "reasoning")
    };
    let step = step(&body["input"], is_own);
    if let Some(status) = refusal(&step) {
        return MockReply::error(status, "refused by the script");
    }
    let id = request.body.len();
    let mut output = Vec::new();
    for (index, part) in parts(&step).iter().enumerate() {
        let own = format!("{id}_{index}");
        output.push(match (part.get("tool"), part.get("search")) {
            (Some(tool), _) => {
                let mut item = json!({
                    "type": "function_call", "id": format!("fc_{own}"), "call_id": format!("call_{own}"),
                    "name": tool, "arguments": part["input"].to_string(), "status": "completed",
                });
                if let Some(namespace) = part.get("namespace") {
                    item["namespace"] = namespace.clone();
                }
                item
            }
            (None, Some(query)) => json!({
                "type": "web_search_call", "id": format!("ws_{own}"), "status": "completed",
                "action": {"type": "search", "query": query},
            }),
            (None, None) => json!({
                "type": "message", "id": format!("msg_{own}"), "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": part["text"], "annotations": []}],
            }),
        });
    }
    let id = format!("resp_{id}");
    let begun = json!({"id": id, "object": "response", "status": "in_progress", "output": []});
    let mut events = vec![("response.created", json!({"response": begun}))];
    for (index, item) in output.iter().enumerate() {
        let done = json!({"output_index": index, "item": item});
        events.push(("response.output_item.added", done.clone()));
        events.push(("response.output_item.done", done));
    }
    let usage = json!({
        "input_tokens": TOKENS.0, "input_tokens_details": {"cached_tokens": 40},
        "output_tokens": TOKENS.1, "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": TOKENS.0 + TOKENS.1,
    });
    let whole = json!({"id": id, "object": "response", "status": "completed", "output": output, "usage": usage});
    events.push(("response.completed", json!({"response": whole})));
    stream(events)
}

fn stream(events: Vec<(&str, Value)>) -> MockReply {
    let mut text = String::new();
    for (kind, mut data) in events {
        data["type"] = kind.into();
        let _ = write!(text, "event: {kind}\ndata: {data}\n\n");
    }
    MockReply::raw(200, "text/event-stream", text)
}

/// Returns the next step of the script.
///
/// The index of the step is the number of answers that the model has given since the script.
fn step(messages: &Value, is_own: impl Fn(&Value) -> bool) -> Value {
    let messages = messages.as_array().map(Vec::as_slice).unwrap_or_default();
    let scripts = messages.iter().enumerate().rev();
    let mut scripts = scripts.filter(|(_, it)| it["role"] == "user");
    let found = scripts.find_map(|(at, it)| Some((at, script(&it["content"])?)));
    let Some((at, script)) = found else { return json!("ok") };
    // Consecutive messages of the model form one answer.
    let mut answers = 0;
    let mut before = false;
    for message in &messages[at + 1..] {
        let own = is_own(message);
        answers += usize::from(own && !before);
        before = own;
    }
    script.get(answers).cloned().unwrap_or_else(|| json!("done"))
}

/// Parses the last script in the texts of a message.
///
/// Returns `None` if there is no script.
fn script(content: &Value) -> Option<Vec<Value>> {
    let parts = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let texts = parts.iter().filter_map(|it| it["text"].as_str()).chain(content.as_str());
    let mut scripts = texts.filter_map(|text| {
        let (_, rest) = text.split_once("SCRIPT ")?;
        serde_json::Deserializer::from_str(rest).into_iter::<Vec<Value>>().next()?.ok()
    });
    scripts.next_back()
}

fn parts(step: &Value) -> Vec<Value> {
    match step {
        Value::Array(parts) => parts.clone(),
        Value::String(text) => vec![json!({"text": text})],
        other => vec![other.clone()],
    }
}

fn refusal(step: &Value) -> Option<u16> {
    step.get("status")?.as_u64()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(path: &str, body: &Value) -> MockRequest {
        MockRequest {
            method: "POST".to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: body.to_string().into_bytes(),
        }
    }

    #[test]
    fn each_answer_is_the_next_step() {
        let user = json!({"role": "user", "content": r#"Please: SCRIPT [[{"tool": "ls", "input": {}}], "that was all"]"#});
        let call = json!({"role": "assistant", "content": [{"type": "tool_use"}]});
        let result = json!({"role": "user", "content": [{"type": "tool_result"}]});
        for (messages, expected) in [
            (json!([user]), r#""name":"ls""#),
            (json!([user, call, result]), "that was all"),
            (json!([user, call, result, call, result]), r#""text":"done""#),
            (json!([{"role": "user", "content": "hi"}]), r#""text":"ok""#),
        ] {
            let reply = anthropic(&ask("/v1/messages?beta=true", &json!({"messages": messages})));
            let shown =
                format!("{:?}", String::from_utf8_lossy(&reply.bytes())).replace("\\\"", "\"");
            assert!(shown.contains(expected), "{expected}: {shown}");
        }
        let user = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": r#"SCRIPT [[{"tool": "ls", "input": {}}], "end"]"#}]});
        let call = json!({"type": "function_call", "name": "ls"});
        let output = json!({"type": "function_call_output"});
        for (input, expected) in
            [(json!([user]), "function_call"), (json!([user, call, output]), "end")]
        {
            let reply = responses(&ask("/v1/responses", &json!({"input": input})));
            assert!(String::from_utf8_lossy(&reply.bytes()).contains(expected), "{expected}");
        }
    }
}
