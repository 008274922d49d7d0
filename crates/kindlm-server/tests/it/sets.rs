//! `/v1/assertion-sets`, and records that name a set.

use serde_json::{Value, json};

use crate::server::Server;
use crate::tokens::token;

fn contains(text: &str) -> Value {
    json!({"expect": {"assert": [{"type": "contains", "value": text}]}})
}

#[test]
fn each_change_of_a_set_is_a_version() {
    let folder = tempfile::tempdir().unwrap();
    let (_, admin) = token(folder.path(), &["create", "Ann", "--scopes", "admin"]);
    let (_, reader) = token(folder.path(), &["create", "page", "--scopes", "read"]);
    let server = Server::start(folder.path(), &[]);
    let send = |token: &str, first: &str, body: &Value| {
        let authorization = format!("authorization: Bearer {token}");
        let head = ["host: kindlm.test", "content-type: application/json", &authorization];
        server.send(first, &head, body.to_string().as_bytes())
    };
    let put = "PUT /v1/assertion-sets/support";
    assert_eq!(send(&reader, put, &contains("refund")).status, 403);
    let reply = send(&admin, put, &contains("refund"));
    assert_eq!(reply.status, 201, "{}", reply.body);
    assert_eq!(send(&admin, put, &contains("refund")).status, 200);
    assert_eq!(send(&admin, put, &contains("money back")).json()["version"], 2);
    let newest = send(&reader, "GET /v1/assertion-sets/support", &Value::Null).json();
    assert_eq!([&newest["version"], &newest["author"]], [&json!(2), &json!("Ann")]);
    assert_eq!(newest["content"], contains("money back"));
    assert!(newest["digest"].as_str().unwrap().starts_with("sha256:"));
    let diff = newest["diff"].as_str().unwrap();
    assert!(diff.contains("-        \"value\": \"refund\"\n"), "{diff}");
    assert!(diff.contains("+        \"value\": \"money back\"\n"), "{diff}");
    let versions = send(&reader, "GET /v1/assertion-sets/support/versions", &Value::Null).json();
    let numbers: Vec<&Value> =
        versions.as_array().unwrap().iter().map(|it| &it["version"]).collect();
    assert_eq!(numbers, [2, 1]);
    let first = send(&reader, "GET /v1/assertion-sets/support/versions/1", &Value::Null).json();
    assert_eq!(first["content"], contains("refund"));
    let all = send(&reader, "GET /v1/assertion-sets", &Value::Null).json();
    assert_eq!([&all[0]["name"], &all[0]["version"]], [&json!("support"), &json!(2)]);
    for path in ["other", "other/versions", "support/versions/3"] {
        let reply = send(&reader, &format!("GET /v1/assertion-sets/{path}"), &Value::Null);
        assert_eq!(reply.status, 404, "{path}: {}", reply.body);
        assert_eq!(reply.json()["type"], "urn:kindlm:problem:unknown-set");
    }
    assert_eq!(
        send(&reader, "GET /v1/assertion-sets/support/versions/x", &Value::Null).status,
        400
    );
}

#[test]
fn only_sets_without_an_agent_can_be_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let (_, admin) = token(folder.path(), &["create", "Ann", "--scopes", "admin"]);
    let (_, reader) = token(folder.path(), &["create", "page", "--scopes", "read,evaluate"]);
    let server = Server::start(folder.path(), &[]);
    let send = |token: &str, first: &str, body: &Value| {
        let authorization = format!("authorization: Bearer {token}");
        let head = ["host: kindlm.test", "content-type: application/json", &authorization];
        server.send(first, &head, body.to_string().as_bytes())
    };
    let (set, delete) = ("PUT /v1/assertion-sets/support", "DELETE /v1/assertion-sets/support");
    assert_eq!(send(&admin, set, &contains("refund")).status, 201);
    assert_eq!(send(&admin, "PUT /v1/agents/shop", &json!({"set": "support@1"})).status, 200);
    assert_eq!(send(&reader, delete, &Value::Null).status, 403);
    let refused = send(&admin, delete, &Value::Null);
    assert_eq!(refused.status, 409, "{}", refused.body);
    assert_eq!(refused.json()["type"], "urn:kindlm:problem:set-in-use");
    assert!(refused.json()["detail"].as_str().unwrap().contains("\"shop\""), "{}", refused.body);
    assert_eq!(send(&admin, "DELETE /v1/agents/shop", &Value::Null).status, 204);
    assert_eq!(send(&admin, delete, &Value::Null).status, 204);
    assert_eq!(send(&admin, delete, &Value::Null).status, 404);
    let record = json!({"agent_output": "x", "set": "support"});
    assert_eq!(send(&reader, "POST /v1/evaluate", &record).status, 422);
    // A later set has other version numbers, so the results of the deleted versions cannot count for it.
    assert_eq!(send(&admin, set, &contains("money")).json()["version"], 2);
}

