//! Inline suites: `POST /v1/runs` with a suite in the request.

use std::path::Path;

use kindlm_testing::MockServer;
use serde_json::{Value, json};

use crate::evaluate::{CANARY, checks_that_load_files, write_canaries};
use crate::runs::{events, run};
use crate::server::Server;

const CONFIG: &str = r#"
kindlm: 1
project: judges
suite: { name: judges }
providers:
  scripted: { file: ./replies.yaml }
  openai: { apiKeyEnv: MOCK_KEY, baseUrl: "MOCK" }
  http: { url: "MOCK/ask", body: { q: "{{prompt}}" }, responsePath: a }
  command: { command: "touch written" }
models:
  - { id: agent, provider: scripted, model: m }
  - { id: vendor, provider: openai, model: gpt-4o }
  - { id: open, provider: http, model: m }
  - { id: program, provider: command, model: m }
"#;

const REPLIES: &str = "
- { when: { contains: refund }, text: we refund you }
- { text: hello }
";

const SUITE: &str = r#"kindlm: 1
project: shop
suite: { name: sent }
models: [agent]
prompts: { ask: { user: "{{q}}" } }
tests:
  - name: refunds
    prompt: ask
    tags: [smoke]
    vars: { q: "refund me" }
    transform: output.toUpperCase()
    expect:
      output: { contains: [REFUND] }
      assert: [{ type: javascript, value: "output.length > 3" }]
  - name: greets
    prompt: ask
    vars: { q: "hello" }
    expect: { output: { contains: [goodbye] } }
gates: { passRateMin: 0.4 }
"#;

/// Returns a folder with a config, an empty folder of suites, and a file that no request may read.
fn folder(mock: &MockServer) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("suites")).unwrap();
    for (name, text) in [
        ("kindlm.yaml", CONFIG.replace("MOCK/", &format!("{}/", mock.url()))),
        ("replies.yaml", REPLIES.to_owned()),
        ("tests.jsonl", "{}".to_owned()),
    ] {
        let text = text.replace("\"MOCK\"", &format!("\"{}\"", mock.url()));
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    write_canaries(folder.path());
    folder
}

fn start(folder: &Path) -> Server {
    Server::start(folder, &["-c", "kindlm.yaml", "--suites", "suites"])
}

/// Returns the `detail` of a refused suite.
fn refused(server: &Server, suite: &Value) -> String {
    let reply = server.json("POST /v1/runs", &json!({"suite": suite}));
    assert_eq!(reply.status, 422, "{suite}: {}", reply.body);
    reply.json()["detail"].as_str().unwrap().to_owned()
}

#[test]
fn inline_suite_runs_as_yaml_and_as_json() {
    let mock = MockServer::start().unwrap();
    let folder = folder(&mock);
    let server = start(folder.path());
    let id = run(&server, &json!({"suite": SUITE}));
    let seen = events(&server, &id, None);
    assert_eq!(seen.last().unwrap().2["state"], "passed", "{seen:?}");
    let failed = seen.iter().find(|it| it.2["outcome"] == "failed").unwrap();
    let place = json!([failed.2["case"], failed.2["file"], failed.2["line"]]);
    assert_eq!(place, json!(["greets", "suite", 18]));
    let shown = server.get(&format!("/v1/runs/{id}")).json();
    assert_eq!(json!([shown["suite"], shown["casesHeld"], shown["cases"]]), json!(["sent", 1, 2]));
    let report = server.get(&format!("/v1/runs/{id}/report.json")).json();
    assert!(report["run"]["gitCommit"].is_null(), "{}", report["run"]);
    assert_eq!(report["suite"]["files"][0]["path"], "suite", "{}", report["suite"]);
    // The suite was not stored, so no later request can run it by a name.
    assert_eq!(server.get("/v1/suites").json(), json!({"items": []}));
    assert_eq!(std::fs::read_dir(folder.path().join("suites")).unwrap().count(), 1);

    let tests =
        json!([{"name": "a", "prompt": "ask", "expect": {"output": {"contains": ["refund"]}}}]);
    let suite = json!({
        "kindlm": 1, "project": "shop", "suite": {"name": "sent"}, "models": ["agent"],
        "prompts": {"ask": {"user": "refund"}}, "tests": tests,
    });
    let second = run(&server, &json!({"suite": suite, "repeat": 2}));
    assert_eq!(events(&server, &second, None).last().unwrap().2["state"], "passed");
    let compared = server.get(&format!("/v1/runs/{second}/compare?base={id}")).json();
    assert!(compared["verdict"]["kind"].is_string(), "{compared}");
    assert_eq!(server.get("/v1/runs").json()["total"], 2);
    assert_eq!(mock.count(), 0);
}

