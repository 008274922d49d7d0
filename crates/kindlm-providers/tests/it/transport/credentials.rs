//! Tests of credentials that commands print, with a script that prints another key each time.
#![cfg(unix)]

use std::fs;
use std::path::Path;

use kindlm_providers::transport::Waits;
use kindlm_redact::{LearnedSecrets, Secrets};
use kindlm_testing::mock::{MockReply, MockRequest};
use kindlm_types::{Models, ProviderErrorKind as Kind, Reply, Unlimited};

use super::*;

/// The script that prints another key each time.
const KEYS: &str = r#"echo "short-lived-key-$run""#;

/// Returns a folder with the script `print.sh`, which counts its runs in the variable `run`.
fn folder(script: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let counted = format!("echo run >> runs\nrun=$(wc -l < runs | tr -d ' ')\n{script}\n");
    fs::write(folder.path().join("print.sh"), counted).unwrap();
    folder
}

/// Returns the number of times that the script was run.
fn runs(folder: &tempfile::TempDir) -> usize {
    fs::read_to_string(folder.path().join("runs")).unwrap_or_default().lines().count()
}

fn client_in(folder: &Path, config: Value, secrets: Secrets) -> Client {
    let options = ClientOptions { transport: options(), ..ClientOptions::new(env(), folder) };
    Client::new(&providers(config), &Memory(&[]), options.with_secrets(secrets)).unwrap()
}

fn config(server: &MockServer) -> Value {
    let url = format!("{}/v1", server.url());
    json!({"openai": {"apiKeyCommand": "sh print.sh", "baseUrl": url}})
}

/// Returns the key of a request.
fn sent_key(request: &MockRequest) -> String {
    let authorization = request.header("authorization").unwrap_or_default();
    authorization.strip_prefix("Bearer ").unwrap_or_default().to_owned()
}

/// Starts a server that refuses the first key, and repeats every key.
fn refusing_the_first() -> MockServer {
    MockServer::answering(|request| {
        let key = sent_key(request);
        if key == "short-lived-key-1" {
            return MockReply::error(401, &format!("expired: {key}"));
        }
        MockReply::text(format!("you sent {key}"))
    })
    .unwrap()
}

async fn ask(client: &Client, provider: &str) -> Result<Reply, ProviderError> {
    client.complete(provider, &prompt("hi"), LONG, &Unlimited).await
}

#[tokio::test]
async fn a_refused_key_is_renewed() {
    let (server, folder, learned) = (refusing_the_first(), folder(KEYS), LearnedSecrets::default());
    let secrets = Secrets::default().with_learned(&learned);
    let client = client_in(folder.path(), config(&server), secrets.clone());
    assert_eq!(runs(&folder), 0);
    for attempts in [2, 1] {
        let reply = ask(&client, "openai").await.unwrap();
        assert_eq!((reply.text.as_str(), reply.attempts), ("you sent short-lived-key-2", attempts));
        assert_eq!(Secrets::default().redact(&reply.text), None);
        assert_eq!(secrets.redact(&reply.text).unwrap(), "you sent [redacted]");
    }
    assert_eq!((runs(&folder), server.count()), (2, 3));
}

#[tokio::test]
async fn requests_at_the_same_time_share_a_run() {
    let (server, folder) = (refusing_the_first(), folder(KEYS));
    let client = client_in(folder.path(), config(&server), Secrets::default());
    let ask = || ask(&client, "openai");
    let (first, second, third, fourth) = tokio::join!(ask(), ask(), ask(), ask());
    for reply in [first, second, third, fourth] {
        assert_eq!(reply.unwrap().text, "you sent short-lived-key-2");
    }
    assert_eq!(runs(&folder), 2);
}

