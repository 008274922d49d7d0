//! `POST /v1/evaluate/batch`: a stream of records.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, StreamExt as _, stream};
use kindlm_run::evaluate::service::BatchTotals;
use kindlm_wire::evaluate::LineError;
use serde::Serialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::{NDJSON, is_ndjson, wrong_type};
use super::lines::{Interrupted, LONGEST, Line, Lines};
use crate::access::guarded;
use crate::app::App;
use crate::problem::Problem;
use crate::records::{self, Evaluated, Unevaluated};
use crate::store::tokens::Scope;

/// The maximum number of records of a batch that are evaluated at once.
const AT_ONCE: usize = 16;

/// The batch ends if the client does not read the response for this time.
const UNREAD: Duration = Duration::from_mins(2);

pub(super) fn routes(app: &App) -> OpenApiRouter<App> {
    guarded(app, Scope::Evaluate, OpenApiRouter::new().routes(routes!(batch)))
}

/// Evaluates records, one per line, and returns one line for each, in order. The last line is the summary.
///
/// The results are sent while the records are received, so a client must read the response while it sends the records.
#[utoipa::path(post, path = "/v1/evaluate/batch",
    request_body(content = ref("#/components/schemas/Record"), content_type = "application/x-ndjson"),
    responses(
        (status = 200, description = "a line for each record: an `Evaluation`, or a `LineError`. The last line is `{\"summary\": BatchSummary}`; without it, the batch is not complete",
            body = ref("#/components/schemas/Evaluation"), content_type = "application/x-ndjson"),
        (status = 415, description = "the body is not `application/x-ndjson`", body = Problem, content_type = "application/problem+json"),
    ))]
async fn batch(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    if !is_ndjson(&headers) {
        return Err(wrong_type(NDJSON));
    }
    let (send, receive) = mpsc::channel(AT_ONCE);
    tokio::spawn(answer(app, body, send));
    let answers = stream::unfold(receive, |mut it| async {
        let line = it.recv().await?;
        Some((Ok::<_, Infallible>(line), it))
    });
    Ok(([(CONTENT_TYPE, NDJSON)], Body::from_stream(answers)).into_response())
}

/// The number of a line of the request, with the result of its record.
type Answered = (u64, Result<Evaluated, Unevaluated>);

/// Evaluates the lines of a request, and sends the lines of the response.
///
/// The response ends without the summary if the request is interrupted, or if the client does not read.
async fn answer(app: App, body: Body, send: mpsc::Sender<Bytes>) {
    let totals = app.records.batch();
    let evaluated = lines(body).map(|it| evaluate(&app, it)).buffered(AT_ONCE);
    let mut evaluated = pin!(evaluated);
    while let Some(next) = evaluated.next().await {
        let is_interrupted = next.is_err();
        let text = next.map_or_else(|it| text(&it), |(line, it)| counted(&totals, line, it));
        if send.send_timeout(text, UNREAD).await.is_err() || is_interrupted {
            return;
        }
    }
    // If this fails, the client has left and does not need the summary.
    let _ = send.send_timeout(text(&json!({"summary": totals.summary()})), UNREAD).await;
}

/// Returns the lines of a request. The lines that are evaluated at once have together at most [`LONGEST`] bytes.
fn lines(
    body: Body,
) -> impl Stream<Item = Result<(Line, Option<OwnedSemaphorePermit>), LineError>> {
    let memory = Arc::new(Semaphore::new(LONGEST));
    let start = (Lines::new(body.into_data_stream()), memory, 0);
    stream::unfold(start, async |(mut lines, memory, before)| {
        let (number, next) = match lines.next().await? {
            Err(Interrupted(error)) => (before, Err(LineError::new(None, error, before + 1))),
            Ok(line) => {
                let size = line.text.as_ref().map_or(0, Vec::len);
                let size = u32::try_from(size).unwrap_or(u32::MAX);
                // The semaphore is never closed, so there is always a permit.
                let permit = Arc::clone(&memory).acquire_many_owned(size).await.ok();
                (line.number, Ok((line, permit)))
            }
        };
        Some((next, (lines, memory, number)))
    })
}

async fn evaluate(
    app: &App,
    next: Result<(Line, Option<OwnedSemaphorePermit>), LineError>,
) -> Result<Answered, LineError> {
    let (Line { number, text }, permit) = next?;
    let result = if let Some(json) = text {
        records::evaluate(app, json).await
    } else {
        Err(Unevaluated::invalid(format!("the line is longer than {} MiB", LONGEST >> 20)))
    };
    match &result {
        Ok(it) => app.metrics.add_evaluation("request", it.evaluation.outcome),
        Err(it) => it.problem.report_cause(app.runs.world()),
    }
    drop(permit);
    Ok((number, result))
}

/// Counts a result, and returns the result as a line of the response.
fn counted(totals: &BatchTotals, line: u64, result: Result<Evaluated, Unevaluated>) -> Bytes {
    match result {
        Ok(evaluated) => {
            totals.observe(line, &evaluated.evaluation);
            text(&evaluated)
        }
        Err(unevaluated) => {
            if unevaluated.is_malformed() {
                totals.malformed();
            } else {
                totals.errored();
            }
            let Unevaluated { id, problem, .. } = unevaluated;
            text(&LineError::new(id, problem.detail, line))
        }
    }
}

fn text(value: &impl Serialize) -> Bytes {
    // All map keys are strings, so the serialization cannot fail.
    let mut json = serde_json::to_vec(value).unwrap_or_default();
    json.push(b'\n');
    json.into()
}
