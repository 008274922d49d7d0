//! Exchanges of every provider with a codec: prompt and request, response and reply.
//!
//! The exchanges follow the vendors' published references and known server answers; keys and accounts are invented.
//! An exchange is `src/<id>/exchanges/<name>.json`: `config`, `prompt` → `request`, `response` → `reply` or `error`;
//! or `embed` → `request`, `response` → `vector` and `inputTokens`. With `KINDLM_BLESS` set, the test writes the
//! codec's results into the file. Review these results.

use std::path::{Path, PathBuf};

use kindlm_providers::{AwsAuth, Codec, HeaderValue, HttpRequest, HttpResponse, Kind, REGISTRY};
use kindlm_types::ProviderError;
use serde_json::{Map, Value, json};

use super::{codec, normal, prompt, raw, response, shown};

/// The cases that the exchanges of each provider must cover.
const SHOWS: [&str; 5] = ["text", "tool call", "usage", "refusal or filter", "error"];

/// The cases that a provider's API does not have.
const ABSENT: &[(&str, &str)] = &[
    ("ollama", "refusal or filter"),
    ("replicate", "tool call"),
    ("replicate", "refusal or filter"),
];

/// Returns all exchanges of a provider, by file.
pub(super) fn load_exchanges(provider: &str) -> Vec<(PathBuf, Value)> {
    let module = provider.replace('-', "_");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(module).join("exchanges");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .map(|it| it.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let value = serde_json::from_str(&text)
                .unwrap_or_else(|err| panic!("{}: {err}", path.display()));
            (path, value)
        })
        .collect()
}

/// Runs the codec on an exchange, and returns it with the codec's results.
pub(super) fn play(provider: &str, exchange: &Value) -> Value {
    let codec = codec(provider, &exchange["config"]);
    let mut played = exchange.as_object().unwrap().clone();
    let answer = exchange.get("response").map(answer);
    if let Some(embed) = exchange.get("embed") {
        let (model, text) = (embed["model"].as_str().unwrap(), embed["text"].as_str().unwrap());
        put(&mut played, "request", codec.encode_embedding(model, text).map(|it| written(&it)));
        if let Some(answer) = answer {
            let embedding = codec.decode_embedding(&answer);
            let tokens = embedding.as_ref().map_or(0, |it| it.usage.input_tokens);
            if tokens > 0 {
                played.insert("inputTokens".to_owned(), json!(tokens));
            }
            put(&mut played, "vector", embedding.map(|it| json!(*it.vector)));
        }
    } else {
        let prompt = prompt(exchange["prompt"].clone());
        put(&mut played, "request", codec.encode(&prompt).map(|it| written(&it)));
        if let Some(answer) = answer {
            put(&mut played, "reply", codec.decode(&prompt, &answer).map(|it| shown(&it)));
        }
    }
    Value::Object(played)
}

fn put(played: &mut Map<String, Value>, key: &str, result: Result<Value, ProviderError>) {
    match result {
        Ok(value) => played.insert(key.to_owned(), value),
        Err(err) => played.insert(
            "error".to_owned(),
            json!({"kind": err.kind, "message": err.message, "status": err.status, "retryable": err.retryable}),
        ),
    };
}

/// Converts the response of an exchange: `status`, and `body` (JSON) or `text`.
fn answer(written: &Value) -> HttpResponse {
    let status = written["status"].as_u64().map_or(200, |it| u16::try_from(it).unwrap());
    match &written["text"] {
        Value::String(text) => raw(status, text),
        _ => response(status, &written["body"]),
    }
}

