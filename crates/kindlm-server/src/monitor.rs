//! Evaluates stored samples in the background: [`monitor`].

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use apalis::layers::WorkerBuilderExt as _;
use apalis::prelude::{AbortError, Attempt, BackendExt as _, BoxDynError, Data, WorkerBuilder};
use apalis_postgres::PostgresStorage;
use apalis_sqlite::SqliteStorage;
use futures_util::FutureExt as _;
use kindlm_run::evaluate::service::{CheckOutcome, failed_by_provider};
use serde_json::Value;

use crate::app::App;
use crate::problem::Problem;
use crate::records::{self, Evaluated, Unevaluated};
use crate::store::jobs::{JobPool, QUEUE, worker_name};
use crate::store::queue::{NewResult, PendingSample};
use crate::store::spending::{Reservation, today};
use crate::store::traces::KEPT;
use crate::store::{StoreError, pause_after};
use crate::wake::Wake;

/// The pause between two looks into the queue, and after an error of the database.
const PAUSE: Duration = Duration::from_secs(5);

/// The number of heartbeats in one lease ([`App::with_lease`]). A process that misses all of them counts as killed.
const HEARTBEATS: u8 = 5;

/// The highest number of attempts to evaluate a sample.
const MAX_ATTEMPTS: usize = 5;

/// The pause before the second attempt. Each later pause is four times as long: together 42 minutes.
const RETRY: Duration = Duration::from_secs(30);

/// The pause between two deletions of old data.
const DELETION: Duration = Duration::from_mins(1);

/// The number of deletions of old data per deletion of old runs. Old runs are deleted less often, because finding the
/// age of a run needs reading the run.
const RUN_DELETION: u32 = 60;

/// One day, the unit of `keep_days`.
const DAY: Duration = Duration::from_hours(24);

/// Evaluates samples, and deletes old data, until the future is dropped.
///
/// When the future is dropped, running evaluations continue until the runtime ends. The samples of unfinished
/// evaluations return to the queue after the time of [`App::with_lease`].
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

/// Deletes the old runs of inline suites. Runs of suite files stay, because they belong to the owner of the files.
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
    app.store.delete_workers().await?;
    let Some(days) = app.keep_days else { return Ok(()) };
    app.store.delete_old(days).await.map(drop)
}

