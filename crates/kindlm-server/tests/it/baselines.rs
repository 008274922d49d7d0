//! `/v1/suites/{suite}/baselines` and `/v1/compare`.

use std::path::Path;

use serde_json::{Value, json};

use crate::runs::{events, run, suites};
use crate::server::{Reply, Server};

const BASELINES: &str = "/v1/suites/kindlm.yaml/baselines";

fn put(server: &Server, label: &str, body: &Value) -> Reply {
    server.json(&format!("PUT {BASELINES}/{label}"), body)
}

fn refuses_unsuitable_runs(server: &Server, [all, good, orders, strict]: [&str; 4]) {
    for (label, body, status, expected) in [
        ("main", json!({"run": all}), 422, "1 test case failed; send `\"force\": true` to accept"),
        (
            "main",
            json!({"run": good}),
            422,
            "no baseline `main` yet; send `\"partial\": true` to accept",
        ),
        ("main", json!({"run": orders, "force": true}), 422, "is of the suite `orders`"),
        ("main", json!({"run": strict, "force": true}), 404, "no such run"),
        ("main", json!({"run": "20200101-000000-000-aaaa"}), 404, "no such run"),
        ("main", json!({"run": "../kindlm.yaml"}), 404, "no such run"),
        ("..%2F..%2Fx", json!({"run": all, "force": true}), 422, "label"),
        ("main", json!({"run": all, "forced": true}), 422, "forced"),
        ("main", json!({}), 422, "run"),
    ] {
        let reply = put(server, label, &body);
        assert_eq!(reply.status, status, "{body}: {}", reply.body);
        assert!(detail(&reply).contains(expected), "{body}: {}", reply.body);
    }
}

/// Deletes the baseline `smoke` of one suite, and none of the other suite.
fn deletes_baselines(server: &Server) {
    let delete = |path: &str| server.json(&format!("DELETE {path}"), &Value::Null).status;
    for (path, status) in [
        ("/v1/suites/orders.kindlm.yaml/baselines/smoke", 404),
        (&format!("{BASELINES}/none"), 404),
        (&format!("{BASELINES}/..%2F..%2Fkindlm.yaml"), 404),
        (&format!("{BASELINES}/smoke"), 204),
        (&format!("{BASELINES}/smoke"), 404),
    ] {
        assert_eq!(delete(path), status, "{path}");
    }
    let listed = server.get(BASELINES).json();
    let labels: Vec<&Value> =
        listed["items"].as_array().unwrap().iter().map(|it| &it["label"]).collect();
    assert_eq!(labels, ["bad", "default", "main"]);
}

fn detail(reply: &Reply) -> String {
    reply.json()["detail"].as_str().unwrap().to_owned()
}

/// Adds a second suite to the folder. The second suite has its own baselines and runs.
fn add_suite(folder: &Path) {
    let first = std::fs::read_to_string(folder.join("suites/kindlm.yaml")).unwrap();
    let other = first.replace("name: refunds }", "name: orders }");
    std::fs::write(folder.join("suites/orders.kindlm.yaml"), other).unwrap();
}

