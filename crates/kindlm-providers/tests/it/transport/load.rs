//! Tests of concurrent requests: rate limits, refusals, and open circuits.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use kindlm_providers::Limits;
use kindlm_testing::mock::MockReply;
use kindlm_types::{Models, ProviderErrorKind as Kind, Reply, Unlimited};
use tokio::task::JoinSet;

use super::*;

fn limited(server: &MockServer, limits: Limits) -> Arc<Client> {
    let config = json!({"openai": {"apiKeyEnv": "TOKEN", "baseUrl": server.url()}});
    let options = client_options().with_limits("openai", "m-1", limits);
    Arc::new(Client::new(&providers(config), &Memory(&[]), options).unwrap())
}

fn at_once(concurrency: u32) -> Limits {
    Limits { concurrency: NonZeroU32::new(concurrency), ..Limits::default() }
}

/// Sends concurrent requests, one for each listed model.
async fn send(
    client: &Arc<Client>,
    models: impl IntoIterator<Item = &str>,
    timeout: Duration,
) -> Vec<Result<Reply, ProviderError>> {
    let mut calls = JoinSet::new();
    for model in models {
        let (client, prompt) = (Arc::clone(client), prompt("hi"));
        let prompt = Prompt { model: model.to_owned(), ..prompt };
        calls.spawn(async move { client.complete("openai", &prompt, timeout, &Unlimited).await });
    }
    calls.join_all().await
}

#[tokio::test]
async fn a_client_finds_the_rate_of_a_provider() {
    let server = MockServer::for_bench(Duration::from_millis(10)).unwrap();
    server.allow_in_flight(8);
    let config = json!({"openai": {"apiKeyEnv": "TOKEN", "baseUrl": server.url()}});
    let options =
        ClientOptions::new(env(), std::env::temp_dir()).with_limits("openai", "m-1", at_once(64));
    let client = Arc::new(Client::new(&providers(config), &Memory(&[]), options).unwrap());
    let warm_up = send(&client, ["m-1"; 200], LONG).await;
    let refused_at_first = server.refused();
    let replies = send(&client, ["m-1"; 1_000], LONG).await;
    let refused_later = server.refused() - refused_at_first;
    for reply in warm_up.into_iter().chain(replies) {
        reply.unwrap();
    }
    assert_eq!(server.peak_in_flight(), 8, "what it takes is used");
    assert!((1..=150).contains(&refused_at_first), "{refused_at_first} of 200 at first");
    assert!(refused_later <= 60, "{refused_later} of 1000 later");
}

