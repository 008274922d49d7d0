//! Samples that are evaluated in the background, and the numbers about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kindlm_server::store::sampling::is_sampled;
use kindlm_testing::{MockReply, MockRequest, MockServer};
use serde_json::{Value, json};

use crate::server::Server;

const DAY: &str = "T00:00:00Z";

pub(crate) fn sample(id: usize, agent: &str, output: &str) -> Value {
    json!({"id": id.to_string(), "agent": agent, "version": "v1", "agent_output": output})
}

fn start(folder: &std::path::Path, rate: f64) -> Server {
    let server = Server::start(folder, &[]);
    evaluate_shop(&server, rate);
    server
}

/// Chooses a set for the agent `shop`. Its check passes if the output has the word "refund".
pub(crate) fn evaluate_shop(server: &Server, rate: f64) {
    let set = json!({"expect": {"assert": [{"type": "contains", "value": "refund"}]}});
    assert_eq!(server.json("PUT /v1/assertion-sets/support", &set).status, 201);
    let agent = server.json("PUT /v1/agents/shop", &json!({"set": "support", "rate": rate}));
    assert_eq!(agent.status, 200, "{}", agent.body);
}

pub(crate) fn send(server: &Server, samples: impl IntoIterator<Item = Value>) {
    let body = samples.into_iter().map(|it| it.to_string()).collect::<Vec<_>>().join("\n");
    let head = ["host: localhost", "content-type: application/x-ndjson"];
    let reply = server.send("POST /v1/samples", &head, body.as_bytes());
    assert_eq!(reply.status, 200, "{}", reply.body);
}

/// Returns all samples by id, once at most `left` are pending.
fn evaluated(server: &Server, left: usize) -> Vec<Value> {
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        let page = server.get("/v1/samples?limit=1000").json();
        let mut items = page["items"].as_array().unwrap().clone();
        if items.iter().filter(|it| it["state"] == "pending").count() <= left {
            items.sort_by_key(|it| it["id"].as_str().unwrap().parse::<u32>().unwrap());
            return items;
        }
        assert!(Instant::now() < end, "{page}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn rates(server: &Server, query: &str) -> Vec<Value> {
    let reply = server.get(&format!("/v1/metrics/assertions{query}"));
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["items"].as_array().unwrap().clone()
}

#[test]
fn samples_are_evaluated_with_the_set_of_their_agent() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), 1.0);
    let outputs = ["a refund", "no", "the refund", "refund"];
    let samples = outputs.iter().enumerate().map(|(id, it)| sample(id, "shop", it));
    send(
        &server,
        samples.chain([sample(4, "desk", "a refund"), json!({"id": "5", "agent": "shop"})]),
    );
    let items = evaluated(&server, 0);
    let states: Vec<&Value> = items.iter().map(|it| &it["state"]).collect();
    assert_eq!(states, ["done", "done", "done", "done", "skipped", "failed"]);
    let outcomes: Vec<&Value> = items[..4].iter().map(|it| &it["evaluation"]["outcome"]).collect();
    assert_eq!(outcomes, ["passed", "failed", "passed", "passed"]);
    assert_eq!(items[0]["evaluation"]["set"], "support@1");
    assert!(items[4]["evaluation"].is_null());
    let error = items[5]["evaluation"]["error"].as_str().unwrap();
    assert!(error.contains("`agent_output`"), "{error}");
    // The job of the failed sample is kept. The others are gone with their results.
    let killed = "SELECT count(*) AS n FROM Jobs WHERE idempotency_key = '5' AND status = 'Killed'";
    let end = Instant::now() + Duration::from_mins(1);
    // apalis marks the job after the server has stored the error of the sample.
    while count(folder.path(), killed) == 0 {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(count(folder.path(), "SELECT count(*) AS n FROM Jobs"), 1);
    let found = rates(&server, "?agent=shop");
    assert_eq!(found.len(), 1, "{found:?}");
    let rate = &found[0];
    assert_eq!([&rate["passed"], &rate["failed"], &rate["errored"]], [3, 1, 0]);
    assert_eq!([&rate["set"], &rate["version"]], ["support@1", "v1"]);
    assert!(rate["start"].as_str().unwrap().ends_with(DAY), "{rate}");
    // Wilson's interval of 3 of 4, computed by hand.
    let near = |name: &str, expected: f64| (rate[name].as_f64().unwrap() - expected).abs() < 1e-4;
    assert!(near("pass_rate", 0.75) && near("low", 0.3006) && near("high", 0.9544), "{rate}");
}

