//! Streamed answers: what is not a whole stream is an error.

use std::time::Duration;

use kindlm_providers::{Arrival, Codec, HttpResponse};
use kindlm_types::ProviderErrorKind as Kind;
use serde_json::{Value, json};

use super::{codec, exchange, hi, prompt, raw};

/// The providers that stream answers.
const PROVIDERS: [&str; 3] = ["anthropic", "openai", "openai-responses"];

fn streaming(provider: &str) -> Box<dyn Codec> {
    codec(provider, &json!({"apiKeyEnv": "KEY", "stream": true}))
}

/// Returns the streams of a provider's exchanges, with their prompts and expected replies.
fn streams(provider: &str) -> Vec<(Value, String, Value)> {
    let all = exchange::load_exchanges(provider).into_iter().map(|(_, it)| it);
    all.filter(|it| it["config"]["stream"] == true && it["reply"].is_object())
        .filter_map(|it| {
            let text = it["response"]["text"].as_str()?.to_owned();
            let is_stream = text.contains("data: ");
            is_stream.then(|| (it["prompt"].clone(), text, it["reply"].clone()))
        })
        .collect()
}

#[test]
fn a_stream_that_is_cut_is_never_an_answer() {
    for provider in PROVIDERS {
        let found = streams(provider);
        assert!(!found.is_empty(), "{provider}: record an exchange with a stream");
        for (asked, text, _) in found {
            let codec = streaming(provider);
            let text = text.trim_end();
            let last = text.rfind("data: ").unwrap();
            for end in (0..last).step_by(7).chain([text.len() - 1]) {
                let Some(cut) = text.get(..end) else { continue };
                let reply = codec.decode(&prompt(asked.clone()), &raw(200, cut));
                assert!(reply.is_err_and(|it| it.retryable), "{provider}: {cut}");
            }
        }
    }
}

#[test]
fn a_stream_can_end_without_an_empty_line() {
    for provider in PROVIDERS {
        for (asked, text, expected) in streams(provider) {
            for end in ["", "\n", "\r", "\n\n\n"] {
                let body = format!("{}{end}", text.trim_end());
                let reply = streaming(provider).decode(&prompt(asked.clone()), &raw(200, &body));
                assert_eq!(reply.unwrap().text, expected["text"], "{provider} {end:?}");
            }
        }
    }
}

#[test]
fn a_stream_can_arrive_in_any_pieces() {
    for provider in PROVIDERS {
        for (asked, text, expected) in streams(provider) {
            for size in [1, 2, 7, 100] {
                let ends = (size..text.len()).step_by(size).chain([text.len()]);
                let after = Duration::from_millis(5);
                let mut response = raw(200, &text);
                response.arrivals = ends.map(|end| Arrival { end, after }).collect();
                let reply = streaming(provider).decode(&prompt(asked.clone()), &response).unwrap();
                assert_eq!(reply.text, expected["text"], "{provider} {size}");
                assert_eq!(json!(reply.tool_calls), expected["toolCalls"], "{provider} {size}");
                assert_eq!(reply.first_token_ms, Some(5.0), "{provider} {size}");
            }
        }
    }
}

#[test]
fn the_first_token_is_the_first_part_of_the_answer() {
    for (provider, before, first, rest) in [
        (
            "openai",
            r#"data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}"#,
            r#"data: {"choices": [{"index": 0, "delta": {"content": "Hi"}}]}"#,
            "data: {\"choices\": [{\"index\": 0, \"delta\": {}, \"finish_reason\": \"stop\"}]}\n\ndata: [DONE]",
        ),
        (
            "openai-responses",
            r#"data: {"type": "response.output_item.added", "item": {"type": "message", "content": []}}"#,
            r#"data: {"type": "response.output_text.delta", "delta": "Hi"}"#,
            r#"data: {"type": "response.completed", "response": {"status": "completed", "output": [
                data: {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}]}}"#,
        ),
        (
            "anthropic",
            "data: {\"type\": \"message_start\", \"message\": {\"usage\": {}}}\n\n\
             data: {\"type\": \"content_block_start\", \"index\": 0, \"content_block\": {\"type\": \"text\", \"text\": \"\"}}",
            r#"data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}"#,
            "data: {\"type\": \"message_delta\", \"delta\": {\"stop_reason\": \"end_turn\"}}\n\n\
             data: {\"type\": \"message_stop\"}",
        ),
    ] {
        let rest = rest.lines().map(str::trim_start).collect::<Vec<_>>().join("\n");
        let (mut body, mut arrivals) = (String::new(), Vec::new());
        for (part, ms) in [(before, 100), (first, 250), (rest.as_str(), 900)] {
            body.push_str(part);
            body.push_str("\n\n");
            arrivals.push(Arrival { end: body.len(), after: Duration::from_millis(ms) });
        }
        let mut whole = raw(200, &body);
        let reply = streaming(provider).decode(&hi(), &whole).unwrap();
        assert_eq!((reply.text.as_str(), reply.first_token_ms), ("Hi", None), "{provider}");
        whole.arrivals = arrivals;
        let reply = streaming(provider).decode(&hi(), &whole).unwrap();
        assert_eq!(reply.first_token_ms, Some(250.0), "{provider}");
    }
}