#[tokio::test]
async fn waiting_for_its_turn_is_no_part_of_timeout_and_latency() {
    at_some_pace(async |factor| {
        let latency = Duration::from_millis(200) * factor;
        let timeout = latency * 5 / 2;
        let slow = move |_: &_| MockReply::text("ok").after(latency);
        let server = MockServer::answering(slow).unwrap();
        let client = limited(&server, at_once(1));
        let started = Instant::now();
        // The last request waits for the three earlier requests.
        for reply in send(&client, ["m-1"; 4], timeout).await {
            let reply = reply.map_err(|err| err.to_string())?;
            let took = Duration::from_secs_f64(reply.latency_ms / 1e3);
            if !(latency..timeout).contains(&took) || reply.attempts != 1 {
                return Err(format!("{took:?}, {} attempts", reply.attempts));
            }
        }
        assert!(started.elapsed() >= latency * 4);
        assert_eq!(server.peak_in_flight(), 1);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_rate_is_kept_and_binds_only_its_model() {
    let server = server();
    let rate = Limits { rpm: NonZeroU32::new(300), ..Limits::default() };
    let client = limited(&server, rate);
    let started = Instant::now();
    // Five requests start immediately, then one request every 200 ms.
    for reply in send(&client, ["m-1"; 8], LONG).await {
        reply.unwrap();
    }
    assert!(started.elapsed() >= Duration::from_millis(550), "{:?}", started.elapsed());
    // With the limit of `m-1`, one request per minute, this would take an hour.
    let client = limited(&server, Limits { rpm: NonZeroU32::new(1), ..Limits::default() });
    let started = Instant::now();
    for reply in send(&client, ["m-2"; 60], LONG).await {
        reply.unwrap();
    }
    assert!(started.elapsed() < NEVER);
}

/// Checks that the actual use replaces the estimate. The mock reports 15 tokens per answer. The rate limiter first
/// reserves about 10 tokens plus the longest possible answer.
#[tokio::test]
async fn tokens_are_settled_by_actual_use() {
    let server = server();
    let rate = Limits { tpm: NonZeroU32::new(6_000), ..Limits::default() };
    let client = limited(&server, rate);
    let limited =
        Prompt { params: Params { max_tokens: Some(1_000), ..Params::default() }, ..prompt("hi") };
    let started = Instant::now();
    for _ in 0..8 {
        client.complete("openai", &limited, LONG, &Unlimited).await.unwrap();
    }
    // If the estimates counted, each request after the first would wait for ten seconds.
    assert!(started.elapsed() < Duration::from_mins(1), "{:?}", started.elapsed());
    assert!(started.elapsed() >= Duration::from_millis(100), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_refused_key_stops_the_whole_provider_and_nothing_else() {
    let server = server();
    server.push(MockReply::error(401, &format!("bad key {KEY}")));
    let client = limited(&server, at_once(1));
    let first = client.complete("openai", &prompt("hi"), LONG, &Unlimited).await.unwrap_err();
    assert_eq!((first.kind, first.attempts), (Kind::Auth, 1));
    for later in send(&client, ["m-1", "m-1", "m-2"], LONG).await {
        let later = later.unwrap_err();
        assert_eq!((later.kind, later.status, later.attempts), (Kind::Auth, Some(401), 0));
        assert_eq!(later.provider, "openai");
        assert!(
            later.message.starts_with("not sent, because an earlier request failed"),
            "{later}"
        );
        assert!(later.message.contains("bad key [redacted]"), "{later}");
    }
    let later = client.embed("openai", "e", "text", LONG).await.unwrap_err();
    assert_eq!((later.kind, later.attempts), (Kind::Auth, 0));
    assert_eq!(server.count(), 1);
    client.complete("echo", &prompt("hi"), LONG, &Unlimited).await.unwrap();
}

#[tokio::test]
async fn an_empty_account_stops_waiting_requests() {
    let quota = json!({"error": {"message": "pay first", "code": "insufficient_quota"}});
    let refuse =
        move |_: &_| MockReply::json(&quota).with_status(429).after(Duration::from_millis(50));
    let server = MockServer::answering(refuse).unwrap();
    let client = limited(&server, at_once(2));
    let errors: Vec<_> = send(&client, ["m-1"; 20], LONG).await;
    let mut sent = 0;
    for err in errors {
        let err = err.unwrap_err();
        assert_eq!((err.kind, err.retryable), (Kind::QuotaExhausted, false), "{err}");
        sent += err.attempts;
    }
    assert_eq!((sent, server.count()), (2, 2), "those that were in flight");
}

#[tokio::test]
async fn a_model_that_is_not_allowed_stops_only_itself() {
    let server = server();
    server.push(MockReply::error(403, "no permission to use this model"));
    let client = limited(&server, Limits::default());
    for (model, kind, attempts) in
        [("m-1", Some(Kind::Auth), 1), ("m-1", Some(Kind::Auth), 0), ("m-2", None, 1)]
    {
        let reply = send(&client, [model], LONG).await.remove(0);
        let found = reply.as_ref().err().map(|err| err.kind);
        let told = reply.map_or_else(|err| err.attempts, |it| it.attempts);
        assert_eq!((found, told), (kind, attempts), "{model}");
    }
    assert_eq!(server.count(), 2);
}

/// Scripted replies are not sent to a server, so the circuit never opens.
#[tokio::test]
async fn a_script_may_refuse_one_request_and_answer_the_next() {
    let client = client(json!({"scripted": {"replies": [
        {"error": {"kind": "auth"}, "times": 1}, {"text": "fine"},
    ]}}));
    let first = client.complete("scripted", &prompt("hi"), LONG, &Unlimited).await.unwrap_err();
    assert_eq!(first.kind, Kind::Auth);
    assert_eq!(
        client.complete("scripted", &prompt("hi"), LONG, &Unlimited).await.unwrap().text,
        "fine"
    );
}

/// Checks which repeated failures open the circuit. Further calls then fail with the same cause, without being sent.
#[tokio::test]
async fn a_provider_that_never_answers_is_not_asked_for_ever() {
    for (status, kind, calls, attempts) in [
        (403, Kind::InvalidRequest, 3, 1),
        (404, Kind::ModelNotFound, 3, 1),
        (405, Kind::InvalidRequest, 3, 1),
        (500, Kind::Server, 10, 3),
        (400, Kind::InvalidRequest, 20, 1),
    ] {
        let server = MockServer::answering(move |_: &_| MockReply::error(status, "no")).unwrap();
        let client = limited(&server, at_once(1));
        for call in 0..20 {
            let err = client.complete("openai", &prompt("hi"), LONG, &Unlimited).await.unwrap_err();
            let expected = if call < calls { attempts } else { 0 };
            assert_eq!((err.kind, err.attempts), (kind, expected), "{status}, call {call}: {err}");
        }
        assert_eq!(server.count(), (calls * attempts) as usize, "{status}");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_given_up_after_three_calls() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config =
        json!({"openai": {"apiKeyEnv": "TOKEN", "baseUrl": format!("http://127.0.0.1:{port}")}});
    let client = Arc::new(client(config));
    for (call, model) in ["m-1", "m-2", "m-1", "m-1", "m-3"].into_iter().enumerate() {
        let err = send(&client, [model], LONG).await.remove(0).unwrap_err();
        let expected = if call < 3 { 3 } else { 0 };
        assert_eq!((err.kind, err.attempts), (Kind::Connection, expected), "call {call}: {err}");
        let told = "3 calls have failed, so nothing more is sent to `openai` in this run";
        assert_eq!(err.message.ends_with(told), call >= 3, "{err}");
    }
}

/// One answer shows that the model works: later failures concern single requests.
#[tokio::test]
async fn a_model_that_has_answered_is_asked_on() {
    let server = server();
    let client = limited(&server, at_once(1));
    client.complete("openai", &prompt("hi"), LONG, &Unlimited).await.unwrap();
    for _ in 0..15 {
        server.push(MockReply::error(404, "no"));
        let err = client.complete("openai", &prompt("hi"), LONG, &Unlimited).await.unwrap_err();
        assert_eq!(err.attempts, 1, "{err}");
    }
}