#[test]
fn rates_are_by_version_and_set() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), 1.0);
    send(&server, [sample(0, "shop", "a refund")]);
    evaluated(&server, 0);
    let set = json!({"expect": {"assert": [{"type": "contains", "value": "money"}]}});
    assert_eq!(server.json("PUT /v1/assertion-sets/support", &set).status, 201);
    let mut later = sample(1, "shop", "a refund");
    later["version"] = json!("v2");
    send(&server, [later]);
    evaluated(&server, 0);
    let mut found: Vec<[String; 3]> = rates(&server, "?period=hour")
        .iter()
        .map(|it| ["version", "set", "passed"].map(|key| it[key].to_string()))
        .collect();
    found.sort();
    let quoted = |text: &str| format!("\"{text}\"");
    let expected = [
        [quoted("v1"), quoted("support@1"), "1".to_owned()],
        [quoted("v2"), quoted("support@2"), "0".to_owned()],
    ];
    assert_eq!(found, expected);
    let all = server.get("/v1/metrics/assertions?agent=shop").json();
    let releases: Vec<&Value> =
        all["releases"].as_array().unwrap().iter().map(|it| &it["version"]).collect();
    assert_eq!(releases, ["v1", "v2"]);
    assert!(all["items"].as_array().unwrap().iter().all(|it| it["weighted_pass_rate"].is_number()));
    let page = server.get("/monitor").body;
    for part in ["class=\"weighted\"", "class=\"release\"", "New versions: "] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(rates(&server, "?before=2020-01-01T00:00:00Z").is_empty());
    assert!(rates(&server, "?agent=desk").is_empty());
    assert_eq!(rates(&server, "?set=support@1").len(), 1);
    for query in ["period=year", "after=x", "sets=support"] {
        let reply = server.get(&format!("/v1/metrics/assertions?{query}"));
        assert_eq!(reply.status, 400, "{query}: {}", reply.body);
    }
    // Deleting a sample deletes its results.
    assert_eq!(server.send("DELETE /v1/samples?agent=shop", &["host: localhost"], b"").status, 200);
    assert!(rates(&server, "").is_empty());
}

#[test]
fn samples_with_an_error_are_always_evaluated() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), 0.0);
    let mut failed = sample(1, "shop", "a refund");
    failed["error"] = json!("timeout of a tool");
    send(&server, [sample(0, "shop", "a refund"), failed]);
    let states: Vec<Value> = evaluated(&server, 0).iter().map(|it| it["state"].clone()).collect();
    assert_eq!(states, ["skipped", "done"]);
    let agents = server.get("/v1/agents").json();
    assert_eq!([&agents[0]["set"], &agents[0]["rate"]], [&json!("support"), &json!(0.0)]);
    for (body, expected) in [
        (json!({"set": "other"}), "unknown set"),
        (json!({"set": "support", "rate": 1.5}), "`rate`"),
        (json!({"set": "support\u{0}"}), "unknown set"),
        (json!({"rate": 1}), "set"),
    ] {
        let reply = server.json("PUT /v1/agents/shop", &body);
        assert_eq!(reply.status, 422, "{}", reply.body);
        assert!(reply.body.contains(expected), "{}", reply.body);
    }
}

