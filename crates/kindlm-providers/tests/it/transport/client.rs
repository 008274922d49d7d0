//! Tests of the client and its providers.

use kindlm_providers::transport::TransportOptions;
use kindlm_testing::mock::{MockReply, MockRequest};
use kindlm_types::{Models, Problem, ProviderErrorKind as Kind, Unlimited};

use super::*;

fn problems(config: Value) -> Vec<Problem> {
    Client::new(&providers(config), &Memory(&[]), client_options()).unwrap_err()
}

#[test]
fn problems_of_all_providers_are_reported_at_once() {
    let found = problems(json!({
        "opnai": {"apiKeyEnv": "K"},
        "echo": {"prefx": "x"},
        "mcp": {"serverUrl": "localhost", "toolName": " ", "headers": {"a/b": 1}, "arguments": {"q": "{{inptu}}"}},
        "command": {"command": " "},
        "scripted": {"replies": [{"text": "a"}, {}, {"text": "a", "error": {}}, {"text": "b", "times": 0}]},
    }));
    let told: Vec<(&str, &str, Option<&str>)> = found
        .iter()
        .map(|it| (it.pointer.as_str(), it.message.as_str(), it.help.as_deref()))
        .collect();
    insta::assert_debug_snapshot!(told);
}

#[tokio::test]
async fn a_codec_provider_is_reached_through_the_transport() {
    let server = server();
    server.push(MockReply::error(503, "busy"));
    let client = client(
        json!({"openai": {"apiKeyEnv": "TOKEN", "baseUrl": format!("{}/v1", server.url())}}),
    );
    let reply = client.complete("openai", &prompt("hi"), LONG, &Unlimited).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.attempts, reply.usage.total_tokens), ("ok", 2, 15));
    assert!(reply.latency_ms > 0.0);
    let vector = client.embed("openai", "text-embedding-3-small", "hi", LONG).await.unwrap();
    assert_eq!((&*vector.vector, vector.usage.input_tokens), (&[1.0, 0.0, 0.0][..], 10));
    let requests = server.requests();
    assert_eq!(requests[1].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(requests[2].path, "/v1/embeddings");
}

/// Returns the stream of an answer in the chat dialect, without its end.
fn chunks() -> String {
    let chunk = |choice: Value| format!("data: {}\n\n", json!({"model": "m", "choices": [choice]}));
    chunk(json!({"index": 0, "delta": {"role": "assistant", "content": "Hello"}}))
        + &chunk(json!({"index": 0, "delta": {"content": " there"}}))
        + &chunk(json!({"index": 0, "delta": {}, "finish_reason": "stop"}))
}

#[tokio::test]
async fn the_time_to_the_first_token_of_a_stream_is_measured() {
    let server = server();
    let body = chunks() + "data: [DONE]\n\n";
    let pause = Duration::from_millis(20);
    server.push(MockReply::raw(200, "text/event-stream; charset=utf-8", body).dripping(pause));
    let url = format!("{}/v1", server.url());
    let client = client(json!({"openai": {"apiKeyEnv": "TOKEN", "baseUrl": url, "stream": true}}));
    let reply = client.complete("openai", &prompt("hi"), LONG, &Unlimited).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.attempts), ("Hello there", 1));
    let first = reply.first_token_ms.unwrap();
    assert!((20.0..=reply.latency_ms).contains(&first), "{first} of {} ms", reply.latency_ms);
    // The server ignores `stream`.
    let reply = client.complete("openai", &prompt("hi"), LONG, &Unlimited).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.first_token_ms), ("ok", None));
    let asked = server.requests()[0].json();
    assert_eq!(asked["stream_options"], json!({"include_usage": true}));
}

#[tokio::test]
async fn a_stream_that_breaks_off_or_fails_is_requested_again() {
    let failed = "data: {\"error\": {\"message\": \"busy\", \"type\": \"server_error\"}}\n\n";
    let refused = "data: {\"error\": {\"message\": \"too long\", \"code\": 400}}\n\n";
    for (body, attempts) in
        [(chunks(), Some(2)), (chunks() + failed, Some(2)), (refused.to_owned(), None)]
    {
        let server = server();
        server.push(MockReply::raw(200, "text/event-stream", body));
        let url = format!("{}/v1", server.url());
        let client =
            client(json!({"openai": {"apiKeyEnv": "TOKEN", "baseUrl": url, "stream": true}}));
        let reply = client.complete("openai", &prompt("hi"), LONG, &Unlimited).await;
        assert_eq!(reply.as_ref().ok().map(|it| it.attempts), attempts, "{reply:?}");
    }
    let incomplete = "it is incomplete: the server, or a proxy on the way, has cut it; try again";
    let other = "check that `baseUrl` leads to the API of a model";
    for (body, advice) in [
        (chunks().into_bytes(), incomplete),
        // The first event is cut, and it is cut within a character.
        (b"data: {\"model\": \"m\", \"cho".to_vec(), incomplete),
        (b"data: {\"model\": \"\xc3".to_vec(), incomplete),
        (b": hi\n\n".to_vec(), other),
        (b"hello".to_vec(), other),
    ] {
        let broken = move |_: &MockRequest| MockReply::raw(200, "text/event-stream", body.clone());
        let server = MockServer::answering(broken).unwrap();
        let url = format!("{}/v1", server.url());
        let client =
            client(json!({"openai": {"apiKeyEnv": "TOKEN", "baseUrl": url, "stream": true}}));
        let err = client.complete("openai", &prompt("hi"), LONG, &Unlimited).await.unwrap_err();
        assert_eq!((err.kind, err.attempts), (Kind::MalformedResponse, 3), "{err}");
        assert!(err.message.contains(advice), "{err}");
    }
}