#[test]
fn inline_suite_asks_judges_of_the_config() {
    let mock = MockServer::start().unwrap();
    let folder = folder(&mock);
    let server = start(folder.path());
    let suite = SUITE.replace(
        "output: { contains: [goodbye] }",
        "judge: [{ criteria: Is polite, model: vendor }]",
    );
    let id = run(&server, &json!({"suite": suite, "tests": ["greets"]}));
    events(&server, &id, None);
    assert!(mock.count() > 0);
    let id = run(&server, &json!({"suite": suite, "tests": ["greets"], "resume": id}));
    assert_eq!(events(&server, &id, None).last().unwrap().1, "done");
    let changed = suite.replace("Is polite", "Is rude");
    let reply =
        server.json("POST /v1/runs", &json!({"suite": changed, "tests": ["greets"], "resume": id}));
    assert_eq!(reply.status, 422, "{}", reply.body);
}

#[test]
fn inline_suite_has_only_permitted_keys() {
    let mock = MockServer::start().unwrap();
    let folder = folder(&mock);
    let server = start(folder.path());
    let with = |line: &str| json!(format!("{SUITE}{line}\n"));
    for key in [
        "providers: { openai: { baseUrl: \"https://evil.test\" } }",
        "agents: { coder: { adapter: claude-code } }",
        "scripts: { net: [evil.test] }",
        "reports: { json: out.json }",
        "compliance: { enabled: true }",
        "trace: {}",
        "upload: {}",
        "mutate: {}",
        "sharing: true",
    ] {
        let name = key.split(':').next().unwrap();
        let expected = format!("suite:20:1: an inline suite cannot have `{name}`");
        assert_eq!(refused(&server, &with(key)).split(" (").next().unwrap(), expected, "{key}");
    }
    let within = |key: &str| json!(SUITE.replace("    tags: [smoke]", &format!("    {key}")));
    for key in [
        "command: touch written",
        "agent: coder",
        "transcript: [{ role: user, content: hello }]",
        "workspace: { source: . }",
        "evidence: { complete: [output] }",
    ] {
        let name = key.split(':').next().unwrap();
        let expected = format!("suite:9:5: an inline suite cannot have `{name}`");
        assert!(refused(&server, &within(key)).starts_with(&expected), "{key}");
    }
    let defaults = refused(&server, &with("defaults: { workspace: { source: . } }"));
    assert!(
        defaults.starts_with("suite:20:13: an inline suite cannot have `workspace`"),
        "{defaults}"
    );
    let json = serde_json::value::RawValue::from_string(
        "{\n\"kindlm\": 1,\n\"providers\": {}\n}".to_owned(),
    );
    let body = format!("{{\"suite\": {}}}", json.unwrap().get());
    let head = ["host: localhost", "content-type: application/json"];
    let reply = server.send("POST /v1/runs", &head, body.as_bytes());
    assert!(reply.json()["detail"].as_str().unwrap().starts_with("suite:3:1: "), "{}", reply.body);
    // The page `docs/server.md` lists the permitted keys.
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/server.md");
    let page = std::fs::read_to_string(page).unwrap();
    for suite in [with("zzzzz: 1"), within("zzzzz: 1"), with("defaults: { zzzzz: 1 }")] {
        let detail = refused(&server, &suite);
        let keys = detail.split_once("permitted keys: ").unwrap().1.trim_end_matches(')');
        assert!(page.contains(&format!("| {keys} |")), "{keys}");
    }
    // A promptfoo config is not translated, because its translation runs programs.
    let promptfoo = "prompts: [hello]\nproviders: ['exec:touch written']\ntests: [{ vars: {} }]\n";
    assert!(refused(&server, &json!(promptfoo)).contains("cannot have `providers`"));
    assert!(!folder.path().join("written").exists());
}