/// Waits until no sample is pending.
fn wait(server: &Server) {
    let end = Instant::now() + Duration::from_mins(1);
    while !server.get("/metrics").body.lines().any(|it| it == "kindlm_samples{state=\"pending\"} 0")
    {
        assert!(Instant::now() < end, "{}", server.get("/metrics").body);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn series_of_a_check_is_the_same_for_all_results() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--alert-reference", "20"]);
    let expect = json!({
        "guardrails": {"keywords": {"deny": ["bad"]}},
        "output": {"contains": ["{{name}}"], "maxLength": 100},
        "assert": [{"type": "contains", "value": "{{name}}"}],
    });
    assert_eq!(
        server.json("PUT /v1/assertion-sets/support", &json!({"expect": expect})).status,
        201
    );
    assert_eq!(server.json("PUT /v1/agents/shop", &json!({"set": "support"})).status, 200);
    let sample = |id: usize, output: &str| {
        let name = format!("Ann Smith{id}");
        json!({"id": id.to_string(), "agent": "shop", "agent_output": output.replace("NAME", &name), "vars": {"name": name}})
    };
    send(&server, (0..30).map(|it| sample(it, "NAME, good")));
    wait(&server);
    send(&server, (30..60).map(|it| sample(it, "NAME, bad")));
    // The output of this sample is not known, so each check is errored.
    send(&server, [json!({"id": "60", "agent": "shop", "tool_calls": [], "vars": {"name": "x"}})]);
    wait(&server);
    let mut found: Vec<Value> = rates(&server, "")
        .iter()
        .map(|it| json!([it["assertion"], it["passed"], it["failed"], it["errored"]]))
        .collect();
    found.sort_by_key(Value::to_string);
    let expected = [
        json!(["Contains: \"{{name}}\"", 60, 0, 1]),
        json!(["keywords", 30, 30, 1]),
        json!(["output.contains", 60, 0, 1]),
        json!(["output.maxLength", 60, 0, 1]),
    ];
    assert_eq!(found, expected);
    let alerts = server.get("/v1/alerts").json();
    assert_eq!(alerts["items"].as_array().unwrap().len(), 1, "{alerts}");
    assert_eq!(alerts["items"][0]["assertion"], "keywords", "{alerts}");
    // The deletion also deletes the alerts and the detectors, which contain names of checks.
    assert_eq!(server.send("DELETE /v1/samples?agent=shop", &["host: localhost"], b"").status, 200);
    assert_eq!(server.get("/v1/alerts").json()["items"], json!([]));
    assert_eq!(count(folder.path(), "SELECT count(*) AS n FROM detectors"), 0);
}

/// Returns the number that a query of the database of a server returns as `n`.
#[tokio::main(flavor = "current_thread")]
async fn count(folder: &std::path::Path, sql: &'static str) -> i64 {
    use sqlx::Row as _;
    sqlx::any::install_default_drivers();
    let url = format!("sqlite://{}", folder.join("kindlm.db").display());
    let pool = sqlx::AnyPool::connect(&url).await.unwrap();
    let found = sqlx::query(sql).fetch_one(&pool).await.unwrap().try_get("n").unwrap();
    pool.close().await;
    found
}

#[test]
fn samples_with_an_error_do_not_change_the_pass_rate() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), 0.1);
    send(&server, (0..300).map(|it| sample(it, "shop", "a refund")));
    send(
        &server,
        (300..400).map(|it| {
            let mut failed = sample(it, "shop", "no");
            failed["error"] = json!("timeout of a tool");
            failed
        }),
    );
    wait(&server);
    let found = rates(&server, "");
    let [rate] = &found[..] else { panic!("{found:?}") };
    let chosen =
        |ids: std::ops::Range<usize>| ids.filter(|it| is_sampled(&it.to_string(), 0.1)).count();
    let (passed, failed) = (chosen(0..300), chosen(300..400));
    // The other samples were evaluated only because of their error.
    let others = 100 - failed;
    assert_eq!([&rate["passed"], &rate["failed"]], [passed, failed], "{rate}");
    let errors = json!({"passed": 0, "failed": others, "errored": 0, "skipped": 0});
    assert_eq!(rate["error_samples"], errors, "{rate}");
    let share = |count: usize| f64::from(u32::try_from(count).unwrap());
    let expected = share(passed) / share(passed + failed);
    assert!((rate["pass_rate"].as_f64().unwrap() - expected).abs() < 1e-9, "{rate}");
    let page = server.get("/monitor").body;
    assert!(page.contains(&format!("only for their error: 0 passed, {others} failed.")), "{page}");
}

