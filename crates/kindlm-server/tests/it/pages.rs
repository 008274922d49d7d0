//! The pages: their text, their forms without a script, and who may open them.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use kindlm_testing::{MockReply, MockServer, installed, not_run};
use serde_json::{Value, json};

use crate::monitor::config;
use crate::runs::{events, suites};
use crate::server::{Reply, Server};
use crate::tokens::token;

const ORIGIN: &str = "origin: http://localhost";

/// Encodes the fields of a form.
fn encoded(fields: &[(&str, &str)]) -> String {
    let text = |it: &str| it.bytes().map(|it| format!("%{it:02X}")).collect::<Vec<_>>().concat();
    let pairs = fields.iter().map(|(name, value)| format!("{name}={}", text(value)));
    pairs.collect::<Vec<_>>().join("&")
}

fn submit_with(server: &Server, path: &str, head: &[&str], fields: &[(&str, &str)]) -> Reply {
    let form = "content-type: application/x-www-form-urlencoded";
    let head: Vec<&str> =
        ["host: localhost", form].into_iter().chain(head.iter().copied()).collect();
    server.send(&format!("POST {path}"), &head, encoded(fields).as_bytes())
}

fn submit(server: &Server, path: &str, fields: &[(&str, &str)]) -> Reply {
    submit_with(server, path, &[ORIGIN], fields)
}

fn location(reply: &Reply) -> &str {
    assert_eq!(reply.status, 303, "{}", reply.body);
    reply.head.lines().find_map(|it| it.strip_prefix("location: ")).unwrap()
}

/// Checks the headers of a page, and that it has no script, style or handler of its own.
fn assert_page(reply: &Reply) {
    assert!(reply.head.contains("content-type: text/html; charset=utf-8"), "{}", reply.head);
    for part in
        ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]
    {
        assert!(reply.head.contains(part), "{part}: {}", reply.head);
    }
    assert!(!reply.head.contains("unsafe"), "{}", reply.head);
    for part in [" style=", "<style", " onclick=", " onload="] {
        assert!(!reply.body.contains(part), "{part}: {}", reply.body);
    }
    for script in reply.body.split("<script").skip(1) {
        let is_known = |it: &str| script.contains(&format!("src=\"/static/{it}.js\"></script>"));
        assert!(["live", "playground", "times"].into_iter().any(is_known), "{script}");
    }
}

#[test]
fn playground_shows_a_card_for_each_check() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let page = server.get("/");
    assert_page(&page);
    for part in
        ["Evaluate", "Save as set", "This server has no judge", "contains: [&#34;refund&#34;"]
    {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    let hostile = "<script>alert(1)</script><img src=x onerror=alert(2)> a refund";
    let checks = "output:\r\n  contains: [refund, \"<b>money</b>\"]\r\n";
    let reply = submit(&server, "/", &[("output", hostile), ("checks", checks)]);
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_page(&reply);
    assert!(!reply.body.contains("<img") && !reply.body.contains("<b>money"), "{}", reply.body);
    for part in ["1 of 2 passed", "✗ failed", "✓ passed", "&#60;b&#62;money", "score 0.50"] {
        assert!(reply.body.contains(part), "{part}: {}", reply.body);
    }
    // The page shows the submitted fields again.
    assert!(reply.body.contains("&#60;script&#62;alert(1)"), "{}", reply.body);
    for (fields, expected) in [
        (vec![("output", "x"), ("rules", "It is polite.")], "`models`"),
        (vec![("output", "x")], "at least one rule or one check"),
        (vec![("output", "x"), ("checks", "output: [")], "not valid YAML"),
        (vec![("output", "x"), ("checks", "output: { contain: [x] }")], "contain"),
        (
            vec![("output", "x"), ("checks", "assert: [{ type: python, value: '1' }]")],
            "/expect/assert/0",
        ),
    ] {
        let reply = submit(&server, "/", &fields);
        assert_eq!(reply.status, 422, "{fields:?}");
        let shown = reply.body.split("role=\"alert\">").nth(1).unwrap();
        assert!(shown.split("</p>").next().unwrap().contains(expected), "{shown}");
        assert_page(&reply);
    }
}

