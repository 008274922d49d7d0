//! `/v1/samples` and `/v1/feedback`.

use serde_json::{Value, json};

use crate::server::{Reply, Server};

const LINES: &str = "content-type: application/x-ndjson";
const HOST: &str = "host: localhost";

fn sample(id: &str, agent: &str, subject: &str) -> Value {
    json!({"id": id, "agent": agent, "subject": subject, "agent_input": "q", "agent_output": "a"})
}

fn send(server: &Server, head: &[&str], samples: &[Value]) -> Reply {
    let body = samples.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let head: Vec<&str> = [HOST, LINES].iter().chain(head).copied().collect();
    server.send("POST /v1/samples", &head, body.as_bytes())
}

#[test]
fn samples_are_stored_once_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let one = server.json("POST /v1/samples", &sample("1", "shop", "ann"));
    assert_eq!(one.json(), json!({"stored": 1, "duplicates": 0, "ids": ["1"]}));
    let samples =
        [sample("1", "shop", "ann"), sample("2", "shop", "bob"), sample("3", "desk", "ann")];
    let key = ["idempotency-key: k1"];
    let first = send(&server, &key, &samples).json();
    assert_eq!([&first["stored"], &first["duplicates"]], [2, 1]);
    assert_eq!(send(&server, &key, &samples).json(), first);
    let reply = send(&server, &key, &samples[..1]);
    assert_eq!(
        (reply.status, &reply.json()["type"]),
        (422, &json!("urn:kindlm:problem:key-reused"))
    );
    // Without an id, the server chooses one.
    let reply = server.json("POST /v1/samples", &json!({"agent": "shop", "agent_output": "x"}));
    assert_eq!(reply.json()["ids"][0].as_str().unwrap().len(), 32);
    let page = server.get("/v1/samples?agent=shop&limit=2").json();
    assert_eq!([&page["total"], &json!(page["items"].as_array().unwrap().len())], [3, 2]);
    let rest = server
        .get(&format!("/v1/samples?agent=shop&limit=2&cursor={}", page["next"].as_str().unwrap()));
    let rest = rest.json();
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));
    assert_eq!(rest["items"][0]["sample"], sample("1", "shop", "ann"));
}

#[test]
fn ids_belong_to_one_sample() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    assert_eq!(server.json("POST /v1/samples", &sample("1", "shop", "ann")).status, 200);
    let mut other = sample("1", "shop", "ann");
    other["agent_output"] = json!("b");
    for other in [other, sample("1", "desk", "ann")] {
        let reply = send(&server, &[], &[sample("2", "shop", "ann"), other]);
        assert_eq!(
            (reply.status, &reply.json()["type"]),
            (422, &json!("urn:kindlm:problem:id-reused")),
            "{}",
            reply.body
        );
    }
    assert_eq!(server.get("/v1/samples").json()["total"], 1);
    // Ids that are equal as floating-point numbers are different.
    let ids = ["18446744073709551616", "18446744073709551617", "1.10", "1.1"];
    for id in ids {
        let body =
            format!(r#"{{"id": {id}, "agent": "shop", "version": 1.10, "agent_output": "x"}}"#);
        let head = [HOST, "content-type: application/json"];
        let reply = server.send("POST /v1/samples", &head, body.as_bytes());
        assert_eq!(reply.json()["ids"], json!([id]), "{}", reply.body);
        assert_eq!(reply.json()["stored"], 1, "{}", reply.body);
    }
    let newest = server.get("/v1/samples?limit=1").json()["items"][0].clone();
    assert_eq!(newest["version"], "1.10", "{newest}");
    assert!(newest["sample"]["id"].is_string(), "{newest}");
}