#[test]
fn agents_have_strata_and_can_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), 0.0);
    let strata = json!({"by": "metadata.plan", "rates": {"pro": 1}});
    let agent = json!({"set": "support", "rate": 0, "strata": strata});
    let reply = server.json("PUT /v1/agents/shop", &agent);
    assert_eq!(
        (reply.status, &reply.json()["strata"]["by"]),
        (200, &strata["by"]),
        "{}",
        reply.body
    );
    let of = |id: usize, plan: &str| {
        let mut sample = sample(id, "shop", "a refund");
        sample["metadata"] = json!({"plan": plan});
        sample
    };
    send(&server, [of(0, "pro"), of(1, "free")]);
    let states: Vec<Value> = evaluated(&server, 0).iter().map(|it| it["state"].clone()).collect();
    assert_eq!(states, ["done", "skipped"]);
    for (body, expected) in [
        (json!({"set": "support", "rate": 1e-7}), "`rate`"),
        (json!({"set": "support", "strata": {"by": "plan", "rates": {}}}), "`strata.by`"),
        (
            json!({"set": "support", "strata": {"by": "version", "rates": {"a": 2}}}),
            "`strata.rates`",
        ),
    ] {
        let reply = server.json("PUT /v1/agents/shop", &body);
        assert_eq!(reply.status, 422, "{}", reply.body);
        assert!(reply.body.contains(expected), "{}", reply.body);
    }
    let remove = || server.send("DELETE /v1/agents/shop", &["host: localhost"], b"").status;
    assert_eq!([remove(), remove()], [204, 404]);
    send(&server, [of(2, "pro")]);
    assert_eq!(evaluated(&server, 0)[2]["state"], "skipped");
}

#[test]
fn scores_and_edits_are_measured_for_people() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), 1.0);
    send(&server, (0..8).map(|it| sample(it, "shop", if it < 4 { "a refund" } else { "no" })));
    evaluated(&server, 0);
    for it in 0..8 {
        let value = if it < 5 { "up" } else { "down" };
        let feedback = json!({"sample": it.to_string(), "value": value});
        assert_eq!(server.json("POST /v1/feedback", &feedback).status, 201);
    }
    let metrics = server.get("/v1/metrics/feedback?agent=shop").json();
    let number = |value: &Value| value.as_f64().unwrap();
    // Phi of the table 4, 0, 1, 3 is 12 ÷ √(4 × 4 × 5 × 3).
    let expected = 12.0 / 240.0_f64.sqrt();
    for found in [&metrics["overall"], &metrics["items"][0]] {
        assert!((number(&found["correlation"]) - expected).abs() < 1e-9, "{metrics}");
        assert!(number(&found["low"]) < expected && number(&found["high"]) > expected, "{metrics}");
        assert_eq!(found["samples"], 8);
    }
    assert_eq!([&metrics["thumbs_up"], &metrics["thumbs_down"]], [5, 3]);
    let record = json!({"agent_output": "x", "set": "support"});
    let head = ["host: localhost", "content-type: application/json", "sec-fetch-site: same-origin"];
    assert_eq!(
        server.send("POST /v1/evaluate/events", &head, record.to_string().as_bytes()).status,
        200
    );
    // Without `sec-fetch-site`, the request comes from a program, and is not counted for a page.
    assert_eq!(server.evaluate(&record).status, 200);
    let metrics = server.get("/v1/metrics/adoption").json();
    assert_eq!([&metrics["agents"], &metrics["agents_with_set"]], [1, 1], "{metrics}");
    assert_eq!([&metrics["sets_edited"], &metrics["edits"]], [1, 1], "{metrics}");
    assert_eq!(metrics["edit_to_verdict"]["count"], 1, "{metrics}");
    assert_eq!(metrics["page_evaluations"]["panel"]["count"], 1, "{metrics}");
    let page = server.get("/monitor").body;
    for part in [
        "Correlation of scores with thumbs: 0.77",
        "1 of 1 agents have a set",
        "Evaluations in the panel: 1,",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    for query in ["feedback?after=x", "adoption?agent=a"] {
        assert_eq!(server.get(&format!("/v1/metrics/{query}")).status, 400, "{query}");
    }
}