#[tokio::test]
async fn a_compatible_server_is_a_provider_by_its_name() {
    let server = server();
    let url = format!("{}/v1", server.url());
    let client = client(json!({"groq": {"apiKeyEnv": "TOKEN", "baseUrl": url}}));
    let reply = client.complete("groq", &prompt("hi"), LONG, &Unlimited).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.usage.total_tokens), ("ok", 15));
    server.push(MockReply::error(401, "bad key"));
    let err = client.complete("groq", &prompt("hi"), LONG, &Unlimited).await.unwrap_err();
    assert_eq!((err.kind, err.provider.as_str()), (Kind::Auth, "groq"));
    let requests = server.requests();
    assert_eq!(requests[0].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(requests[0].path, "/v1/chat/completions");
    // Without an entry, the key is in the usual variable.
    let err = client.complete("xai", &prompt("hi"), LONG, &Unlimited).await.unwrap_err();
    assert!(err.message.contains("`XAI_API_KEY` is not set"), "{err}");
}

#[tokio::test]
async fn an_error_of_a_long_prompt_names_the_window_of_the_model() {
    let server = server();
    let client = client(json!({"openai": {"apiKeyEnv": "TOKEN", "baseUrl": server.url()}}));
    for (model, window) in [("gpt-4", Some("(`gpt-4` reads at most 8192 tokens)")), ("mine", None)]
    {
        server.push(MockReply::error(400, "the prompt is too long"));
        let prompt = Prompt { model: model.to_owned(), ..prompt("hi") };
        let err = client.complete("openai", &prompt, LONG, &Unlimited).await.unwrap_err();
        assert_eq!(err.kind, Kind::ContextLength, "{err}");
        assert_eq!(err.message.contains("reads at most"), window.is_some(), "{err}");
        assert!(err.message.contains(window.unwrap_or("shorten the prompt")), "{err}");
    }
}

#[tokio::test]
async fn another_provider_has_no_price_of_openai_embeddings() {
    let server = server();
    let url = format!("{}/v1", server.url());
    let client = client(json!({
        "openai": {"apiKeyEnv": "TOKEN", "baseUrl": url},
        "mine": {"type": "openai", "apiKeyEnv": "TOKEN", "baseUrl": url},
    }));
    for (name, is_priced) in [("openai", true), ("mine", false)] {
        // A model for chats is replaced by a model for embeddings.
        let embedding = client.embed(name, "gpt-4o", "hi", LONG).await.unwrap();
        assert!(embedding.substituted, "{name}");
        assert_eq!(embedding.cost_usd.is_some(), is_priced, "{name}");
    }
}

#[tokio::test]
async fn invalid_answers_are_malformed_for_every_codec() {
    for reply in [MockReply::truncated_json(), MockReply::html(), MockReply::empty()] {
        let server = server();
        server.push(reply.clone());
        let client = client(json!({"openai": {"apiKeyEnv": "TOKEN", "baseUrl": server.url()}}));
        let err = client.complete("openai", &prompt("hi"), LONG, &Unlimited).await.unwrap_err();
        assert_eq!((err.kind, err.attempts), (Kind::MalformedResponse, 1), "{reply:?}: {err}");
    }
}

#[tokio::test]
async fn a_model_can_be_named_without_a_configuration() {
    let client = client(json!({}));
    let reply = client.complete("echo", &prompt("hi there"), LONG, &Unlimited).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.usage.total_tokens, reply.attempts), ("hi there", 4, 1));
    let options = ClientOptions {
        transport: TransportOptions { env: Arc::new(|_| None), ..options() },
        ..client_options()
    };
    let client = Client::new(&Map::new(), &Memory(&[]), options).unwrap();
    let err = client.complete("openai", &prompt("hi"), LONG, &Unlimited).await.unwrap_err();
    assert_eq!((err.kind, err.attempts), (Kind::Auth, 0));
    assert!(err.message.contains("`OPENAI_API_KEY` is not set"), "{err}");
}

#[tokio::test]
async fn an_unknown_provider_is_an_error_that_names_the_known_ones() {
    let err =
        client(json!({})).complete("ecko", &prompt("hi"), LONG, &Unlimited).await.unwrap_err();
    assert_eq!((err.kind, err.attempts), (Kind::InvalidRequest, 0));
    assert_eq!(err.message, "provider `ecko` is not set up: did you mean `echo`?");
}

#[tokio::test]
async fn providers_without_embeddings_are_refused() {
    let client = client(json!({"echo": {}, "command": {"command": "true"}}));
    for provider in ["echo", "command"] {
        let err = client.embed(provider, "m", "text", LONG).await.unwrap_err();
        assert_eq!((err.kind, err.attempts), (Kind::Unsupported, 0), "{provider}");
    }
}

#[tokio::test]
async fn an_echo_may_have_a_prefix() {
    let client = client(json!({"echo": {"prefix": "You said: "}}));
    let reply = client.complete("echo", &prompt("hi"), LONG, &Unlimited).await.unwrap();
    assert_eq!(reply.text, "You said: hi");
}

#[test]
fn problems_have_pointers_with_escaped_names() {
    let found = problems(json!({"a/b~c": {"type": "scripted", "replys": []}}));
    let pointers: Vec<&str> = found.iter().map(|it| it.pointer.as_str()).collect();
    assert!(
        !pointers.is_empty() && pointers.iter().all(|it| it.starts_with("/a~1b~0c")),
        "{found:?}"
    );
}
