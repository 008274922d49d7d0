//! `POST /v1/evaluate/events`: one record, with its results as server-sent events.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::response::sse::Event;
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use serde::de::IgnoredAny;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::json;
use crate::access::guarded;
use crate::app::App;
use crate::problem::{BUG, Problem};
use crate::progress::{self, Progress};
use crate::store::adoption::Page;
use crate::store::tokens::Scope;

pub(super) fn routes(app: &App) -> OpenApiRouter<App> {
    guarded(app, Scope::Evaluate, OpenApiRouter::new().routes(routes!(evaluate_events)))
}

/// Evaluates one record, and sends each result as soon as its check is evaluated.
///
/// The server sends an event `result` for each check that was evaluated while other checks waited for their judges. The
/// last event is `evaluation`, with the response of `POST /v1/evaluate`, or `problem`.
#[utoipa::path(post, path = "/v1/evaluate/events",
    request_body(content = ref("#/components/schemas/Record"), content_type = "application/json"),
    responses(
        (status = 200, description = "the events; the `data` of each is a JSON object", body = ref("#/components/schemas/EventText"), content_type = "text/event-stream"),
        (status = 400, description = "the body is not JSON", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "the body is larger than 8 MiB", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "the body is not `application/json`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "the record is invalid, or has a check that is not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "the judges did not answer in time", body = Problem, content_type = "application/problem+json"),
    ))]
async fn evaluate_events(
    State(app): State<App>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let IgnoredAny = json(&headers, &body, "invalid-record")?;
    // Browsers send this header. Of the pages of this server, only the panel sends this request.
    let is_panel = headers.get("sec-fetch-site").is_some_and(|it| it == "same-origin");
    let source = ("request", is_panel.then_some(Page::Panel));
    let mut progress = progress::evaluate(app.clone(), body.into(), source);
    // An error before the first result becomes the status of the response.
    let first = match progress.recv().await {
        Some(Progress::End(Err(error))) => return Err(error.problem),
        Some(first) => first,
        None => return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", BUG)),
    };
    let parts = stream::iter([first]).chain(progress::parts(progress));
    Ok(progress::events(parts.map(move |it| match it {
        Progress::Result(result) => event("result", &result),
        Progress::End(Ok(evaluated)) => event("evaluation", &evaluated),
        Progress::End(Err(error)) => {
            error.problem.report_cause(app.runs.world());
            event("problem", &error.problem)
        }
    })))
}

fn event(name: &str, value: &impl Serialize) -> Event {
    // All map keys are strings, so the serialization cannot fail.
    let json = serde_json::to_string(value).unwrap_or_default();
    Event::default().event(name).data(json)
}