#[test]
fn killed_server_loses_and_repeats_nothing() {
    const SAMPLES: usize = 400;
    /// The number of samples that the killed process was evaluating. They stay pending, because the process does not
    /// count as killed yet.
    const WORKERS: usize = 4;
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), 1.0);
    send(&server, (0..SAMPLES).map(|it| sample(it, "shop", "a refund")));
    // Killed with SIGKILL, while samples are evaluated.
    drop(server);
    let server = Server::start(folder.path(), &[]);
    let items = evaluated(&server, WORKERS);
    assert_eq!(items.len(), SAMPLES);
    let done = |items: &[Value]| items.iter().filter(|it| it["state"] == "done").count() as u64;
    assert!(done(&items) >= (SAMPLES - WORKERS) as u64);
    let counted: u64 = rates(&server, "").iter().map(|it| it["passed"].as_u64().unwrap()).sum();
    // A sample may be done after the first list, but none is counted twice.
    let later = done(&evaluated(&server, WORKERS));
    assert!((done(&items)..=later).contains(&counted), "{counted}");
}

/// Returns a judge's reply: the rule `polite` holds.
pub(crate) fn says_polite(request: &MockRequest) -> MockReply {
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let messages = body["messages"].as_array().unwrap().iter();
    let texts = messages.filter_map(|it| it["content"].as_str());
    let question = texts.collect::<Vec<_>>().join("\n");
    let results = json!([{"id": "polite", "pass": true, "reasoning": "It says sorry."}]);
    let reply = json!({"results": results}).to_string();
    MockReply::text(kindlm_types::ask::with_mark(&reply, &question))
}

/// Returns the config of a server with this judge.
pub(crate) fn config(judge: &MockServer) -> String {
    format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: s }}\n\
         providers: {{ openai: {{ apiKeyEnv: MOCK_KEY, baseUrl: '{}' }} }}\n\
         models: [{{ id: judge, provider: openai, model: gpt-4o }}]\n",
        judge.url()
    )
}

/// Chooses a set for the agent `shop`. A judge decides its rule `polite`.
pub(crate) fn judge_shop(server: &Server) {
    let rule = json!({"id": "polite", "instruction": "Is polite.", "criteria": ["Is polite."]});
    let set = server.json("PUT /v1/assertion-sets/support", &json!({"assertions": [rule]}));
    assert_eq!(set.status, 201, "{}", set.body);
    let agent = server.json("PUT /v1/agents/shop", &json!({"set": "support"}));
    assert_eq!(agent.status, 200, "{}", agent.body);
}

#[test]
fn sample_waits_until_its_judge_answers() {
    let folder = tempfile::tempdir().unwrap();
    let is_down = Arc::new(AtomicBool::new(true));
    let down = Arc::clone(&is_down);
    let judge = MockServer::answering(move |request| {
        if down.load(Ordering::SeqCst) {
            return MockReply::error(400, "the model is not loaded");
        }
        says_polite(request)
    })
    .unwrap();
    std::fs::write(folder.path().join("kindlm.yaml"), config(&judge)).unwrap();
    let server = Server::start(folder.path(), &["-c", "kindlm.yaml"]);
    judge_shop(&server);
    let record =
        |id: &str| json!({"id": id, "agent": "shop", "agent_input": "q", "agent_output": "sorry"});
    assert_eq!(server.json("POST /v1/samples", &record("1")).status, 200);
    let line = "kindlm_evaluations_total{source=\"sample\",outcome=\"errored\"} 1";
    let end = Instant::now() + Duration::from_mins(2);
    while !server.get("/metrics").body.lines().any(|it| it == line) {
        assert!(Instant::now() < end, "{}", server.get("/metrics").body);
        std::thread::sleep(Duration::from_millis(20));
    }
    let item = server.get("/v1/samples").json()["items"][0].clone();
    assert_eq!([&item["state"], &item["evaluation"]], [&json!("pending"), &Value::Null], "{item}");
    assert!(rates(&server, "").is_empty());
    is_down.store(false, Ordering::SeqCst);
    end_pauses(folder.path());
    // A new sample wakes a worker.
    assert_eq!(server.json("POST /v1/samples", &record("2")).status, 200);
    let outcomes: Vec<Value> =
        evaluated(&server, 0).iter().map(|it| it["evaluation"]["outcome"].clone()).collect();
    assert_eq!(outcomes, ["passed", "passed"]);
}