/// A text of [`SUITE`], its replacement, and a part of the message that refuses the changed suite.
const OUTSIDE: &[(&str, &str, &str)] = &[
    (
        "tests:\n",
        "tests:\n  - file://tests.jsonl\n",
        "suite:7:5: an inline suite cannot read files",
    ),
    ("q: \"hello\"", "q: \" file://canary.txt\"", "suite:17:16: an inline suite cannot read files"),
    ("[goodbye]", "[\"file:///etc/passwd\"]", "cannot read files"),
    ("output.toUpperCase()", "file://canary.js", "cannot read files"),
    (
        "output: { contains: [goodbye] }",
        "output: { schemaFile: canary.json }",
        "cannot read files of the server",
    ),
    (
        "output: { contains: [goodbye] }",
        "assert: [{ type: python, value: \"True\" }]",
        "is not permitted here",
    ),
    (
        "output: { contains: [goodbye] }",
        "assert: [{ type: webhook, value: \"http://evil.test\" }]",
        "is not permitted here",
    ),
    ("\"output.length > 3\"", "\"1\", scripts: { net: [evil.test] }", "suite:14:"),
    (
        "models: [agent]",
        "models: [{ id: m, provider: openai, model: m }]",
        "suite:4:10: an inline suite cannot configure models",
    ),
    (
        "models: [agent]",
        "models: [openai:gpt-4o]",
        "suite:4:10: the server has no model `openai:gpt-4o`",
    ),
    ("models: [agent]", "models: [open]", "cannot use the model `open`, because of its provider"),
    (
        "models: [agent]",
        "models: [program]",
        "cannot use the model `program`, because of its provider",
    ),
    ("    tags: [smoke]", "    models: [agent, program]", "cannot use the model `program`"),
    (
        "output: { contains: [goodbye] }",
        "judge: [{ criteria: x, model: open }]",
        "cannot use the model `open`",
    ),
    ("gates:", "defaults: { judge: { model: program } }\ngates:", "cannot use the model `program`"),
    (
        "passRateMin: 0.4",
        "passRateMin: 0.4, judgeKappaMin: 0.6",
        "suite:19:28: an inline suite cannot have `judgeKappaMin`",
    ),
    (
        "gates:",
        "defaults: { judge: { canaries: 5 } }\ngates:",
        "suite:19:22: an inline suite cannot have `canaries`",
    ),
    ("{{q}}", "{{ env.MOCK_KEY }}", "MOCK_KEY"),
    ("gates:", "defaults: { repeat: 6000 }\ngates:", "the suite has 12000 executions"),
];

#[test]
fn inline_suite_cannot_leave_the_server_s_config() {
    let mock = MockServer::start().unwrap();
    let folder = folder(&mock);
    let server = start(folder.path());
    for (from, to, detail) in OUTSIDE {
        assert!(SUITE.contains(from), "{from}");
        let found = refused(&server, &json!(SUITE.replacen(from, to, 1)));
        assert!(found.contains(detail), "{to}: {found}");
    }
    assert_eq!(mock.count(), 0);
}

