//! `/v1/suites` and `/v1/runs`: runs of suites over HTTP.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use kindlm_testing::{MockReply, MockServer};
use serde_json::{Value, json};

use crate::server::{Server, command};

const SUITE: &str = r#"
kindlm: 1
project: shop
suite: { name: refunds }
providers: { scripted: { file: ./replies.yaml } }
models: [{ id: agent, provider: scripted, model: m }]
prompts: { ask: { user: "{{q}}" } }
tests:
  - { name: refunds, prompt: ask, tags: [smoke], vars: { q: "refund me" }, expect: { output: { contains: ["refund"] } } }
  - { name: greets, prompt: ask, vars: { q: "hello" }, expect: { output: { contains: ["goodbye"] } } }
gates: { passRateMin: 0.4 }
"#;

const REPLIES: &str = "
- { when: { contains: refund }, text: we refund you }
- { text: hello }
";

pub(crate) fn suites() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("suites/kindlm.yaml", SUITE);
    write("suites/replies.yaml", REPLIES);
    write("suites/team/strict.kindlm.yaml", &SUITE.replace("0.4", "1.0"));
    write("suites/team/replies.yaml", REPLIES);
    write("suites/team/notes.yaml", "a: 1");
    write("suites/.hidden/kindlm.yaml", SUITE);
    write("outside/kindlm.yaml", SUITE);
    folder
}

fn start(folder: &Path, args: &[&str]) -> Server {
    Server::start(folder, &[&["--suites", "suites"], args].concat())
}

/// Reads the events of a run up to its end, as id, name and data.
pub(crate) fn events(
    server: &Server,
    id: &str,
    seen: Option<&str>,
) -> Vec<(String, String, Value)> {
    let last = seen.map(|it| format!("last-event-id: {it}"));
    let head: Vec<&str> = ["host: localhost"].into_iter().chain(last.as_deref()).collect();
    let reply = server.send(&format!("GET /v1/runs/{id}/events"), &head, b"");
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert!(reply.head.contains("content-type: text/event-stream"), "{}", reply.head);
    parsed(&reply.body)
}

fn parsed(body: &str) -> Vec<(String, String, Value)> {
    let field = |event: &str, name: &str| {
        event.lines().find_map(|it| it.strip_prefix(name)).unwrap().trim().to_owned()
    };
    body.split("\n\n")
        .filter(|it| it.contains("data:"))
        .map(|it| {
            let data = serde_json::from_str(&field(it, "data:")).unwrap();
            (field(it, "id:"), field(it, "event:"), data)
        })
        .collect()
}

/// Splits the id of an event into the start of its series and its number.
fn number(id: &str) -> (i64, usize) {
    let (start, number) = id.split_once('-').unwrap();
    (start.parse().unwrap(), number.parse().unwrap())
}

pub(crate) fn run(server: &Server, body: &Value) -> String {
    let reply = server.json("POST /v1/runs", body);
    assert_eq!(reply.status, 202, "{}", reply.body);
    let id = reply.json()["id"].as_str().unwrap().to_owned();
    assert!(reply.head.contains(&format!("location: /v1/runs/{id}")), "{}", reply.head);
    id
}

