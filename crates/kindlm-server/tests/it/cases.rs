//! `POST /v1/samples/{id}/case`, and the page of the test case.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::runs::{events, run, suites};
use crate::server::Server;
use crate::tokens::token;

const HEAD: &str = "kindlm: 1\nproject: shop\nsuite: { name: made }\n";

const PROMPTED: &str = r#"
providers: { scripted: { file: ./replies.yaml } }
models: [{ id: agent, provider: scripted, model: m }]
prompts: { ask: { user: "{{ question }} ({{ plan }})" } }
"#;

fn start(folder: &std::path::Path) -> Server {
    let server = Server::start(folder, &["--suites", "suites"]);
    let set = json!({"threshold": 0.5, "expect": {
        "output": {"contains": ["refund"]},
        "assert": [
            {"type": "called-tool", "value": "find_order"},
            {"type": "not-called-tool", "value": "pay"},
        ],
    }});
    assert_eq!(server.json("PUT /v1/assertion-sets/support", &set).status, 201);
    assert_eq!(server.json("PUT /v1/agents/shop", &json!({"set": "support"})).status, 200);
    server
}

/// Stores a sample, waits until it is evaluated, and returns its outcome.
fn outcome(server: &Server, sample: &Value) -> Value {
    let reply = server.json("POST /v1/samples", sample);
    assert_eq!(reply.status, 200, "{}", reply.body);
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        let page = server.get("/v1/samples?limit=1000").json();
        let items = page["items"].as_array().unwrap();
        let item = items.iter().find(|it| it["id"] == sample["id"]).unwrap();
        if item["state"] != "pending" {
            return item["evaluation"]["outcome"].clone();
        }
        assert!(Instant::now() < end, "{page}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn test_of_a_sample_has_the_outcome_of_the_sample() {
    let folder = suites();
    let server = start(folder.path());
    let order =
        json!([{"name": "find_order", "arguments": {"id": 7}, "response": {"state": "sent"}}]);
    let pay = json!([{"name": "pay", "arguments": {}, "response": "ok"}]);
    for (id, sample, expected) in [
        (
            "a",
            json!({"agent_input": "{{ x }}: where?", "agent_output": "a refund", "tool_calls": order}),
            "passed",
        ),
        ("b", json!({"agent_input": "where?", "agent_output": "no", "tool_calls": pay}), "failed"),
        // Without recorded calls, the checks of calls cannot be decided.
        ("c", json!({"agent_output": "a refund"}), "errored"),
        (
            "d",
            json!({"agent_output": {"text": "a refund"}, "tool_calls": order, "usage": {"input_tokens": 5, "output_tokens": 2}}),
            "passed",
        ),
        (
            "e: \"x\" # y",
            json!({"transcript": [
                {"role": "user", "content": "where?"},
                {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "find_order", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "c", "content": "sent"},
                {"role": "assistant", "content": "a refund"},
            ]}),
            "passed",
        ),
    ] {
        let mut sample = sample;
        sample["id"] = json!(id);
        sample["agent"] = json!("shop");
        sample["vars"] = json!({"plan": "pro"});
        assert_eq!(outcome(&server, &sample), expected, "{id}");
        let path = id.replace(' ', "%20").replace('"', "%22").replace('#', "%23");
        let reply =
            server.send(&format!("POST /v1/samples/{path}/case"), &["host: localhost"], b"");
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert!(reply.head.contains("content-type: application/yaml"), "{}", reply.head);
        let suite = folder.path().join("suites/made.kindlm.yaml");
        std::fs::write(&suite, format!("{HEAD}tests:\n{}", reply.body)).unwrap();
        let run = run(&server, &json!({"suite": "made.kindlm.yaml"}));
        events(&server, &run, None);
        let report = server.get(&format!("/v1/runs/{run}/report.json")).json();
        let case = &report["cases"][0];
        assert_eq!(
            json!([case["case"], case["outcome"]]),
            json!([format!("sample {id}"), expected]),
            "{}",
            reply.body
        );
    }
}

#[test]
fn test_of_a_sample_sends_its_input_to_a_prompt() {
    let folder = suites();
    let server = start(folder.path());
    let sample = json!({
        "id": "1", "agent": "shop", "agent_input": "a refund?", "agent_output": "no", "vars": {"plan": "pro"},
        "events": [], "provider_response": {"cost": 1},
    });
    outcome(&server, &sample);
    let set = json!({"expect": {"output": {"contains": ["we refund"]}}});
    assert_eq!(server.json("PUT /v1/assertion-sets/new", &set).status, 201);
    let form = json!({"prompt": "ask", "variable": "question", "set": "new"});
    let reply = server.json("POST /v1/samples/1/case", &form);
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert!(reply.body.contains("# Checks: new@1"), "{}", reply.body);
    assert!(reply.body.contains("\"provider_response\""), "{}", reply.body);
    let suite = folder.path().join("suites/made.kindlm.yaml");
    std::fs::write(&suite, format!("{HEAD}{PROMPTED}tests:\n{}", reply.body)).unwrap();
    let id = run(&server, &json!({"suite": "made.kindlm.yaml"}));
    assert_eq!(events(&server, &id, None).last().unwrap().2["state"], "passed", "{}", reply.body);
    // The page `/monitor/case` shows the test of the response.
    let page = server.get("/monitor/case?id=1&prompt=ask&variable=question").body;
    assert!(page.contains("prompt: ask") && page.contains("question: a refund?"), "{page}");
    let monitor = server.get("/monitor").body;
    assert!(monitor.contains("Make a test of the sample 1"), "{monitor}");
    let page = server.get("/monitor/case?id=1");
    assert_eq!(page.status, 422);
    assert!(page.body.contains("the sample has `events`"), "{}", page.body);
    assert_eq!(server.get("/monitor/case?id=2").status, 404);
}

#[test]
fn sample_that_lacks_a_part_makes_no_test() {
    let folder = suites();
    let server = start(folder.path());
    let call = json!([{"name": "pay", "arguments": {}}]);
    for (id, sample) in [
        ("1", json!({"agent_output": "x", "tool_calls": call})),
        ("2", json!({"agent_input": "x"})),
        ("3", json!({"agent_output": "x", "events": []})),
        ("4", json!({"agent_input": "x", "agent_output": "x", "agent": "desk"})),
        ("5", json!({"agent_input": "x", "agent_output": "x", "vars": {"input": 1}})),
        ("6", json!({"agent_input": null, "agent_output": "x"})),
    ] {
        let mut sample = sample;
        sample["id"] = json!(id);
        if sample["agent"].is_null() {
            sample["agent"] = json!("shop");
        }
        outcome(&server, &sample);
    }
    for (id, form, status, expected) in [
        ("1", json!({}), 422, "`tool_calls[0]` of the sample has no `response`"),
        ("2", json!({}), 422, "no `agent_output`"),
        ("3", json!({}), 422, "the sample has `events`"),
        ("3", json!({"prompt": "ask"}), 422, "no `agent_input`"),
        ("4", json!({}), 422, "the agent \"desk\" has no assertion set"),
        ("4", json!({"set": "support"}), 200, "name: sample 4"),
        ("4", json!({"set": "other"}), 422, "unknown set"),
        ("5", json!({"prompt": "ask"}), 422, "has a variable `input` already"),
        ("5", json!({"promt": "ask"}), 422, "promt"),
        ("6", json!({"prompt": "ask"}), 422, "no `agent_input`"),
        ("7", json!({}), 404, "no sample"),
    ] {
        let reply = server.json(&format!("POST /v1/samples/{id}/case"), &form);
        assert_eq!(reply.status, status, "{id} {form}: {}", reply.body);
        let text = if status == 200 {
            reply.body.clone()
        } else {
            reply.json()["detail"].to_string().replace("\\\"", "\"")
        };
        assert!(text.contains(expected), "{id} {form}: {text}");
    }
}

#[test]
fn case_is_added_to_a_suite() {
    let folder = suites();
    let server = start(folder.path());
    let sample = json!({"id": "s", "agent": "shop", "agent_input": "where?", "agent_output": "a refund", "tool_calls": []});
    assert_eq!(server.json("POST /v1/samples", &sample).status, 200);
    let add = |suite: &str| server.json("POST /v1/samples/s/case", &json!({"suite": suite}));
    let added = add("kindlm.yaml");
    assert_eq!(added.status, 201, "{}", added.body);
    let diff = server.get("/v1/suites/kindlm.yaml/versions/2/diff").body;
    let added = diff.lines().filter(|it| it.starts_with('+') && !it.starts_with("+++"));
    assert!(added.clone().any(|it| it == "+  - name: sample s"), "{diff}");
    assert!(!diff.lines().any(|it| it.starts_with('-') && !it.starts_with("---")), "{diff}");
    let id = run(&server, &json!({"suite": "kindlm.yaml", "tests": ["sample s"]}));
    let events = events(&server, &id, None);
    assert!(events.iter().any(|it| it.1 == "case" && it.2["case"] == "sample s"), "{events:?}");
    let again = add("kindlm.yaml");
    assert_eq!(
        (again.status, again.json()["type"].as_str()),
        (409, Some("urn:kindlm:problem:case-exists"))
    );
    assert_eq!(add("../outside/kindlm.yaml").status, 404);
    std::fs::write(folder.path().join("suites/flow.kindlm.yaml"), "tests: []\n").unwrap();
    assert_eq!(add("flow.kindlm.yaml").status, 422);
}

#[test]
fn versions_of_concurrent_cases_only_add_lines() {
    const COUNT: usize = 8;
    let folder = suites();
    let server = start(folder.path());
    for it in 0..COUNT {
        let sample = json!({"id": format!("s{it}"), "agent": "shop", "agent_input": "where?", "agent_output": "x", "tool_calls": []});
        assert_eq!(server.json("POST /v1/samples", &sample).status, 200);
    }
    std::thread::scope(|scope| {
        for it in 0..COUNT {
            let server = &server;
            scope.spawn(move || {
                let path = format!("POST /v1/samples/s{it}/case");
                let added = server.json(&path, &json!({"suite": "kindlm.yaml"}));
                assert_eq!(added.status, 201, "{}", added.body);
            });
        }
    });
    let versions = server.get("/v1/suites/kindlm.yaml/versions").json();
    assert_eq!(versions.as_array().unwrap().len(), COUNT + 1, "{versions}");
    for version in 2..=COUNT + 1 {
        let diff = server.get(&format!("/v1/suites/kindlm.yaml/versions/{version}/diff")).body;
        assert!(!diff.lines().any(|it| it.starts_with('-') && !it.starts_with("---")), "{diff}");
    }
}

#[test]
fn only_admins_add_cases_to_suites() {
    let folder = suites();
    let (_, reader) = token(folder.path(), &["create", "r", "--scopes", "read"]);
    let server = Server::start(folder.path(), &["--suites", "suites"]);
    let authorization = format!("authorization: Bearer {reader}");
    let head = ["host: localhost", "content-type: application/json", &authorization];
    let reply = server.send("POST /v1/samples/s/case", &head, br#"{"suite": "kindlm.yaml"}"#);
    assert_eq!(reply.status, 403, "{}", reply.body);
}
