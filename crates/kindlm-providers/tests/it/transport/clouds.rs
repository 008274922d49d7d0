//! Tests of providers that need more than one exchange, a signature, or no key.

use kindlm_providers::transport::TransportOptions;
use kindlm_testing::mock::MockReply;
use kindlm_types::{Models, ProviderErrorKind as Kind, Unlimited};

use super::*;

/// Returns a client with these environment variables.
fn client_in(config: Value, variables: &'static [(&str, &str)]) -> Client {
    let env: Env = Arc::new(move |name| {
        variables.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
    });
    let transport = TransportOptions { env, ..options() };
    let options = ClientOptions { transport, ..client_options() };
    Client::new(&providers(config), &Memory(&[]), options).unwrap()
}

fn prediction(status: &str, output: &Value) -> MockReply {
    let metrics = json!({"input_token_count": 2, "output_token_count": 3});
    MockReply::json(&json!({
        "id": "p/1", "status": status, "output": output, "error": null, "metrics": metrics,
        "urls": {"get": "http://elsewhere.example/p1"},
    }))
}

#[tokio::test]
async fn an_unfinished_prediction_is_asked_for_again_at_the_same_server() {
    let server = server();
    server.push_all([
        prediction("starting", &json!(null)).with_status(202),
        prediction("processing", &json!(null)),
        MockReply::error(503, "busy"),
        prediction("succeeded", &json!(["a", "b"])),
    ]);
    let client = client(json!({"replicate": {"apiKeyEnv": "TOKEN", "baseUrl": server.url()}}));
    let reply = client.complete("replicate", &prompt("hi"), LONG, &Unlimited).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.attempts, reply.usage.total_tokens), ("ab", 1, 5));
    let requests = server.requests();
    let asked: Vec<(&str, &str)> =
        requests.iter().map(|it| (it.method.as_str(), it.path.as_str())).collect();
    let poll = ("GET", "/predictions/p%2F1");
    assert_eq!(asked, [("POST", "/models/m-1/predictions"), poll, poll, poll]);
    assert_eq!(requests[3].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    let wait = requests[0].header("prefer").unwrap().strip_prefix("wait=").unwrap();
    let wait = Duration::from_secs(wait.parse().unwrap());
    assert!(wait * 10 <= kindlm_engine::Defaults::default().timeout, "{wait:?}");
}

#[tokio::test]
async fn failed_polls_may_be_charged_and_count_the_first_attempts() {
    for (poll, kind) in [
        (MockReply::error(401, "no"), Kind::Auth),
        (prediction("failed", &json!(null)), Kind::Server),
        (MockReply::html(), Kind::MalformedResponse),
    ] {
        let server = server();
        server.push_all([
            MockReply::error(503, "busy"),
            prediction("starting", &json!(null)),
            poll,
        ]);
        let client = client(json!({"replicate": {"apiKeyEnv": "TOKEN", "baseUrl": server.url()}}));
        let err = client.complete("replicate", &prompt("hi"), LONG, &Unlimited).await.unwrap_err();
        assert_eq!((err.kind, err.attempts, err.lost), (kind, 2, true), "{err}");
        assert_eq!(server.count(), 3);
    }
}

#[tokio::test]
async fn the_timeout_covers_the_waits_between_polls() {
    at_some_pace(async |factor| {
        let server = server();
        server.push_all([
            prediction("starting", &json!(null)),
            MockReply::error(429, "slow down").with_header("retry-after", "50"),
            prediction("succeeded", &json!("a")),
        ]);
        let client = client(json!({"replicate": {"apiKeyEnv": "TOKEN", "baseUrl": server.url()}}));
        let timeout = Duration::from_millis(200) * factor;
        let result = client.complete("replicate", &prompt("hi"), timeout, &Unlimited).await;
        let err = result.map_err(|err| (err.kind, err.attempts, err.lost));
        match (err, server.count()) {
            (Err((Kind::Timeout, 1, true)), 2) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn an_unfinished_prediction_ends_at_the_timeout() {
    let server = server();
    server.push(prediction("starting", &json!(null)));
    let options = ClientOptions {
        transport: TransportOptions {
            // The pause is longer than the timeout.
            retry: RetryPolicy { base_delay: NEVER, ..quick() },
            ..options()
        },
        ..client_options()
    };
    let config = providers(json!({"replicate": {"apiKeyEnv": "TOKEN", "baseUrl": server.url()}}));
    let client = Client::new(&config, &Memory(&[]), options).unwrap();
    let err = client.complete("replicate", &prompt("hi"), LONG, &Unlimited).await.unwrap_err();
    assert_eq!((err.kind, err.retryable), (Kind::Timeout, false), "{err}");
    assert!(err.message.contains("not finished after 120000 ms"), "{err}");
}

#[tokio::test]
async fn requests_to_bedrock_are_signed_with_the_keys_of_the_environment() {
    let answer = json!({
        "output": {"message": {"role": "assistant", "content": [{"text": "Hello."}]}},
        "stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3},
    });
    let server = server();
    server.push_all([
        MockReply::error(503, "busy"),
        MockReply::json(&answer),
        MockReply::json(&answer),
    ]);
    let config = json!({"bedrock": {"region": "eu-west-1", "baseUrl": server.url()}});
    let keys = &[
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "very-secret"),
        ("AWS_SESSION_TOKEN", "token"),
    ];
    let client = client_in(config.clone(), keys);
    let reply = client.complete("bedrock", &prompt("hi"), LONG, &Unlimited).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.attempts), ("Hello.", 2));
    let client = client_in(config, &[("AWS_BEARER_TOKEN_BEDROCK", "key")]);
    client.complete("bedrock", &prompt("hi"), LONG, &Unlimited).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests[0].path, "/model/m-1/converse");
    for request in &requests[..2] {
        let signed = request.header("authorization").unwrap();
        assert!(signed.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), "{signed}");
        assert!(signed.contains("/eu-west-1/bedrock/aws4_request"), "{signed}");
        assert_eq!(request.header("x-amz-security-token"), Some("token"));
    }
    assert_eq!(requests[2].header("authorization"), Some("Bearer key"));
}

#[tokio::test]
async fn missing_credentials_of_aws_are_reported_before_sending() {
    let server = server();
    let client = client_in(json!({"bedrock": {"baseUrl": server.url()}}), &[]);
    let err = client.complete("bedrock", &prompt("hi"), LONG, &Unlimited).await.unwrap_err();
    assert_eq!((err.kind, err.attempts, server.count()), (Kind::Auth, 0, 0));
    assert!(err.message.contains("`AWS_BEARER_TOKEN_BEDROCK`"), "{err}");
}

#[tokio::test]
async fn a_gateway_gets_its_headers_and_no_key() {
    let server = server();
    let client = client(json!({"openai": {
        "apiKeyEnv": null, "baseUrl": server.url(), "headers": {"x-gateway-key": "env:TOKEN", "x-team": "a"},
    }}));
    client.complete("openai", &prompt("hi"), LONG, &Unlimited).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests[0].header("authorization"), None);
    assert_eq!(requests[0].header("x-gateway-key"), Some(KEY));
    assert_eq!(requests[0].header("x-team"), Some("a"));
}