#[test]
fn a_failed_response_after_a_text_is_retryable_and_lost() {
    let text = r#"data: {"type": "response.output_text.delta", "delta": "Hi"}"#;
    for (code, kind) in [("server_error", Kind::Server), ("rate_limit_exceeded", Kind::RateLimited)]
    {
        let error = json!({"code": code, "message": "no"});
        let response = json!({"status": "failed", "output": [], "error": error});
        let failed = json!({"type": "response.failed", "response": response});
        let body = format!("{text}\n\ndata: {failed}\n\n");
        let err = streaming("openai-responses").decode(&hi(), &raw(200, &body)).unwrap_err();
        assert_eq!((err.kind, err.retryable, err.lost), (kind, true, true), "{err}");
        assert_eq!(err.message, "no");
    }
}

#[test]
fn counts_are_read_without_counts_at_the_start() {
    for start in [json!({}), json!({"usage": null})] {
        let events = [
            json!({"type": "message_start", "message": start}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}}),
            json!({
                "type": "message_delta", "delta": {"stop_reason": "end_turn"},
                "usage": {"input_tokens": 3, "output_tokens": 2},
            }),
            json!({"type": "message_stop"}),
        ];
        let body = events.map(|it| format!("data: {it}\n\n")).concat();
        let reply = streaming("anthropic").decode(&hi(), &raw(200, &body)).unwrap();
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (3, 2), "{body}");
    }
}

#[test]
fn hostile_events_are_errors() {
    let hostile = [
        "",
        "data",
        "data: ",
        "data: [DONE]",
        "data: 5",
        "data: \"x\"",
        "data: [1]",
        "data: null",
        "data: {",
        "data: {\"error\": 5}",
        "data: {\"error\": \"no\"}",
        "data: {\"type\": 5}",
        "data: {\"type\": \"error\"}",
        "data: {\"type\": \"error\", \"error\": [1]}",
        "data: {\"object\": \"error\", \"message\": \"no\", \"code\": 400}",
        "data: {\"choices\": 5}",
        "data: {\"choices\": [5, null, \"x\"]}",
        "data: {\"choices\": [{\"delta\": 5}]}",
        "data: {\"choices\": [{\"delta\": {\"tool_calls\": 5}, \"finish_reason\": \"stop\"}]}",
        "data: {\"choices\": [{\"delta\": {\"tool_calls\": [5, 5, \"x\", {\"function\": 5}, {\"function\": 6}]}, \"finish_reason\": \"stop\"}]}",
        "data: {\"choices\": [{\"delta\": {\"function_call\": 5}, \"logprobs\": 5, \"content_filter_results\": [1]}]}",
        "data: {\"type\": \"message_start\", \"message\": 5}",
        "data: {\"type\": \"message_start\", \"message\": {\"usage\": 5}}",
        "data: {\"type\": \"message_delta\", \"delta\": 5, \"usage\": {\"output_tokens\": 1}}",
        "data: {\"type\": \"content_block_start\", \"index\": 1}",
        "data: {\"type\": \"content_block_start\", \"index\": 0, \"content_block\": 5}",
        "data: {\"type\": \"content_block_delta\", \"index\": 0, \"delta\": 5}",
        "data: {\"type\": \"message_stop\"}",
        "data: {\"type\": \"response.completed\"}",
        "data: {\"type\": \"response.completed\", \"response\": 5}",
        "data: {\"type\": \"response.failed\", \"response\": {\"status\": \"failed\"}}",
        "data: \u{FFFD}",
        "event: a\nevent: b",
        "<html>",
    ];
    for provider in PROVIDERS {
        let codec = streaming(provider);
        for (at, first) in hostile.into_iter().enumerate() {
            for second in hostile {
                let body = format!("{first}\n\n{second}\n\ndata: [DONE]\n\n");
                let reply = codec.decode(&hi(), &raw(200, &body));
                assert!(reply.is_err(), "{provider}: {at}: {body}");
            }
        }
        let binary = HttpResponse::new(200, [0xFF, 0x00, 0xFE]);
        assert!(codec.decode(&hi(), &binary).is_err(), "{provider}");
    }
    let body = "data: {\"type\": \"content_block_start\", \"index\": 0, \"content_block\": {}}\n\n\
                data: {\"type\": \"content_block_delta\", \"index\": 0, \"delta\": {\"type\": \"new_delta\"}}\n\n";
    let err = streaming("anthropic").decode(&hi(), &raw(200, body)).unwrap_err();
    let expected = "the answer has a part of the type \"new_delta\", which is unsupported";
    assert!(err.message.starts_with(expected), "{err}");
}
