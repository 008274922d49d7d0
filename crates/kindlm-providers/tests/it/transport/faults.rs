//! Transport failures, and the error kinds that they cause.

use std::time::Duration;

use kindlm_providers::limit::RateLimiter;
use kindlm_providers::transport::{HttpTransport, TransportOptions};
use kindlm_providers::{HttpRequest, Method};
use kindlm_testing::mock::{MockReply, closed_address};
use kindlm_types::ProviderErrorKind as Kind;

use super::*;

#[tokio::test]
async fn every_fault_has_a_kind_and_a_message() {
    for (name, reply, kind, attempts, says) in [
        ("reset", MockReply::reset(), Kind::Connection, 3, "broke before an answer"),
        ("hang up", MockReply::hang_up(), Kind::Connection, 3, "broke before an answer"),
        (
            "reset in body",
            MockReply::text("ok").reset_in_body(),
            Kind::Connection,
            3,
            "in the middle",
        ),
        (
            "close in body",
            MockReply::text("ok").close_in_body(),
            Kind::Connection,
            3,
            "in the middle",
        ),
        ("endless", MockReply::endless(), Kind::MalformedResponse, 1, "larger than 1 MiB"),
        (
            "gzip bomb",
            MockReply::gzip_bomb(1 << 30),
            Kind::MalformedResponse,
            1,
            "larger than 1 MiB",
        ),
        (
            "announced size",
            MockReply::raw(200, "application/json", vec![b' '; 70_000]),
            Kind::MalformedResponse,
            1,
            "larger than 1 MiB",
        ),
        (
            "damaged gzip",
            MockReply::raw(200, "application/json", "not gzip")
                .with_header("content-encoding", "gzip"),
            Kind::MalformedResponse,
            1,
            "cannot be unpacked",
        ),
        ("truncated JSON", MockReply::truncated_json(), Kind::MalformedResponse, 1, "not JSON"),
        ("HTML", MockReply::html(), Kind::MalformedResponse, 1, "not JSON"),
        ("empty", MockReply::empty(), Kind::MalformedResponse, 1, "not JSON"),
        ("400", MockReply::error(400, "no such thing"), Kind::InvalidRequest, 1, "no such thing"),
        ("401", MockReply::error(401, "bad key"), Kind::Auth, 1, "bad key"),
        ("429", MockReply::error(429, "slow down"), Kind::RateLimited, 3, "slow down"),
        ("500", MockReply::error(500, "oops"), Kind::Server, 3, "oops"),
        (
            "302",
            MockReply::redirect(302, "/elsewhere"),
            Kind::InvalidRequest,
            1,
            "drop the request's body",
        ),
        (
            "no location",
            MockReply::raw(307, "text/plain", ""),
            Kind::InvalidRequest,
            1,
            "redirected without an address",
        ),
        (
            "redirect loop",
            MockReply::redirect(307, "/v1/chat/completions"),
            Kind::InvalidRequest,
            1,
            "more than 5 times",
        ),
    ] {
        let answer = reply.clone();
        let server = MockServer::answering(move |_| answer.clone()).unwrap();
        let err = call(&server.url(), LONG).await.unwrap_err();
        assert_eq!((err.kind, err.attempts), (kind, attempts), "{name}: {err}");
        assert!(err.to_string().contains(says), "{name}: {err}");
        assert_eq!(err.retryable, attempts == 3, "{name}");
        if name != "redirect loop" {
            assert_eq!(server.count(), attempts as usize, "{name}");
        }
    }
}

#[tokio::test]
async fn a_refused_connection_names_the_host_and_is_retried() {
    let address = closed_address().unwrap();
    let err = call(&format!("http://{address}"), LONG).await.unwrap_err();
    assert_eq!((err.kind, err.attempts, err.retryable), (Kind::Connection, 3, true));
    assert_eq!(
        err.to_string(),
        format!(
            "openai: connection to `{address}` refused: nothing listens there; check that the server runs and that `baseUrl` is right"
        )
    );
}

#[tokio::test]
async fn an_unknown_host_is_named() {
    let err = call("http://no-such-host.invalid", LONG).await.unwrap_err();
    assert_eq!((err.kind, err.attempts), (Kind::Connection, 3));
    assert!(err.message.starts_with("host `no-such-host.invalid` not found"), "{err}");
}

#[tokio::test]
async fn a_server_without_tls_is_not_asked_again_for_it() {
    let server = server();
    let err = call(&server.url().replace("http://", "https://"), LONG).await.unwrap_err();
    assert_eq!((err.kind, err.attempts), (Kind::Connection, 1), "{err}");
    assert!(
        err.message.contains("no secure connection") && err.message.contains("speak TLS"),
        "{err}"
    );
}

#[tokio::test]
async fn a_server_that_stays_silent_is_given_up_before_the_timeout() {
    // The system accepts connections into a queue, but no server answers the TLS handshake.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let options = TransportOptions { connect_timeout: Duration::from_millis(100), ..options() };
    let transport = HttpTransport::new(options).unwrap();
    let request = request(&format!("https://{address}"));
    let limiter = RateLimiter::default();
    let err =
        transport.call("openai", &request, LONG, &limiter.enqueue(0), decode).await.unwrap_err();
    assert_eq!((err.kind, err.attempts, err.retryable), (Kind::Connection, 3, true), "{err}");
    assert!(err.message.starts_with(&format!("no connection to `{address}` in time")), "{err}");
}

