//! Alerts about fallen pass rates, and their delivery.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kindlm_testing::{MockReply, MockServer};
use serde_json::{Value, json};

use crate::server::Server;

/// Starts a server whose agent `shop` must always say "refund".
fn start(folder: &Path, args: &[&str]) -> Server {
    let server = Server::start(folder, args);
    put_set(&server, "refund");
    assert_eq!(server.json("PUT /v1/agents/shop", &json!({"set": "support"})).status, 200);
    server
}

fn put_set(server: &Server, word: &str) {
    let set = json!({"expect": {"assert": [{"type": "contains", "value": word}]}});
    assert_eq!(server.json("PUT /v1/assertion-sets/support", &set).status, 201);
}

/// Stores samples with this output.
fn send(server: &Server, count: usize, output: &str) {
    let sample = json!({"agent": "shop", "version": "v2", "agent_output": output}).to_string();
    let body = vec![sample; count].join("\n");
    let head = ["host: localhost", "content-type: application/x-ndjson"];
    let reply = server.send("POST /v1/samples", &head, body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.body);
}

fn wait<T>(server: &Server, what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_mins(2);
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: {}", server.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until no sample is pending.
fn evaluate_all(server: &Server) {
    let line = "kindlm_samples{state=\"pending\"} 0";
    wait(server, line, || server.get("/metrics").body.lines().find(|it| *it == line).map(|_| ()));
}

fn alerts(server: &Server, query: &str) -> Vec<Value> {
    let reply = server.get(&format!("/v1/alerts{query}"));
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["items"].as_array().unwrap().clone()
}

fn metric(server: &Server, line: &str) -> bool {
    server.get("/metrics").body.lines().any(|it| it == line)
}

#[test]
fn fall_is_reported_once_and_ends_with_the_recovery() {
    let receiver = MockServer::start().unwrap();
    // The first attempt fails, and is repeated.
    receiver.push(MockReply::error(500, "not ready"));
    let url = format!("{}/hook?key=s3cret", receiver.url());
    let folder = tempfile::tempdir().unwrap();
    let args = ["--alert-webhook", &url, "--public-url", "https://k.example.com"];
    let server = start(folder.path(), &args);
    send(&server, 100, "a refund");
    evaluate_all(&server);
    assert!(alerts(&server, "").is_empty() && metric(&server, "kindlm_alerts_standing 0"));
    assert!(server.get("/monitor").body.contains("No alert stands."));
    send(&server, 30, "no");
    evaluate_all(&server);
    let found = alerts(&server, "?agent=shop&standing=true");
    assert_eq!(found.len(), 1, "{found:?}");
    let alert = &found[0];
    assert_eq!([&alert["agent"], &alert["set"], &alert["version"]], ["shop", "support@1", "v2"]);
    assert_eq!([&alert["from"]["passed"], &alert["from"]["failed"]], [100, 0]);
    assert_eq!(alert["to"]["passed"], 0);
    assert!(alert["evidence"].as_f64().unwrap() >= 10_000.0, "{alert}");
    assert_eq!(alert.get("judge"), None);
    let after =
        alert["to"]["failed"].as_u64().unwrap() + alert["latest"]["failed"].as_u64().unwrap();
    assert_eq!(after, 30, "{alert}");
    assert!(alerts(&server, "?agent=desk").is_empty());
    assert!(alerts(&server, "?standing=false").is_empty());
    assert!(metric(&server, "kindlm_alerts_standing 1"));
    let page = server.get("/monitor").body;
    assert!(page.contains("100.0 % (96.3–100.0) of 100"), "{page}");
    wait(&server, "two requests", || (receiver.count() == 2).then_some(()));
    let sent = receiver.requests()[1].json();
    for key in ["id", "agent", "assertion", "since", "from", "to", "evidence"] {
        assert_eq!(sent[key], alert[key], "{key}");
    }
    assert_eq!(sent["event"], "alert");
    assert_eq!(sent["link"], "https://k.example.com/monitor?agent=shop");
    let stderr = wait(&server, "a warning", || {
        Some(server.stderr()).filter(|it| it.contains("`--alert-webhook` to 127.0.0.1"))
    });
    assert!(stderr.contains("status 500") && !stderr.contains("s3cret"), "{stderr}");

    // The server is restarted. The alert still stands, and is not sent again.
    drop(server);
    let server = Server::start(folder.path(), &args);
    assert_eq!(alerts(&server, "?standing=true").len(), 1);
    send(&server, 130, "a refund");
    evaluate_all(&server);
    assert!(alerts(&server, "?standing=true").is_empty());
    let ended = &alerts(&server, "?standing=false")[0];
    assert_eq!([&ended["id"], &ended["end_reason"]], [&alert["id"], &json!("recovered")]);
    wait(&server, "three requests", || (receiver.count() == 3).then_some(()));
    let sent = receiver.requests()[2].json();
    assert_eq!([&sent["event"], &sent["id"]], [&json!("end"), &alert["id"]]);
    assert_eq!(sent["ended"], ended["ended"]);

    // The detector has started again, with the same reference.
    send(&server, 30, "no");
    wait(&server, "four requests", || (receiver.count() == 4).then_some(()));
    let again = &alerts(&server, "?standing=true")[0];
    assert_eq!(again["from"], alert["from"]);
    assert_ne!(again["id"], alert["id"]);
    assert_eq!(receiver.requests()[3].json()["id"], again["id"]);
}

#[test]
fn open_alert_is_delivered_by_the_next_process_without_redirects() {
    let receiver = MockServer::start().unwrap();
    let other = MockServer::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &["--alert-reference", "40"]);
    send(&server, 40, "a refund");
    evaluate_all(&server);
    send(&server, 30, "no");
    evaluate_all(&server);
    assert_eq!(alerts(&server, "")[0]["from"]["passed"], 40);
    drop(server);
    receiver.push(MockReply::redirect(307, &other.url()));
    let server = Server::start(folder.path(), &["--alert-slack", &receiver.url()]);
    wait(&server, "two requests", || (receiver.count() == 2).then_some(()));
    let sent = receiver.requests()[1].json();
    assert_eq!(sent.as_object().unwrap().len(), 1, "{sent}");
    let text = sent["text"].as_str().unwrap();
    assert!(text.starts_with("The pass rate has fallen: "), "{text}");
    assert!(text.contains(&format!("{}/monitor?agent=shop", server.url())), "{text}");
    assert_eq!(other.count(), 0);
}