#[test]
fn suite_runs_and_its_reports_can_be_read() {
    let folder = suites();
    let server = start(folder.path(), &[]);
    let listed = server.get("/v1/suites").json();
    assert_eq!(listed, json!({"items": ["kindlm.yaml", "team/strict.kindlm.yaml"]}));

    let id = run(&server, &json!({"suite": "kindlm.yaml"}));
    let seen = events(&server, &id, None);
    let numbers: Vec<usize> = seen.iter().map(|it| number(&it.0).1).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let count = |name: &str| seen.iter().filter(|it| it.1 == name).count();
    assert_eq!([count("case"), count("done")], [2, 1]);
    let progress = seen.iter().rfind(|it| it.1 == "progress").unwrap();
    assert_eq!(progress.2, json!({"finished": 2, "total": 2}));
    let rate = seen.iter().find(|it| it.2["gate"] == "passRateMin").unwrap();
    assert_eq!((rate.1.as_str(), &rate.2["status"]), ("gate", &json!("held")));
    let failed = seen.iter().find(|it| it.2["outcome"] == "failed").unwrap();
    assert_eq!(failed.2["case"], "greets");
    assert_eq!(failed.2["line"], 10, "{}", failed.2);
    assert_eq!(seen.last().unwrap().2["state"], "passed");

    // A client that lost its connection gets the events that it has not seen. A client that saw all events gets none.
    let gates: Vec<_> =
        seen.iter().filter(|it| ["gate", "done"].contains(&it.1.as_str())).collect();
    assert_eq!(events(&server, &id, Some(&gates[0].0)).iter().collect::<Vec<_>>(), gates[1..]);
    // The server ignores the id of an event of another series, and sends all events.
    let other = format!("{}-{}", number(&gates[0].0).0 - 1, number(&gates[0].0).1);
    for unknown in [other.as_str(), "5", "x"] {
        assert_eq!(events(&server, &id, Some(unknown)).last(), seen.last());
        assert!(events(&server, &id, Some(unknown)).len() > gates.len());
    }
    let last = format!("last-event-id: {}", seen.last().unwrap().0);
    let path = format!("GET /v1/runs/{id}/events");
    assert_eq!(server.send(&path, &["host: localhost", &last], b"").status, 204);

    let shown = server.get(&format!("/v1/runs/{id}")).json();
    assert_eq!(
        json!([shown["state"], shown["casesHeld"], shown["cases"]]),
        json!(["passed", 1, 2])
    );
    for (name, media_type, text) in [
        ("json", "application/json", "\"refunds\""),
        ("html", "text/html", "<!doctype html>"),
        ("junit", "application/xml", "<testsuites"),
        ("md", "text/markdown", "refunds"),
    ] {
        let reply = server.get(&format!("/v1/runs/{id}/report.{name}"));
        assert_eq!(reply.status, 200, "{name}: {}", reply.body);
        assert!(reply.head.contains(media_type), "{}", reply.head);
        assert!(reply.body.to_lowercase().contains(text), "{name}");
    }
    assert_eq!(server.get(&format!("/v1/runs/{id}/report.exe")).status, 404);
    assert_eq!(server.get(&format!("/v1/runs/{id}/wire/chunk/9")).status, 404);
    for part in ["index", "chunk/0"] {
        let reply = server.bytes(&format!("/v1/runs/{id}/wire/{part}"));
        assert!(reply.0.contains("content-encoding: gzip"), "{}", reply.0);
        assert!(reply.1.starts_with(&[0x1f, 0x8b]), "{part}");
    }

    let head = server.get(&format!("/v1/runs/{id}/wire/head"));
    assert_eq!(head.json()["run"], id);
    let etag = head.head.lines().find_map(|it| it.strip_prefix("etag: ")).unwrap();
    let known = format!("if-none-match: {etag}");
    let again =
        server.send(&format!("GET /v1/runs/{id}/wire/head"), &["host: localhost", &known], b"");
    assert_eq!((again.status, again.body.as_str()), (304, ""));

    // The second run is compared with the first.
    let second = run(&server, &json!({"suite": "kindlm.yaml", "repeat": 2, "tests": ["refunds"]}));
    events(&server, &second, None);
    let compared = server.get(&format!("/v1/runs/{second}/compare?base={id}")).json();
    assert!(compared["verdict"]["kind"].is_string(), "{compared}");
    let listed = server.get("/v1/runs?limit=1").json();
    assert_eq!(json!([listed["total"], listed["items"][0]["id"]]), json!([2, second]));
    // Runs can be read although a baseline cannot be read.
    let baselines = folder.path().join("suites/.kindlm/baselines");
    std::fs::create_dir_all(&baselines).unwrap();
    std::fs::write(baselines.join("main.json"), "{").unwrap();
    for path in ["/v1/runs", &format!("/v1/runs/{id}")] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    // The run is in the store of `kindlm test`.
    assert!(folder.path().join("suites/.kindlm/runs").join(&id).join("report.json").is_file());
    assert!(!server.stderr().contains("are ignored"), "{}", server.stderr());

    // A server that starts later has the cases, the gates and the end of the run.
    drop(server);
    let server = start(folder.path(), &[]);
    let later = events(&server, &id, Some(&seen.last().unwrap().0));
    let names: Vec<&str> = later.iter().map(|it| it.1.as_str()).collect();
    assert_eq!((names.first(), names.last()), (Some(&"case"), Some(&"done")));
    let last = format!("last-event-id: {}", later.last().unwrap().0);
    assert_eq!(server.send(&path, &["host: localhost", &last], b"").status, 204);
}

