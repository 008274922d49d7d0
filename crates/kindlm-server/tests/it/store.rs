//! The store on SQLite. `postgres.rs` runs the same tests on PostgreSQL.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apalis::prelude::WorkerContext;
use kindlm_run::evaluate::service::JudgeCost;
use kindlm_server::store::Store;
use kindlm_server::store::StoreError;
use kindlm_server::store::adoption::Page;
use kindlm_server::store::agents::{Agent, AgentSettings, DailyBudget};
use kindlm_server::store::alerts::AlertFilter;
use kindlm_server::store::attention::AttentionFilter;
use kindlm_server::store::backlog::Backlog;
use kindlm_server::store::feedback_rates::FeedbackFilter;
use kindlm_server::store::idempotency::RequestKey;
use kindlm_server::store::jobs::{JobPool, QUEUE};
use kindlm_server::store::queue::{NewResult, PendingSample};
use kindlm_server::store::rates::{Counts, Period, PeriodResults, RateFilter};
use kindlm_server::store::samples::{Cursor, NewFeedback, NewSample, SampleFilter};
use kindlm_server::store::sampling::{Strata, is_sampled};
use kindlm_server::store::sets::ExpectedVersion;
use kindlm_server::store::spending::Spent;
use kindlm_server::store::tokens::Scope;
use kindlm_server::store::traces::{ReadTrace, StoredTraces, TracePart, TraceParts, TraceReading};
use serde_json::{Map, Value, json};

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn sample(id: &str, agent: &str, subject: &str) -> NewSample {
    let mut sample = NewSample::new(agent, object(&json!({"agent_output": "x"})));
    sample.id = Some(id.to_owned());
    sample.subject = subject.into();
    sample
}

fn settings(set: &str, rate: f64) -> AgentSettings {
    AgentSettings::new(set, rate)
}

fn decided(assertion: &str, status: &str) -> NewResult {
    let score = match status {
        "passed" => Some(1.0),
        "failed" => Some(0.0),
        _ => None,
    };
    NewResult::new(assertion, status, score)
}

async fn pending(store: &Store, id: &str) -> PendingSample {
    store.pending_sample(id).await.unwrap().unwrap()
}

/// Stores a sample, and finishes it with these results.
async fn finish(store: &Store, sample: NewSample, set: &str, results: &[NewResult]) {
    let id = sample.id.clone().unwrap();
    store.add_samples(&[sample], None).await.unwrap();
    let sample = pending(store, &id).await;
    assert!(store.finish_sample(&sample, set, "{}", results, 20).await.unwrap());
}

/// Returns the samples of all jobs, in the order of the jobs.
async fn jobs(store: &Store) -> Vec<String> {
    match store.job_pool() {
        JobPool::Sqlite(pool) => {
            let sql = "SELECT idempotency_key FROM Jobs WHERE job_type = 'samples' ORDER BY id";
            sqlx::query_scalar(sql).fetch_all(pool).await.unwrap()
        }
        JobPool::Postgres(pool) => {
            let sql =
                "SELECT idempotency_key FROM apalis.jobs WHERE job_type = 'samples' ORDER BY id";
            sqlx::query_scalar(sql).fetch_all(pool).await.unwrap()
        }
    }
}

/// Fetches the next job as a worker of apalis does. Returns its sample, and the number of attempts before.
async fn fetch(store: &Store) -> Option<(String, usize)> {
    let worker = WorkerContext::new("test");
    let mut jobs = match store.job_pool() {
        JobPool::Sqlite(pool) => {
            let sql = "INSERT INTO Workers (id, worker_type, storage_name) \
                VALUES ('test', 'samples', '') ON CONFLICT DO NOTHING";
            sqlx::query(sql).execute(pool).await.unwrap();
            let config = apalis_sqlite::Config::default().queue(QUEUE).batch_size(1);
            apalis_sqlite::queries::fetch_next(pool, &config, &worker).await.unwrap()
        }
        JobPool::Postgres(pool) => {
            let sql = "INSERT INTO apalis.workers (id, worker_type, storage_name) \
                VALUES ('test', 'samples', '') ON CONFLICT DO NOTHING";
            sqlx::query(sql).execute(pool).await.unwrap();
            let config = apalis_postgres::Config::default().queue(QUEUE).batch_size(1);
            let mut connection = pool.acquire().await.unwrap();
            apalis_postgres::queries::fetch_next(&mut *connection, &config, &worker).await.unwrap()
        }
    };
    let job = jobs.pop()?;
    Some((serde_json::from_slice(&job.args).unwrap(), job.attempt()))
}

/// Makes a fetched job fail, as a worker of apalis does.
async fn fail_job(store: &Store, sample: &str) {
    let set = "SET status = 'Failed', attempts = attempts + 1 WHERE idempotency_key = $1";
    match store.job_pool() {
        JobPool::Sqlite(pool) => {
            let sql = sqlx::AssertSqlSafe(format!("UPDATE Jobs {set}"));
            sqlx::query(sql).bind(sample).execute(pool).await.unwrap();
        }
        JobPool::Postgres(pool) => {
            let sql = sqlx::AssertSqlSafe(format!("UPDATE apalis.jobs {set}"));
            sqlx::query(sql).bind(sample).execute(pool).await.unwrap();
        }
    }
}

async fn tokens_are_found_until_they_are_revoked(store: &Store) {
    assert!(!store.has_tokens().await.unwrap());
    let text = store.create_token("ci", &[Scope::Evaluate, Scope::Read]).await.unwrap();
    let token = store.find_token(&text).await.unwrap().unwrap();
    assert!(token.permits(Scope::Read) && !token.permits(Scope::Admin));
    let forged = format!("{}0", &text[..text.len() - 1]);
    for other in [forged.as_str(), "", "kindlm_", "kindlm__", &text[..20]] {
        if other != text {
            assert!(store.find_token(other).await.unwrap().is_none(), "{other}");
        }
    }
    assert!(store.revoke_token(&token.id).await.unwrap());
    assert!(!store.revoke_token(&token.id).await.unwrap());
    assert!(store.find_token(&text).await.unwrap().is_none());
    assert!(store.has_tokens().await.unwrap());
    assert!(store.tokens().await.unwrap()[0].revoked_at.is_some());
}