/// Converts a request to the format of exchanges. Environment variables become `$NAME`.
pub(super) fn written(request: &HttpRequest) -> Value {
    let headers: Map<String, Value> = request
        .headers
        .iter()
        .map(|(name, value)| {
            let value = match value {
                HeaderValue::Literal(value) | HeaderValue::Secret(value) => value.clone(),
                HeaderValue::FromEnv { prefix, variable } => format!("{prefix}${variable}"),
            };
            (name.clone(), json!(value))
        })
        .collect();
    let method = format!("{:?}", request.method).to_uppercase();
    let mut written =
        json!({"method": method, "url": request.url, "headers": headers, "body": request.json()});
    if let Some(AwsAuth { service, region, key, .. }) = &request.aws {
        written["aws"] = json!({"service": service, "region": region, "key": key});
    }
    written
}

fn codecs() -> impl Iterator<Item = &'static str> {
    REGISTRY.iter().filter(|it| matches!(it.kind, Kind::Http(_))).map(|it| it.meta.id)
}

#[test]
fn every_exchange_is_written_and_read_as_recorded() {
    let bless = std::env::var_os("KINDLM_BLESS").is_some();
    for provider in codecs() {
        for (path, exchange) in load_exchanges(provider) {
            let played = play(provider, &exchange);
            if bless {
                std::fs::write(&path, serde_json::to_string_pretty(&played).unwrap() + "\n")
                    .unwrap();
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
fn the_exchanges_of_a_provider_show_everything_it_can_do() {
    for provider in codecs() {
        let all: Vec<Value> = load_exchanges(provider).into_iter().map(|(_, it)| it).collect();
        for what in SHOWS {
            let absent = ABSENT.contains(&(provider, what));
            assert_eq!(
                all.iter().any(|it| shows(it, what)),
                !absent,
                "{provider}: `exchanges/` must show: {what}; record an exchange, or add it to `ABSENT` if the API \
                 does not have it ({} exchanges found)",
                all.len()
            );
        }
    }
}

fn shows(exchange: &Value, what: &str) -> bool {
    let (reply, error) = (&exchange["reply"], &exchange["error"]);
    match what {
        "text" => reply["text"].as_str().is_some_and(|it| !it.is_empty()),
        "tool call" => reply["toolCalls"].as_array().is_some_and(|it| !it.is_empty()),
        "usage" => reply["usage"]["totalTokens"].as_u64().is_some_and(|it| it > 0),
        "refusal or filter" => {
            ["refusal", "content_filter"].iter().any(|it| reply["finishReason"] == *it)
                || error["kind"] == "content_filter"
        }
        _ => error.is_object(),
    }
}

/// Checks that a codec answers any response with a reply or an error.
#[test]
fn no_answer_makes_a_codec_panic() {
    let hostile = [
        "",
        " ",
        "null",
        "1",
        "\"x\"",
        "[]",
        "{}",
        "{",
        "<html>",
        "{\"error\":null}",
        "{\"error\":5}",
        "{\"error\":[]}",
        "{\"choices\":5}",
        "{\"choices\":[null]}",
        "{\"choices\":[{\"message\":{\"tool_calls\":[1,{},{\"function\":5}]}}]}",
        "{\"content\":5}",
        "{\"content\":[1,{\"type\":\"tool_use\"}]}",
        "{\"candidates\":[{\"content\":{\"parts\":[1,{}]}}]}",
        "{\"message\":{\"content\":{},\"tool_calls\":{}}}",
        "{\"usage\":{\"prompt_tokens\":-5,\"total_tokens\":1e300}}",
        "{\"usage\":[],\"model\":5,\"data\":[{\"embedding\":[\"x\"]}]}",
    ];
    for provider in codecs() {
        let codec: Box<dyn Codec> = super::usual(provider);
        for body in hostile {
            for status in [100, 200, 204, 302, 400, 401, 403, 404, 429, 499, 500, 599, 999] {
                let _ = codec.decode(&super::hi(), &raw(status, body));
                let _ = codec.decode_embedding(&raw(status, body));
            }
        }
        let binary = HttpResponse::new(200, [0xFF, 0x00, 0xFE]);
        assert!(codec.decode(&super::hi(), &binary).is_err());
    }
}