#[test]
fn feedback_is_counted_for_its_sample() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    assert_eq!(server.json("POST /v1/samples", &sample("1", "shop", "ann")).status, 200);
    for (value, status) in [("up", 201), ("down", 201), ("up", 201), ("left", 422)] {
        let reply = server.json("POST /v1/feedback", &json!({"sample": "1", "value": value}));
        assert_eq!(reply.status, status, "{}", reply.body);
    }
    assert_eq!(
        server.json("POST /v1/feedback", &json!({"sample": "2", "value": "up"})).status,
        404
    );
    let thumbs = || {
        let item = server.get("/v1/samples").json()["items"][0].clone();
        [item["thumbs_up"].clone(), item["thumbs_down"].clone()]
    };
    assert_eq!(thumbs(), [2, 1]);
    // A later opinion of an author replaces the earlier one.
    for (value, note) in [("up", "fine"), ("down", "too late")] {
        let sent = json!({"sample": "1", "value": value, "note": note, "author": "ann"});
        assert_eq!(server.json("POST /v1/feedback", &sent).status, 201);
    }
    assert_eq!(thumbs(), [2, 2]);
    let listed = server.get("/v1/feedback?sample=1").json();
    let of_ann: Vec<&Value> =
        listed.as_array().unwrap().iter().filter(|it| it["author"] == "ann").collect();
    assert_eq!((listed.as_array().unwrap().len(), of_ann.len()), (4, 1), "{listed}");
    assert_eq!([&of_ann[0]["value"], &of_ann[0]["note"]], ["down", "too late"]);
    assert_eq!(server.get("/v1/feedback").status, 400);
    for sent in [
        json!({"sample": "1", "value": "up", "note": "a\u{0}"}),
        json!({"sample": "1", "value": "up", "note": "x".repeat(4001)}),
        json!({"sample": "1", "value": "up", "author": "a\u{0}"}),
    ] {
        assert_eq!(server.json("POST /v1/feedback", &sent).status, 422);
    }
}

#[test]
fn page_of_large_samples_ends_early() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    for id in ["1", "2", "3"] {
        let output = "x".repeat(7 << 20);
        let sent = json!({"id": id, "agent": "shop", "agent_output": output});
        assert_eq!(server.json("POST /v1/samples", &sent).status, 200);
    }
    let ids = |page: &Value| {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|it| it["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let page = server.get("/v1/samples?limit=1000").json();
    assert_eq!((&page["total"], ids(&page).len()), (&json!(3), 2));
    let next = page["next"].as_str().unwrap();
    let rest = server.get(&format!("/v1/samples?limit=1000&cursor={next}")).json();
    assert_eq!((ids(&rest), &rest["next"]), (vec!["1".to_owned()], &Value::Null));
}

#[test]
fn samples_are_deleted_by_agent_subject_and_age() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let samples = [
        sample("1", "shop", "ann"),
        sample("2", "shop", "bob"),
        sample("3", "desk", "ann"),
        sample("4", "desk", "eve"),
    ];
    assert_eq!(send(&server, &[], &samples).status, 200);
    let delete = |query: &str| server.send(&format!("DELETE /v1/samples{query}"), &[HOST], b"");
    for query in
        ["", "?name=x", "?before=yesterday", "?subject=", "?agent=&before=2100-01-01T00:00:00Z"]
    {
        assert_eq!(delete(query).status, 400, "{query}");
    }
    for (query, deleted) in [
        ("?before=2020-01-01T00:00:00Z", 0),
        ("?subject=ann&agent=shop", 1),
        ("?subject=ann", 1),
        ("?before=2100-01-01T00:00:00Z&agent=desk", 1),
    ] {
        let reply = delete(query);
        assert_eq!(reply.json(), json!({"deleted": deleted}), "{query}: {}", reply.body);
    }
    assert_eq!(server.get("/v1/samples").json()["items"][0]["id"], "2");
}

#[test]
fn invalid_samples_are_refused_and_nothing_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let long = "x".repeat(101);
    for (bad, expected) in [
        (json!([]), "line 2: a sample is a JSON object"),
        (json!({"agent_output": "x"}), "line 2: the sample has no `agent`"),
        (json!({"agent": ""}), "line 2: `agent`"),
        (json!({"agent": "a", "id": long}), "line 2: `id`"),
        (json!({"agent": "a\u{0}"}), "line 2: `agent`"),
        (json!({"agent": "a", "expect": {}}), "line 2: a sample has no `expect`"),
    ] {
        let reply = send(&server, &[], &[sample("1", "shop", "ann"), bad]);
        assert_eq!(reply.status, 422, "{}", reply.body);
        assert!(reply.json()["detail"].as_str().unwrap().starts_with(expected), "{}", reply.body);
    }
    let many = vec![sample("1", "shop", "ann"); 10_001];
    let reply = send(&server, &[], &many);
    assert_eq!(reply.status, 422, "{}", reply.body);
    assert!(reply.body.contains("at most 10000 samples"), "{}", reply.body);
    assert_eq!(server.send("POST /v1/samples", &[HOST, LINES], b"{").status, 400);
    assert_eq!(server.send("POST /v1/samples", &[HOST], b"{}").status, 415);
    for query in ["limit=0", "limit=1001", "limit=x", "cursor=x", "agents=x", "agent="] {
        assert_eq!(server.get(&format!("/v1/samples?{query}")).status, 400, "{query}");
    }
    assert_eq!(server.get("/v1/samples").json(), json!({"total": 0, "items": []}));
}