#[test]
fn checks_of_inline_suites_stay_in_the_sandbox_when_they_run() {
    let mock = MockServer::start().unwrap();
    let folder = folder(&mock);
    let server = start(folder.path());
    // Templates build the path of a file only when the check runs. Scripts try an environment variable and the network.
    for check in [
        "{ type: equals, value: \"{{ a }}{{ b }}\" }",
        "{ type: javascript, value: \"process.env.MOCK_KEY === 'k'\" }",
        "{ type: javascript, value: \"fetch('MOCK').then(it => it.status > 0)\" }",
    ] {
        let check = check.replace("MOCK'", &format!("{}'", mock.url()));
        let suite =
            SUITE.replace("{ q: \"hello\" }", "{ q: hello, a: \"fil\", b: \"e://canary.txt\" }");
        let suite = suite.replace("output: { contains: [goodbye] }", &format!("assert: [{check}]"));
        let id = run(&server, &json!({"suite": suite, "tests": ["greets"]}));
        let state = events(&server, &id, None).last().unwrap().2["state"].clone();
        assert_ne!(state, "passed", "{check}");
        let report = server.get(&format!("/v1/runs/{id}/report.json")).body;
        assert!(!report.contains(CANARY), "{check}");
    }
    assert_eq!(mock.count(), 0);
    assert!(!folder.path().join("written").exists());
    assert!(!folder.path().join("suites/written").exists());
}

#[test]
fn scripts_of_inline_suites_load_no_files() {
    let mock = MockServer::start().unwrap();
    let folder = folder(&mock);
    write_canaries(&folder.path().join("suites"));
    let server = start(folder.path());
    let mut tests: Vec<Value> = checks_that_load_files()
        .into_iter()
        .enumerate()
        .map(|(it, check)| json!({"name": format!("check {it}"), "prompt": "ask", "expect": {"assert": [check]}}))
        .collect();
    let transform = "JSON.stringify(process.mainModule.require('./canary.json'))";
    let expect = json!({"output": {"contains": ["secret"]}});
    tests
        .push(json!({"name": "output", "prompt": "ask", "transform": transform, "expect": expect}));
    let count = tests.len();
    let suite = json!({
        "kindlm": 1, "project": "shop", "suite": {"name": "sent"}, "models": ["agent"],
        "prompts": {"ask": {"user": "hello"}}, "tests": tests,
    });
    let id = run(&server, &json!({"suite": suite}));
    events(&server, &id, None);
    let shown = server.get(&format!("/v1/runs/{id}")).json();
    assert_eq!(json!([shown["casesHeld"], shown["cases"]]), json!([0, count]), "{shown}");
    let report = server.get(&format!("/v1/runs/{id}/report.json")).body;
    assert!(report.matches("cannot load files").count() >= count, "{report}");
    assert!(!report.contains(CANARY), "{report}");
}

#[test]
fn inline_suite_needs_a_config_and_a_folder_of_suites() {
    let mock = MockServer::start().unwrap();
    let folder = folder(&mock);
    for (args, option) in
        [(vec!["--suites", "suites"], "--config"), (vec!["-c", "kindlm.yaml"], "--suites")]
    {
        let server = Server::start(folder.path(), &args);
        let reply = server.json("POST /v1/runs", &json!({"suite": SUITE}));
        assert_eq!(reply.status, 422, "{}", reply.body);
        assert_eq!(reply.json()["type"], "urn:kindlm:problem:no-inline-suites");
        assert!(reply.json()["detail"].as_str().unwrap().contains(option), "{}", reply.body);
        let reply = server.json("POST /v1/runs", &json!({"suite": 1}));
        assert_eq!(reply.status, 422, "{}", reply.body);
    }
}

#[test]
fn old_runs_of_inline_suites_are_deleted() {
    let mock = MockServer::answering(|_| kindlm_testing::MockReply::text("hello")).unwrap();
    let folder = folder(&mock);
    let server = start(folder.path());
    let old = run(&server, &json!({"suite": SUITE}));
    events(&server, &old, None);
    drop(server);
    let runs = folder.path().join("suites/.inline/.kindlm/runs");
    for file in std::fs::read_dir(runs.join(&old)).unwrap() {
        let path = file.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        // Move the start of the run to a thousand years ago.
        let text = text.replace("\"startedAt\":\"20", "\"startedAt\":\"10");
        std::fs::write(&path, text).unwrap();
    }
    let server = Server::start(
        folder.path(),
        &["-c", "kindlm.yaml", "--suites", "suites", "--keep-days", "30"],
    );
    let end = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while server.get(&format!("/v1/runs/{old}")).status != 404 {
        assert!(std::time::Instant::now() < end, "{}", server.stderr());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(!runs.join(&old).exists());
}
