//! The daily budgets of agents.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use kindlm_server::store::spending::today;
use kindlm_testing::{MockReply, MockServer};
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::server::Server;

/// Runs a test that must end on the day (UTC) on which it began, because a new day has a new budget. Repeats the test
/// if the day has changed.
fn within_a_day(test: impl Fn()) {
    loop {
        let day = today();
        let result = catch_unwind(AssertUnwindSafe(&test));
        match result {
            _ if today() != day => {}
            Ok(()) => return,
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// Stores a sample, waits until it is not pending any more, and returns its state.
fn state(server: &Server, id: &str) -> Value {
    let sample = json!({"id": id, "agent": "shop", "agent_input": "q", "agent_output": "a refund"});
    assert_eq!(server.json("POST /v1/samples", &sample).status, 200);
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        let page = server.get("/v1/samples?agent=shop").json();
        let items = page["items"].as_array().unwrap();
        let state = items.iter().find(|it| it["id"] == id).unwrap()["state"].clone();
        if state != "pending" {
            return state;
        }
        assert!(Instant::now() < end, "{page}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn put(server: &Server, budget: &Value) {
    let agent = json!({"set": "support", "daily_budget": budget});
    let reply = server.json("PUT /v1/agents/shop", &agent);
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.json()["daily_budget"], *budget, "{}", reply.body);
}

#[test]
fn samples_beyond_the_budget_are_stored_and_not_evaluated() {
    within_a_day(spend_evaluations);
}

fn spend_evaluations() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let set = json!({"expect": {"assert": [{"type": "contains", "value": "refund"}]}});
    assert_eq!(server.json("PUT /v1/assertion-sets/support", &set).status, 201);
    put(&server, &json!({"evaluations": 2}));
    let states: Vec<Value> = ["1", "2", "3", "4"].iter().map(|it| state(&server, it)).collect();
    assert_eq!(states, ["done", "done", "over-budget", "over-budget"]);
    let rates = server.get("/v1/metrics/assertions?agent=shop").json();
    assert_eq!(rates["items"][0]["passed"], 2, "{rates}");
    let metrics = server.get("/metrics").body;
    for line in ["kindlm_samples{state=\"over-budget\"} 2", "kindlm_samples{state=\"done\"} 2"] {
        assert!(metrics.lines().any(|it| it == line), "{line}: {metrics}");
    }
    let page = server.get("/monitor").body;
    for part in ["2 of 4 samples", "the budget of the day was spent: 2."] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let agents = server.get("/v1/agents").json();
    let spent = json!({"evaluations": 2, "usd": 0.0, "unknown_costs": 0});
    assert_eq!(agents[0]["spent_today"], spent, "{agents}");
    // A higher budget applies to the next samples.
    put(&server, &json!({"evaluations": 3}));
    assert_eq!([state(&server, "5"), state(&server, "6")], ["done", "over-budget"]);
    for (budget, expected) in [
        (json!({}), "`daily_budget`"),
        (json!({"usd": -1}), "`daily_budget.usd`"),
        (json!({"evaluations": -1}), "-1"),
        (json!({"dollars": 1}), "dollars"),
    ] {
        let agent = json!({"set": "support", "daily_budget": budget});
        let reply = server.json("PUT /v1/agents/shop", &agent);
        assert_eq!(reply.status, 422, "{budget}: {}", reply.body);
        assert!(reply.body.contains(expected), "{budget}: {}", reply.body);
    }
}

/// Starts a server with a judge and an assertion set that asks the judge. `price` is YAML that is added to the model of
/// the judge.
fn judged(folder: &Path, judge: &MockServer, price: &str) -> Server {
    let config = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: s }}\n\
         providers: {{ openai: {{ apiKeyEnv: MOCK_KEY, baseUrl: '{}' }} }}\n\
         models: [{{ id: judge, provider: openai, model: own{price} }}]\n",
        judge.url()
    );
    std::fs::write(folder.join("kindlm.yaml"), config).unwrap();
    let server = Server::start(folder, &["-c", "kindlm.yaml"]);
    let rule = json!({"id": "polite", "instruction": "Is polite.", "criteria": ["Is polite."]});
    let set = server.json("PUT /v1/assertion-sets/support", &json!({"assertions": [rule]}));
    assert_eq!(set.status, 201, "{}", set.body);
    server
}

/// Starts a judge that finds each output polite.
fn polite() -> MockServer {
    MockServer::answering(|request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let messages = body["messages"].as_array().unwrap().iter();
        let texts = messages.filter_map(|it| it["content"].as_str());
        let question = texts.collect::<Vec<_>>().join("\n");
        let results = json!([{"id": "polite", "pass": true, "reasoning": "It says sorry."}]);
        let reply = json!({"results": results}).to_string();
        MockReply::text(kindlm_types::ask::with_mark(&reply, &question))
    })
    .unwrap()
}

#[test]
fn results_are_stored_if_their_cost_cannot_be_stored() {
    within_a_day(lose_the_cost);
}

fn lose_the_cost() {
    let (judge, folder) = (polite(), tempfile::tempdir().unwrap());
    let server = judged(folder.path(), &judge, ", price: { input: 1, output: 1 }");
    put(&server, &json!({"usd": 1.0}));
    refuse_costs(folder.path());
    assert_eq!(state(&server, "1"), "done");
    assert!(judge.count() > 0);
    let spent = server.get("/v1/agents").json()[0]["spent_today"].clone();
    assert_eq!(json!([spent["evaluations"], spent["usd"]]), json!([1, 0.0]));
}

/// Makes the database of a server refuse the costs of evaluations.
#[tokio::main(flavor = "current_thread")]
async fn refuse_costs(folder: &Path) {
    let options = SqliteConnectOptions::new().filename(folder.join("kindlm.db"));
    let mut database = options.connect().await.unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE UPDATE OF usd ON spending \
                  BEGIN SELECT RAISE(ABORT, 'no cost'); END";
    sqlx::query(refuse).execute(&mut database).await.unwrap();
    database.close().await.unwrap();
}

#[test]
fn judges_are_not_asked_after_the_dollars_are_spent() {
    within_a_day(spend_dollars);
}

fn spend_dollars() {
    let judge = polite();
    for (price, unknown) in [(", price: { input: 1, output: 1 }", 0), ("", 1)] {
        let folder = tempfile::tempdir().unwrap();
        let server = judged(folder.path(), &judge, price);
        put(&server, &json!({"usd": 0.000_001}));
        assert_eq!(state(&server, "1"), "done", "{price}");
        let asked = judge.count();
        assert_eq!(state(&server, "2"), "over-budget", "{price}");
        assert_eq!(judge.count(), asked);
        let spent = server.get("/v1/agents").json()[0]["spent_today"].clone();
        assert_eq!(json!([spent["evaluations"], spent["unknown_costs"]]), json!([1, unknown]));
        assert_eq!(spent["usd"].as_f64().unwrap() > 0.0, unknown == 0, "{spent}");
    }
}