#[test]
fn playground_streams_results_while_the_judge_works() {
    let folder = tempfile::tempdir().unwrap();
    let judge = MockServer::answering(|request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let messages = body["messages"].as_array().unwrap().iter();
        let texts = messages.filter_map(|it| it["content"].as_str());
        let question = texts.collect::<Vec<_>>().join("\n");
        let results = json!([{"id": "it_is_polite", "pass": true, "reasoning": "It says sorry."}]);
        let reply = json!({"results": results}).to_string();
        MockReply::text(kindlm_types::ask::with_mark(&reply, &question))
    })
    .unwrap();
    std::fs::write(folder.path().join("kindlm.yaml"), config(&judge)).unwrap();
    let server = Server::start(folder.path(), &["-c", "kindlm.yaml"]);
    let head = [
        "host: localhost",
        ORIGIN,
        "accept: text/event-stream",
        "content-type: application/x-www-form-urlencoded",
    ];
    let checks = "output: { contains: [\"<b>\"] }";
    let fields = [("output", "sorry <b>"), ("rules", "It is polite."), ("checks", checks)];
    judge.hold();
    let mut stream = server.begin("POST /", &head, encoded(&fields).as_bytes());
    // The deterministic check is shown before the judge answers.
    let mut early = String::new();
    while !early.contains("</li>") {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "{early}");
        early += std::str::from_utf8(&part[..count]).unwrap();
    }
    assert!(early.contains("text/event-stream") && early.contains("event: result"), "{early}");
    assert!(early.contains("✓ passed") && !early.contains("It says sorry."), "{early}");
    judge.release();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    let (results, verdict) = rest.split_once("event: verdict").unwrap();
    assert!(results.contains("event: result") && results.contains("It says sorry."), "{rest}");
    assert!(verdict.contains("2 of 2 passed") && verdict.contains("It says sorry."), "{rest}");

    let fields = [("output", "x"), ("checks", "output: [")];
    let reply = server.send("POST /", &head, encoded(&fields).as_bytes());
    assert!(reply.body.contains("event: problem\ndata: Checks: not valid YAML"), "{}", reply.body);
}

#[test]
fn sets_are_saved_and_tried_on_samples() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    assert!(server.get("/sets").body.contains("There is no set yet"));
    let save = |checks: &str| submit(&server, "/sets", &[("name", "support"), ("checks", checks)]);
    assert_eq!(location(&save("output: { contains: [refund] }")), "/sets/support");
    location(&save("output:\n  contains:\n  - <i>money</i>\n"));
    // The same checks are not a new version.
    location(&save("output: { contains: [\"<i>money</i>\"] }"));
    let stored = server.get("/v1/assertion-sets/support").json();
    assert_eq!(stored["content"], json!({"expect": {"output": {"contains": ["<i>money</i>"]}}}));
    let page = server.get("/sets/support");
    assert_page(&page);
    assert!(!page.body.contains("<i>money"), "{}", page.body);
    for part in ["support, version 2", "sha256:", "class=\"added\"", "/sets/support?version=1"] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    assert!(server.get("/sets/support?version=1").body.contains("This is the first version"));
    assert!(server.get("/?set=support@1").body.contains("- refund"));
    assert!(server.get("/sets").body.contains(">support</a>"));
    assert_eq!(server.get("/sets/other").status, 404);
    assert_eq!(server.get("/sets/support?version=9").status, 404);
    assert_page(&server.get("/sets/other"));
    for (name, checks, expected) in [
        ("a b", "output: { contains: [x] }", "the name of a set"),
        ("", "output: { contains: [x] }", "Write the name"),
        ("a", "output: { contain: [x] }", "contain"),
    ] {
        let reply = submit(&server, "/sets", &[("name", name), ("checks", checks)]);
        assert_eq!(reply.status, 422, "{name}");
        assert!(reply.body.contains(expected), "{}", reply.body);
    }
    // After a refused version, the form can store a set with another name.
    let checks = ("checks", "output: { contains: [x] }");
    let old = [("base", "sha256:0"), ("base_of", "support"), checks];
    let refused = submit(&server, "/sets", &[&[("name", "support")], &old[..]].concat());
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert!(refused.body.contains("name=\"base_of\" value=\"support\""), "{}", refused.body);
    let renamed = submit(&server, "/sets", &[&[("name", "support2")], &old[..]].concat());
    assert_eq!(location(&renamed), "/sets/support2");
    for (id, output) in [("good", "a refund"), ("bad", "<u>no</u>")] {
        let sample = json!({"id": id, "agent": "shop", "agent_output": output});
        assert_eq!(server.json("POST /v1/samples", &sample).status, 200);
    }
    let fields = [("agent", "shop"), ("version", "1")];
    let tried = submit(&server, "/sets/support/try", &fields);
    assert_page(&tried);
    for part in ["1 of the newest 2 samples", "&#60;u&#62;no", "✗ failed"] {
        assert!(tried.body.contains(part), "{part}: {}", tried.body);
    }
}

