//! Evaluates stored samples in the background: [`monitor`].

use std::time::Duration;

use kindlm_run::evaluate::service::{CheckOutcome, failed_by_provider};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::app::App;
use crate::problem::Problem;
use crate::records::{self, Evaluated, Unevaluated};
use crate::store::queue::{Leased, MAX_ATTEMPTS, NewResult};
use crate::store::spending::{Reservation, today};
use crate::store::traces::KEPT;
use crate::store::{StoreError, pause_after};

/// The pause between two looks into the queue, for samples that other processes have stored or left.
const PAUSE: Duration = Duration::from_secs(5);

/// The pause before the second attempt. Each later pause is four times as long: together 42 minutes.
const RETRY: Duration = Duration::from_secs(30);

/// The pause between two deletions of old data.
const DELETION: Duration = Duration::from_mins(1);

/// The number of deletions of old data, of which one also deletes old runs. Each stored run is read for its age.
const RUN_DELETION: u32 = 60;

/// The unit of the age of old runs.
const DAY: Duration = Duration::from_hours(24);

/// Evaluates samples, and deletes old data, until the future is dropped.
///
/// Samples in work return to the queue when their lease ends.
pub async fn monitor(app: App) {
    tokio::join!(delete_old(app.clone()), evaluate(app));
}

/// Deletes the traces that are older than [`KEPT`], and the data that is older than the operator permits.
async fn delete_old(app: App) {
    for round in (0..RUN_DELETION).cycle() {
        if let Err(err) = delete_once(&app).await {
            Problem::from(err).report_cause(app.runs.world());
        }
        if let Some(days) = app.keep_days.filter(|_| round == 0) {
            delete_inline_runs(&app, days).await;
        }
        tokio::time::sleep(DELETION).await;
    }
}

/// Deletes the old runs of inline suites, which have no other owner than the server.
async fn delete_inline_runs(app: &App, days: u32) {
    let (runs, age) = (app.runs.clone(), DAY.saturating_mul(days));
    let deleted = tokio::task::spawn_blocking(move || runs.delete_inline_runs(age)).await;
    if let Ok(Err(failure)) = deleted {
        let why = failure.message.unwrap_or_default();
        app.runs.world().notify(&format!("warning: cannot delete old runs: {why}"));
    }
}

async fn delete_once(app: &App) -> Result<(), StoreError> {
    app.store.delete_traces(KEPT).await?;
    app.store.delete_keys().await?;
    let Some(days) = app.keep_days else { return Ok(()) };
    app.store.delete_old(days).await.map(drop)
}

async fn evaluate(app: App) {
    let mut workers = JoinSet::new();
    for _ in 0..app.workers {
        workers.spawn(work(app.clone()));
    }
    // A worker ends only with a panic. Its sample counts an attempt, and the worker is replaced.
    while workers.join_next().await.is_some() {
        workers.spawn(work(app.clone()));
    }
}

async fn work(app: App) {
    loop {
        let must_wait = match next(&app).await {
            Ok(found) => !found,
            // The database may answer again after the pause.
            Err(err) => {
                Problem::from(err).report_cause(app.runs.world());
                true
            }
        };
        if must_wait {
            let _ = tokio::time::timeout(PAUSE, app.wake.notified()).await;
        }
    }
}

/// Evaluates the next sample. Returns false if there is none.
async fn next(app: &App) -> Result<bool, StoreError> {
    let Some(leased) = app.store.lease_sample().await? else { return Ok(false) };
    // There may be more samples, for another worker.
    app.wake.notify_one();
    if leased.attempts > MAX_ATTEMPTS {
        let error = format!("the evaluation did not end in {MAX_ATTEMPTS} attempts");
        app.store.fail_sample(&leased, &error).await?;
        return Ok(true);
    }
    let Some(agent) = app.store.agent(&leased.agent).await? else {
        app.store.fail_sample(&leased, "the agent has no assertion set any more").await?;
        return Ok(true);
    };
    let Some(reservation) = app.store.reserve_evaluation(&agent, today()).await? else {
        app.store.leave_sample(&leased).await?;
        return Ok(true);
    };
    let mut record = leased.body.clone();
    record.insert("set".to_owned(), Value::from(agent.set));
    let evaluated = records::evaluate(app, serde_json::to_vec(&record)?).await;
    match evaluated {
        Ok(evaluated) => {
            // The cost is stored first, so that the next evaluation sees it. If that fails, the results are stored anyway.
            let counted = app.store.add_cost(&reservation, evaluated.cost).await;
            finish(app, &leased, &evaluated).await?;
            counted?;
        }
        Err(unevaluated) => {
            let Unevaluated { problem, .. } = &unevaluated;
            problem.report_cause(app.runs.world());
            let is_stored = if unevaluated.is_malformed() || leased.attempts >= MAX_ATTEMPTS {
                app.store.fail_sample(&leased, &problem.detail).await
            } else {
                release(app, &leased).await
            };
            tokio::spawn(add_late_cost(app.clone(), reservation, unevaluated));
            is_stored?;
        }
    }
    Ok(true)
}

/// Adds the cost of a record without results. After a timeout, its judges may answer later.
async fn add_late_cost(app: App, reservation: Reservation, unevaluated: Unevaluated) {
    let cost = unevaluated.cost().await;
    if let Err(err) = app.store.add_cost(&reservation, cost).await {
        Problem::from(err).report_cause(app.runs.world());
    }
}

/// Stores the results of a sample. If a provider failed, this returns the sample to the queue while attempts are left.
async fn finish(app: &App, leased: &Leased, evaluated: &Evaluated) -> Result<(), StoreError> {
    let is_stored = if failed_by_provider(&evaluated.evaluation) && leased.attempts < MAX_ATTEMPTS {
        release(app, leased).await?;
        true
    } else {
        let results: Vec<NewResult> = evaluated.outcomes.iter().map(result).collect();
        let set = evaluated.set.as_deref().unwrap_or_default();
        let text = serde_json::to_string(evaluated)?;
        app.store.finish_sample(leased, set, &text, &results, app.alerts.reference).await?
    };
    if is_stored {
        app.metrics.add_evaluation("sample", evaluated.evaluation.outcome);
    }
    Ok(())
}

/// Returns a sample to the queue, for another attempt after a pause.
async fn release(app: &App, leased: &Leased) -> Result<(), StoreError> {
    app.store.release_sample(leased, pause_after(RETRY, leased.attempts)).await
}

fn result(outcome: &CheckOutcome) -> NewResult {
    NewResult {
        // PostgreSQL stores no NUL characters.
        assertion: outcome.name.replace('\0', ""),
        status: outcome.status.to_owned(),
        score: outcome.score,
        judged: outcome.judged.unwrap_or_default().to_owned(),
    }
}