#[tokio::test]
async fn an_address_that_is_none_is_found_before_anything_is_sent() {
    for url in ["", "localhost", "ftp://example.org", "file:///etc/passwd", "http://", "http://a b"]
    {
        let request = HttpRequest { url: url.to_owned(), ..request("") };
        let err = transport()
            .call("openai", &request, LONG, &RateLimiter::default().enqueue(0), decode)
            .await
            .unwrap_err();
        assert_eq!((err.kind, err.attempts), (Kind::InvalidRequest, 0), "{url}: {err}");
        assert!(err.message.contains("address to send to is not valid"), "{err}");
    }
}

/// The timeout continues after the headers have arrived.
#[tokio::test]
async fn weak_point_11_the_timeout_covers_slow_bodies() {
    let timeout = Duration::from_millis(100);
    let slow = NEVER;
    for reply in [
        MockReply::text("ok").after(slow),
        MockReply::text("ok").body_after(slow),
        MockReply::endless().after(slow),
    ] {
        let server = server();
        server.push_all([reply.clone(), reply.clone(), reply]);
        // The server delays the body for longer than this test may take.
        let url = server.url();
        let called = tokio::time::timeout(NEVER / 2, call(&url, timeout));
        let err = called.await.unwrap().unwrap_err();
        assert_eq!((err.kind, err.attempts, err.retryable), (Kind::Timeout, 3, true), "{err}");
        assert!(
            err.message.contains("within 100 ms") && err.message.contains("timeoutMs"),
            "{err}"
        );
    }
}

#[tokio::test]
async fn an_endless_refusal_of_a_websocket_is_not_read_to_its_end() {
    let server = server();
    server.push(MockReply::endless().with_status(401));
    let (transport, request) = (transport(), request(&server.url()));
    let opening = transport.open_socket("openai", &request, LONG);
    let opened = tokio::time::timeout(Duration::from_secs(20), opening).await.unwrap();
    let err = opened.unwrap_err();
    assert_eq!((err.kind, err.status), (Kind::Auth, Some(401)), "{err}");
}

/// A reset and a closed connection are transient errors, so the request is sent again.
#[tokio::test]
async fn weak_point_12_network_errors_are_typed_and_retried() {
    let server = server();
    server.push_all([MockReply::reset(), MockReply::hang_up()]);
    let called = call(&server.url(), LONG).await.unwrap();
    assert_eq!((called.value.as_str(), called.attempts), ("ok", 3));
}

#[tokio::test]
async fn a_key_is_never_carried_to_another_host() {
    let elsewhere = server();
    let server = server();
    for location in [format!("{}/v1", elsewhere.url()), "https://127.0.0.1/v1".to_owned()] {
        server.push(MockReply::redirect(307, &location));
        let err = call(&server.url(), LONG).await.unwrap_err();
        assert_eq!((err.kind, err.status, err.attempts), (Kind::InvalidRequest, Some(307), 1));
        assert!(
            err.message.contains(
                "another scheme, host or port, which is not followed because the request may contain a key"
            ),
            "{err}"
        );
    }
    assert_eq!(elsewhere.count(), 0);
}

#[tokio::test]
async fn a_redirect_on_the_same_host_repeats_the_request() {
    let server = server();
    server.push(MockReply::redirect(308, "/v2/chat/completions"));
    assert_eq!(call(&server.url(), LONG).await.unwrap().value, "ok");
    let requests = server.requests();
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(requests[1].path, "/v2/chat/completions");
    assert_eq!(requests[1].header("authorization"), requests[0].header("authorization"));
}

#[tokio::test]
async fn requests_carry_the_usual_headers() {
    let server = server();
    call(&server.url(), LONG).await.unwrap();
    let requests = server.requests();
    for (name, value) in [
        ("authorization", format!("Bearer {KEY}")),
        ("accept", "application/json".to_owned()),
        ("content-type", "application/json".to_owned()),
        ("user-agent", format!("kindlm/{}", env!("CARGO_PKG_VERSION"))),
        ("accept-encoding", "gzip".to_owned()),
    ] {
        assert_eq!(requests[0].header(name), Some(value.as_str()), "{name}");
    }
    assert_eq!(requests[0].json()["messages"][0]["content"], "hi");
}

#[tokio::test]
async fn a_request_without_a_body_has_none() {
    let server = server();
    let request = HttpRequest { method: Method::Get, body: Value::Null, ..request(&server.url()) };
    transport()
        .call("http", &request, LONG, &RateLimiter::default().enqueue(0), decode)
        .await
        .unwrap();
    let sent = &server.requests()[0];
    assert_eq!(
        (sent.method.as_str(), sent.body.len(), sent.header("content-type")),
        ("GET", 0, None)
    );
}

#[tokio::test]
async fn certificates_that_are_none_are_found_at_once() {
    for (pem, says) in [
        ("", "no certificate"),
        ("hello", "no certificate"),
        ("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n", "not valid PEM"),
    ] {
        let with_ca = TransportOptions { ca_pem: Some(pem.into()), ..options() };
        let err = HttpTransport::new(with_ca).unwrap_err();
        assert!(err.to_string().contains(says), "{pem:?}: {err}");
    }
}