#[test]
fn runs_start_and_show_what_failed() {
    let folder = suites();
    let server = Server::start(folder.path(), &["--suites", "suites"]);
    let page = server.get("/runs");
    assert_page(&page);
    assert!(page.body.contains("<option>team/strict.kindlm.yaml</option>"), "{}", page.body);
    let started = submit(&server, "/runs", &[("suite", "team/strict.kindlm.yaml")]);
    let path = location(&started).to_owned();
    events(&server, path.rsplit('/').next().unwrap(), None);
    let page = server.get(&path);
    assert_page(&page);
    for part in [
        "✗ failed",
        "1 of 2 cases held",
        "greets",
        "strict.kindlm.yaml:10",
        "passRateMin",
        "violated",
    ] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    // An ended run needs neither the script nor a reload.
    assert!(!page.body.contains("live.js") && !page.body.contains("refresh"), "{}", page.body);
    let report = server.get(&format!("{path}/report.html"));
    assert_eq!(report.status, 200);
    assert!(report.head.contains("frame-ancestors 'none'"), "{}", report.head);
    let page = server.get("/runs");
    assert!(page.body.contains("1 of 2") && page.body.contains(&path), "{}", page.body);
    let refused = submit(&server, "/runs", &[("suite", "kindlm.yaml"), ("tests", "nothing")]);
    assert_eq!(refused.status, 422);
    assert!(refused.body.contains("role=\"alert\""), "{}", refused.body);
    assert_eq!(server.get("/runs/20200101-000000-000-aaaa").status, 404);
    // A run that has ended is shown again.
    assert_eq!(location(&submit(&server, &format!("{path}/cancel"), &[])), path);
    let without = Server::start(folder.path(), &[]);
    assert!(without.get("/runs").body.contains("This server has no suites"));
}

/// Returns the suite with a model at this address.
fn held(folder: &Path, url: &str) -> String {
    let suite = std::fs::read_to_string(folder.join("suites/kindlm.yaml")).unwrap();
    let model = format!("{{ openai: {{ baseUrl: '{url}', apiKeyEnv: MOCK_KEY }} }}");
    let suite = suite.replace("{ scripted: { file: ./replies.yaml } }", &model);
    suite.replace("provider: scripted", "provider: openai")
}

