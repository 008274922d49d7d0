//! `POST /v1/evaluate`, and the errors of all paths.

use std::collections::BTreeSet;
use std::path::Path;

use kindlm_testing::MockServer;
use serde_json::{Value, json};

use crate::server::Server;

const JSON: &str = "content-type: application/json";
const HOST: &str = "host: localhost";

/// The text of files that no request may read. A response that contains it shows that a file was read.
pub(crate) const CANARY: &str = "canary-7f3a";

#[test]
fn record_is_evaluated_like_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let assertions = json!([{"type": "contains", "value": "refund"}, {"type": "javascript", "value": "output.length > 99"}]);
    let record = json!({"id": 7, "agent_output": "a refund", "expect": {"assert": assertions}});
    let reply = server.evaluate(&record);
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert!(reply.head.contains("x-request-id: "), "{}", reply.head);
    let evaluation = reply.json();
    assert_eq!(evaluation["id"], 7);
    assert_eq!(
        json!([
            evaluation["score"],
            evaluation["passed"],
            evaluation["total"],
            evaluation["outcome"]
        ]),
        json!([0.5, 1, 2, "failed"])
    );
    assert_eq!(evaluation["results"][0]["pass"], true);
    assert_eq!(evaluation["results"][1]["status"], "failed");
}