async fn each_change_of_a_set_is_a_version(store: &Store) {
    let (first, second) = (object(&json!({"threshold": 0.5})), object(&json!({"threshold": 0.7})));
    let (one, is_new) = store.put_set("a", &first, "ann", &ExpectedVersion::Any).await.unwrap();
    assert!(is_new && one.version == 1);
    assert!(!store.put_set("a", &first, "bob", &ExpectedVersion::Any).await.unwrap().1);
    let (two, _) = store
        .put_set("a", &second, "bob", &ExpectedVersion::Digest(vec![one.digest.clone()]))
        .await
        .unwrap();
    assert_eq!((two.version, two.author.as_str()), (2, "bob"));
    let old = ExpectedVersion::Digest(vec![one.digest.clone()]);
    let refused = store.put_set("a", &first, "ann", &old).await.unwrap_err();
    assert!(matches!(refused, StoreError::SetChanged { newest: Some(2) }), "{refused}");
    assert!(two.diff.contains("-  \"threshold\": 0.5\n+  \"threshold\": 0.7\n"), "{}", two.diff);
    assert_eq!(store.set("a", Some(1)).await.unwrap(), Some(one));
    assert_eq!(store.set("a", None).await.unwrap(), Some(two));
    assert_eq!(store.set("a", Some(3)).await.unwrap(), None);
    let contents: Vec<_> = (0..4).map(|it| object(&json!({"threshold": 0.1, "n": it}))).collect();
    let concurrent = contents.iter().map(|it| store.put_set("b", it, "", &ExpectedVersion::Any));
    for stored in futures_util::future::join_all(concurrent).await {
        stored.unwrap();
    }
    let versions: Vec<i64> =
        store.set_versions("b").await.unwrap().iter().map(|it| it.version).collect();
    assert_eq!(versions, [4, 3, 2, 1]);
    assert_eq!(store.sets().await.unwrap().len(), 2);
    // The agents in the other tests use these sets.
    for name in ["set", "t"] {
        store.put_set(name, &first, "", &ExpectedVersion::Any).await.unwrap();
    }
}

async fn samples_are_stored_once(store: &Store) {
    let samples = [sample("1", "a", "s"), sample("2", "a", "t"), sample("3", "b", "s")];
    let with_digest = |digest: &str| RequestKey {
        owner: String::new(),
        key: "k".to_owned(),
        digest: digest.to_owned(),
    };
    let first = store.add_samples(&samples, Some(&with_digest("d"))).await.unwrap();
    assert_eq!((first.stored, first.duplicates), (3, 0));
    let repeated = store.add_samples(&samples, Some(&with_digest("d"))).await.unwrap();
    assert!(repeated.is_repetition && !first.is_repetition);
    assert_eq!(repeated.ids, first.ids);
    assert!(store.add_samples(&samples, Some(&with_digest("e"))).await.is_err());
    let again = store.add_samples(&samples, None).await.unwrap();
    assert_eq!((again.stored, again.duplicates), (0, 3));
    let all = SampleFilter::default();
    let page = store.samples(&all, 2, None).await.unwrap();
    assert_eq!((page.total, page.items.len()), (3, 2));
    let cursor = Cursor::parse(&page.next.unwrap()).unwrap();
    let rest = store.samples(&all, 2, Some(&cursor)).await.unwrap();
    assert_eq!((rest.items.len(), rest.next), (1, None));
    let feedback = |sample: &str| NewFeedback::new(sample, "up");
    assert!(store.add_feedback(&feedback("1"), None).await.unwrap().is_some());
    assert!(store.add_feedback(&feedback("4"), None).await.unwrap().is_none());
    let of_subject = SampleFilter { subject: Some("s".to_owned()), ..SampleFilter::default() };
    assert_eq!(store.delete_samples(&of_subject).await.unwrap(), 2);
    let old = SampleFilter { before: Some(0), agent: Some("a".to_owned()), subject: None };
    assert_eq!(store.delete_samples(&old).await.unwrap(), 0);
    assert_eq!(store.samples(&all, 9, None).await.unwrap().total, 1);
}

async fn request_key_waits_for_its_response(store: &Store) {
    let key = |digest: &str| RequestKey {
        owner: "o".to_owned(),
        key: "run".to_owned(),
        digest: digest.to_owned(),
    };
    assert_eq!(store.begin_request::<String>(&key("d")).await.unwrap(), None);
    let running = store.begin_request::<String>(&key("d")).await.unwrap_err();
    assert!(matches!(running, StoreError::KeyInUse), "{running}");
    store.release_request(&key("d")).await.unwrap();
    assert_eq!(store.begin_request::<String>(&key("e")).await.unwrap(), None);
    store.answer_request(&key("e"), &"first").await.unwrap();
    store.release_request(&key("e")).await.unwrap();
    assert_eq!(store.begin_request::<String>(&key("e")).await.unwrap().unwrap(), "first");
    let reused = store.begin_request::<String>(&key("d")).await.unwrap_err();
    assert!(matches!(reused, StoreError::KeyReused), "{reused}");
    // The response of another request stays.
    store.withdraw_request(&key("e"), &"other").await.unwrap();
    assert_eq!(store.begin_request::<String>(&key("e")).await.unwrap().unwrap(), "first");
    store.withdraw_request(&key("e"), &"first").await.unwrap();
    assert_eq!(store.begin_request::<String>(&key("e")).await.unwrap(), None);
    store.withdraw_request(&key("e"), &"first").await.unwrap();
    assert_eq!(store.begin_request::<String>(&key("d")).await.unwrap(), None);
}

async fn samples_wait_in_the_queue_until_they_are_finished(store: &Store) {
    let put = store.put_agent("q", &settings("set@1", 0.25), "ann").await.unwrap();
    assert!((put.rate - 0.25).abs() < 1e-9);
    assert_eq!(store.put_agent("q", &settings("set", 1.0), "bob").await.unwrap().set, "set");
    assert_eq!(store.agents().await.unwrap(), [store.agent("q").await.unwrap().unwrap()]);
    let samples = ["q1", "q2", "q3", "q4"].map(|it| sample(it, "q", ""));
    store.add_samples(&samples, None).await.unwrap();
    // A repeated sample makes no second job.
    store.add_samples(&samples, None).await.unwrap();
    assert_eq!(jobs(store).await, ["q1", "q2", "q3", "q4"]);
    let next = async || fetch(store).await;
    let first = |id: &str| Some((id.to_owned(), 0));
    for id in ["q1", "q2", "q3", "q4"] {
        assert_eq!(next().await, first(id));
    }
    assert_eq!(next().await, None);
    // A job that failed waits for the end of its pause. On SQLite, the end is rounded up to a second.
    store.pause_sample("q1", Duration::from_hours(1)).await.unwrap();
    fail_job(store, "q1").await;
    assert_eq!(next().await, None);
    store.pause_sample("q1", Duration::ZERO).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(next().await, Some(("q1".to_owned(), 1)));
    let [one, two] = [pending(store, "q1").await, pending(store, "q2").await];
    let [three, four] = [pending(store, "q3").await, pending(store, "q4").await];
    store.fail_sample(&four, "no").await.unwrap();
    let finish = async |sample: &PendingSample, statuses: &[&str]| {
        let results: Vec<NewResult> = statuses.iter().map(|it| decided("a", it)).collect();
        store.finish_sample(sample, "set@1", "{\"score\": 1}", &results, 100).await.unwrap()
    };
    // Two processes may evaluate a sample. The first results count.
    let same = one.clone();
    assert!(finish(&one, &["passed", "failed"]).await);
    assert!(!finish(&same, &["passed"]).await);
    assert!(finish(&two, &["passed", "skipped", "errored"]).await);
    store.fail_sample(&three, "no").await.unwrap();
    store.fail_sample(&two, "no").await.unwrap();
    assert!(!finish(&three, &["passed"]).await);
    assert!(store.pending_sample("q1").await.unwrap().is_none());
    // The jobs of evaluated samples are gone, and those of failed samples stay.
    assert_eq!(jobs(store).await, ["q3", "q4"]);
    let mut filter = RateFilter::new(0..i64::MAX, Period::Week);
    filter.agent = "q".into();
    let rates = store.rates(&filter).await.unwrap().unwrap();
    let mut counts = Counts::default();
    for it in rates.values() {
        counts.add_all(it.counts);
    }
    assert_eq!(counts, Counts { passed: 2, failed: 1, errored: 1, skipped: 1 });
    let of_agent = SampleFilter { agent: Some("q".to_owned()), ..SampleFilter::default() };
    let items = store.samples(&of_agent, 9, None).await.unwrap().items;
    let count = |state: &str| items.iter().filter(|it| it.state == state).count();
    assert_eq!([count("done"), count("failed"), count("pending")], [2, 2, 0]);
    assert_eq!(store.delete_samples(&of_agent).await.unwrap(), 4);
    assert!(store.rates(&filter).await.unwrap().unwrap().is_empty());
    assert!(jobs(store).await.is_empty());
}