#[tokio::test]
async fn a_key_is_renewed_once_and_only_without_an_expiration() {
    for (script, attempts) in
        [(KEYS, 2), (r#"echo "{\"token\": \"short-lived-key-$run\", \"expires_in\": 3600}""#, 1)]
    {
        let server = MockServer::answering(|request| {
            MockReply::error(403, &format!("no access with {}", sent_key(request)))
        })
        .unwrap();
        let folder = folder(script);
        let client = client_in(folder.path(), config(&server), Secrets::default());
        let err = ask(&client, "openai").await.unwrap_err();
        assert_eq!((err.status, err.attempts), (Some(403), attempts), "{err}");
        assert!(err.message.contains("no access with [redacted]"), "{err}");
        let other = Prompt { model: "m-2".to_owned(), ..prompt("hi") };
        client.complete("openai", &other, LONG, &Unlimited).await.unwrap_err();
        let attempts = usize::try_from(attempts).unwrap();
        assert_eq!((runs(&folder), server.count()), (attempts, attempts + 1), "{script}");
    }
}

/// The script that first prints a key that expires within two seconds. The first request uses it in any case, because
/// its expiration is only looked at before the next request.
const BRIEF_KEY: &str = r#"[ "$run" = 1 ] && seconds=2 || seconds=3600
    echo "{\"token\": \"short-lived-key-$run\", \"expires_in\": $seconds}""#;

/// The time after which the first key of [`BRIEF_KEY`] has expired.
const EXPIRED: Duration = Duration::from_millis(2_100);

#[tokio::test]
async fn a_key_that_expires_before_its_request_is_renewed() {
    let server = MockServer::answering(|request| {
        let key = sent_key(request);
        if key == "short-lived-key-1" {
            return MockReply::error(401, "expired").after(EXPIRED);
        }
        MockReply::text(format!("you sent {key}"))
    })
    .unwrap();
    let folder = folder(BRIEF_KEY);
    let client = client_in(folder.path(), config(&server), Secrets::default());
    let reply = ask(&client, "openai").await.unwrap();
    assert_eq!((reply.text.as_str(), reply.attempts), ("you sent short-lived-key-2", 2));
    assert_eq!(runs(&folder), 2);
}

#[tokio::test]
async fn a_retry_uses_the_current_key() {
    let server = server();
    server.push(MockReply::error(503, "busy").after(EXPIRED));
    let folder = folder(BRIEF_KEY);
    let client = client_in(folder.path(), config(&server), Secrets::default());
    assert_eq!(ask(&client, "openai").await.unwrap().attempts, 2);
    let keys: Vec<String> = server.requests().iter().map(sent_key).collect();
    assert_eq!(keys, ["short-lived-key-1", "short-lived-key-2"]);
}

/// The second run of the command ends after a request of another provider, which needs the only slot.
#[tokio::test]
async fn a_renewal_occupies_no_slot() {
    let server = server();
    server.push(MockReply::error(503, "busy").after(EXPIRED));
    let script = format!("[ $run = 1 ] || until [ -e go ]; do sleep 0.1; done\n{BRIEF_KEY}");
    let folder = folder(&script);
    let url = format!("{}/v1", server.url());
    let config = json!({
        "openai": {"apiKeyCommand": "sh print.sh", "baseUrl": url},
        "http": {"url": format!("{url}/chat/completions")},
    });
    let transport = TransportOptions { concurrency: Some(1), ..options() };
    let options = ClientOptions { transport, ..ClientOptions::new(env(), folder.path()) };
    let client = Client::new(&providers(config), &Memory(&[]), options).unwrap();
    let other = async {
        while runs(&folder) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let reply = ask(&client, "http").await;
        fs::write(folder.path().join("go"), "").unwrap();
        reply
    };
    let both = async { tokio::join!(ask(&client, "openai"), other) };
    let (renewed, other) = tokio::time::timeout(Duration::from_secs(40), both).await.unwrap();
    assert_eq!((renewed.unwrap().attempts, other.unwrap().attempts), (2, 1));
}

#[tokio::test]
async fn a_stop_during_a_renewal_keeps_the_error_before() {
    let server = server();
    server.push(MockReply::error(503, "busy").after(EXPIRED));
    let folder = folder(&format!("[ $run = 1 ] || sleep 50\n{BRIEF_KEY}"));
    let waits = Waits::default();
    let transport = TransportOptions { waits: waits.clone(), ..options() };
    let options = ClientOptions { transport, ..ClientOptions::new(env(), folder.path()) };
    let client = Client::new(&providers(config(&server)), &Memory(&[]), options).unwrap();
    let stop = async {
        while runs(&folder) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        waits.stop();
    };
    let both = async { tokio::join!(ask(&client, "openai"), stop) };
    let (reply, ()) = tokio::time::timeout(Duration::from_secs(40), both).await.unwrap();
    let err = reply.unwrap_err();
    assert_eq!((err.status, err.attempts), (Some(503), 1), "{err}");
    assert!(err.message.ends_with("; stopped while waiting for a newer credential"), "{err}");
}

#[tokio::test]
async fn a_refused_websocket_is_opened_again_with_a_new_key() {
    let server = MockServer::answering(|request| {
        MockReply::error(401, &format!("expired: {}", sent_key(request)))
    })
    .unwrap();
    let (folder, url) = (folder(KEYS), format!("{}/v1", server.url().replace("http:", "ws:")));
    let config = json!({"openai-realtime": {"apiKeyCommand": "sh print.sh", "baseUrl": url}});
    let client = client_in(folder.path(), config, Secrets::default());
    let err = ask(&client, "openai-realtime").await.unwrap_err();
    assert_eq!(err.status, Some(401), "{err}");
    assert!(!err.message.contains("short-lived"), "{err}");
    let keys: Vec<String> = server.requests().iter().map(sent_key).collect();
    assert_eq!(keys, ["short-lived-key-1", "short-lived-key-2"]);
    assert_eq!(runs(&folder), 2);
}

#[tokio::test]
async fn the_timeout_of_a_websocket_excludes_the_command() {
    let server = MockServer::answering(|request| match sent_key(request).as_str() {
        "short-lived-key-1" => MockReply::error(401, "expired"),
        _ => MockReply::error(400, "no"),
    })
    .unwrap();
    let url = format!("{}/v1", server.url().replace("http:", "ws:"));
    let config = json!({"openai-realtime": {"apiKeyCommand": "sh print.sh", "baseUrl": url}});
    // The run takes longer than the timeout. The rest takes milliseconds, also on a busy machine.
    let (slow_run, timeout) = (11, Duration::from_secs(10));
    let asked = async |slow: u32| {
        let script = format!("[ $run != {slow} ] || sleep {slow_run}\n{KEYS}");
        let folder = folder(&script);
        let client = client_in(folder.path(), config.clone(), Secrets::default());
        let err = client.complete("openai-realtime", &prompt("hi"), timeout, &Unlimited).await;
        let err = err.unwrap_err();
        assert_eq!((err.kind, err.status), (Kind::InvalidRequest, Some(400)), "{slow}: {err}");
        assert_eq!(runs(&folder), 2, "{slow}");
    };
    tokio::join!(asked(1), asked(2));
}

#[tokio::test]
async fn a_stop_ends_the_wait_for_a_key() {
    for (slow, kind, attempts, words) in [
        (1, Kind::Overloaded, 0, "not sent: stopped while waiting for a credential"),
        (2, Kind::Auth, 1, "; stopped while waiting for a newer credential"),
    ] {
        let script = format!("[ $run != {slow} ] || sleep 50; echo short-lived-key-$run");
        let (server, folder) = (refusing_the_first(), folder(&script));
        let waits = Waits::default();
        let transport = TransportOptions { waits: waits.clone(), ..options() };
        let options = ClientOptions { transport, ..ClientOptions::new(env(), folder.path()) };
        let client = Client::new(&providers(config(&server)), &Memory(&[]), options).unwrap();
        let stop = async {
            while runs(&folder) < slow {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            waits.stop();
        };
        let both = async { tokio::join!(ask(&client, "openai"), stop) };
        let (reply, ()) = tokio::time::timeout(Duration::from_secs(40), both).await.unwrap();
        let err = reply.unwrap_err();
        assert_eq!((err.kind, err.attempts), (kind, attempts), "{err}");
        assert!(err.message.ends_with(words), "{err}");
    }
}

#[tokio::test]
async fn a_failed_command_is_an_error_at_its_place() {
    for (script, expected) in [
        (
            "echo hidden; printf 'no login\\n for correct-horse\\n' >&2; exit 3",
            "the command ended with exit code 3: `no login for [redacted]`",
        ),
        ("true", "the command printed nothing on stdout"),
        ("echo please log in", "the command must print only a key"),
        ("exit 7", "the command ended with exit code 7; run"),
    ] {
        let (server, folder) = (server(), folder(script));
        let secrets = Secrets::new(["correct-horse"]);
        let client = client_in(folder.path(), config(&server), secrets);
        // The second request does not run the command again.
        for _ in 0..2 {
            let err = ask(&client, "openai").await.unwrap_err();
            assert_eq!((err.kind, err.attempts, err.retryable), (Kind::Auth, 0, false), "{err}");
            let place = "`providers.openai.apiKeyCommand` gives no credential: ";
            assert!(err.message.starts_with(&format!("{place}{expected}")), "{err}");
            assert!(!err.message.contains("hidden"), "{err}");
        }
        assert_eq!((runs(&folder), server.count()), (1, 0));
    }
}

#[tokio::test]
async fn a_command_prints_credentials_of_aws() {
    let answer = json!({
        "output": {"message": {"role": "assistant", "content": [{"text": "ok"}]}},
        "stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3},
    });
    let script = r#"echo "{\"Version\": 1, \"AccessKeyId\": \"AKIDPRINTED\", \"SecretAccessKey\": \"very-secret-$run\",
        \"SessionToken\": \"session-token\", \"Expiration\": \"2999-01-01T00:00:00Z\"}""#;
    let server = MockServer::answering(move |request| match request.path.as_str() {
        "/model/m-1/converse" => MockReply::json(&answer),
        _ => MockReply::text("ok"),
    })
    .unwrap();
    let config = json!({
        "bedrock": {"baseUrl": server.url(), "credentialsCommand": "sh print.sh"},
        "http": {
            "url": format!("{}/v1/chat/completions", server.url()),
            "aws": {"service": "sagemaker", "region": "us-east-1", "credentialsCommand": "sh print.sh"},
        },
    });
    let (folder, learned) = (folder(script), LearnedSecrets::default());
    let secrets = Secrets::default().with_learned(&learned);
    let client = client_in(folder.path(), config, secrets.clone());
    for (provider, service) in [("bedrock", "bedrock"), ("http", "sagemaker")] {
        assert_eq!(ask(&client, provider).await.unwrap().text, "ok");
        let requests = server.requests();
        let signed = requests.last().unwrap();
        let authorization = signed.header("authorization").unwrap();
        assert!(
            authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIDPRINTED/"),
            "{provider}"
        );
        assert!(authorization.contains(&format!("/us-east-1/{service}/")), "{authorization}");
        assert_eq!(signed.header("x-amz-security-token"), Some("session-token"));
    }
    assert_eq!(runs(&folder), 2);
    for secret in ["very-secret-1", "session-token"] {
        assert_eq!(secrets.redact(secret).unwrap(), "[redacted]");
    }
}