/// A mail server, and the messages that it has received, each with its commands.
struct MailServer {
    url: String,
    messages: Arc<Mutex<Vec<String>>>,
}

impl MailServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("smtp://{}", listener.local_addr().unwrap());
        let messages = Arc::<Mutex<Vec<String>>>::default();
        let received = Arc::clone(&messages);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A server that is killed breaks its connection.
                let _ = receive(&stream.unwrap(), &received);
            }
        });
        Self { url, messages }
    }

    fn received(&self) -> Vec<String> {
        self.messages.lock().unwrap().clone()
    }
}

/// Answers the commands of one connection.
fn receive(mut stream: &TcpStream, messages: &Mutex<Vec<String>>) -> std::io::Result<()> {
    stream.write_all(b"220 mail\r\n")?;
    let (mut all, mut is_data) = (String::new(), false);
    for line in BufReader::new(stream).lines() {
        let line = line?;
        all.extend([line.as_str(), "\n"]);
        if is_data && line != "." {
            continue;
        }
        let reply = match line.split(' ').next().unwrap() {
            "DATA" => "354 go on",
            "QUIT" => "221 bye",
            "." => {
                messages.lock().unwrap().push(std::mem::take(&mut all));
                "250 stored"
            }
            _ => "250 fine",
        };
        is_data = line == "DATA";
        stream.write_all(format!("{reply}\r\n").as_bytes())?;
    }
    Ok(())
}

#[test]
fn fall_and_its_end_are_sent_by_email() {
    let mail = MailServer::start();
    let folder = tempfile::tempdir().unwrap();
    let args = [
        ["--alert-email", "team@example.com"],
        ["--alert-from", "KindLM <kindlm@example.com>"],
        ["--smtp-url", &mail.url],
        ["--alert-reference", "20"],
    ];
    let server = start(folder.path(), args.as_flattened());
    send(&server, 20, "a refund");
    evaluate_all(&server);
    send(&server, 30, "no");
    let first = wait(&server, "an e-mail", || mail.received().first().cloned());
    for part in [
        "MAIL FROM:<kindlm@example.com>",
        "RCPT TO:<team@example.com>",
        "\nFrom: KindLM <kindlm@example.com>\n",
        "\nTo: team@example.com\n",
        "\nSubject: The pass rate has fallen: ",
    ] {
        assert!(first.contains(part), "{part}: {first}");
    }
    let body = first.replace("=\n", "");
    assert!(body.contains(&format!("{}/monitor?agent", server.url())), "{body}");
    assert!(body.contains("shop v2 (support@1)"), "{body}");
    send(&server, 130, "a refund");
    let second = wait(&server, "two e-mails", || mail.received().get(1).cloned());
    assert!(second.contains("\nSubject: Alert ended: "), "{second}");
    let id = |message: &str| {
        message.lines().find(|it| it.starts_with("Message-ID: ")).unwrap().to_owned()
    };
    assert_ne!(id(&first), id(&second));
    evaluate_all(&server);
    assert_eq!(mail.received().len(), 2);
}

#[test]
fn other_version_of_the_set_ends_the_alert_and_starts_a_reference() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &["--alert-reference", "20"]);
    send(&server, 20, "a refund");
    evaluate_all(&server);
    send(&server, 30, "no");
    evaluate_all(&server);
    assert_eq!(alerts(&server, "?standing=true").len(), 1);
    put_set(&server, "yes");
    send(&server, 60, "no");
    evaluate_all(&server);
    let all = alerts(&server, "");
    assert_eq!((all.len(), &all[0]["end_reason"]), (1, &json!("other-set")), "{all:?}");
}

#[test]
fn invalid_queries_and_options_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    for query in ["standing=yes", "rule=x", "standing="] {
        assert_eq!(server.get(&format!("/v1/alerts?{query}")).status, 400, "{query}");
    }
    for (option, value) in [
        ("--alert-webhook", "hooks.example.com/s3cret"),
        ("--alert-slack", "https://a.example.com  file:///s3cret"),
        ("--alert-reference", "19"),
        ("--alert-email", "team@example.com"),
        ("--workers", "0"),
        ("--trace-delay", "3601"),
    ] {
        let output = crate::server::command(folder.path()).args([option, value]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && stderr.contains(option), "{stderr}");
        assert!(!stderr.contains("s3cret"), "{stderr}");
    }
}