async fn late_evaluation_decides_no_other_sample_with_its_id(store: &Store) {
    let new = sample("late", "q", "");
    let of_agent = SampleFilter { agent: Some("q".to_owned()), ..SampleFilter::default() };
    store.add_samples(std::slice::from_ref(&new), None).await.unwrap();
    let deleted = pending(store, "late").await;
    assert_eq!(store.delete_samples(&of_agent).await.unwrap(), 1);
    // The times of samples have the precision of a millisecond.
    tokio::time::sleep(Duration::from_millis(5)).await;
    store.add_samples(&[new], None).await.unwrap();
    let results = [decided("a", "passed")];
    assert!(!store.finish_sample(&deleted, "set@1", "{}", &results, 100).await.unwrap());
    store.fail_sample(&deleted, "no").await.unwrap();
    store.leave_sample(&deleted).await.unwrap();
    store.remove_job("late").await.unwrap();
    assert!(store.pending_sample("late").await.unwrap().is_some());
    assert_eq!(jobs(store).await, ["late"]);
    // Without the sample, its job is removed.
    assert_eq!(store.delete_samples(&of_agent).await.unwrap(), 1);
    assert!(jobs(store).await.is_empty());
}

async fn falls_start_and_end_alerts(store: &Store) {
    store.put_agent("fall", &settings("set", 1.0), "").await.unwrap();
    let finish = async |id: &str, set: &str, statuses: &[&str]| {
        store.add_samples(&[sample(id, "fall", "")], None).await.unwrap();
        let pending = pending(store, id).await;
        let result = |(status, judged): (&&str, &str)| {
            let assertion = if judged.is_empty() { "word" } else { "polite" };
            let mut result = decided(assertion, status);
            result.judged = judged.into();
            result
        };
        let kinds = ["", "prompt-assertion"];
        let results: Vec<NewResult> = statuses.iter().zip(kinds).map(result).collect();
        assert!(store.finish_sample(&pending, set, "{}", &results, 20).await.unwrap());
    };
    let all = AlertFilter::default();
    let standing = AlertFilter { agent: "fall".to_owned(), standing: Some(true) };
    for it in 0..20 {
        finish(&format!("r{it}"), "set@1", &["passed", "passed"]).await;
        // Neither errored nor skipped results are part of the reference.
        finish(&format!("e{it}"), "set@1", &["errored", "skipped"]).await;
    }
    // Only one of both assertions falls. The results after the alarm change nothing.
    for it in 0..20 {
        finish(&format!("f{it}"), "set@1", &["passed", "failed"]).await;
    }
    let alerts = store.alerts(&standing).await.unwrap();
    assert_eq!(alerts, store.alerts(&all).await.unwrap());
    let [alert] = &alerts[..] else { panic!("{alerts:?}") };
    assert_eq!((alert.assertion.as_str(), alert.judged.as_str()), ("polite", "prompt-assertion"));
    assert_eq!((alert.from.passed(), alert.from.total()), (20, 20));
    assert_eq!((alert.to.passed(), alert.latest.unwrap().total() + alert.to.total()), (0, 20));
    assert_eq!(store.standing_alerts().await.unwrap(), 1);
    each_message_is_delivered_once(store, &alert.id).await;
    finish("s", "set@2", &["passed"]).await;
    assert_eq!(store.standing_alerts().await.unwrap(), 0);
    let ended = &store.alerts(&all).await.unwrap()[0];
    assert_eq!((ended.end_reason.as_str(), ended.latest), ("other-set", None));
    // Each address to which the alert was sent receives its end, because it may have received the alert.
    for tried in ["a", "b"] {
        let end = store.lease_delivery(tried).await.unwrap().unwrap();
        assert!(end.is_end && end.alert == *ended);
        store.finish_delivery(&end.id).await.unwrap();
        assert!(store.lease_delivery(tried).await.unwrap().is_none());
    }
    assert!(store.lease_delivery("c").await.unwrap().is_none());
}

async fn each_message_is_delivered_once(store: &Store, alert: &str) {
    let first = store.lease_delivery("a").await.unwrap().unwrap();
    assert_eq!((first.alert.id.as_str(), first.is_end, first.attempts), (alert, false, 1));
    // Another process cannot take the same message.
    assert!(store.lease_delivery("a").await.unwrap().is_none());
    store.release_delivery(&first.id, Duration::ZERO).await.unwrap();
    let again = store.lease_delivery("a").await.unwrap().unwrap();
    assert_eq!((&again.id, again.attempts), (&first.id, 2));
    store.finish_delivery(&again.id).await.unwrap();
    assert!(store.lease_delivery("a").await.unwrap().is_none());
    let other = store.lease_delivery("b").await.unwrap().unwrap();
    store.release_delivery(&other.id, Duration::ZERO).await.unwrap();
}

async fn samples_evaluated_for_their_error_are_not_compared(store: &Store) {
    store.put_agent("rare", &settings("set", 0.0), "").await.unwrap();
    for it in 0..40 {
        let mut failed = sample(&format!("x{it}"), "rare", "");
        failed.has_error = true;
        store.add_samples(&[failed], None).await.unwrap();
        let pending = pending(store, &format!("x{it}")).await;
        let status = if it < 20 { "passed" } else { "failed" };
        let results = [decided("word", status)];
        assert!(store.finish_sample(&pending, "set@1", "{}", &results, 20).await.unwrap());
    }
    let filter = AlertFilter { agent: "rare".to_owned(), standing: None };
    assert_eq!(store.alerts(&filter).await.unwrap(), []);
}