#[test]
fn open_run_reloads_without_a_script() {
    let folder = suites();
    let mock = MockServer::start().unwrap();
    mock.hold();
    let path = folder.path().join("suites/kindlm.yaml");
    let suite = held(folder.path(), &mock.url());
    std::fs::write(&path, suite).unwrap();
    let server = Server::start(folder.path(), &["--suites", "suites"]);
    let path = location(&submit(&server, "/runs", &[("suite", "kindlm.yaml")])).to_owned();
    while mock.count() == 0 {
        std::thread::yield_now();
    }
    let page = server.get(&path);
    assert_page(&page);
    for part in
        ["http-equiv=\"refresh\"", "Cancel the run", "running", "The gates are decided at the end"]
    {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    let part = server.get(&format!("{path}/part"));
    assert!(part.body.starts_with("<div class=\"card verdict"), "{}", part.body);
    // A GET request changes nothing.
    assert_eq!(server.get(&format!("{path}/cancel")).status, 405);
    location(&submit(&server, &format!("{path}/cancel"), &[]));
    mock.release();
    events(&server, path.rsplit('/').next().unwrap(), None);
    assert!(server.get(&path).body.contains("cancelled"));
}

#[test]
fn monitor_shows_rates_and_failed_samples() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    assert!(server.get("/monitor").body.contains("No sample was evaluated in this time"));
    fill(&server);
    let page = server.get("/monitor?agent=shop&version=v1&window=day");
    assert_page(&page);
    for part in ["75 % (30 %–95 %) of 4", "<svg class=\"rate\"", "&#60;u&#62;no", "selected>shop"]
    {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    assert!(page.body.contains("4 of 4 samples of this time have an evaluation"), "{}", page.body);
    let other = server.get("/monitor?version=v2");
    assert!(!other.body.contains("<svg") && !other.body.contains("&#60;u"), "{}", other.body);
    assert!(other.body.contains("There is no sample in this time"), "{}", other.body);
}

#[test]
fn monitor_shows_budgets_and_waiting_samples() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    assert!(server.get("/monitor").body.contains("No sample waits for its evaluation."));
    fill(&server);
    let budget = |it: Value| {
        let agent = json!({"set": "support", "daily_budget": it});
        assert_eq!(server.json("PUT /v1/agents/shop", &agent).status, 200);
    };
    for (limits, shown) in [
        (json!({"evaluations": 5, "usd": 2}), ["4 of 5", "$0.0000 of $2.00", "not spent"]),
        (json!({"evaluations": 4}), ["4 of 4", "<td class=\"num\">$0.0000<", "! spent"]),
    ] {
        budget(limits);
        let page = server.get("/monitor");
        assert_page(&page);
        for part in shown {
            assert!(page.body.contains(part), "{part}: {}", page.body);
        }
    }
    assert!(!server.get("/monitor?agent=desk").body.contains("4 of 4"));
    // The text of a time is in UTC, and the script changes it.
    let page = server.get("/monitor").body;
    let time = page.split("The newest sample was received at ").nth(1).unwrap();
    let (time, _) = time.split_once("</time>").unwrap();
    let (attribute, text) = time.split_once('>').unwrap();
    let minute = text.strip_suffix(" UTC").unwrap().replace(' ', "T");
    assert!(attribute.starts_with(&format!("<time datetime=\"{minute}")), "{time}");
    assert!(server.get("/sets/support").body.contains("<time datetime="));
}

#[test]
fn monitor_counts_samples_that_wait() {
    let folder = tempfile::tempdir().unwrap();
    let judge = judge();
    std::fs::write(folder.path().join("kindlm.yaml"), config(&judge)).unwrap();
    let server = Server::start(folder.path(), &["-c", "kindlm.yaml"]);
    let rule = json!({"id": "polite", "instruction": "Be polite"});
    server.json("PUT /v1/assertion-sets/support", &json!({"assertions": [rule]}));
    server.json("PUT /v1/agents/shop", &json!({"set": "support"}));
    judge.hold();
    for (id, shown) in [("1", "1 sample waits for its"), ("2", "2 samples wait for their")] {
        let sample = json!({"id": id, "agent": "shop", "agent_input": "x", "agent_output": id});
        assert_eq!(server.json("POST /v1/samples", &sample).status, 200);
        let page = server.get("/monitor").body;
        assert!(page.contains(shown), "{page}");
        assert!(page.contains("; the oldest was received at <time datetime="), "{page}");
        assert!(server.get("/monitor?agent=desk").body.contains("No sample waits"));
    }
    judge.release();
}

#[test]
fn monitor_is_not_green_without_evaluations() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let set = |entry: Value| json!({"expect": {"assert": [entry]}});
    let good = json!({"type": "contains", "value": "refund"});
    server.json("PUT /v1/assertion-sets/good", &set(good));
    let errored = json!({"type": "latency", "threshold": 100});
    server.json("PUT /v1/assertion-sets/errored", &set(errored));
    let none = "No sample of this time has an evaluation";
    let held = "No evaluated sample has a failed or errored check";
    let mut id = 0;
    for (agent, set, rate, sample, shown) in [
        // No sample is evaluated.
        ("rare", "good", 0.0, json!({"agent_output": "a refund"}), vec![none, "0 of 1 samples"]),
        // The evaluation of each sample fails.
        ("broken", "good", 1.0, json!({}), vec!["`agent_output`", "0 of 1 samples"]),
        // Each check is errored.
        (
            "errored",
            "errored",
            1.0,
            json!({"agent_output": "x"}),
            vec!["1 errored", "1 of 1 samples"],
        ),
        ("good", "good", 1.0, json!({"agent_output": "a refund"}), vec![held, "1 of 1 samples"]),
    ] {
        server.json(&format!("PUT /v1/agents/{agent}"), &json!({"set": set, "rate": rate}));
        let mut sample = sample;
        id += 1;
        sample["id"] = json!(id.to_string());
        sample["agent"] = json!(agent);
        assert_eq!(server.json("POST /v1/samples", &sample).status, 200);
        wait_until_evaluated(&server);
        let page = server.get(&format!("/monitor?agent={agent}"));
        for part in shown {
            assert!(page.body.contains(part), "{agent}: {part}: {}", page.body);
        }
        let is_good = page.body.contains("pill tone-good") || page.body.contains(held);
        assert_eq!(is_good, agent == "good", "{agent}: {}", page.body);
    }
}