#[test]
fn attempts_of_a_sample_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let judge =
        MockServer::answering(|_| MockReply::error(400, "the model is not loaded")).unwrap();
    std::fs::write(folder.path().join("kindlm.yaml"), config(&judge)).unwrap();
    let server = Server::start(folder.path(), &["-c", "kindlm.yaml"]);
    judge_shop(&server);
    send(
        &server,
        (0..2).map(|it| {
            let mut sample = sample(it, "shop", &format!("sorry {it}"));
            sample["agent_input"] = json!("q");
            sample
        }),
    );
    let end = Instant::now() + Duration::from_mins(2);
    let waiting = "SELECT count(*) AS n FROM Jobs WHERE status = 'Failed' AND attempts = 1 AND run_at > unixepoch()";
    while count(folder.path(), waiting) < 2 {
        assert!(Instant::now() < end, "{}", server.get("/metrics").body);
        std::thread::sleep(Duration::from_millis(20));
    }
    // The next attempt of the first sample is its last one. The second sample has no attempt left, and no result.
    execute(
        folder.path(),
        "UPDATE Jobs SET run_at = 0, attempts = 4 + CAST(idempotency_key AS INTEGER)",
    );
    let items = evaluated(&server, 0);
    let states: Vec<&Value> = items.iter().map(|it| &it["state"]).collect();
    assert_eq!(states, ["done", "failed"]);
    assert_eq!(items[0]["evaluation"]["outcome"], "errored");
    let error = items[1]["evaluation"]["error"].as_str().unwrap();
    assert_eq!(error, "the evaluation did not end in 5 attempts");
}

#[test]
fn as_many_samples_are_evaluated_at_once_as_there_are_workers() {
    /// The number of workers of the server: more than the default.
    const WORKERS: usize = 7;
    let folder = tempfile::tempdir().unwrap();
    let judge = MockServer::answering(says_polite).unwrap();
    std::fs::write(folder.path().join("kindlm.yaml"), config(&judge)).unwrap();
    let args = ["-c", "kindlm.yaml", "--workers", &WORKERS.to_string()];
    let server = Server::start(folder.path(), &args);
    judge_shop(&server);
    judge.hold();
    let samples = (0..WORKERS).map(|it| {
        // The outputs differ, because equal questions are sent to the judge only once.
        let mut sample = sample(it, "shop", &format!("sorry {it}"));
        sample["agent_input"] = json!("q");
        sample
    });
    send(&server, samples);
    let end = Instant::now() + Duration::from_mins(2);
    while judge.count() < WORKERS {
        assert!(Instant::now() < end, "{} of {WORKERS}", judge.count());
        std::thread::sleep(Duration::from_millis(20));
    }
    judge.release();
    assert!(evaluated(&server, 0).iter().all(|it| it["state"] == "done"));
}