/// Evaluates samples. After an error of the database, or a panic, a new worker begins.
async fn evaluate(app: App) {
    loop {
        // Without `catch_unwind`, a panic would end the deletion of old data too, which is in the same task.
        match AssertUnwindSafe(work(&app)).catch_unwind().await {
            Ok(Ok(())) => {}
            Ok(Err(err)) => Problem::from(err).report_cause(app.runs.world()),
            Err(_) => {
                let warning = "warning: the server has a bug: the queue panicked; it starts again";
                app.runs.world().notify(warning);
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Runs a worker of apalis until the database fails at a heartbeat, a fetch, or the end of a job.
///
/// The worker fetches one job at a time (`batch_size`), because it sends no heartbeat while fetched jobs wait in
/// memory. The worker does not mark jobs as running (`lock_tasks`), because a fetched job names its worker already.
async fn work(app: &App) -> Result<(), StoreError> {
    let (heartbeat, missed) = (app.lease / u32::from(HEARTBEATS), usize::from(HEARTBEATS));
    let worker = WorkerBuilder::new(worker_name()?);
    let wake = Wake::new(app.wake.clone(), PAUSE);
    match app.store.job_pool() {
        JobPool::Sqlite(pool) => {
            let config = apalis_sqlite::Config::default()
                .queue(QUEUE)
                .batch_size(1)
                .lock_tasks(false)
                .heartbeat_interval(heartbeat)
                .missed_heartbeats(missed);
            let jobs = SqliteStorage::new(pool).with_config(config).poll_with_strategy(wake);
            let worker = worker.backend(jobs).concurrency(app.workers).data(app.clone());
            worker.build(handle).run().await?;
        }
        JobPool::Postgres(pool) => {
            let config = apalis_postgres::Config::default()
                .queue(QUEUE)
                .batch_size(1)
                .lock_tasks(false)
                .heartbeat_interval(heartbeat)
                .missed_heartbeats(missed);
            let jobs = PostgresStorage::new(pool).with_config(config).poll_with_strategy(wake);
            let worker = worker.backend(jobs).concurrency(app.workers).data(app.clone());
            worker.build(handle).run().await?;
        }
    }
    Ok(())
}

/// The end of an attempt.
enum End {
    /// The sample has its results, or needs no evaluation: it is not pending, or the budget of its agent is spent.
    Done,
    /// There will be another attempt.
    Repeated,
    /// The sample has failed.
    Failed,
}

/// Runs a job of apalis: an attempt to evaluate a sample.
async fn handle(sample: String, attempt: Attempt, app: Data<App>) -> Result<(), BoxDynError> {
    let app = App::clone(&app);
    let attempt = attempt.current();
    // A failed worker drops its jobs. The evaluation has its own task, so it continues, and the cost of its judges is
    // not wasted. If another worker evaluates the sample too, only the first result is stored. A panic ends only the
    // task; in the worker, a panic would leave the job unfinished.
    let task = tokio::spawn({
        let (app, sample) = (app.clone(), sample.clone());
        async move { attempt_sample(&app, &sample, attempt).await }
    });
    let end = match task.await {
        Ok(end) => end,
        Err(_) => after_panic(&app, &sample, attempt).await,
    };
    match end {
        Ok(End::Done) => Ok(()),
        Ok(End::Repeated) => Err("the evaluation will be repeated".into()),
        Ok(End::Failed) => Err(AbortError::new("the sample has failed").into()),
        Err(err) => {
            let text = err.to_string();
            Problem::from(err).report_cause(app.runs.world());
            // The database may answer again after the pause.
            tokio::time::sleep(PAUSE).await;
            if let Err(err) = pause(&app, &sample, attempt).await {
                Problem::from(err).report_cause(app.runs.world());
            }
            Err(text.into())
        }
    }
}

/// Lets a sample whose evaluation panicked wait for its next attempt. After the last attempt, stores an error.
async fn after_panic(app: &App, id: &str, attempt: usize) -> Result<End, StoreError> {
    match app.store.pending_sample(id).await? {
        Some(sample) if attempt >= MAX_ATTEMPTS => {
            fail(app, &sample, "the evaluation panicked, which is a bug").await
        }
        Some(sample) => repeat(app, &sample, attempt).await,
        None => Ok(End::Done),
    }
}

/// Evaluates a sample, if it is still pending.
async fn attempt_sample(app: &App, id: &str, attempt: usize) -> Result<End, StoreError> {
    let Some(sample) = app.store.pending_sample(id).await? else {
        app.store.remove_job(id).await?;
        return Ok(End::Done);
    };
    if attempt > MAX_ATTEMPTS {
        let error = format!("the evaluation did not end in {MAX_ATTEMPTS} attempts");
        return fail(app, &sample, &error).await;
    }
    let Some(agent) = app.store.agent(&sample.agent).await? else {
        return fail(app, &sample, "the agent has no assertion set any more").await;
    };
    let Some(reservation) = app.store.reserve_evaluation(&agent, today()).await? else {
        app.store.leave_sample(&sample).await?;
        return Ok(End::Done);
    };
    let mut record = sample.body.clone();
    record.insert("set".to_owned(), Value::from(agent.set));
    match records::evaluate(app, serde_json::to_vec(&record)?).await {
        Ok(evaluated) => {
            // Store the cost first, so that the next evaluation sees it. If this fails, store the results anyway.
            let counted = app.store.add_cost(&reservation, evaluated.cost).await;
            let end = finish(app, &sample, &evaluated, attempt).await?;
            counted?;
            Ok(end)
        }
        Err(unevaluated) => {
            let Unevaluated { problem, .. } = &unevaluated;
            problem.report_cause(app.runs.world());
            let end = if unevaluated.is_malformed() || attempt >= MAX_ATTEMPTS {
                fail(app, &sample, &problem.detail).await
            } else {
                repeat(app, &sample, attempt).await
            };
            tokio::spawn(add_late_cost(app.clone(), reservation, unevaluated));
            end
        }
    }
}

/// Stores the error of a sample. apalis keeps the job of the sample, with the status `Killed`.
async fn fail(app: &App, sample: &PendingSample, error: &str) -> Result<End, StoreError> {
    app.store.fail_sample(sample, error).await?;
    Ok(End::Failed)
}

/// Lets a sample wait for its next attempt. apalis repeats the failed job at the time of this attempt.
async fn repeat(app: &App, sample: &PendingSample, attempt: usize) -> Result<End, StoreError> {
    pause(app, &sample.id, attempt).await?;
    Ok(End::Repeated)
}

/// Sets the time of the next attempt of a sample.
async fn pause(app: &App, sample: &str, attempt: usize) -> Result<(), StoreError> {
    let attempts = i64::try_from(attempt).unwrap_or(i64::MAX);
    app.store.pause_sample(sample, pause_after(RETRY, attempts)).await
}

/// Adds the cost of a record without results. After a timeout, the record's judges may answer later.
async fn add_late_cost(app: App, reservation: Reservation, unevaluated: Unevaluated) {
    let cost = unevaluated.cost().await;
    if let Err(err) = app.store.add_cost(&reservation, cost).await {
        Problem::from(err).report_cause(app.runs.world());
    }
}

/// Stores the results of a sample. If a provider failed and an attempt is left, the sample waits for the next attempt.
async fn finish(
    app: &App,
    sample: &PendingSample,
    evaluated: &Evaluated,
    attempt: usize,
) -> Result<End, StoreError> {
    let (end, is_counted) = if failed_by_provider(&evaluated.evaluation) && attempt < MAX_ATTEMPTS {
        (repeat(app, sample, attempt).await?, true)
    } else {
        let results: Vec<NewResult> = evaluated.outcomes.iter().map(result).collect();
        let set = evaluated.set.as_deref().unwrap_or_default();
        let text = serde_json::to_string(evaluated)?;
        let reference = app.alerts.reference;
        (End::Done, app.store.finish_sample(sample, set, &text, &results, reference).await?)
    };
    if is_counted {
        app.metrics.add_evaluation("sample", evaluated.evaluation.outcome);
    }
    Ok(end)
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