#[test]
fn monitor_finds_failed_samples_behind_newer_ones() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    fill(&server);
    let sample = |id: usize| json!({"id": id.to_string(), "agent": "shop", "version": "v2", "agent_output": "a refund"});
    let body: Vec<String> = (10..260).map(|it| sample(it).to_string()).collect();
    let head = ["host: localhost", "content-type: application/x-ndjson"];
    assert_eq!(server.send("POST /v1/samples", &head, body.join("\n").as_bytes()).status, 200);
    for query in ["", "?version=v1"] {
        let page = server.get(&format!("/monitor{query}"));
        assert!(page.body.contains("&#60;u&#62;no"), "{query}: {}", page.body);
    }
    let newer = server.get("/monitor?version=v2");
    assert!(!newer.body.contains("&#60;u&#62;no"), "{}", newer.body);
}

/// Stores samples of an agent, and waits until all are evaluated.
fn fill(server: &Server) {
    let set = json!({"expect": {"assert": [{"type": "contains", "value": "refund"}]}});
    server.json("PUT /v1/assertion-sets/support", &set);
    server.json("PUT /v1/agents/shop", &json!({"set": "support"}));
    for (id, output) in ["a refund", "<u>no</u>", "refund", "the refund"].iter().enumerate() {
        let sample =
            json!({"id": id.to_string(), "agent": "shop", "version": "v1", "agent_output": output});
        server.json("POST /v1/samples", &sample);
    }
    wait_until_evaluated(server);
}

fn wait_until_evaluated(server: &Server) {
    loop {
        let items = server.get("/v1/samples").json()["items"].clone();
        if items.as_array().unwrap().iter().all(|it| it["state"] != "pending") {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
fn other_sites_cannot_submit_forms() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let fields = [("output", "x"), ("checks", "output: { contains: [x] }")];
    for head in
        [vec![], vec!["origin: http://evil.test"], vec!["origin: null"], vec![ORIGIN, ORIGIN]]
    {
        let reply = submit_with(&server, "/", &head, &fields);
        assert_eq!(reply.status, 403, "{head:?}: {}", reply.body);
        assert_page(&reply);
    }
    let foreign = server.send("GET /", &["host: evil.test"], b"");
    assert_eq!(foreign.status, 403);
    assert_eq!(server.get("/login").status, 303);
}

#[test]
fn only_permitted_sites_show_the_panel() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["--embed-origin", "https://a.test", "--embed-origin", "http://b.test:81"];
    let server = Server::start(folder.path(), &args);
    for origin in ["https://a.test", "http://b.test:81"] {
        let page = server.get(&format!("/embed/panel?origin={origin}"));
        assert_eq!(page.status, 200, "{}", page.body);
        assert!(page.head.contains(&format!("frame-ancestors {origin}\r\n")), "{}", page.head);
        assert!(page.body.contains(&format!("data-origin=\"{origin}\"")), "{}", page.body);
    }
    for query in ["", "?origin=https://evil.test", "?origin=https://a.test.evil.test", "?origin=*"]
    {
        let page = server.get(&format!("/embed/panel{query}"));
        assert_eq!(page.status, 403, "{query}");
        assert_page(&page);
    }
    assert!(server.get("/embed/kindlm-panel.js").body.contains("customElements.define"));
    let wrong = crate::server::command(folder.path())
        .args(["--embed-origin", "https://a.test/x"])
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("expected the origin of a site"));
}

