//! `POST /v1/evaluate/batch`.

use std::io::{BufRead as _, BufReader, Write as _};

use serde_json::{Value, json};

use crate::server::Server;

const HEAD: [&str; 2] = ["host: localhost", "content-type: application/x-ndjson"];

fn record(id: u32, output: &str) -> Value {
    let rules = json!({"assert": [{"type": "contains", "value": "good"}]});
    json!({"id": id, "agent_output": output, "expect": rules})
}

fn send(server: &Server, body: &str) -> Vec<Value> {
    let reply = server.send("POST /v1/evaluate/batch", &HEAD, body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert!(reply.head.contains("content-type: application/x-ndjson"), "{}", reply.head);
    reply.lines()
}

#[test]
fn results_have_the_order_of_the_records() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    // The first records take longer than the others.
    let slow = "let sum = 0;\nfor (let i = 0; i < 300000; i++) sum += i;\nreturn sum > 0";
    let rules = json!({"assert": [{"type": "javascript", "value": slow}]});
    let slow = |id: u32| json!({"id": id, "agent_output": "x", "expect": rules});
    let records = (0..400).map(|id| match id {
        0..4 => slow(id),
        it if it % 10 == 0 => record(it, "bad"),
        it => record(it, "good"),
    });
    let body = records.map(|it| it.to_string()).collect::<Vec<_>>().join("\n");
    let lines = send(&server, &body);
    assert_eq!(lines.len(), 401);
    let ids: Vec<u64> = lines[..400].iter().map(|it| it["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (0..400).collect::<Vec<_>>());
    let results = &lines[400]["summary"]["results"];
    assert_eq!(results["total_cases"], 400);
    assert_eq!([&results["passed_cases"], &results["failed_cases"]], [361, 39]);
    assert!(results["assertion_breakdown"].is_object(), "{results}");
}

#[test]
fn invalid_lines_have_errors_and_do_not_end_the_batch() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let judged = json!({"id": 5, "agent_input": "x", "agent_output": "y", "expect": {"judge": [{"criteria": "Is polite"}]}});
    let python = json!({"id": 6, "agent_output": "x", "expect": {"assert": [{"type": "python", "value": "1"}]}});
    let body = format!(
        "{}\n\n{{\n[]\n{judged}\n{python}\n{}\n{}",
        record(1, "good"),
        json!({"id": 7, "agent_output": "x".repeat(8 << 20)}),
        record(8, "good")
    );
    let lines = send(&server, &body);
    let numbers: Vec<&Value> = lines.iter().map(|it| &it["line"]).collect();
    let none = &Value::Null;
    assert_eq!(numbers, [none, &json!(3), &json!(4), &json!(5), &json!(6), &json!(7), none, none]);
    for (at, expected) in
        [(1, "JSON"), (2, "object"), (3, "`models`"), (4, "/expect/assert/0"), (5, "8 MiB")]
    {
        let error = lines[at]["error"].as_str().unwrap();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!([&lines[3]["id"], &lines[4]["id"]], [5, 6]);
    let results = &lines[7]["summary"]["results"];
    let counts = ["total_cases", "passed_cases", "errored_cases", "malformed_lines"];
    assert_eq!(counts.map(|it| results[it].as_u64().unwrap()), [3, 2, 1, 4]);
}

#[test]
fn results_are_sent_before_the_request_ends() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let mut stream = server.connect();
    let head = format!(
        "POST /v1/evaluate/batch HTTP/1.1\r\n{}\r\n{}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n",
        HEAD[0], HEAD[1]
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut reply = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut seen = String::new();
    let mut until = |text: &str| {
        while !seen.contains(text) {
            seen += &reply.next().expect("the response has ended").unwrap();
        }
    };
    for id in [1, 2] {
        let line = format!("{}\n", record(id, "good"));
        write!(stream, "{:x}\r\n{line}\r\n", line.len()).unwrap();
        until(&format!("\"id\":{id},"));
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    until("\"summary\"");
}

#[test]
fn batches_are_json_lines() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let head = ["host: localhost", "content-type: application/json"];
    assert_eq!(server.send("POST /v1/evaluate/batch", &head, b"{}").status, 415);
    let lines = send(&server, "");
    assert_eq!(lines[0]["summary"]["results"]["total_cases"], 0);
}