#[test]
fn newer_version_of_a_set_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let put = |text: &str, tag: &str| {
        let tag = format!("if-match: {tag}");
        let head = ["host: localhost", "content-type: application/json", &tag];
        server.send("PUT /v1/assertion-sets/s", &head, contains(text).to_string().as_bytes())
    };
    assert_eq!(put("a", "*").status, 412);
    let first = server.json("PUT /v1/assertion-sets/s", &contains("a"));
    let tag = format!("\"{}\"", first.json()["digest"].as_str().unwrap());
    assert!(first.head.contains(&format!("etag: {tag}")), "{}", first.head);
    assert_eq!(put("b", &tag).status, 201);
    let refused = put("c", &tag);
    assert_eq!(refused.status, 412, "{}", refused.body);
    assert!(refused.body.contains("version 2 is the newest one"), "{}", refused.body);
    assert_eq!(put("c", "sha256").status, 400);
    assert_eq!(put("c", &format!("\"other\", {tag}")).status, 412);
    assert_eq!(put("c", "*").json()["version"], 3);
    let form = format!(
        "name=s&rules=&checks=output%3A%0A+contains%3A+%5Bd%5D&base={}",
        first.json()["digest"].as_str().unwrap()
    );
    let head = [
        "host: localhost",
        "origin: http://localhost",
        "content-type: application/x-www-form-urlencoded",
    ];
    let page = server.send("POST /sets", &head, form.as_bytes());
    assert!(page.status == 422 && page.body.contains("the set has changed"), "{}", page.body);
    // The next attempt must not overwrite the newer version either.
    let base = first.json()["digest"].as_str().unwrap().to_owned();
    let kept = format!("name=\"base\" value=\"{base}\"");
    assert!(page.body.contains(&kept), "{}", page.body);
}

#[test]
fn records_use_the_named_version() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    for text in ["refund", "money back"] {
        assert_eq!(server.json("PUT /v1/assertion-sets/support", &contains(text)).status, 201);
    }
    let record = |set: &str| json!({"id": 1, "agent_output": "a refund", "set": set});
    for (set, used, outcome) in [
        ("support@1", "support@1", "passed"),
        ("support@2", "support@2", "failed"),
        ("support", "support@2", "failed"),
    ] {
        let reply = server.evaluate(&record(set));
        assert_eq!(reply.status, 200, "{}", reply.body);
        let evaluation = reply.json();
        assert_eq!([&evaluation["outcome"], &evaluation["set"]], [outcome, used], "{evaluation}");
        assert_eq!(evaluation["id"], 1);
    }
    for (record, expected) in [
        (record("support@3"), "unknown set \"support@3\""),
        (record("other"), "unknown set \"other\""),
        (record("support@x"), "is not the number of a version"),
        (json!({"agent_output": "x", "set": 3}), "expected the name of a set"),
        (json!({"agent_output": "x", "set": "support", "expect": {}}), "`set` and `expect`"),
        (json!({"set": "support"}), "`agent_output`"),
    ] {
        let reply = server.evaluate(&record);
        assert_eq!(reply.status, 422, "{record}: {}", reply.body);
        assert!(reply.body.contains(&expected.replace('"', "\\\"")), "{}", reply.body);
    }
    let body = format!("{}\n{}\n", record("support@1"), record("support@3"));
    let head = ["host: localhost", "content-type: application/x-ndjson"];
    let lines = server.send("POST /v1/evaluate/batch", &head, body.as_bytes()).lines();
    assert_eq!(lines[0]["set"], "support@1");
    assert_eq!([&lines[1]["id"], &lines[1]["line"]], [1, 2]);
    assert_eq!(lines[2]["summary"]["results"]["malformed_lines"], 1);
}

#[test]
fn record_with_a_set_has_no_checks_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let mut set = contains("x");
    set["threshold"] = json!(0.5);
    assert_eq!(server.json("PUT /v1/assertion-sets/a", &set).status, 201);
    let named = json!({"id": 7, "set": "a", "agent_output": "x"});
    let mut all = named.clone();
    for key in ["threshold", "assertions", "expect"] {
        let with = |record: &Value, value: Value| {
            let mut record = record.clone();
            record[key] = value;
            record
        };
        let reply = server.evaluate(&with(&named, json!([])));
        assert_eq!(reply.status, 422, "{}", reply.body);
        let expected = format!("the record has `set` and `{key}`; remove one of them");
        assert_eq!(reply.json()["detail"], expected);
        // `null` stands for an absent key.
        all = with(&all, Value::Null);
        for (output, outcome) in [("x", "passed"), ("y", "failed")] {
            let mut record = with(&all, Value::Null);
            record["agent_output"] = json!(output);
            let reply = server.evaluate(&record);
            assert_eq!(reply.status, 200, "{record}: {}", reply.body);
            let found = reply.json();
            assert_eq!([&found["outcome"], &found["set"]], [outcome, "a@1"], "{record}");
        }
        assert_eq!(server.evaluate(&with(&named, Value::Null)).status, 200, "{key}");
    }
}

#[test]
fn invalid_sets_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let long = "x".repeat(101);
    for (name, set, expected) in [
        ("a", json!([]), "a set is an object"),
        ("a", json!({}), "there are no checks"),
        ("a", json!({"expect": {}, "agent_output": "x"}), "unknown key \"agent_output\""),
        ("a", json!({"expect": {"output": {"contain": ["x"]}}}), "contain"),
        (
            "a",
            json!({"expect": {"assert": [{"type": "python", "value": "1"}]}}),
            "/expect/assert/0",
        ),
        (
            "a",
            json!({"expect": {"assert": [{"type": "equals", "value": "file:///etc/passwd"}]}}),
            "/expect/assert/0",
        ),
        ("a@1", contains("x"), "the name of a set"),
        (&long, contains("x"), "the name of a set"),
    ] {
        let reply = server.json(&format!("PUT /v1/assertion-sets/{name}"), &set);
        assert_eq!(reply.status, 422, "{name} {set}: {}", reply.body);
        assert!(reply.json()["detail"].as_str().unwrap().contains(expected), "{}", reply.body);
    }
    assert_eq!(server.get("/v1/assertion-sets").json(), json!([]));
    // The variables of a record decide if a template is valid, so a set may have templates.
    let reply = server.json("PUT /v1/assertion-sets/a", &contains("{{ word }}"));
    assert_eq!(reply.status, 201, "{}", reply.body);
    let record = json!({"agent_output": "x", "set": "a", "vars": {"word": "x"}});
    assert_eq!(server.evaluate(&record).json()["outcome"], "passed");
}