#[test]
fn pages_need_a_login_if_there_are_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let (_, good) = token(folder.path(), &["create", "Ann", "--scopes", "evaluate,read"]);
    let server = Server::start(folder.path(), &[]);
    let host = "host: kindlm.test";
    let origin = "origin: https://kindlm.test";
    let form = "content-type: application/x-www-form-urlencoded";
    let send = |first: &str, head: &[&str], fields: &[(&str, &str)]| {
        let head: Vec<&str> = [host, form].into_iter().chain(head.iter().copied()).collect();
        server.send(first, &head, encoded(fields).as_bytes())
    };
    let page = send("GET /sets?a=%22", &[], &[]);
    assert_eq!(page.status, 401);
    assert_page(&page);
    assert!(page.body.contains("name=\"next\" value=\"/sets?a=%22\""), "{}", page.body);
    // A token in a header opens no page, and a cookie opens no API.
    let bearer = format!("authorization: Bearer {good}");
    let cookie = format!("cookie: a=b; kindlm_token={good}");
    assert_eq!(send("GET /sets", &[&bearer], &[]).status, 401);
    assert_eq!(send("GET /v1/assertion-sets", &[&cookie], &[]).status, 401);
    assert_eq!(send("POST /login", &[], &[("token", &good)]).status, 403);
    let wrong = send("POST /login", &[origin], &[("token", "kindlm_0_0")]);
    assert_eq!(wrong.status, 401);
    assert!(wrong.body.contains("unknown or revoked") && !wrong.head.contains("set-cookie"));
    for (next, expected) in [("/sets", "/sets"), ("//evil.test", "/"), ("https://evil.test", "/")] {
        let reply = send("POST /login", &[origin], &[("token", &good), ("next", next)]);
        assert_eq!(location(&reply), expected);
        let set = reply.head.lines().find_map(|it| it.strip_prefix("set-cookie: ")).unwrap();
        let attributes = "; path=/; httponly; samesite=strict; secure";
        assert_eq!(set, format!("kindlm_token={good}{attributes}"));
    }
    let page = send("GET /sets", &[&cookie], &[]);
    assert_eq!(page.status, 200);
    assert!(page.body.contains("Ann") && page.body.contains("Log out"), "{}", page.body);
    // The cookie is no permission for a form of another site, or for another scope.
    let fields = [("name", "a"), ("checks", "output: { contains: [x] }")];
    assert_eq!(send("POST /", &[&cookie], &[("output", "x")]).status, 403);
    let refused = send("POST /sets", &[&cookie, origin], &fields);
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains("`admin`"), "{}", refused.body);
    let out = send("POST /logout", &[&cookie, origin], &[]);
    assert!(out.head.contains("max-age=0"), "{}", out.head);
    for path in
        ["style.css", "live.js", "times.js", "events.js", "panel.js", "panel-cards.js", "icon.svg"]
    {
        assert_eq!(send(&format!("GET /static/{path}"), &[], &[]).status, 200, "{path}");
    }
    assert_eq!(send("GET /static/other", &[], &[]).status, 404);
    assert!(token(folder.path(), &["revoke", good.split('_').nth(1).unwrap()]).0);
    assert_eq!(send("GET /sets", &[&cookie], &[]).status, 401);
}

#[test]
fn stored_data_needs_the_scope_read_on_pages() {
    let folder = suites();
    let (_, evaluate) = token(folder.path(), &["create", "Eve", "--scopes", "evaluate"]);
    let (_, admin) = token(folder.path(), &["create", "Ann", "--scopes", "admin"]);
    let server = Server::start(folder.path(), &["--suites", "suites"]);
    let send = |first: &str, text: &str, fields: &[(&str, &str)]| {
        let cookie = format!("cookie: kindlm_token={text}");
        let form = "content-type: application/x-www-form-urlencoded";
        let head = ["host: kindlm.test", "origin: https://kindlm.test", form, &cookie];
        server.send(first, &head, encoded(fields).as_bytes())
    };
    let set = [("name", "support"), ("checks", "output: { contains: [secret-word] }")];
    location(&send("POST /sets", &admin, &set));
    let started = send("POST /runs", &admin, &[("suite", "kindlm.yaml")]);
    let run = location(&started).rsplit('/').next().unwrap().to_owned();
    let tried = [("agent", "shop"), ("version", "1")];
    let invalid = [("suite", "kindlm.yaml"), ("tests", "nothing")];
    for (first, fields, status) in [
        ("POST /sets/support/try", &tried[..], 403),
        ("GET /?set=support", &[], 403),
        ("POST /runs", &invalid, 422),
    ] {
        let refused = send(first, &evaluate, fields);
        assert_eq!(refused.status, status, "{first}: {}", refused.body);
        assert_page(&refused);
        for stored in ["secret-word", run.as_str()] {
            assert!(!refused.body.contains(stored), "{first}: {}", refused.body);
        }
        let shown = send(first, &admin, fields);
        assert!(["secret-word", &run].iter().any(|it| shown.body.contains(it)), "{}", shown.body);
    }
    assert_eq!(send("GET /", &evaluate, &[]).status, 200);
}