#[test]
fn run_fails_if_a_gate_is_violated() {
    let folder = suites();
    let server = start(folder.path(), &[]);
    let id = run(&server, &json!({"suite": "team/strict.kindlm.yaml"}));
    assert_eq!(events(&server, &id, None).last().unwrap().2["state"], "failed");
    let id = run(&server, &json!({"suite": "team/strict.kindlm.yaml", "tags": ["smoke"]}));
    assert_eq!(events(&server, &id, None).last().unwrap().2["state"], "passed");
    let id = run(&server, &json!({"suite": "team/strict.kindlm.yaml", "tags": ["!smoke"]}));
    assert_eq!(events(&server, &id, None).last().unwrap().2["state"], "failed");
}

#[test]
fn invalid_runs_are_refused() {
    let folder = suites();
    std::fs::write(folder.path().join("suites/bad.kindlm.yaml"), "kindlm: 1\nmodls: []\n").unwrap();
    let server = start(folder.path(), &[]);
    for (body, detail) in [
        (json!({"suite": "../outside/kindlm.yaml"}), "there is no suite"),
        (json!({"suite": "team/notes.yaml"}), "there is no suite"),
        (json!({"suite": "bad.kindlm.yaml"}), "modls"),
        (json!({"suite": "kindlm.yaml", "tests": ["nothing"]}), "nothing"),
        (json!({"suite": "kindlm.yaml", "repeat": 0}), "`repeat` must be from 1 to 1000"),
        (json!({"suite": "kindlm.yaml", "resume": "20200101-000000-000-aaaa"}), "20200101"),
        (json!({"suite": "kindlm.yaml", "concurency": 1}), "concurency"),
        (json!({"text": "kindlm: 1"}), "suite"),
    ] {
        let reply = server.json("POST /v1/runs", &body);
        assert_eq!(reply.status, 422, "{body}: {}", reply.body);
        assert!(reply.json()["detail"].as_str().unwrap().contains(detail), "{}", reply.body);
    }
    let id = "20200101-000000-000-aaaa";
    for path in [
        "/v1/runs/..%2f..%2fetc".to_owned(),
        "/v1/runs/-".to_owned(),
        format!("/v1/runs/{}", "a".repeat(101)),
        format!("/v1/runs/{id}/events"),
        format!("/v1/runs/{id}/compare?base="),
    ] {
        assert_eq!(server.get(&path).status, 404, "{path}");
    }
    for query in ["limit=0", "limit=1001", "limit=x", "limt=5"] {
        assert_eq!(server.get(&format!("/v1/runs?{query}")).status, 400, "{query}");
    }
    let json = ["host: localhost", "content-type: application/json"];
    assert_eq!(server.send("POST /v1/runs", &json, b"{").status, 400);
    assert_eq!(server.get("/v1/runs/a%00").status, 400);

    let without = Server::start(folder.path(), &[]);
    assert_eq!(without.get("/v1/suites").json(), json!({"items": []}));
    assert_eq!(without.json("POST /v1/runs", &json!({"suite": "kindlm.yaml"})).status, 422);

    let mut missing = command(folder.path());
    let ended = missing.args(["--listen", "127.0.0.1:0", "--suites", "nowhere"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("`--suites nowhere`"));
}

/// Returns a folder of suites whose model does not answer until the test allows it.
fn held() -> (tempfile::TempDir, MockServer) {
    let folder = suites();
    let mock = MockServer::answering(|_| MockReply::text("we refund you")).unwrap();
    mock.hold();
    let suite = SUITE.replace(
        "{ scripted: { file: ./replies.yaml } }",
        &format!("{{ openai: {{ baseUrl: '{}', apiKeyEnv: MOCK_KEY }} }}", mock.url()),
    );
    let suite = suite.replace("provider: scripted", "provider: openai");
    std::fs::write(folder.path().join("suites/kindlm.yaml"), suite).unwrap();
    (folder, mock)
}

#[cfg(unix)]
#[test]
fn stopped_server_aborts_its_run_and_starts_no_other() {
    let (folder, mock) = held();
    let server = start(folder.path(), &[]);
    let first = run(&server, &json!({"suite": "kindlm.yaml"}));
    while mock.count() == 0 {
        std::thread::yield_now();
    }
    let second = run(&server, &json!({"suite": "kindlm.yaml"}));
    let asked = mock.count();
    assert!(server.terminate().success());
    assert_eq!(mock.count(), asked);
    let server = start(folder.path(), &[]);
    assert_eq!(server.get(&format!("/v1/runs/{first}")).json()["state"], "interrupted");
    assert_eq!(server.get(&format!("/v1/runs/{second}")).status, 404);
}

#[test]
fn runs_can_be_cancelled_and_resumed() {
    let (folder, mock) = held();
    let server = start(folder.path(), &[]);
    let first = run(&server, &json!({"suite": "kindlm.yaml"}));
    while mock.count() == 0 {
        std::thread::yield_now();
    }
    let second = run(&server, &json!({"suite": "kindlm.yaml"}));
    let state = |id: &str| server.get(&format!("/v1/runs/{id}")).json()["state"].clone();
    assert_eq!([state(&first), state(&second)], [json!("running"), json!("queued")]);
    let resumed = server.json("POST /v1/runs", &json!({"suite": "kindlm.yaml", "resume": first}));
    let report = server.get(&format!("/v1/runs/{first}/report.json"));
    for (reply, kind) in [(resumed, "running"), (report, "no-report")] {
        assert_eq!(reply.status, 409, "{}", reply.body);
        assert_eq!(reply.json()["type"], format!("urn:kindlm:problem:{kind}"));
    }

    let cancel = |id: &str| server.json(&format!("POST /v1/runs/{id}/cancel"), &json!({})).status;
    assert_eq!(cancel(&second), 202);
    assert_eq!(events(&server, &second, None).last().unwrap().2["state"], "interrupted");
    assert_eq!([cancel(&first), cancel(&first)], [202, 202]);
    assert_eq!(events(&server, &first, None).last().unwrap().2["state"], "interrupted");
    assert_eq!([cancel(&first), cancel("20200101-000000-000-aaaa")], [409, 404]);

    let (head, index) = server.bytes(&format!("/v1/runs/{first}/wire/index"));
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let seen = events(&server, &first, None).last().unwrap().0.clone();
    mock.release();
    let again = run(&server, &json!({"suite": "kindlm.yaml", "resume": first}));
    assert_eq!(again, first);
    // The server ignores the id of an event before the resume, and sends all events.
    let resumed = events(&server, &first, Some(&seen));
    assert_eq!(resumed.last().unwrap().2["state"], "passed", "{resumed:?}");
    assert_eq!(resumed.iter().filter(|it| it.1 == "case").count(), 2, "{resumed:?}");
    assert_ne!(server.bytes(&format!("/v1/runs/{first}/wire/index")).1, index);
}

#[test]
fn events_arrive_while_the_run_goes_on() {
    let folder = suites();
    let server = start(folder.path(), &[]);
    let id = run(&server, &json!({"suite": "kindlm.yaml"}));
    let mut stream = server.connect();
    let request = format!("GET /v1/runs/{id}/events HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.any(|it| it == "event: progress"));
    assert!(lines.any(|it| it == "event: done"));
}

#[test]
fn repeated_request_starts_one_run() {
    let folder = suites();
    let server = start(folder.path(), &[]);
    let send = |key: &str, suite: &str| {
        let key = format!("idempotency-key: {key}");
        let head = ["host: localhost", "content-type: application/json", &key];
        server.send("POST /v1/runs", &head, json!({"suite": suite}).to_string().as_bytes())
    };
    let (first, again) = (send("r1", "kindlm.yaml"), send("r1", "kindlm.yaml"));
    assert_eq!((first.status, &first.body), (202, &again.body));
    assert!(again.head.contains("location: /v1/runs/"), "{}", again.head);
    let id = first.json()["id"].as_str().unwrap().to_owned();
    events(&server, &id, None);
    assert_eq!(server.get("/v1/runs").json()["total"], 1);
    assert_eq!(send("r1", "team/strict.kindlm.yaml").status, 422);
    // A request that started nothing can be repeated.
    assert_eq!([send("r2", "none").status, send("r2", "none").status], [422, 422]);
    assert_eq!(send("r2", "kindlm.yaml").status, 202);
}

/// Executes a statement in the database of a running server.
#[tokio::main(flavor = "current_thread")]
async fn execute(folder: &Path, sql: &'static str) {
    sqlx::any::install_default_drivers();
    let database = format!("sqlite://{}", folder.join("kindlm.db").display());
    let pool = sqlx::AnyPool::connect(&database).await.unwrap();
    sqlx::query(sql).execute(&pool).await.unwrap();
    pool.close().await;
}

/// Waits until the server has written a line with this text to its standard error, and returns the line.
fn reported(server: &Server, text: &str) -> String {
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        let all = server.stderr();
        if let Some(line) = all.lines().find(|it| it.contains(text)) {
            return line.to_owned();
        }
        assert!(Instant::now() < end, "{all}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn run_starts_only_if_its_response_is_stored() {
    let folder = suites();
    let server = start(folder.path(), &[]);
    let send = || {
        let head = ["host: localhost", "content-type: application/json", "idempotency-key: r1"];
        server.send("POST /v1/runs", &head, json!({"suite": "kindlm.yaml"}).to_string().as_bytes())
    };
    execute(
        folder.path(),
        "CREATE TRIGGER refused BEFORE UPDATE ON idempotency_keys BEGIN SELECT RAISE(ABORT, 'no'); END",
    );
    let failed = send();
    assert_eq!(failed.status, 503, "{}", failed.body);
    assert_eq!(server.get("/v1/runs").json()["total"], 0);
    execute(folder.path(), "DROP TRIGGER refused");
    let (first, again) = (send(), send());
    assert_eq!((first.status, &first.body), (202, &again.body));
    events(&server, first.json()["id"].as_str().unwrap(), None);
    assert_eq!(server.get("/v1/runs").json()["total"], 1);
}

#[test]
fn run_is_deleted_although_its_version_is_not() {
    let folder = suites();
    let server = start(folder.path(), &[]);
    let id = run(&server, &json!({"suite": "kindlm.yaml"}));
    events(&server, &id, None);
    execute(
        folder.path(),
        "CREATE TRIGGER refused BEFORE DELETE ON run_versions BEGIN SELECT RAISE(ABORT, 'no'); END",
    );
    let delete = || server.send(&format!("DELETE /v1/runs/{id}"), &["host: localhost"], b"").status;
    assert_eq!([delete(), delete()], [204, 404]);
    reported(&server, "the database failed");
}

#[test]
fn ignored_suites_are_reported_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let suites = folder.path().join("suites");
    std::fs::create_dir_all(suites.join("a/b/c/d")).unwrap();
    for path in ["a/b/c/kindlm.yaml", "a/b/c/d/kindlm.yaml"] {
        std::fs::write(suites.join(path), SUITE).unwrap();
    }
    let server = start(folder.path(), &[]);
    let line = reported(&server, "suites are ignored");
    assert!(line.contains("ignored: 1, such as `a/b/c/d/kindlm.yaml`; "), "{line}");
    assert_eq!(server.get("/v1/suites").json(), json!({"items": ["a/b/c/kindlm.yaml"]}));
    for number in 0..1000 {
        std::fs::write(suites.join(format!("{number}.kindlm.yaml")), "").unwrap();
    }
    let server = start(folder.path(), &[]);
    let line = reported(&server, "suites are ignored");
    assert!(line.contains("ignored: 2, such as `"), "{line}");
    assert_eq!(server.get("/v1/suites").json()["items"].as_array().unwrap().len(), 1000);
}

#[test]
fn stored_run_has_the_path_of_its_suite_and_all_cases() {
    let folder = suites();
    let server = start(folder.path(), &[]);
    let id = run(&server, &json!({"suite": "team/strict.kindlm.yaml"}));
    let live = events(&server, &id, None);
    drop(server);
    let server = start(folder.path(), &[]);
    let path = "team/strict.kindlm.yaml";
    assert_eq!(server.get(&format!("/v1/runs/{id}")).json()["suite"], path);
    assert_eq!(server.get("/v1/runs").json()["items"][0]["suite"], path);
    let sorted = |events: Vec<(String, String, Value)>| {
        let mut cases: Vec<String> =
            events.into_iter().filter(|it| it.1 == "case").map(|it| it.2.to_string()).collect();
        cases.sort();
        cases
    };
    let past = sorted(events(&server, &id, None));
    assert_eq!(past.len(), 2, "{past:?}");
    assert_eq!(past, sorted(live));
}

#[test]
fn changed_suites_have_versions() {
    let folder = suites();
    let server = start(folder.path(), &[]);
    let versions = "/v1/suites/kindlm.yaml/versions";
    assert_eq!(server.get(versions).json(), json!([]));
    assert_eq!(server.get("/v1/suites/none.yaml/versions").status, 404);
    let version_of = |body: Value| {
        let id = run(&server, &body);
        events(&server, &id, None);
        let shown = server.get(&format!("/v1/runs/{id}")).json();
        assert_eq!(
            server.get("/v1/runs?limit=1").json()["items"][0]["suiteVersion"],
            shown["suiteVersion"]
        );
        (id, shown["suiteVersion"].clone())
    };
    let (_, first) = version_of(json!({"suite": "kindlm.yaml"}));
    let (_, again) = version_of(json!({"suite": "kindlm.yaml"}));
    let changed = SUITE.replace("0.4", "0.5");
    std::fs::write(folder.path().join("suites/kindlm.yaml"), &changed).unwrap();
    let (id, second) = version_of(json!({"suite": "kindlm.yaml"}));
    assert_eq!([first, again, second], [1, 1, 2]);
    let (_, nested) = version_of(json!({"suite": "team/strict.kindlm.yaml"}));
    assert_eq!(nested, 1);
    assert_eq!(server.get("/v1/suites/team%2Fstrict.kindlm.yaml/versions").json()[0]["version"], 1);
    let listed = server.get(versions).json();
    let numbers: Vec<&Value> = listed.as_array().unwrap().iter().map(|it| &it["version"]).collect();
    assert_eq!(numbers, [2, 1]);
    assert_eq!(listed[0]["author"], "file");
    let newest = server.get(&format!("{versions}/2")).json();
    assert_eq!(newest["content"], changed);
    let diff = server.get(&format!("{versions}/2/diff"));
    assert!(diff.head.contains("content-type: text/plain"), "{}", diff.head);
    assert!(
        diff.body.contains("-gates: { passRateMin: 0.4 }\n+gates: { passRateMin: 0.5 }"),
        "{}",
        diff.body
    );
    assert_eq!(newest["diff"], diff.body);
    for path in ["3", "3/diff"] {
        assert_eq!(server.get(&format!("{versions}/{path}")).status, 404, "{path}");
    }
    assert!(server.get("/runs").body.contains("kindlm.yaml, version 2"));
    assert!(server.get(&format!("/runs/{id}")).body.contains("refunds, version 2"));
}

#[test]
fn ended_runs_can_be_deleted() {
    let (folder, mock) = held();
    let server = start(folder.path(), &[]);
    let first = run(&server, &json!({"suite": "kindlm.yaml"}));
    while mock.count() == 0 {
        std::thread::yield_now();
    }
    let waiting = run(&server, &json!({"suite": "kindlm.yaml"}));
    let delete =
        |id: &str| server.send(&format!("DELETE /v1/runs/{id}"), &["host: localhost"], b"");
    for id in [&first, &waiting] {
        let refused = delete(id);
        assert_eq!(refused.status, 409, "{}", refused.body);
        assert!(refused.json()["detail"].as_str().unwrap().contains("cancel it first"));
    }
    let cancel = format!("POST /v1/runs/{waiting}/cancel");
    assert_eq!(server.json(&cancel, &json!({})).status, 202);
    events(&server, &waiting, None);
    assert_eq!([delete(&waiting).status, delete(&waiting).status], [204, 404]);
    mock.release();
    events(&server, &first, None);
    let baseline = "PUT /v1/suites/kindlm.yaml/baselines/default";
    let put = server.json(baseline, &json!({"run": first, "force": true, "partial": true}));
    assert_eq!(put.status, 201, "{}", put.body);
    let kept = delete(&first);
    assert_eq!(kept.status, 409, "{}", kept.body);
    assert!(kept.json()["detail"].as_str().unwrap().contains("`default`"), "{}", kept.body);
    let second = run(&server, &json!({"suite": "kindlm.yaml"}));
    events(&server, &second, None);
    assert_eq!(delete(&second).status, 204);
    for path in ["", "/events", "/report.json", "/wire/index"] {
        assert_eq!(server.get(&format!("/v1/runs/{second}{path}")).status, 404, "{path}");
    }
    assert_eq!(server.get("/v1/runs").json()["total"], 1);
    assert_eq!(server.get("/v1/suites/kindlm.yaml/versions").json()[0]["version"], 1);
    assert_eq!(delete("..%2F..%2Fetc").status, 404);
}

#[test]
fn parts_of_a_run_are_plain_json_without_accept_encoding() {
    let folder = suites();
    let server = start(folder.path(), &[]);
    let id = run(&server, &json!({"suite": "kindlm.yaml"}));
    events(&server, &id, None);
    for part in ["index", "chunk/0"] {
        let path = format!("/v1/runs/{id}/wire/{part}");
        let (head, gzip) = server.bytes(&path);
        assert!(head.contains("content-encoding: gzip") && gzip.starts_with(&[31, 139]), "{head}");
        for none in [
            None,
            Some("accept-encoding: gzip;q=0, br"),
            Some("accept-encoding: gzip;q=0, *"),
            Some("accept-encoding: *, gzip;q=0"),
        ] {
            let head: Vec<&str> = ["host: localhost"].into_iter().chain(none).collect();
            let plain = server.send(&format!("GET {path}"), &head, b"");
            assert!(!plain.head.contains("content-encoding"), "{}", plain.head);
            assert!(plain.head.contains("vary: accept-encoding"), "{}", plain.head);
            assert!(plain.json().is_object() || plain.json().is_array());
        }
    }
}
