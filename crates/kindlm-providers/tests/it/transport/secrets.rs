//! Keys never appear in output.

use kindlm_providers::limit::RateLimiter;
use kindlm_providers::transport::HttpTransport;
use kindlm_testing::mock::{MockReply, closed_address};
use kindlm_types::ProviderErrorKind as Kind;

use super::*;

fn with_header(url: &str, name: &str, value: HeaderValue) -> HttpRequest {
    HttpRequest { headers: vec![(name.to_owned(), value)], ..request(url) }
}

fn from_env(variable: &str) -> HeaderValue {
    HeaderValue::FromEnv { prefix: "Bearer ", variable: variable.to_owned() }
}

#[tokio::test]
async fn no_key_is_in_any_message_or_debug_text() {
    let telltale = || MockReply::error(401, &format!("Incorrect API key provided: {KEY}."));
    let server = MockServer::answering(move |_| telltale()).unwrap();
    let closed = format!("http://{}", closed_address().unwrap());
    let literal = HeaderValue::Literal(format!("Bearer {KEY}"));
    let broken = HeaderValue::Literal(format!("{KEY}\n"));
    let mut shown = Vec::new();
    for request in [
        request(&server.url()),
        request(&closed),
        request(&format!("http://user:{KEY}@{}", closed.trim_start_matches("http://"))),
        request(&format!("{closed}/?key={KEY}")),
        request(&server.url().replace("http:", "https:")),
        request(&format!("nonsense-{KEY}")),
        with_header(&server.url(), "x-api-key", literal.clone()),
        with_header(&server.url(), "authorization", literal),
        with_header(&server.url(), "authorization", broken),
        with_header(&server.url(), "authorization", from_env("BROKEN_KEY")),
        with_header(&server.url(), "a header", from_env("TOKEN")),
    ] {
        let transport = transport();
        let err = transport
            .call("openai", &request, LONG, &RateLimiter::default().enqueue(0), decode)
            .await
            .unwrap_err();
        shown.push(format!("{err} {err:?} {transport:?} {:?}", request.headers));
    }
    shown.push(format!("{:?} {:?}", options(), client_options()));
    shown.push(format!("{:?}", client(json!({"echo": {}}))));
    for text in shown {
        assert!(!text.contains(KEY), "{text}");
    }
}

#[tokio::test]
async fn a_key_that_a_provider_repeats_is_cut_out() {
    let server = server();
    server.push(MockReply::error(401, &format!("Incorrect API key provided: {KEY}.")));
    let err = call(&server.url(), LONG).await.unwrap_err();
    assert!(err.message.contains("Incorrect API key provided: [redacted]; check"), "{err}");
    // The key is also redacted where truncation cuts the message within it.
    for before in (0..1_100).step_by(10) {
        let told = format!("{}{KEY}", "A".repeat(before));
        for body in [json!({"error": {"message": told}}).to_string(), format!("<p>{told}</p>")] {
            server.push(MockReply::raw(401, "application/json", body));
            let err = call(&server.url(), LONG).await.unwrap_err();
            assert!(!err.message.contains(&KEY[..6]), "{before}: {err}");
        }
    }
}

#[tokio::test]
async fn a_key_in_the_refusal_of_a_websocket_is_cut_out() {
    let server = server();
    let told = format!("{}{KEY}", "A".repeat(190));
    server.push(MockReply::raw(401, "text/plain", told));
    let (transport, request) = (transport(), request(&server.url()));
    let err = transport.open_socket("openai", &request, LONG).await.unwrap_err();
    assert_eq!((err.kind, err.status), (Kind::Auth, Some(401)));
    assert!(!err.message.contains(&KEY[..6]), "{err}");
}

#[tokio::test]
async fn a_missing_key_is_reported_before_a_request() {
    let server = server();
    let request = with_header(&server.url(), "authorization", from_env("MISSING_KEY"));
    let err = transport()
        .call("openai", &request, LONG, &RateLimiter::default().enqueue(0), decode)
        .await
        .unwrap_err();
    assert_eq!((err.kind, err.attempts, err.retryable, server.count()), (Kind::Auth, 0, false, 0));
    assert_eq!(
        err.to_string(),
        "openai: environment variable `MISSING_KEY` is not set or empty (header `authorization` needs it): set it, or name another one in the config"
    );
}

#[tokio::test]
async fn a_line_break_after_a_key_does_no_harm() {
    let server = server();
    let request = with_header(&server.url(), "authorization", from_env("KEY_WITH_LINE_BREAK"));
    transport()
        .call("openai", &request, LONG, &RateLimiter::default().enqueue(0), decode)
        .await
        .unwrap();
    assert_eq!(
        server.requests()[0].header("authorization"),
        Some(format!("Bearer {KEY}").as_str())
    );
}

#[test]
fn a_transport_does_nothing_before_it_is_used() {
    let text = format!("{:?}", HttpTransport::new(options()).unwrap());
    assert!(text.contains("uninit"), "{text}");
}

#[tokio::test]
async fn requests_do_not_share_headers() {
    let server = server();
    let transport = transport();
    let literal = |text: &str| HeaderValue::Literal(text.to_owned());
    let requests = [
        request(&server.url()),
        with_header(&server.url(), "x-tenant", literal("a")),
        with_header(&server.url(), "x-tenant", literal("b")),
        request(&format!("{}/other", server.url())),
        HttpRequest { body: Value::Null, method: Method::Get, ..request(&server.url()) },
        request(&server.url()),
    ];
    for request in &requests {
        transport
            .call("openai", request, LONG, &RateLimiter::default().enqueue(0), decode)
            .await
            .unwrap();
    }
    let missing = with_header(&server.url(), "authorization", from_env("NO_SUCH_VARIABLE"));
    let err = transport
        .call("openai", &missing, LONG, &RateLimiter::default().enqueue(0), decode)
        .await
        .unwrap_err();
    assert_eq!((err.kind, err.attempts), (Kind::Auth, 0));
    let bearer = format!("Bearer {KEY}");
    let bearer = Some(bearer.as_str());
    let path = "/v1/chat/completions";
    let json = Some("application/json");
    let seen = server.requests();
    let seen: Vec<_> = seen
        .iter()
        .map(|it| {
            let header = |name| it.header(name);
            (&*it.path, header("authorization"), header("x-tenant"), header("content-type"))
        })
        .collect();
    assert_eq!(
        seen,
        [
            (path, bearer, None, json),
            (path, None, Some("a"), json),
            (path, None, Some("b"), json),
            ("/other/v1/chat/completions", bearer, None, json),
            (path, bearer, None, None),
            (path, bearer, None, json),
        ]
    );
    assert!(server.requests().iter().all(|it| it.header("accept") == json));
}