/// Writes files that no request may read.
pub(crate) fn write_canaries(folder: &Path) {
    let quoted = format!("'{CANARY}'");
    for (name, text) in [
        ("canary.txt", quoted.clone()),
        ("canary.js", format!("module.exports = {quoted}")),
        ("canary.json", json!({"secret": CANARY}).to_string()),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
}

/// Returns checks whose scripts try to read the files of [`write_canaries`]. A check that could read a file would pass,
/// or show its text.
pub(crate) fn checks_that_load_files() -> Vec<Value> {
    let mut checks = Vec::new();
    for path in ["./canary.json", "./canary.txt", "./canary.js"] {
        for read in
            [format!("process.mainModule.require('{path}')"), format!("await import('{path}')")]
        {
            let shows = format!(
                "const found = {read};\nreturn {{pass: true, score: 1, reason: JSON.stringify(found)}}"
            );
            let passes = format!("const found = {read};\nreturn Boolean(found)");
            let becomes = format!("JSON.stringify({read})");
            checks.extend([
                json!({"type": "javascript", "value": shows}),
                json!({"type": "satisfies", "value": passes}),
                json!({"type": "contains", "value": "a", "transform": becomes}),
            ]);
        }
    }
    checks
}

#[test]
fn scripts_of_records_load_no_files() {
    let folder = tempfile::tempdir().unwrap();
    write_canaries(folder.path());
    std::fs::write(
        folder.path().join("kindlm.yaml"),
        "kindlm: 1\nproject: p\nsuite: { name: s }\nproviders: { openai: { apiKeyEnv: MOCK_KEY } }\n\
         models: [{ id: judge, provider: openai, model: gpt-4o }]\n",
    )
    .unwrap();
    for args in [&[][..], &["-c", "kindlm.yaml"]] {
        let server = Server::start(folder.path(), args);
        for check in checks_that_load_files() {
            let record = json!({"agent_output": "x", "expect": {"assert": [check]}});
            let reply = server.evaluate(&record);
            assert_eq!(reply.status, 200, "{check}: {}", reply.body);
            assert_ne!(reply.json()["outcome"], "passed", "{check}: {}", reply.body);
            assert!(!reply.body.contains(CANARY), "{check}: {}", reply.body);
            assert!(reply.body.contains("cannot load files"), "{check}: {}", reply.body);
        }
    }
}

#[test]
fn checks_that_leave_the_sandbox_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_canaries(folder.path());
    let server = Server::start(folder.path(), &[]);
    let target = MockServer::start().unwrap();
    let net = target.address().to_string();
    let code = "require('fs').writeFileSync('written', 'x')";
    let entry = |entry: Value| json!({"assert": [entry]});
    for (expect, field) in [
        (entry(json!({"type": "equals", "value": "file://canary.txt"})), "/expect/assert/0/value"),
        (
            entry(json!({"type": "contains-any", "value": ["file:///etc/passwd"]})),
            "/expect/assert/0/value",
        ),
        (
            entry(json!({"type": "javascript", "value": "file://canary.js"})),
            "/expect/assert/0/value",
        ),
        (
            entry(json!({"type": "equals", "value": "x", "transform": "file://canary.js"})),
            "/expect/assert/0/transform",
        ),
        (json!({"output": {"schemaFile": "canary.json"}}), "/expect/output"),
        (
            json!({"toolCalls": [{"tool": "a", "argsSchema": "canary.json"}]}),
            "/expect/toolCalls/0/argsSchema",
        ),
        (entry(json!({"type": "python", "value": "open('written', 'w')"})), "/expect/assert/0"),
        (entry(json!({"type": "ruby", "value": "File.write('written', 'x')"})), "/expect/assert/0"),
        (
            entry(json!({"type": "javascript", "value": code, "scripts": {"runtime": "node"}})),
            "/expect/assert/0/scripts/runtime",
        ),
        (
            entry(json!({"type": "javascript", "value": code, "scripts": {"read": ["."]}})),
            "/expect/assert/0/scripts/read",
        ),
        (
            entry(json!({"type": "javascript", "value": code, "scripts": {"env": ["HOME"]}})),
            "/expect/assert/0/scripts/env",
        ),
        (
            entry(json!({"type": "javascript", "value": code, "scripts": {"net": [net]}})),
            "/expect/assert/0/scripts/net",
        ),
        (
            entry(json!({"type": "webhook", "value": target.url(), "scripts": {"net": [net]}})),
            "/expect/assert/0",
        ),
        (
            entry(
                json!({"type": "pi", "value": "x", "url": target.url(), "scripts": {"net": [net]}}),
            ),
            "/expect/assert/0",
        ),
        (json!({"judge": [{"criteria": "Is polite"}]}), "no `models`"),
    ] {
        let record = json!({"agent_input": "x", "agent_output": "canary", "expect": expect});
        let reply = server.evaluate(&record);
        assert_eq!(reply.status, 422, "{expect}: {}", reply.body);
        assert!(reply.head.contains("content-type: application/problem+json"), "{}", reply.head);
        let detail = reply.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(field), "{expect}: {detail}");
    }
    // A script in the sandbox has neither the network nor environment variables.
    let request =
        format!("const reply = await fetch('{}');\nreturn reply.status > 0", target.url());
    for code in [request.as_str(), "process.env.MOCK_KEY === 'k'"] {
        let expect = entry(json!({"type": "javascript", "value": code}));
        let record = json!({"agent_output": "x", "expect": expect});
        let evaluation = server.evaluate(&record).json();
        assert_ne!(evaluation["outcome"], "passed", "{code}: {evaluation}");
    }
    assert_eq!(target.count(), 0);
    assert!(!folder.path().join("written").exists());
}

#[test]
fn judges_come_from_the_config_only() {
    let folder = tempfile::tempdir().unwrap();
    let judge = MockServer::start().unwrap();
    let config = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: s }}\nproviders:\n  openai: {{ apiKeyEnv: MOCK_KEY, baseUrl: \"{}\" }}\n\
         models:\n  - {{ id: judge, provider: openai, model: gpt-4o }}\n",
        judge.url()
    );
    std::fs::write(folder.path().join("kindlm.yaml"), config).unwrap();
    let server = Server::start(folder.path(), &["-c", "kindlm.yaml"]);
    let judging = |model: &str| json!({"judge": [{"criteria": "Is polite", "model": model}]});
    let record = |expect: Value| json!({"agent_input": "x", "agent_output": "y", "expect": expect});
    let reply = server.evaluate(&record(judging("openai:gpt-4o")));
    assert_eq!((reply.status, judge.count()), (422, 0), "{}", reply.body);
    let reply = server.evaluate(&record(judging("judge")));
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert!(judge.count() > 0);
}

