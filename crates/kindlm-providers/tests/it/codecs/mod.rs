//! Tests of the codecs, without a network.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

mod conformance;
mod exchange;
mod pages;
mod registry;
mod regressions;
mod sockets;
mod streams;

use std::path::PathBuf;

use kindlm_providers::{Codec, HttpResponse, Kind, find};
use kindlm_types::{Prompt, Reply};
use serde_json::{Value, json};

/// Returns the codec of a provider.
fn codec(provider: &str, config: &Value) -> Box<dyn Codec> {
    match find(provider).expect(provider).kind {
        Kind::Http(make) => make(config).expect("a good configuration"),
        Kind::Socket(_) | Kind::Special(_) => panic!("`{provider}` has no codec"),
    }
}

/// Returns a codec with the default configuration of the tests.
fn usual(provider: &str) -> Box<dyn Codec> {
    let config = match provider {
        "http" => json!({"url": "http://h/api"}),
        "ollama" => json!({}),
        "vertex" => json!({"apiKeyEnv": "KEY", "project": "p"}),
        _ => json!({"apiKeyEnv": "KEY"}),
    };
    codec(provider, &config)
}

fn prompt(value: Value) -> Prompt {
    serde_json::from_value(value).expect("a prompt")
}

/// Returns a prompt with the user message "hi".
fn hi() -> Prompt {
    prompt(json!({"model": "m-1", "messages": [{"role": "user", "content": "hi"}]}))
}

fn response(status: u16, body: &Value) -> HttpResponse {
    raw(status, &body.to_string())
}

fn raw(status: u16, body: &str) -> HttpResponse {
    HttpResponse::new(status, body)
}

/// Returns the parts of a reply that the codec sets.
fn shown(reply: &Reply) -> Value {
    let mut shown = json!({
        "text": reply.text, "toolCalls": reply.tool_calls, "usage": reply.usage,
        "finishReason": reply.finish_reason, "model": reply.model,
    });
    if let Some(log_probs) = &reply.log_probs {
        shown["logProbs"] = json!(log_probs);
    }
    if !reply.metadata.is_empty() {
        shown["metadata"] = json!(reply.metadata);
    }
    if let Some(fingerprint) = &reply.fingerprint {
        shown["fingerprint"] = json!(fingerprint);
    }
    if let Some(refusal) = &reply.refusal {
        shown["refusal"] = json!(refusal);
    }
    shown
}

/// Normalizes numbers as in JavaScript, where `1` equals `1.0`.
fn normal(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or(Value::Null, |it| json!(it)),
        Value::Array(list) => list.iter().map(normal).collect(),
        Value::Object(object) => object.iter().map(|(key, it)| (key.clone(), normal(it))).collect(),
        // The mark of an environment variable has a random part, so it differs in every process.
        Value::String(text) if text.contains("{{env.") => {
            let plain = |part: &str| match part.rsplit_once(':') {
                Some((name, nonce)) if name.contains("{{env.") && nonce.len() == 32 => {
                    name.to_owned()
                }
                _ => part.to_owned(),
            };
            text.split("}}").map(plain).collect::<Vec<_>>().join("}}").into()
        }
        other => other.clone(),
    }
}

fn fixture(name: &str) -> Vec<Value> {
    let path = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/conformance/kindlm-core"
    ))
    .join(name);
    let text = std::fs::read_to_string(&path).expect("the vectors");
    text.lines().map(|line| serde_json::from_str(line).expect("a vector")).collect()
}