#[test]
fn senders_without_a_token_cannot_send_large_forms() {
    let folder = tempfile::tempdir().unwrap();
    token(folder.path(), &["create", "Ann", "--scopes", "admin"]);
    let server = Server::start(folder.path(), &[]);
    for (length, status) in [(1000, 401), (5000, 413)] {
        let reply = submit(&server, "/login", &[("token", &"x".repeat(length / 3))]);
        assert_eq!(reply.status, status, "{length}: {}", reply.body);
    }
}

/// Starts a judge that fails rules about a coupon or a voucher. If a question contains `slow agent`, the judge answers
/// after a second.
fn judge() -> MockServer {
    MockServer::answering(|request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let messages = body["messages"].as_array().unwrap().iter();
        let texts = messages.filter_map(|it| it["content"].as_str());
        let question = texts.collect::<Vec<_>>().join("\n");
        let rules = question.split("Rules:\n").nth(1).and_then(|it| it.lines().next()).unwrap();
        let rules: Vec<Value> = serde_json::from_str(rules).unwrap();
        let results = rules.iter().map(|rule| {
            let text = rule.to_string();
            let missing = ["coupon", "voucher"].into_iter().find(|it| text.contains(it));
            let reasoning = match missing {
                Some(word) => format!("It has no {word}."),
                None if text.contains("amount") => "It says \"24.90 EUR\".".to_owned(),
                None => "It says sorry.".to_owned(),
            };
            json!({"id": rule["id"], "pass": missing.is_none(), "reasoning": reasoning})
        });
        let reply = json!({"results": results.collect::<Vec<_>>()}).to_string();
        let reply = MockReply::text(kindlm_types::ask::with_mark(&reply, &question));
        let is_slow = question.contains("slow agent");
        if is_slow { reply.after(Duration::from_secs(1)) } else { reply }
    })
    .unwrap()
}

/// Returns a port that is free when this returns.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Runs the tests in `tests/browser`.
#[test]
fn pages_work_in_chromium() {
    if !["node", "npm", "chromium"].iter().all(|it| installed(it)) {
        return;
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&tests);
    let has_packages = tests.join("node_modules/.package-lock.json").exists();
    if !has_packages && !npm.stdout(Stdio::null()).status().unwrap().success() {
        not_run("chromium", "npm cannot install the packages of tests/browser");
        return;
    }
    let folder = suites();
    let judge = judge();
    let config = format!(
        "kindlm: 1\nproject: shop\nsuite: {{ name: judge }}\n\
         providers: {{ openai: {{ apiKeyEnv: MOCK_KEY, baseUrl: '{}' }} }}\n\
         models: [{{ id: judge, provider: openai, model: gpt-4o }}]\n",
        judge.url()
    );
    std::fs::write(folder.path().join("judge.yaml"), config).unwrap();
    let builder = format!("http://localhost:{}", free_port());
    // The browser test is the server of this model, so it decides when the model answers.
    let model = format!("http://127.0.0.1:{}", free_port());
    std::fs::write(folder.path().join("suites/held.kindlm.yaml"), held(folder.path(), &model))
        .unwrap();
    let args = ["--suites", "suites", "-c", "judge.yaml", "--embed-origin", &builder];
    let server = Server::start(folder.path(), &args);
    fill(&server);
    let closed = tempfile::tempdir().unwrap();
    let (_, admin) = token(closed.path(), &["create", "Ann", "--scopes", "admin"]);
    let with_tokens = Server::start(closed.path(), &[]);
    let mut node = Command::new("node");
    node.arg("pages.test.mjs").current_dir(&tests).env("KINDLM_SERVER", server.url());
    node.env("KINDLM_BUILDER", builder).env("KINDLM_MODEL", model);
    node.env("KINDLM_CLOSED_SERVER", with_tokens.url()).env("KINDLM_TOKEN", admin);
    let output = node.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
}