#[test]
fn every_error_is_a_problem() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let large = vec![b' '; (8 << 20) + 1];
    let evaluate = "POST /v1/evaluate";
    for (first, head, body, status) in [
        ("GET /nowhere", vec![HOST], &b""[..], 404),
        ("GET /v1/evaluate", vec![HOST], b"", 405),
        (evaluate, vec![HOST, JSON], &large, 413),
        (evaluate, vec![HOST, "content-type: text/plain"], b"{}", 415),
        (evaluate, vec![HOST], b"{}", 415),
        (evaluate, vec![HOST, JSON], b"{", 400),
        (evaluate, vec![HOST, JSON], b"[]", 422),
        (evaluate, vec![HOST, JSON], b"{\"vars\": 1}", 422),
        (evaluate, vec!["host: evil.test", JSON], b"{}", 403),
        (evaluate, vec![HOST, JSON, "origin: http://evil.test"], b"{}", 403),
    ] {
        let reply = server.send(first, &head, body);
        assert_eq!(reply.status, status, "{first} {head:?}: {}", reply.body);
        assert!(reply.head.contains("content-type: application/problem+json"), "{}", reply.head);
        assert!(reply.head.contains("x-request-id: "), "{}", reply.head);
        assert_eq!(reply.json()["status"], status);
        assert!(!reply.json()["detail"].as_str().unwrap().is_empty());
    }
}

#[test]
fn description_has_all_referenced_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    assert_eq!([server.get("/healthz").status, server.get("/readyz").status], [200, 200]);
    let document = server.get("/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/v1/evaluate"]["post"].is_object());
    let paths = document["paths"].as_object().unwrap().values();
    let operations = paths.flat_map(|it| it.as_object().unwrap().values());
    let ids: Vec<&str> = operations.filter_map(|it| it["operationId"].as_str()).collect();
    let different: BTreeSet<&str> = ids.iter().copied().collect();
    assert!(ids.len() == different.len() && different.contains("post_samples_id_case"), "{ids:?}");
    let text = document.to_string();
    let references: Vec<&str> =
        text.split("\"$ref\":\"#").skip(1).filter_map(|it| it.split('"').next()).collect();
    assert!(references.len() > 10, "{references:?}");
    for reference in references {
        assert!(document.pointer(reference).is_some(), "{reference}");
    }
}

#[test]
fn description_states_what_requests_need() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let document = server.get("/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    for (path, operations) in paths {
        for body in operations.as_object().unwrap().values().filter_map(|it| it.get("requestBody"))
        {
            assert_eq!(body["required"], path != "/v1/samples/{id}/case", "{path}");
        }
    }
    let schema = |name: &str| &document["components"]["schemas"][name];
    let sample = schema("NewSample");
    assert_eq!(sample["required"], json!(["agent"]));
    assert!(sample["properties"]["tool_calls"].is_object(), "{sample}");
    assert!(sample["properties"]["expect"].is_null(), "{sample}");
    assert!(schema("SetContent")["properties"]["expect"].is_object());
    assert!(schema("EventText")["pattern"].is_string());
    let forms = schema("SuiteForm")["oneOf"].as_array().unwrap();
    assert!(forms.iter().any(|it| it["minLength"] == 1), "{forms:?}");
    let sides = paths["/v1/compare"]["get"]["parameters"].as_array().unwrap();
    assert!(sides[..3].iter().all(|it| it["schema"]["minLength"] == 1), "{sides:?}");
    let case = &paths["/v1/samples/{id}/case"]["post"]["requestBody"]["content"];
    assert_eq!(
        case["application/json"]["schema"],
        json!({"$ref": "#/components/schemas/CaseForm"})
    );
}