async fn evaluations_stay_in_the_daily_budget(store: &Store) {
    /// A fixed day, so that the test does not depend on the clock.
    const DAY: i64 = 20_000;
    let budget = |evaluations, usd| Some(DailyBudget { evaluations, usd });
    let put = async |daily_budget| {
        let mut settings = settings("set", 1.0);
        settings.daily_budget = daily_budget;
        store.put_agent("paid", &settings, "").await.unwrap();
        let agent = store.agent("paid").await.unwrap().unwrap();
        assert_eq!(agent.daily_budget, daily_budget);
        agent
    };
    let reserve = async |agent: &Agent| store.reserve_evaluation(agent, DAY).await.unwrap();
    let cost = |known_usd, is_unknown| JudgeCost { known_usd, is_unknown };
    for none in [budget(Some(0), None), budget(None, Some(0.0)), budget(Some(0), Some(1.0))] {
        assert!(reserve(&put(none).await).await.is_none(), "{none:?}");
    }
    assert!(!store.spent_on(DAY).await.unwrap().contains_key("paid"));
    let two = put(budget(Some(2), None)).await;
    let reserved = futures_util::future::join_all((0..8).map(|_| reserve(&two))).await;
    let reserved: Vec<_> = reserved.into_iter().flatten().collect();
    assert_eq!(reserved.len(), 2);
    store.add_cost(&reserved[0], cost(0.25, false)).await.unwrap();
    store.add_cost(&reserved[1], cost(0.0, false)).await.unwrap();
    let dollars = put(budget(None, Some(0.5))).await;
    let third = reserve(&dollars).await.unwrap();
    store.add_cost(&third, cost(0.25, false)).await.unwrap();
    assert!(reserve(&dollars).await.is_none());
    let more = put(budget(Some(9), Some(0.75))).await;
    let fourth = reserve(&more).await.unwrap();
    // A partly unknown cost spends the rest of a budget in dollars. Its known part counts.
    store.add_cost(&fourth, cost(0.125, true)).await.unwrap();
    assert!(reserve(&more).await.is_none());
    assert!(reserve(&put(None).await).await.is_some());
    let spent = Spent { evaluations: 5, usd: 0.625, unknown_costs: 1 };
    assert_eq!(store.spent_on(DAY).await.unwrap()["paid"], spent);
    // The next day has the whole budget. A cost counts for the day on which its evaluation started.
    let next = store.reserve_evaluation(&more, DAY + 1).await.unwrap().unwrap();
    assert!(reserve(&more).await.is_none());
    store.add_cost(&fourth, cost(0.125, false)).await.unwrap();
    store.add_cost(&next, cost(0.5, false)).await.unwrap();
    let spent = [
        Spent { evaluations: 5, usd: 0.75, unknown_costs: 1 },
        Spent { evaluations: 1, usd: 0.5, unknown_costs: 0 },
    ];
    for (day, spent) in [DAY, DAY + 1].into_iter().zip(spent) {
        assert_eq!(store.spent_on(day).await.unwrap()["paid"], spent, "{day}");
    }

    store.add_samples(&[sample("paid", "paid", "")], None).await.unwrap();
    assert_eq!(jobs(store).await, ["paid"]);
    store.leave_sample(&pending(store, "paid").await).await.unwrap();
    assert!(store.pending_sample("paid").await.unwrap().is_none());
    assert!(jobs(store).await.is_empty());
    let filter = AttentionFilter { agent: "paid".to_owned(), ..AttentionFilter::default() };
    let counts = store.evaluated_samples(&filter).await.unwrap();
    assert_eq!((counts.samples, counts.evaluated, counts.over_budget), (1, 0, 1));
}

async fn traces_are_stored_with_their_sample(store: &Store) {
    // A part is a text. The trace is finished if a part has `root`, and its output is all parts.
    let read: ReadTrace = Arc::new(|TraceParts { earlier, part, lost }| {
        let all = earlier.iter().chain(part).cloned().collect::<Vec<_>>().join("+");
        if part.as_deref().unwrap_or_default().starts_with("useless") {
            return TraceReading::Unusable("useless".to_owned());
        }
        if !all.contains("root") {
            return TraceReading::Unfinished;
        }
        let body = object(&json!({"agent_output": all, "incomplete": lost}));
        let version = all.split_once("version ").map_or("", |(_, it)| it).to_owned();
        let mut sample = sample("t", "traced", "s");
        (sample.body, sample.version) = (body, version);
        TraceReading::Sample(Box::new(sample))
    });
    let spans = |part: &str| TracePart {
        spans: Some(part.to_owned()),
        has_root: part.contains("root") || part.contains("useless"),
        lost: None,
    };
    let add = async |parts: &[(&str, &str)], delay| {
        let parts = parts.iter().map(|(id, part)| ((*id).to_owned(), spans(part)));
        store.add_traces(parts.collect(), delay, &read).await.unwrap()
    };
    let output = async |id: &str| {
        let found = store.sample(id).await.unwrap()?;
        Some((found.sample["agent_output"].as_str()?.to_owned(), found.state))
    };
    let incomplete = async |id: &str| {
        let found = store.sample(id).await.unwrap().unwrap();
        found.sample["incomplete"].as_str().unwrap_or_default().to_owned()
    };
    let is = |output: &str, state: &str| Some((output.to_owned(), state.to_owned()));
    let long = Duration::from_hours(1);
    store.put_agent("traced", &settings("set", 1.0), "").await.unwrap();
    // Without a root span, there is no sample. A repeated part changes nothing.
    for _ in 0..2 {
        assert_eq!(add(&[("t1", "a"), ("t2", "b")], long).await, StoredTraces::default());
    }
    let done = add(&[("t1", "root"), ("t2", "useless"), ("t3", "useless")], long).await;
    assert_eq!(done.samples, 1);
    assert_eq!(done.refused.keys().collect::<Vec<_>>(), ["t2", "t3"]);
    assert_eq!(output("t1").await, is("a+root", "pending"));
    // The evaluation waits for later parts.
    assert_eq!((jobs(store).await, fetch(store).await), (vec!["t1".to_owned()], None));
    assert_eq!(add(&[("t1", "c")], long).await, StoredTraces::default());
    assert_eq!(output("t1").await, is("a+root+c", "pending"));
    assert_eq!(incomplete("t1").await, "");
    // The parts of a useless trace are deleted, so its next part counts as its first one, and its sample is incomplete.
    assert_eq!(add(&[("t2", "root")], Duration::ZERO).await.samples, 1);
    assert_eq!(output("t2").await, is("root", "pending"));
    assert_eq!(incomplete("t2").await, "useless");
    // After the evaluation has begun, the sample does not change.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fetch(store).await, Some(("t2".to_owned(), 0)));
    let late = add(&[("t2", "d")], Duration::ZERO).await;
    assert!(late.refused["t2"].contains("evaluated before"), "{late:?}");
    assert_eq!(output("t2").await, is("root", "pending"));
    store.fail_sample(&pending(store, "t2").await, "no").await.unwrap();
    // Several requests at the same time make only one sample of a trace.
    let parts = ["root", "e", "f", "g"].map(|it| [("t4", it)]);
    let all = futures_util::future::join_all(parts.iter().map(|it| add(it, long))).await;
    assert_eq!(all.iter().map(|it| it.samples).sum::<u64>(), 1);
    let (text, _) = output("t4").await.unwrap();
    assert!(["root", "e", "f", "g"].iter().all(|it| text.contains(it)), "{text}");
    // A large trace keeps its stored parts, and its sample is incomplete.
    assert_eq!(incomplete("t4").await, "");
    let large = "x".repeat(8 << 20);
    assert!(add(&[("t4", &large)], long).await.refused["t4"].contains("8 MiB"));
    assert_eq!(output("t4").await, is(&text, "pending"));
    assert!(incomplete("t4").await.contains("8 MiB"));
    lost_spans_make_the_sample_incomplete(store, &read).await;
    assert_eq!(add(&[("t5", "early")], long).await, StoredTraces::default());
    // Old traces are deleted, and their samples stay.
    assert_eq!(store.delete_traces(long).await.unwrap(), 0);
    assert_eq!(store.delete_traces(Duration::ZERO).await.unwrap(), 5);
    assert!(add(&[("t1", "root")], long).await.refused["t1"].contains("stored already"));
    // A sample whose first spans were deleted is incomplete.
    assert_eq!(add(&[("t5", "root")], long).await.samples, 1);
    assert_eq!(output("t5").await, is("root", "pending"));
    assert!(incomplete("t5").await.contains("were deleted"));
    let of_agent = SampleFilter { agent: Some("traced".to_owned()), ..SampleFilter::default() };
    assert_eq!(store.delete_samples(&of_agent).await.unwrap(), 6);
}

