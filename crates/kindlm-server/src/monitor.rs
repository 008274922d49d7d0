//! Evaluates stored samples in the background: [`monitor`].

use std::time::Duration;

use axum::http::StatusCode;
use kindlm_wire::evaluate::{EvaluatedResult, Evaluation};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::app::App;
use crate::records::{self, Unevaluated};
use crate::store::StoreError;
use crate::store::queue::{Leased, MAX_ATTEMPTS, NewResult};

/// The number of samples that are evaluated at once.
const WORKERS: usize = 4;

/// The pause between two looks into the queue, for samples that other processes have stored or left.
const PAUSE: Duration = Duration::from_secs(5);

/// The pause before the second attempt. Each later pause is one longer.
const RETRY: Duration = Duration::from_secs(30);

/// Evaluates samples until the future is dropped. Samples in work return to the queue when their lease ends.
pub async fn monitor(app: App) {
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(work(app.clone()));
    }
    // A worker ends only with a panic. Its sample counts an attempt, and the worker is replaced.
    while workers.join_next().await.is_some() {
        workers.spawn(work(app.clone()));
    }
}

async fn work(app: App) {
    loop {
        // The database may answer again after the pause.
        if !matches!(next(&app).await, Ok(true)) {
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
    let mut record = leased.body.clone();
    record.insert("set".to_owned(), Value::from(agent.set));
    match records::evaluate(app, serde_json::to_vec(&record)?).await {
        Ok(evaluated) => {
            let Evaluation { results, outcome, .. } = &evaluated.evaluation;
            let results: Vec<NewResult> = results.iter().map(result).collect::<Result<_, _>>()?;
            let set = evaluated.set.as_deref().unwrap_or_default();
            let text = serde_json::to_string(&evaluated)?;
            if app.store.finish_sample(&leased, set, &text, &results).await? {
                app.metrics.add_evaluation("sample", *outcome);
            }
        }
        Err(unevaluated) => retry(app, &leased, &unevaluated).await?,
    }
    Ok(true)
}

/// Returns the sample to the queue if another attempt may succeed.
async fn retry(app: &App, leased: &Leased, failed: &Unevaluated) -> Result<(), StoreError> {
    let problem = &failed.problem;
    let is_final = problem.status == StatusCode::UNPROCESSABLE_ENTITY.as_u16();
    if is_final || leased.attempts >= MAX_ATTEMPTS {
        return app.store.fail_sample(leased, &problem.detail).await;
    }
    let pause = RETRY * u32::try_from(leased.attempts).unwrap_or(1);
    app.store.release_sample(leased, pause).await
}

fn result(result: &EvaluatedResult) -> Result<NewResult, serde_json::Error> {
    let status = serde_json::to_value(result.status)?;
    Ok(NewResult {
        assertion: result.id.as_ref().unwrap_or(&result.label).clone(),
        status: status.as_str().unwrap_or_default().to_owned(),
    })
}