#[test]
fn personal_data_is_not_stored_if_the_operator_asks() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--redact-pii"]);
    let mut sent = sample("1", "shop", "ann");
    sent["agent_output"] = json!("write to ann.lee@acme-corp.com");
    let arguments =
        json!({"card": "4012888888881881", "other": 4_012_888_888_881_881_u64, "bob@mail.org": 1});
    sent["tool_calls"] = json!([{"name": "pay", "arguments": arguments}]);
    assert_eq!(server.json("POST /v1/samples", &sent).status, 200);
    let feedback = json!({"sample": "1", "value": "up", "note": "I am bob@mail.org"});
    assert_eq!(server.json("POST /v1/feedback", &feedback).status, 201);
    let stored = &server.get("/v1/samples").json()["items"][0]["sample"];
    assert_eq!(stored["agent_output"], "write to [e-mail address]");
    let arguments =
        json!({"card": "[card number]", "other": "[card number]", "[e-mail address]": 1});
    assert_eq!(stored["tool_calls"][0]["arguments"], arguments);
    drop(server);
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        for secret in ["ann.lee@", "4012888888881881", "bob@mail"] {
            assert!(!bytes.windows(secret.len()).any(|it| it == secret.as_bytes()), "{secret}");
        }
    }
}

#[test]
fn sample_with_unreadable_evidence_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    for (sample, field) in [
        (r#"{"agent": "a", "agent_output": "x", "tool_calls": "zz"}"#, "`tool_calls`"),
        (r#"{"agent": "a", "agent_output": "x", "latency_ms": -1}"#, "`latency_ms`"),
        (r#"{"agent": "a", "agent_output": "x", "agent_output": "y"}"#, "agent_output"),
    ] {
        let head = ["host: localhost", "content-type: application/json"];
        let reply = server.send("POST /v1/samples", &head, sample.as_bytes());
        assert_eq!(reply.status, 422, "{sample}: {}", reply.body);
        assert!(reply.body.contains(field), "{sample}: {}", reply.body);
    }
    let lines = "{\"agent\": \"a\", \"agent_output\": \"x\"}\n{\"agent\": \"a\", \"events\": 1}";
    let head = ["host: localhost", "content-type: application/x-ndjson"];
    let reply = server.send("POST /v1/samples", &head, lines.as_bytes());
    assert!(reply.status == 422 && reply.body.contains("line 2: `events`"), "{}", reply.body);
    assert_eq!(server.get("/v1/samples").json()["total"], 0);
}

#[test]
fn repeated_feedback_is_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let sample = json!({"id": "s", "agent": "a", "agent_output": "x"});
    assert_eq!(server.json("POST /v1/samples", &sample).status, 200);
    let send = |key: &str, value: &str| {
        let key = format!("idempotency-key: {key}");
        let head = ["host: localhost", "content-type: application/json", &key];
        let body = json!({"sample": "s", "value": value}).to_string();
        server.send("POST /v1/feedback", &head, body.as_bytes())
    };
    let (first, again) = (send("f1", "up"), send("f1", "up"));
    assert_eq!((first.status, &first.body), (201, &again.body));
    assert_eq!(server.get("/v1/samples").json()["items"][0]["thumbs_up"], 1);
    assert_eq!(send("f1", "down").status, 422);
    assert_eq!(send("f2", "up").status, 201);
    assert_eq!(server.get("/v1/samples").json()["items"][0]["thumbs_up"], 2);
}