async fn lost_spans_make_the_sample_incomplete(store: &Store, read: &ReadTrace) {
    let long = Duration::from_hours(1);
    let add = async |id: &str, spans: Option<&str>, lost: Option<&str>| {
        let has_root = spans.is_some_and(|it| it.contains("root"));
        let spans = spans.map(str::to_owned);
        let part = TracePart { spans, has_root, lost: lost.map(str::to_owned) };
        store.add_traces([(id.to_owned(), part)].into(), long, read).await.unwrap()
    };
    let incomplete =
        async |id: &str| store.sample(id).await.unwrap().unwrap().sample["incomplete"].clone();
    // The spans are lost before the root span arrives.
    assert_eq!(add("l1", None, Some("invalid")).await, StoredTraces::default());
    assert_eq!(add("l1", Some("root"), None).await.samples, 1);
    assert_eq!(incomplete("l1").await, "invalid");
    // The spans are lost after the sample was made. The first reason stays.
    assert_eq!(add("l2", Some("root version 1"), None).await.samples, 1);
    assert_eq!(incomplete("l2").await, Value::Null);
    for why in ["invalid", "large"] {
        assert_eq!(add("l2", None, Some(why)).await, StoredTraces::default());
        assert_eq!(incomplete("l2").await, "invalid");
    }
    // The release of a version is deleted if no sample has the version any more.
    let versions = async || {
        let found = store.releases("traced", 0..i64::MAX).await.unwrap();
        found.into_iter().map(|it| it.version).collect::<Vec<_>>()
    };
    assert_eq!(versions().await, ["1"]);
    add("l2", Some("version 2"), None).await;
    assert_eq!(versions().await, ["1+version 2"]);
}

async fn first_sample_of_a_version_is_its_release(store: &Store) {
    let sample = |id: &str, agent: &str, version: &str| {
        let mut sample = sample(id, agent, "released");
        sample.version = version.into();
        sample
    };
    let samples = [
        sample("v2", "rel", "2"),
        sample("v1", "rel", "1"),
        sample("v0", "rel", ""),
        sample("w", "rel2", "1"),
    ];
    store.add_samples(&samples, None).await.unwrap();
    let of = async |agent: &str| {
        let found = store.releases(agent, 0..i64::MAX).await.unwrap();
        found.into_iter().map(|it| (it.agent, it.version, it.since)).collect::<Vec<_>>()
    };
    let first = of("rel").await;
    let versions: Vec<&str> = first.iter().map(|it| it.1.as_str()).collect();
    assert_eq!(versions, ["1", "2"]);
    assert!(of("").await.len() >= 3);
    // Neither later samples of a version nor the deletion of samples changes its release.
    store.add_samples(&[sample("v3", "rel", "2")], None).await.unwrap();
    let subject = SampleFilter { subject: Some("released".to_owned()), ..SampleFilter::default() };
    assert_eq!(store.delete_samples(&subject).await.unwrap(), 5);
    assert_eq!(of("rel").await, first);
    assert!(store.releases("rel", first[1].2 + 1..i64::MAX).await.unwrap().is_empty());
}

async fn waiting_samples_are_counted_from_the_oldest(store: &Store) {
    let backlog = async || store.backlog("wait").await.unwrap();
    assert_eq!(backlog().await, Backlog::default());
    store.put_agent("wait", &settings("set", 1.0), "").await.unwrap();
    store.add_samples(&["w1", "w2"].map(|it| sample(it, "wait", "")), None).await.unwrap();
    let both = backlog().await;
    assert!(both.waiting == 2 && both.oldest.is_some() && both.oldest <= both.newest, "{both:?}");
    assert_eq!(store.backlog("").await.unwrap(), both);
    // A sample that is being evaluated waits until its results are stored.
    for (id, waiting) in [("w1", 1), ("w2", 0)] {
        assert_eq!(fetch(store).await, Some((id.to_owned(), 0)));
        assert_eq!(backlog().await.waiting, waiting + 1);
        store.leave_sample(&pending(store, id).await).await.unwrap();
    }
    assert_eq!(backlog().await, Backlog { waiting: 0, oldest: None, newest: both.newest });
}

async fn another_sample_with_the_same_id_is_refused(store: &Store) {
    let first = sample("same", "one", "s");
    store.add_samples(std::slice::from_ref(&first), None).await.unwrap();
    let mut changed = first.clone();
    changed.body = object(&json!({"agent_output": "y"}));
    for other in [sample("same", "two", "s"), changed] {
        // Nothing of the request is stored.
        let refused = store.add_samples(&[sample("new", "one", "s"), other], None).await;
        assert!(refused.unwrap_err().to_string().contains("id \"same\""));
        assert_eq!(store.sample("new").await.unwrap(), None);
    }
    assert_eq!(store.add_samples(&[first], None).await.unwrap().duplicates, 1);
}

