//! Bearer tokens over TCP, and the commands that manage them.

use std::path::Path;

use crate::server::{Reply, Server, command};

const RECORD: &[u8] = br#"{"agent_output": "x", "expect": {"output": {"contains": ["x"]}}}"#;

/// Runs `kindlm-server token`. Returns whether the command succeeded, and its output or its error message.
pub(crate) fn token(folder: &Path, args: &[&str]) -> (bool, String) {
    let output = command(folder).arg("token").args(args).output().unwrap();
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8(text).unwrap().trim().to_owned())
}

fn evaluate(server: &Server, authorization: &[&str]) -> Reply {
    let mut head = vec!["host: kindlm.test", "content-type: application/json"];
    head.extend(authorization);
    server.send("POST /v1/evaluate", &head, RECORD)
}

#[test]
fn requests_need_a_valid_token_with_the_scope() {
    let folder = tempfile::tempdir().unwrap();
    let (_, good) = token(folder.path(), &["create", "ci", "--scopes", "evaluate,read"]);
    let (_, admin) = token(folder.path(), &["create", "ops", "--scopes", "admin"]);
    let (_, reader) = token(folder.path(), &["create", "page", "--scopes", "read,ingest"]);
    let server = Server::start(folder.path(), &[]);
    let bearer = |token: &str| format!("authorization: Bearer {token}");
    let (good_line, admin_line) = (bearer(&good), bearer(&admin));
    for line in [&good_line, &admin_line] {
        let reply = evaluate(&server, &[line]);
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert_eq!(reply.json()["outcome"], "passed");
    }
    let last = if good.ends_with('0') { "1" } else { "0" };
    let forged = bearer(&format!("{}{last}", &good[..good.len() - 1]));
    let basic = format!("authorization: Basic {good}");
    for lines in [vec![], vec![&*forged], vec![&*basic], vec![&*good_line, &*admin_line]] {
        let reply = evaluate(&server, &lines);
        assert_eq!(reply.status, 401, "{lines:?}: {}", reply.body);
        assert!(reply.head.contains("www-authenticate: bearer"), "{}", reply.head);
        assert!(reply.head.contains("content-type: application/problem+json"), "{}", reply.head);
        assert!(!reply.body.contains(&good), "{}", reply.body);
        let is_malformed = lines.contains(&&*basic) || lines.len() > 1;
        assert_eq!(reply.body.contains("send exactly one header"), is_malformed, "{}", reply.body);
    }
    let reply = evaluate(&server, &[&bearer(&reader)]);
    assert_eq!(reply.status, 403, "{}", reply.body);
    assert!(reply.json()["detail"].as_str().unwrap().contains("`evaluate`"), "{}", reply.body);
    assert_eq!(server.get("/healthz").status, 200);
    // A running server refuses a revoked token.
    let id = good.split('_').nth(1).unwrap();
    assert!(token(folder.path(), &["revoke", id]).0);
    assert_eq!(evaluate(&server, &[&good_line]).status, 401);
    let (is_done, error) = token(folder.path(), &["revoke", id]);
    assert!(!is_done && error.contains("no valid token"), "{error}");
    let (_, listed) = token(folder.path(), &["list"]);
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let shown = listed.lines().find(|it| it.starts_with(id)).unwrap();
    assert!(shown.contains("\tevaluate,read\t") && shown.contains("\trevoked "), "{shown}");
    let secret = good.rsplit('_').next().unwrap();
    assert!(!listed.contains(secret), "{listed}");
}

#[test]
fn revoked_tokens_do_not_open_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let (_, text) = token(folder.path(), &["create", "ci", "--scopes", "evaluate"]);
    assert!(token(folder.path(), &["revoke", text.split('_').nth(1).unwrap()]).0);
    let server = Server::start(folder.path(), &[]);
    assert_eq!(evaluate(&server, &[]).status, 401);
}

#[test]
fn first_token_closes_a_running_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let send = |authorization: &[&str]| {
        let mut head = vec!["host: localhost", "content-type: application/json"];
        head.extend(authorization);
        server.send("POST /v1/evaluate", &head, RECORD).status
    };
    assert_eq!(send(&[]), 200);
    // A server without tokens refuses a request with a token, and does not ignore the token.
    assert_eq!(send(&["authorization: Bearer kindlm_0_0"]), 401);
    let (_, good) = token(folder.path(), &["create", "ci", "--scopes", "evaluate"]);
    assert_eq!(send(&[]), 401);
    assert_eq!(send(&[&format!("authorization: Bearer {good}")]), 200);
}

#[test]
fn description_names_the_scope_of_each_request() {
    let folder = tempfile::tempdir().unwrap();
    let document = Server::start(folder.path(), &[]).get("/openapi.json").json();
    assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let is_open = ["/healthz", "/readyz"].contains(&path.as_str());
            assert_eq!(operation["security"].is_null(), is_open, "{method} {path}");
            assert_eq!(operation["responses"]["403"].is_null(), is_open, "{method} {path}");
        }
    }
    let scopes = &document["paths"]["/v1/evaluate"]["post"]["security"][0]["token"];
    assert_eq!(*scopes, serde_json::json!(["evaluate"]));
}

#[test]
fn unknown_scopes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (is_done, error) = token(folder.path(), &["create", "ci", "--scopes", "root"]);
    assert!(!is_done && error.contains("evaluate, ingest, read or admin"), "{error}");
}

#[test]
fn other_machines_are_served_with_tokens_only() {
    let folder = tempfile::tempdir().unwrap();
    let listen = ["--listen", "0.0.0.0:0"];
    let output = command(folder.path()).args(listen).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("`kindlm-server token create`"), "{error}");
    let (_, good) = token(folder.path(), &["create", "ci", "--scopes", "evaluate"]);
    let server = Server::start_on(folder.path(), "0.0.0.0:0", &[]);
    let reply = evaluate(&server, &[&format!("authorization: Bearer {good}")]);
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(evaluate(&server, &[]).status, 401);
}