#[test]
fn baselines_are_set_from_runs_and_compared() {
    let folder = suites();
    add_suite(folder.path());
    let server = Server::start(folder.path(), &["--suites", "suites"]);
    let finished = |body: Value| {
        let id = run(&server, &body);
        events(&server, &id, None);
        id
    };
    let all = finished(json!({"suite": "kindlm.yaml"}));
    let good = finished(json!({"suite": "kindlm.yaml", "tags": ["smoke"]}));
    let orders = finished(json!({"suite": "orders.kindlm.yaml"}));
    let strict = finished(json!({"suite": "team/strict.kindlm.yaml"}));

    let put = |label: &str, body: Value| put(&server, label, &body);
    assert_eq!(server.get(BASELINES).json(), json!({"items": []}));
    refuses_unsuitable_runs(&server, [&all, &good, &orders, &strict]);
    let set = put("main", json!({"run": all, "force": true}));
    assert_eq!(set.status, 201, "{}", set.body);
    let set = set.json();
    assert_eq!(json!([set["label"], set["run"], set["results"]]), json!(["main", all, 2]));
    assert_eq!(put("main", json!({"run": all, "force": true})).status, 200);
    let lacking = put("main", json!({"run": good}));
    assert!(detail(&lacking).contains("did not run 1 of the 2 cases"), "{}", lacking.body);
    assert!(detail(&lacking).contains("`\"partial\": true`"), "{}", lacking.body);
    assert!(!lacking.body.contains("--"), "{}", lacking.body);
    let smoke = put("smoke", json!({"run": good, "partial": true}));
    assert_eq!(smoke.status, 201, "{}", smoke.body);
    std::fs::write(folder.path().join("suites/.kindlm/baselines/bad.json"), "{").unwrap();
    let listed = server.get(BASELINES).json()["items"].as_array().unwrap().clone();
    let labels: Vec<&str> = listed.iter().map(|it| it["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["bad", "main", "smoke"]);
    assert!(listed[0]["error"].is_string() && listed[1]["error"].is_null(), "{listed:?}");
    let of_orders = server.get("/v1/suites/orders.kindlm.yaml/baselines").json();
    assert_eq!(of_orders["items"].as_array().unwrap().len(), 1, "{of_orders}");
    let nested = server.get("/v1/suites/team%2Fstrict.kindlm.yaml/baselines");
    assert_eq!((nested.status, nested.json()), (200, json!({"items": []})));

    let compare = |before: &str, after: &str| {
        let query = format!("suite=kindlm.yaml&before={before}&after={after}");
        server.get(&format!("/v1/compare?{query}"))
    };
    let compared = compare("main", &all).json();
    assert_eq!(compared["schemaVersion"], 1, "{compared}");
    assert_eq!(compared["comparison"]["before"]["name"], "baseline `main`", "{compared}");
    assert_eq!(compare("main", "last").json()["comparison"]["after"]["runId"], json!(good));
    // With two cases, the confidence interval excludes only a fall of 100 percentage points.
    let verdict = |margin: &str| {
        let path = format!("/v1/compare?suite=kindlm.yaml&before={all}&after={all}{margin}");
        server.get(&path).json()["comparison"]["verdict"]["kind"].clone()
    };
    assert_eq!([verdict(""), verdict("&margin=100pp")], ["notEnoughData", "noRegressionBeyond"]);
    for (before, after, status) in [
        ("bad", "last", 422),
        ("none", "last", 404),
        ("main", orders.as_str(), 422),
        ("main", strict.as_str(), 404),
        ("kindlm.yaml", "last", 404),
        ("..%2Foutside%2Fkindlm.yaml", "last", 404),
        ("%2Fetc%2Fpasswd", "last", 404),
    ] {
        let reply = compare(before, after);
        assert_eq!(reply.status, status, "{before} {after}: {}", reply.body);
    }
    for (path, status) in [
        ("/v1/compare?suite=kindlm.yaml&before=main", 400),
        ("/v1/compare?suite=kindlm.yaml&before=main&after=last&margin=3", 400),
        ("/v1/compare?suite=nothing.yaml&before=main&after=last", 404),
        ("/v1/suites/nothing.yaml/baselines", 404),
        ("/v1/suites/..%2Foutside%2Fkindlm.yaml/baselines", 404),
    ] {
        assert_eq!(server.get(path).status, status, "{path}");
    }
    // A damaged baseline is replaced.
    assert_eq!(put("bad", json!({"run": all, "force": true})).status, 200);
    // The next run of the suite is compared with the baseline `default`.
    assert_eq!(put("default", json!({"run": all, "force": true})).status, 201);
    let next = finished(json!({"suite": "kindlm.yaml"}));
    let report = server.get(&format!("/v1/runs/{next}/report.json")).json();
    assert_eq!(report["comparison"]["before"]["runId"], json!(all), "{}", report["comparison"]);

    deletes_baselines(&server);

    // The newest run exists, but its report cannot be read.
    let report = folder.path().join("suites/.kindlm/runs").join(&next).join("report.json");
    std::fs::write(report, "{").unwrap();
    let reply = compare("main", "last");
    assert_eq!(reply.status, 422, "{}", reply.body);
    assert!(detail(&reply).contains(&next), "{}", reply.body);
}

#[test]
fn suite_without_runs_has_no_last_run() {
    let folder = suites();
    let server = Server::start(folder.path(), &["--suites", "suites"]);
    let reply = server.get("/v1/compare?suite=kindlm.yaml&before=last&after=last");
    assert_eq!(reply.status, 404, "{}", reply.body);
    assert_eq!(reply.json()["type"], "urn:kindlm:problem:unknown-side");
}