async fn rates_count_only_what_the_rate_chose(store: &Store) {
    let rates = BTreeMap::from([("pro".to_owned(), 1.0)]);
    let mut agent = settings("set", 0.1);
    agent.strata = Some(Strata::new("version", rates));
    assert_eq!(store.put_agent("mixed", &agent, "").await.unwrap().strata, agent.strata);
    assert_eq!(store.agent("mixed").await.unwrap().unwrap().strata, agent.strata);
    let of = |id: &str, version: &str| {
        let mut sample = sample(id, "mixed", "mixed");
        sample.version = version.into();
        sample
    };
    let ids = |is_chosen: bool| {
        let all = (0..).map(|it| format!("mixed-{it}"));
        all.filter(move |it| is_sampled(it, 0.1) == is_chosen)
    };
    let results = |status: &str| [decided("word", status)];
    for (index, id) in ids(true).take(4).enumerate() {
        let status = if index == 0 { "failed" } else { "passed" };
        finish(store, of(&id, "free"), "set@1", &results(status)).await;
    }
    for id in ids(false).take(10) {
        finish(store, of(&id, "pro"), "set@1", &results("failed")).await;
    }
    for id in ids(false).skip(10).take(2) {
        let mut failed = of(&id, "free");
        failed.has_error = true;
        finish(store, failed, "set@1", &results("failed")).await;
    }
    let mut filter = RateFilter::new(0..i64::MAX, Period::Day);
    filter.agent = "mixed".into();
    let mut all = PeriodResults::default();
    store.rates(&filter).await.unwrap().unwrap().values().for_each(|it| all.add_all(*it));
    assert_eq!(all.counts, Counts { passed: 3, failed: 11, ..Counts::default() });
    assert_eq!(all.of_errors, Counts { failed: 2, ..Counts::default() });
    // Each result of `free` stands for 10 samples: 30 of 40 passed. None of the 10 samples of `pro` passed.
    assert!((all.tally.rate().unwrap() - 30.0 / 50.0).abs() < 1e-9, "{all:?}");
    let of_agent = SampleFilter { agent: Some("mixed".to_owned()), ..SampleFilter::default() };
    assert_eq!(store.delete_samples(&of_agent).await.unwrap(), 16);
}

async fn deletion_leaves_no_alert_and_no_detector(store: &Store) {
    store.put_agent("gone", &settings("set", 1.0), "").await.unwrap();
    for it in 0..40 {
        let status = if it < 20 { "passed" } else { "failed" };
        let sample = sample(&format!("gone-{it}"), "gone", &format!("gone-{}", it % 2));
        finish(store, sample, "set@1", &[decided("word", status)]).await;
    }
    let filter = AlertFilter { agent: "gone".to_owned(), standing: None };
    assert_eq!(store.alerts(&filter).await.unwrap().len(), 1);
    let of = |subject: &str| SampleFilter {
        subject: Some(subject.to_owned()),
        ..SampleFilter::default()
    };
    assert_eq!(store.delete_samples(&of("gone-0")).await.unwrap(), 20);
    assert_eq!(store.alerts(&filter).await.unwrap().len(), 1);
    assert_eq!(store.delete_samples(&of("gone-1")).await.unwrap(), 20);
    assert_eq!(store.alerts(&filter).await.unwrap(), []);
    // Without the detector, a new reference starts: later failures are no fall.
    for it in 0..20 {
        let sample = sample(&format!("again-{it}"), "gone", "again");
        finish(store, sample, "set@1", &[decided("word", "failed")]).await;
    }
    assert_eq!(store.alerts(&filter).await.unwrap(), []);
    assert_eq!(store.delete_samples(&of("again")).await.unwrap(), 20);
}

async fn removed_agent_has_no_evaluations_and_no_alerts(store: &Store) {
    store.put_agent("left", &settings("set", 1.0), "").await.unwrap();
    for it in 0..40 {
        let status = if it < 20 { "passed" } else { "failed" };
        let sample = sample(&format!("left-{it}"), "left", "left");
        finish(store, sample, "set@1", &[decided("word", status)]).await;
    }
    store.add_samples(&[sample("left-open", "left", "left")], None).await.unwrap();
    let standing = AlertFilter { agent: "left".to_owned(), standing: Some(true) };
    assert_eq!(store.alerts(&standing).await.unwrap().len(), 1);
    assert!(store.remove_agent("left").await.unwrap());
    assert!(!store.remove_agent("left").await.unwrap());
    assert_eq!(store.alerts(&standing).await.unwrap(), []);
    // The evidence of the removed agent does not count for the new agent of this name.
    store.put_agent("left", &settings("set", 1.0), "").await.unwrap();
    finish(store, sample("left-again", "left", "left"), "set@1", &[decided("word", "passed")])
        .await;
    assert_eq!(store.alerts(&standing).await.unwrap(), []);
    assert!(store.remove_agent("left").await.unwrap());
    let ended = AlertFilter { standing: None, ..standing };
    assert_eq!(store.alerts(&ended).await.unwrap()[0].end_reason, "agent-removed");
    assert_eq!(store.sample("left-open").await.unwrap().unwrap().state, "skipped");
    assert!(jobs(store).await.is_empty());
    let of_agent = SampleFilter { agent: Some("left".to_owned()), ..SampleFilter::default() };
    assert_eq!(store.delete_samples(&of_agent).await.unwrap(), 42);
}

async fn scores_are_correlated_with_thumbs(store: &Store) {
    store.put_agent("liked", &settings("set", 1.0), "").await.unwrap();
    let thumb = async |sample: &str, value: &str| {
        let feedback = NewFeedback::new(sample, value);
        store.add_feedback(&feedback, None).await.unwrap().unwrap();
    };
    // Phi of the table 4, 1, 2, 3 is 10 ÷ √(5 × 5 × 6 × 4).
    let table =
        [("passed", "up", 4), ("passed", "down", 1), ("failed", "up", 2), ("failed", "down", 3)];
    for (status, value, count) in table {
        for it in 0..count {
            let id = format!("liked-{status}-{value}-{it}");
            let results = [decided("word", status), decided("always", "passed")];
            finish(store, sample(&id, "liked", "liked"), "set@1", &results).await;
            thumb(&id, value).await;
        }
    }
    let of = |agent: &str| FeedbackFilter::new(agent, 0..i64::MAX);
    let rates = store.feedback_rates(&of("liked")).await.unwrap().unwrap();
    assert_eq!((rates.thumbs_up, rates.thumbs_down, rates.samples), (6, 4, 10));
    let found = |name: &str| &rates.assertions[&("liked".to_owned(), name.to_owned())];
    let expected = 10.0 / 600.0_f64.sqrt();
    assert!((found("word").value().unwrap() - expected).abs() < 1e-9);
    assert!((rates.overall.value().unwrap() - expected).abs() < 1e-9);
    assert_eq!((found("always").count(), found("always").value()), (10, None));
    // Two opinions about a sample count as one value: the share of thumbs up.
    thumb("liked-passed-up-0", "down").await;
    let rates = store.feedback_rates(&of("liked")).await.unwrap().unwrap();
    assert_eq!((rates.thumbs_down, rates.samples, rates.overall.count()), (5, 10, 10));
    let without_samples = store.feedback_rates(&of("nobody")).await.unwrap().unwrap();
    assert_eq!((without_samples.samples, without_samples.overall.count()), (0, 0));
    let of_agent = SampleFilter { agent: Some("liked".to_owned()), ..SampleFilter::default() };
    assert_eq!(store.delete_samples(&of_agent).await.unwrap(), 10);
}

