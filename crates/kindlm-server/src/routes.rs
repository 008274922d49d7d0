//! The routes.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router};
use kindlm_run::evaluate::service::{RecordError, RecordService};
use kindlm_wire::evaluate::Evaluation;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::local::only_this_machine;
use crate::openapi::{Info, document};
use crate::problem::{Problem, everywhere, of_panic};
use crate::store::Store;

/// The maximum size of a request, in bytes: 8 MiB.
const MAX_BODY: usize = 8 << 20;

/// The time limit of a request, with the answers of its judges.
const PATIENCE: Duration = Duration::from_mins(2);

/// The services behind the routes.
#[derive(Clone, Debug)]
pub struct App {
    /// The service that evaluates records.
    pub records: RecordService,
    /// The database.
    pub store: Store,
}

/// Makes all routes.
///
/// Only requests from this machine are answered: see `Host` and `Origin` in the documentation.
pub fn app(app: App) -> Router {
    let (router, api) = OpenApiRouter::with_openapi(Info::openapi())
        .routes(routes!(healthz))
        .routes(routes!(readyz))
        .routes(routes!(evaluate))
        .with_state(app)
        .split_for_parts();
    let api: Arc<Value> = Arc::new(document(&api));
    let openapi = move || async move { Json(Value::clone(&api)) };
    router
        .route("/openapi.json", axum::routing::get(openapi))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(from_fn(in_time))
        .layer(CatchPanicLayer::custom(of_panic))
        .layer(from_fn(only_this_machine))
        .layer(from_fn(everywhere))
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(SetRequestIdLayer::x_request_id(MakeRequestUuid))
}

/// Ends a request that takes too long.
async fn in_time(request: Request<Body>, next: Next) -> Response {
    tokio::time::timeout(PATIENCE, next.run(request)).await.unwrap_or_else(|_| {
        let detail = format!("the request took more than {} s", PATIENCE.as_secs());
        Problem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", detail).into_response()
    })
}

/// Returns `ok` if the process answers.
#[utoipa::path(get, path = "/healthz", responses((status = 200, description = "the process answers")))]
async fn healthz() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// Returns `ok` if the database answers too.
#[utoipa::path(get, path = "/readyz", responses(
    (status = 200, description = "the database answers"),
    (status = 503, description = "the database does not answer", body = Problem, content_type = "application/problem+json"),
))]
async fn readyz(State(app): State<App>) -> Result<Json<Value>, Problem> {
    let ready = app.store.ping().await.map_err(|_| {
        let detail = "the database does not answer";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "database", detail)
    });
    ready.map(|()| Json(json!({"status": "ok"})))
}

/// Evaluates one record: an output with its checks.
#[utoipa::path(post, path = "/v1/evaluate",
    request_body(content = ref("#/components/schemas/Record"), content_type = "application/json"),
    responses(
        (status = 200, description = "the results of the checks", body = ref("#/components/schemas/Evaluation"), content_type = "application/json"),
        (status = 400, description = "the body is not JSON", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "the body is larger than 8 MiB", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "the body is not `application/json`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "the record is invalid, or has a check that is not permitted", body = Problem, content_type = "application/problem+json"),
        (status = 504, description = "the judges did not answer in time", body = Problem, content_type = "application/problem+json"),
    ))]
async fn evaluate(
    State(app): State<App>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Evaluation>, Problem> {
    if !is_json(&headers) {
        let detail = "the body must have the header `content-type: application/json`";
        return Err(Problem::of_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    if let Err(err) = serde_json::from_slice::<IgnoredAny>(&body) {
        let detail = format!("the body is not JSON: {err}");
        return Err(Problem::new(StatusCode::BAD_REQUEST, "not-json", detail));
    }
    app.records.evaluate(body.into()).await.map(Json).map_err(refused)
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|it| it.trim().eq_ignore_ascii_case("application/json"))
}

fn refused(error: RecordError) -> Problem {
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    match error {
        RecordError::Invalid { message, .. } => Problem::new(status, "invalid-record", message),
        RecordError::NoJudge => {
            let detail =
                "some checks need a judge model, but the config of the server has no `models`";
            Problem::new(status, "no-judge", detail)
        }
        _ => {
            let detail = "the evaluation failed; the standard error of the server has the details";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
        }
    }
}
