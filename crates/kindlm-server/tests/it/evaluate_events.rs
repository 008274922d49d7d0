//! `POST /v1/evaluate/events`: results as server-sent events.

use std::io::Read as _;

use kindlm_testing::{MockReply, MockServer};
use serde_json::{Value, json};

use crate::monitor::config;
use crate::server::Server;

const HEAD: [&str; 2] = ["host: localhost", "content-type: application/json"];

/// Returns the names and the data of events.
fn events(text: &str) -> Vec<(&str, Value)> {
    let blocks = text.split("\n\n").filter_map(|it| it.split_once("\ndata: "));
    let parsed = blocks.map(|(name, data)| {
        let name = name.rsplit("event: ").next().unwrap();
        (name, serde_json::from_str(data).unwrap())
    });
    parsed.collect()
}

#[test]
fn result_of_a_check_comes_before_the_judge_answers() {
    let folder = tempfile::tempdir().unwrap();
    let judge = MockServer::answering(|request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let messages = body["messages"].as_array().unwrap().iter();
        let texts = messages.filter_map(|it| it["content"].as_str());
        let question = texts.collect::<Vec<_>>().join("\n");
        let results = json!([{"id": "polite", "pass": true, "reasoning": "It says sorry."}]);
        let reply = json!({"results": results}).to_string();
        MockReply::text(kindlm_types::ask::with_mark(&reply, &question))
    })
    .unwrap();
    std::fs::write(folder.path().join("kindlm.yaml"), config(&judge)).unwrap();
    let server = Server::start(folder.path(), &["-c", "kindlm.yaml"]);
    let rule = json!({"id": "polite", "instruction": "Be polite", "criteria": ["Is it polite?"]});
    let record = json!({
        "agent_input": "x", "agent_output": "sorry", "assertions": [rule],
        "expect": {"output": {"contains": ["sorry", "refund"]}},
    });
    judge.hold();
    let body = record.to_string();
    let mut stream = server.begin("POST /v1/evaluate/events", &HEAD, body.as_bytes());
    let mut early = String::new();
    while !early.contains("refund") {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "{early}");
        early += std::str::from_utf8(&part[..count]).unwrap();
    }
    assert!(early.to_lowercase().contains("content-type: text/event-stream"), "{early}");
    assert!(!early.contains("polite"), "{early}");
    judge.release();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("event: result") && rest.contains("event: evaluation"), "{rest}");

    // The events have the same results as the response without events.
    let whole = server.send("POST /v1/evaluate/events", &HEAD, body.as_bytes());
    let events = events(&whole.body);
    let (last, evaluation) = events.last().unwrap();
    assert_eq!(*last, "evaluation");
    assert_eq!(*evaluation, server.evaluate(&record).json());
    let results = events.iter().filter(|it| it.0 == "result").map(|it| &it.1);
    let mut labels: Vec<&Value> = results.map(|it| &it["label"]).collect();
    labels.sort_by_key(ToString::to_string);
    let mut expected: Vec<&Value> =
        evaluation["results"].as_array().unwrap().iter().map(|it| &it["label"]).collect();
    expected.sort_by_key(ToString::to_string);
    assert_eq!(labels, expected);
}

#[test]
fn error_before_the_first_result_has_its_status() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let check = |it: &str| json!({"agent_output": "x", "expect": {"output": {it: ["x"]}}});
    let rules = json!([{"id": "a", "instruction": "x"}]);
    let rule = json!({"agent_input": "x", "agent_output": "x", "assertions": rules});
    for (body, status, kind) in [
        ("no JSON".to_owned(), 400, "not-json"),
        (check("contain").to_string(), 422, "invalid-record"),
        (rule.to_string(), 422, "no-judge"),
    ] {
        let reply = server.send("POST /v1/evaluate/events", &HEAD, body.as_bytes());
        assert_eq!(reply.status, status, "{body}: {}", reply.body);
        assert_eq!(reply.json()["type"], format!("urn:kindlm:problem:{kind}"), "{}", reply.body);
    }
    let reply = server.json("POST /v1/evaluate/events", &check("contains"));
    assert_eq!(events(&reply.body)[0].1["passed"], 1, "{}", reply.body);
}
