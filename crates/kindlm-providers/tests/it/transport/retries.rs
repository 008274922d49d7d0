//! Tests of retries: their conditions, delays and reports.

use std::time::{Duration, Instant};

use kindlm_providers::limit::RateLimiter;
use kindlm_providers::transport::{HttpTransport, RetryPolicy, TransportOptions};
use kindlm_testing::mock::MockReply;
use kindlm_types::ProviderErrorKind as Kind;

use super::*;

#[tokio::test]
async fn the_status_decides_about_a_retry() {
    for (statuses, outcome, attempts) in [
        (&[200][..], Ok(()), 1),
        (&[503, 503, 200], Ok(()), 3),
        (&[408, 409, 200], Ok(()), 3),
        (&[429, 200], Ok(()), 2),
        (&[529, 500, 200], Ok(()), 3),
        (&[503, 503, 503, 200], Err(Kind::Server), 3),
        (&[503, 400, 200], Err(Kind::InvalidRequest), 2),
        (&[400, 200], Err(Kind::InvalidRequest), 1),
        (&[401, 200], Err(Kind::Auth), 1),
        (&[404, 200], Err(Kind::InvalidRequest), 1),
        (&[422, 200], Err(Kind::InvalidRequest), 1),
    ] {
        let server = server();
        for status in statuses {
            server.push(match status {
                200 => MockReply::text("ok"),
                status => MockReply::error(*status, "no"),
            });
        }
        let called = call(&server.url(), LONG).await;
        let found = called.as_ref().map(|_| ()).map_err(|err| err.kind);
        assert_eq!(found, outcome, "{statuses:?}");
        let told = called.map_or_else(|err| err.attempts, |it| it.attempts);
        assert_eq!((told, server.count()), (attempts, attempts as usize), "{statuses:?}");
    }
}

#[tokio::test]
async fn an_exhausted_quota_is_not_asked_for_again() {
    let server = server();
    server.push(MockReply::error(429, "you exceeded your current quota"));
    let quota = |_: &HttpResponse| -> Result<(), ProviderError> {
        Err(ProviderError::new(Kind::QuotaExhausted, "openai", "nothing left")
            .with_status(429)
            .retryable())
    };
    let err = transport()
        .call("openai", &request(&server.url()), LONG, &RateLimiter::default().enqueue(0), quota)
        .await
        .unwrap_err();
    assert_eq!((err.attempts, err.retryable, server.count()), (1, false, 1));
}

/// `Retry-After` is a header of the response, not a key of its JSON body.
#[tokio::test]
async fn weak_point_13_retry_after_is_honoured() {
    for (headers, at_least) in [
        (&[("retry-after", "1")][..], 1_000),
        (&[("retry-after-ms", "300"), ("retry-after", "3600")], 300),
        (
            &[
                ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
                ("retry-after", "Sun, 06 Nov 1994 08:49:38 GMT"),
            ],
            1_000,
        ),
        (&[("retry-after", "0")], 0),
    ] {
        let server = server();
        let refusal =
            headers.iter().fold(MockReply::error(429, "slow down"), |it, (name, value)| {
                it.with_header(name, value)
            });
        server.push(refusal);
        let started = Instant::now();
        let called = call(&server.url(), LONG).await.unwrap();
        let waited = started.elapsed();
        assert_eq!(called.attempts, 2);
        assert!(waited >= Duration::from_millis(at_least), "{headers:?}: {waited:?}");
        assert!(waited < Duration::from_millis(at_least) + NEVER, "{headers:?}: {waited:?}");
    }
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_an_error_at_once() {
    let server = server();
    let refusal = MockReply::error(429, "slow down").with_header("retry-after", "3600");
    server.push(refusal);
    let retry = RetryPolicy { max_retry_after: Duration::from_millis(10), ..quick() };
    let transport = HttpTransport::new(TransportOptions { retry, ..options() }).unwrap();
    let err = transport
        .call("openai", &request(&server.url()), LONG, &RateLimiter::default().enqueue(0), decode)
        .await
        .unwrap_err();
    assert_eq!((err.attempts, err.retry_after), (1, Some(Duration::from_hours(1))));
    assert_eq!((server.count(), err.retryable), (1, false));
    assert!(err.message.contains("asks to wait 3600 s, longer than the limit of 0.01 s"), "{err}");
}

#[tokio::test]
async fn requests_to_one_provider_wait_together() {
    at_some_pace(async |factor| {
        let server = server();
        let closed = Duration::from_millis(400) * factor;
        let asked = closed.as_millis().to_string();
        server.push(MockReply::error(429, "slow down").with_header("retry-after-ms", &asked));
        let (transport, limiter, request) =
            (transport(), RateLimiter::default(), request(&server.url()));
        let started = Instant::now();
        let queued = limiter.enqueue(0);
        let first = transport.call("openai", &request, LONG, &queued, decode);
        let second = async {
            while server.count() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // By now the first request has received its `Retry-After`.
            tokio::time::sleep(closed / 4).await;
            let called =
                transport.call("openai", &request, LONG, &limiter.enqueue(0), decode).await;
            (called, started.elapsed())
        };
        let (first, (second, waited)) = tokio::join!(first, second);
        assert_eq!((first.unwrap().attempts, second.unwrap().attempts), (2, 1));
        if waited >= closed { Ok(()) } else { Err(format!("{waited:?}")) }
    })
    .await;
}

#[tokio::test]
async fn latency_is_that_of_the_attempt_that_succeeded() {
    at_some_pace(async |factor| {
        let server = server();
        let pause = Duration::from_millis(600) * factor;
        let asked = pause.as_millis().to_string();
        let refusal = MockReply::error(503, "no").after(pause);
        server.push(refusal.with_header("retry-after-ms", &asked));
        let called = call(&server.url(), LONG).await.unwrap();
        assert_eq!(called.attempts, 2);
        assert!(called.latency_ms > 0.0);
        let is_of_the_last = called.latency_ms < pause.as_secs_f64() * 1e3;
        if is_of_the_last { Ok(()) } else { Err(format!("{} ms", called.latency_ms)) }
    })
    .await;
}

#[tokio::test]
async fn an_abandoned_request_is_not_retried() {
    let server = server();
    server.push(MockReply::error(503, "no"));
    let options = TransportOptions { retry: RetryPolicy::never(), ..options() };
    let err = HttpTransport::new(options)
        .unwrap()
        .call("openai", &request(&server.url()), LONG, &RateLimiter::default().enqueue(0), decode)
        .await
        .unwrap_err();
    assert_eq!((err.attempts, server.count()), (1, 1));
}