async fn edits_and_verdicts_are_counted(store: &Store) {
    let before = store.adoption(0..i64::MAX).await.unwrap();
    assert!(before.edit_to_verdict.is_empty());
    let version = store.set("a", None).await.unwrap().unwrap();
    assert!(!version.has_verdict);
    store.note_verdict("a", version.version).await.unwrap();
    assert!(store.set("a", None).await.unwrap().unwrap().has_verdict);
    for (page, milliseconds) in [(Page::Panel, 900), (Page::Panel, 1001), (Page::Set, 2000)] {
        store.add_page_evaluation(page, Duration::from_millis(milliseconds)).await.unwrap();
    }
    let after = store.adoption(0..i64::MAX).await.unwrap();
    assert_eq!(after.edit_to_verdict.values().sum::<u64>(), 1);
    assert_eq!(after.pages["panel"], BTreeMap::from([(1, 1), (2, 1)]));
    assert_eq!(after.pages["set"], BTreeMap::from([(2, 1)]));
    assert_eq!((after.sets_edited, after.edits, after.authors), (4, 8, 2));
    assert!(after.agents >= after.agents_with_set && after.agents_with_set > 0);
    assert_eq!(store.adoption(0..1).await.unwrap().edits, 0);
}

async fn old_samples_are_deleted_in_portions(store: &Store) {
    let samples: Vec<NewSample> =
        (0..1_500).map(|it| sample(&format!("old-{it}"), "old", "")).collect();
    store.add_samples(&samples, None).await.unwrap();
    store.put_agent("waits", &settings("set", 1.0), "").await.unwrap();
    store.add_samples(&[sample("old-job", "waits", "")], None).await.unwrap();
    // Nothing is older than a day.
    assert_eq!(store.delete_old(1).await.unwrap(), 0);
    assert_eq!(jobs(store).await, ["old-job"]);
    let all = SampleFilter::default();
    let total = async || store.samples(&all, 1, None).await.unwrap().total;
    assert!(total().await >= 1_500);
    let mut portions = 0;
    while total().await > 0 {
        portions += store.delete_old(0).await.unwrap();
    }
    assert!(portions >= 2);
    assert!(jobs(store).await.is_empty());
    assert_eq!(store.alerts(&AlertFilter::default()).await.unwrap(), []);
    assert_eq!(store.releases("", 0..i64::MAX).await.unwrap(), []);
}

async fn version_numbers_of_deleted_sets_are_not_reused(store: &Store) {
    let content = object(&json!({"threshold": 0.5}));
    let put = async || store.put_set("gone", &content, "", &ExpectedVersion::Any).await.unwrap().0;
    assert_eq!(put().await.version, 1);
    store.put_agent("keeper", &settings("gone@1", 1.0), "").await.unwrap();
    let refused = store.delete_set("gone").await.unwrap_err();
    assert!(refused.to_string().contains("\"keeper\""), "{refused}");
    store.remove_agent("keeper").await.unwrap();
    assert!(store.delete_set("gone").await.unwrap());
    assert!(!store.delete_set("gone").await.unwrap());
    assert_eq!(store.set("gone", None).await.unwrap(), None);
    let unknown = store.put_agent("keeper", &settings("gone@1", 1.0), "").await.unwrap_err();
    assert!(matches!(unknown, StoreError::UnknownSet(_)), "{unknown}");
    assert_eq!(put().await.version, 2);
    assert!(store.delete_set("gone").await.unwrap());
    assert_eq!(put().await.version, 3);
    assert!(store.delete_set("gone").await.unwrap());
}

async fn each_change_of_a_suite_is_a_version(store: &Store) {
    let suite = "team/kindlm.yaml";
    for (text, author, version) in
        [("a: 1\n", "ann", 1), ("a: 1\n", "bob", 1), ("a: 2\n", "bob", 2), ("a: 1\n", "", 3)]
    {
        assert_eq!(store.put_suite(suite, text, author).await.unwrap(), version);
    }
    let versions = store.suite_versions(suite).await.unwrap();
    let found: Vec<(i64, &str)> =
        versions.iter().map(|it| (it.version, it.author.as_str())).collect();
    assert_eq!(found, [(3, "file"), (2, "bob"), (1, "ann")]);
    assert_eq!(versions[0].digest, versions[2].digest);
    let second = store.suite_version(suite, 2).await.unwrap().unwrap();
    assert_eq!((second.content.as_str(), &second.summary), ("a: 2\n", &versions[1]));
    assert!(second.diff.contains("-a: 1\n+a: 2\n"), "{}", second.diff);
    assert_eq!(store.suite_version(suite, 4).await.unwrap(), None);
    assert_eq!(store.put_run_version("r1", suite, "a: 1\n", "").await.unwrap(), 3);
    assert_eq!(store.put_run_version("r2", suite, "a: 4\n", "").await.unwrap(), 4);
    // A resumed run may have a new version of the suite.
    assert_eq!(store.put_run_version("r1", suite, "a: 4\n", "").await.unwrap(), 4);
    assert_eq!(store.run_version("r1").await.unwrap(), Some(4));
    assert_eq!(store.run_versions(10).await.unwrap().len(), 2);
    store.delete_run_version("r1").await.unwrap();
    assert_eq!(store.run_version("r1").await.unwrap(), None);
    assert_eq!(store.run_versions(10).await.unwrap().len(), 1);
}

async fn keys_in_versions_of_a_suite_are_masked(store: &Store) {
    let text = |key: &str| format!("a: 1\nkey: {key}\n");
    let keys = ["sk-live-abcdefghijklmnopqrstuv", "sk-live-bcdefghijklmnopqrstuvw"];
    for (key, version) in [(keys[0], 1), (keys[0], 1), (keys[1], 2)] {
        assert_eq!(store.put_suite("key.yaml", &text(key), "").await.unwrap(), version);
    }
    for number in [1, 2] {
        let version = store.suite_version("key.yaml", number).await.unwrap().unwrap();
        assert_eq!(version.content, text(&format!("sk-{}", "*".repeat(27))));
        assert!(!version.diff.contains("live"), "{}", version.diff);
    }
}

async fn rates_and_samples_are_filtered_by_tag_and_set(store: &Store) {
    store.put_agent("tagged", &settings("t@1", 1.0), "").await.unwrap();
    let of = |id: &str, tags: &Value| {
        let mut sample = sample(id, "tagged", "");
        sample.body = object(&json!({"agent_output": "x", "tags": tags}));
        sample
    };
    for (id, tags, set, status) in [
        ("t1", json!(["vip", "eu"]), "t@1", "passed"),
        ("t2", json!(["vip%"]), "t@1", "failed"),
        ("t3", json!(["eu"]), "t@2", "failed"),
        ("t4", Value::Null, "t@1", "passed"),
    ] {
        finish(store, of(id, &tags), set, &[decided("polite", status)]).await;
    }
    for (set, tag, passed, failed) in [
        ("", "", 2, 2),
        ("", "vip", 1, 0),
        ("", "vip%", 0, 1),
        ("", "vi", 0, 0),
        ("", "eu", 1, 1),
        ("t@1", "eu", 1, 0),
        ("t@1", "", 2, 1),
        ("t@3", "", 0, 0),
    ] {
        let (set, tag) = (set.to_owned(), tag.to_owned());
        let agent = "tagged".to_owned();
        let listed = AttentionFilter {
            agent: agent.clone(),
            set: set.clone(),
            tag: tag.clone(),
            ..AttentionFilter::default()
        };
        let samples = store.attention_samples(&listed, 10).await.unwrap();
        assert_eq!(samples.len() as u64, failed, "{set} {tag}");
        let evaluated = store.evaluated_samples(&listed).await.unwrap().evaluated;
        assert_eq!(evaluated.unsigned_abs(), passed + failed, "{set} {tag}");
        let mut filter = RateFilter::new(0..i64::MAX, Period::Day);
        (filter.agent, filter.set, filter.tag) = (agent, set, tag);
        let mut all = Counts::default();
        store.rates(&filter).await.unwrap().unwrap().values().for_each(|it| all.add_all(it.counts));
        assert_eq!(all, Counts { passed, failed, ..Counts::default() }, "{filter:?}");
    }
}

