//! Exchanges of every provider with a codec of websockets.
//!
//! An exchange is `src/<id>/exchanges/<name>.json`: `config`, `prompt` and the messages of the `server` → `request`,
//! the messages that are `sent`, and `reply` or `error`. `after` is the number of messages that the server has sent
//! before a message of the client. `answers` are the responses of tools. With `KINDLM_BLESS` set, the test writes the
//! codec's results into the file. Review the written results.

use kindlm_providers::{Kind, Opening, REGISTRY, SocketCodec, Step, find};
use kindlm_types::{ActionStatus, Event, ProviderError, Reply};
use serde_json::{Map, Value, json};

use super::exchange::{load_exchanges, written};
use super::{hi, normal, prompt, shown};

/// The cases that the exchanges of each provider must cover.
const SHOWS: [&str; 4] = ["text", "tool call", "usage", "error"];

fn codecs() -> impl Iterator<Item = &'static str> {
    REGISTRY.iter().filter(|it| matches!(it.kind, Kind::Socket(_))).map(|it| it.meta.id)
}

fn codec(provider: &str, config: &Value) -> Box<dyn SocketCodec> {
    match find(provider).unwrap().kind {
        Kind::Socket(make) => make(config).expect("a good configuration"),
        _ => panic!("`{provider}` has no codec of websockets"),
    }
}

/// Runs the codec on an exchange, and returns it with the codec's results.
fn play(provider: &str, exchange: &Value) -> Value {
    let codec = codec(provider, &exchange["config"]);
    let mut played = exchange.as_object().unwrap().clone();
    for key in ["request", "sent", "reply", "error"] {
        played.shift_remove(key);
    }
    let result = talk(&*codec, exchange, &mut played);
    match result {
        Ok(Some(reply)) => {
            let mut found = shown(&reply);
            if let Some(output) = &reply.output_json {
                found["outputJson"] = output.clone();
            }
            played.insert("reply".to_owned(), found);
        }
        Ok(None) => {}
        Err(err) => {
            let error = json!({
                "kind": err.kind, "message": err.message, "status": err.status, "retryable": err.retryable,
            });
            played.insert("error".to_owned(), error);
        }
    }
    Value::Object(played)
}

/// Sends the messages of the server to the codec. Returns the reply; `None` if the exchange does not end.
fn talk(
    codec: &dyn SocketCodec,
    exchange: &Value,
    played: &mut Map<String, Value>,
) -> Result<Option<Reply>, ProviderError> {
    let prompt = prompt(exchange["prompt"].clone());
    let Opening { request, messages, exchange: mut open, .. } = codec.open(&prompt)?;
    played.insert("request".to_owned(), written(&request));
    let mut sent: Vec<Value> =
        messages.iter().map(|it| json!({"after": 0, "message": it})).collect();
    let mut result = Ok(None);
    for (at, message) in exchange["server"].as_array().unwrap().iter().enumerate() {
        let messages = match open.receive(message) {
            Ok(Step::Send(messages)) => messages,
            Ok(Step::Answer(mut calls)) => {
                for call in &mut calls {
                    call.response = Some(exchange["answers"][&call.name].clone());
                }
                open.respond(calls)
            }
            Ok(Step::Done(reply)) => {
                result = Ok(Some(*reply));
                break;
            }
            Err(err) => {
                result = Err(err);
                break;
            }
        };
        sent.extend(messages.iter().map(|it| json!({"after": at + 1, "message": it})));
    }
    played.insert("sent".to_owned(), Value::Array(sent));
    result
}

#[test]
fn every_exchange_over_a_websocket_is_as_recorded() {
    let bless = std::env::var_os("KINDLM_BLESS").is_some();
    for provider in codecs() {
        for (path, exchange) in load_exchanges(provider) {
            let played = play(provider, &exchange);
            if bless {
                let text = serde_json::to_string_pretty(&played).unwrap() + "\n";
                std::fs::write(&path, text).unwrap();
                continue;
            }
            let place = path.display();
            assert!(exchange["about"].is_string(), "{place}: `about` says what it shows");
            assert_eq!(
                normal(&exchange),
                normal(&played),
                "{place}: if the new results are right, run `cargo xtask bless {provider}`"
            );
        }
    }
}

#[test]
fn failed_code_of_a_live_model_is_a_failed_action() {
    let (_, exchange) = load_exchanges("google-live")
        .into_iter()
        .find(|(_, it)| it["server"].to_string().contains("OUTCOME_OK"))
        .unwrap();
    let failed = exchange.to_string().replace("OUTCOME_OK", "OUTCOME_FAILED");
    let exchange: Value = serde_json::from_str(&failed).unwrap();
    let codec = codec("google-live", &exchange["config"]);
    let reply = talk(&*codec, &exchange, &mut Map::new()).unwrap().unwrap();
    let status = reply.events.iter().find_map(|it| match it {
        Event::ActionResult { status, .. } => Some(*status),
        _ => None,
    });
    assert_eq!(status, Some(ActionStatus::Failed));
}

#[test]
fn the_exchanges_over_websockets_show_everything() {
    for provider in codecs() {
        let all: Vec<Value> = load_exchanges(provider).into_iter().map(|(_, it)| it).collect();
        for what in SHOWS {
            let shows = |it: &Value| match what {
                "text" => it["reply"]["text"].as_str().is_some_and(|it| !it.is_empty()),
                "tool call" => it["reply"]["toolCalls"].as_array().is_some_and(|it| !it.is_empty()),
                "usage" => it["reply"]["usage"]["totalTokens"].as_u64().is_some_and(|it| it > 0),
                _ => it["error"].is_object(),
            };
            assert!(all.iter().any(shows), "{provider}: `exchanges/` must show: {what}");
        }
    }
}

#[test]
fn no_message_makes_a_codec_of_websockets_panic() {
    let hostile = [
        json!(null),
        json!(1),
        json!([]),
        json!({}),
        json!({"error": 5}),
        json!({"setupComplete": true, "serverContent": []}),
        json!({"serverContent": {"modelTurn": {"parts": 5}}}),
        json!({"serverContent": {"modelTurn": {"parts": [1]}}}),
        json!({"serverContent": {"turnComplete": true}}),
        json!({"toolCall": {"functionCalls": 5}}),
        json!({"toolCall": {"functionCalls": [1, {}]}}),
        json!({"usageMetadata": {"promptTokenCount": -5, "totalTokenCount": 1e300}}),
        json!({"type": "error"}),
        json!({"type": "response.done"}),
        json!({"type": "response.done", "response": {"output": 5}}),
        json!({"type": "response.done", "response": {"output": [{"type": "message", "content": 1}]}}),
        json!({"type": "response.done", "response": {"status": "failed"}}),
        json!({"type": "response.output_text.delta", "delta": 5}),
    ];
    let prompt = hi();
    for provider in codecs() {
        let codec = codec(provider, &json!({"apiKeyEnv": "KEY"}));
        for message in &hostile {
            let mut open = codec.open(&prompt).unwrap().exchange;
            for _ in 0..2 {
                if let Ok(Step::Answer(calls)) = open.receive(message) {
                    open.respond(calls);
                }
            }
        }
    }
}