#[test]
fn evaluation_goes_on_after_an_error_of_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    let judge = MockServer::answering(says_polite).unwrap();
    std::fs::write(folder.path().join("kindlm.yaml"), config(&judge)).unwrap();
    // Heartbeats are a second apart.
    let server = Server::start(folder.path(), &["-c", "kindlm.yaml", "--lease", "5"]);
    judge_shop(&server);
    judge.hold();
    let mut sample = sample(0, "shop", "sorry");
    sample["agent_input"] = json!("q");
    send(&server, [sample]);
    let end = Instant::now() + Duration::from_mins(1);
    while judge.count() == 0 {
        assert!(Instant::now() < end, "{}", server.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    // The next heartbeat fails, and so does the start of each new worker.
    execute(folder.path(), "ALTER TABLE Workers RENAME TO Gone");
    while !server.stderr().contains("the queue failed") {
        assert!(Instant::now() < end, "{}", server.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    judge.release();
    assert_eq!(evaluated(&server, 0)[0]["state"], "done");
}

#[test]
fn errors_of_the_database_do_not_use_up_all_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), 1.0);
    execute(folder.path(), "ALTER TABLE spending RENAME TO gone");
    send(&server, [sample(0, "shop", "a refund")]);
    let end = Instant::now() + Duration::from_mins(1);
    while count(folder.path(), "SELECT count(*) AS n FROM Jobs WHERE status = 'Failed'") == 0 {
        assert!(Instant::now() < end, "{}", server.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    // The pause of 30 seconds began shortly before.
    let paused = "SELECT count(*) AS n FROM Jobs WHERE attempts = 1 AND run_at > unixepoch() + 10";
    assert_eq!(count(folder.path(), paused), 1);
    execute(folder.path(), "ALTER TABLE gone RENAME TO spending");
    end_pauses(folder.path());
    assert_eq!(evaluated(&server, 0)[0]["state"], "done");
}

/// Ends the pauses of all samples in the database of a server.
fn end_pauses(folder: &std::path::Path) {
    execute(folder, "UPDATE Jobs SET run_at = 0");
}

/// Changes the database of a server.
#[tokio::main(flavor = "current_thread")]
async fn execute(folder: &std::path::Path, sql: &'static str) {
    sqlx::any::install_default_drivers();
    let url = format!("sqlite://{}", folder.join("kindlm.db").display());
    let pool = sqlx::AnyPool::connect(&url).await.unwrap();
    sqlx::query(sql).execute(&pool).await.unwrap();
    pool.close().await;
}

#[test]
fn database_errors_are_reported_to_the_operator() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    drop_samples(folder.path());
    let reply = server.get("/v1/samples");
    assert_eq!(reply.status, 503, "{}", reply.body);
    assert!(reply.body.contains("standard error") && !reply.body.contains("no such table"));
    assert_eq!(server.get("/monitor").status, 503);
    let id = reply.head.lines().find_map(|it| it.strip_prefix("x-request-id: ")).unwrap();
    let logged = format!(" error request {id}: the database failed: ");
    let end = Instant::now() + Duration::from_mins(1);
    while !server
        .stderr()
        .lines()
        .any(|it| it.starts_with("20") && it.contains(&logged) && it.contains("no such table"))
    {
        assert!(Instant::now() < end, "{}", server.stderr());
        std::thread::yield_now();
    }
}

#[tokio::main(flavor = "current_thread")]
async fn drop_samples(folder: &std::path::Path) {
    sqlx::any::install_default_drivers();
    let url = format!("sqlite://{}", folder.join("kindlm.db").display());
    let pool = sqlx::AnyPool::connect(&url).await.unwrap();
    for table in ["feedback", "results", "samples"] {
        let sql = sqlx::AssertSqlSafe(format!("DROP TABLE {table}"));
        sqlx::query(sql).execute(&pool).await.unwrap();
    }
    pool.close().await;
}

#[test]
fn numbers_are_shown_to_prometheus() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), 1.0);
    send(
        &server,
        [sample(0, "shop", "a refund"), sample(1, "shop", "no"), sample(2, "desk", "no")],
    );
    evaluated(&server, 0);
    // A repeated request stores nothing.
    let key = ["host: localhost", "content-type: application/json", "idempotency-key: k"];
    let body = sample(3, "desk", "no").to_string();
    for _ in 0..2 {
        assert_eq!(server.send("POST /v1/samples", &key, body.as_bytes()).status, 200);
    }
    let record = json!({"agent_output": "x", "set": "support"});
    assert_eq!(server.evaluate(&record).status, 200);
    assert_eq!(server.evaluate(&json!([])).status, 422);
    let lines = [
        "kindlm_samples_stored_total 4",
        "kindlm_samples{state=\"done\"} 2",
        "kindlm_samples{state=\"skipped\"} 2",
        "kindlm_samples{state=\"pending\"} 0",
        "kindlm_samples{state=\"failed\"} 0",
        "kindlm_evaluations_total{source=\"sample\",outcome=\"failed\"} 1",
        "kindlm_evaluations_total{source=\"request\",outcome=\"failed\"} 1",
        "kindlm_requests_total{status=\"422\"} 1",
        "# EOF",
    ];
    // An evaluation is stored before it is counted.
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        let reply = server.get("/metrics");
        assert!(
            reply.head.contains("content-type: application/openmetrics-text"),
            "{}",
            reply.head
        );
        let missing = lines.iter().find(|line| !reply.body.lines().any(|it| it == **line));
        let Some(missing) = missing else { break };
        assert!(Instant::now() < end, "{missing}: {}", reply.body);
    }
}