async fn dead_workers_are_deleted(store: &Store) {
    // The first worker of this name has no job any more.
    fetch(store).await;
    let workers = async || -> i64 {
        match store.job_pool() {
            JobPool::Sqlite(pool) => {
                let sql = "SELECT count(*) FROM Workers";
                sqlx::query_scalar(sql).fetch_one(pool).await.unwrap()
            }
            JobPool::Postgres(pool) => {
                let sql = "SELECT count(*) FROM apalis.workers";
                sqlx::query_scalar(sql).fetch_one(pool).await.unwrap()
            }
        }
    };
    store.delete_workers().await.unwrap();
    assert_eq!(workers().await, 1);
    match store.job_pool() {
        JobPool::Sqlite(pool) => {
            let sql = "UPDATE Workers SET last_seen = last_seen - 90000";
            sqlx::query(sql).execute(pool).await.unwrap();
        }
        JobPool::Postgres(pool) => {
            let sql = "UPDATE apalis.workers SET last_seen = last_seen - interval '25 hours'";
            sqlx::query(sql).execute(pool).await.unwrap();
        }
    }
    // A worker with a job stays: apalis returns the job to the queue later.
    store.add_samples(&[sample("held", "waits", "")], None).await.unwrap();
    assert_eq!(fetch(store).await, Some(("held".to_owned(), 0)));
    store.delete_workers().await.unwrap();
    assert_eq!(workers().await, 1);
    let of_agent = SampleFilter { agent: Some("waits".to_owned()), ..SampleFilter::default() };
    assert_eq!(store.delete_samples(&of_agent).await.unwrap(), 1);
    store.delete_workers().await.unwrap();
    assert_eq!(workers().await, 0);
}

/// Opens a database of the version before jobs. Its pending samples become jobs, with their pauses and attempts.
pub(crate) async fn old_samples_become_jobs(url: &str) {
    sqlx::any::install_default_drivers();
    let pool = sqlx::AnyPool::connect(url).await.unwrap();
    sqlx::migrate!().run_to(7, &pool).await.unwrap();
    let rows = [("p1", "pending", 0, 3), ("p2", "pending", i64::MAX / 4_000_000, 0)];
    for (id, state, due, attempts) in rows.into_iter().chain([("d", "done", 0, 1)]) {
        let sql = "INSERT INTO samples (id, agent, subject, body, received_at, state, leased_until, attempts) \
            VALUES ($1, 'a', '', '{}', 1, $2, $3, $4)";
        let query = sqlx::query(sql).bind(id).bind(state).bind(due).bind(attempts);
        query.execute(&pool).await.unwrap();
    }
    pool.close().await;
    for _ in 0..2 {
        let store = Store::open(url).await.unwrap();
        assert_eq!(jobs(&store).await, ["p1", "p2"]);
        store.close().await;
    }
    let store = Store::open(url).await.unwrap();
    assert_eq!(fetch(&store).await, Some(("p1".to_owned(), 3)));
    assert_eq!(fetch(&store).await, None);
    store.close().await;
}

pub(crate) async fn all(url: &str) {
    let store = Store::open(url).await.unwrap();
    tokens_are_found_until_they_are_revoked(&store).await;
    each_change_of_a_set_is_a_version(&store).await;
    version_numbers_of_deleted_sets_are_not_reused(&store).await;
    each_change_of_a_suite_is_a_version(&store).await;
    keys_in_versions_of_a_suite_are_masked(&store).await;
    samples_are_stored_once(&store).await;
    request_key_waits_for_its_response(&store).await;
    samples_wait_in_the_queue_until_they_are_finished(&store).await;
    late_evaluation_decides_no_other_sample_with_its_id(&store).await;
    falls_start_and_end_alerts(&store).await;
    samples_evaluated_for_their_error_are_not_compared(&store).await;
    evaluations_stay_in_the_daily_budget(&store).await;
    waiting_samples_are_counted_from_the_oldest(&store).await;
    traces_are_stored_with_their_sample(&store).await;
    first_sample_of_a_version_is_its_release(&store).await;
    another_sample_with_the_same_id_is_refused(&store).await;
    rates_count_only_what_the_rate_chose(&store).await;
    rates_and_samples_are_filtered_by_tag_and_set(&store).await;
    deletion_leaves_no_alert_and_no_detector(&store).await;
    removed_agent_has_no_evaluations_and_no_alerts(&store).await;
    scores_are_correlated_with_thumbs(&store).await;
    edits_and_verdicts_are_counted(&store).await;
    old_samples_are_deleted_in_portions(&store).await;
    dead_workers_are_deleted(&store).await;
    store.close().await;
    // Opening an existing database keeps its content.
    let store = Store::open(url).await.unwrap();
    assert_eq!(store.sets().await.unwrap().len(), 4);
    store.close().await;
}

#[tokio::test]
async fn sqlite_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    all(&format!("sqlite://{}", folder.path().join("a.db").display())).await;
    let old = format!("sqlite://{}?mode=rwc", folder.path().join("old.db").display());
    old_samples_become_jobs(&old).await;
    assert!(Store::open("mysql://localhost/x").await.is_err());
    for memory in ["sqlite::memory:", "sqlite://", "sqlite://a?mode=memory"] {
        let refused = Store::open(memory).await.unwrap_err();
        assert!(refused.to_string().contains("a database in memory is not supported"), "{refused}");
    }
    // A file may be named `memory.db`.
    let named = format!("sqlite://{}", folder.path().join("memory.db").display());
    Store::open(&named).await.unwrap().close().await;
}

#[tokio::test]
async fn unreachable_postgres_is_reported_with_its_reason() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let err = Store::open(&format!("postgres://u@127.0.0.1:{port}/d")).await.unwrap_err();
    let text = err.to_string();
    assert!(
        text.contains("refused") && text.contains("check the address in `--database`"),
        "{text}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn only_its_user_can_read_a_new_database() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("a b.db").display());
    let store = Store::open(&url).await.unwrap();
    store.create_token("ci", &[Scope::Read]).await.unwrap();
    let files: Vec<(String, u32)> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|it| {
            let it = it.unwrap();
            let mode = it.metadata().unwrap().permissions().mode() & 0o777;
            (it.file_name().into_string().unwrap(), mode)
        })
        .collect();
    assert!(files.iter().any(|it| it.0 == "a b.db-wal"), "{files:?}");
    assert!(files.iter().all(|it| it.1 == 0o600), "{files:?}");
    store.close().await;
}
