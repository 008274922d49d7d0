//! The routes: one file for each topic.

mod agents;
mod alerts;
mod baselines;
mod batch;
mod blocking;
pub(crate) mod body;
mod evaluate;
mod evaluate_events;
pub(crate) mod feedback_rates;
mod health;
mod lines;
mod rates;
pub(crate) mod runs;
pub(crate) mod samples;
mod sets;
mod suites;
mod traces;

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;

use self::body::JSON;
use crate::app::App;
use crate::metrics::Metrics;
use crate::openapi::{Info, document};
use crate::pages;
use crate::problem::{Problem, everywhere, of_panic};

/// The time limit until the response of a request begins. It includes the answers of judges.
const PATIENCE: Duration = Duration::from_mins(2);

/// Makes all routes: the API and the pages.
pub fn app(app: App) -> Router {
    let (metrics, world) = (app.metrics.clone(), app.runs.world().clone());
    let pages = pages::routes(&app).with_state(app.clone());
    let (router, api) = OpenApiRouter::with_openapi(Info::openapi())
        .merge(health::routes())
        .merge(evaluate::routes(&app))
        .merge(evaluate_events::routes(&app))
        .merge(batch::routes(&app))
        .merge(sets::routes(&app))
        .merge(samples::routes(&app))
        .merge(traces::routes(&app))
        .merge(agents::routes(&app))
        .merge(alerts::routes(&app))
        .merge(rates::routes(&app))
        .merge(feedback_rates::routes(&app))
        .merge(runs::routes(&app))
        .merge(baselines::routes(&app))
        .merge(suites::routes(&app))
        .with_state(app)
        .split_for_parts();
    let api = Bytes::from(document(&api).to_string());
    let openapi = move || async move { ([(CONTENT_TYPE, JSON)], api) };
    router
        .route("/openapi.json", axum::routing::get(openapi))
        .merge(pages)
        .layer(DefaultBodyLimit::max(body::MAX_BODY))
        .layer(from_fn(in_time))
        .layer(CatchPanicLayer::custom(of_panic))
        .layer(from_fn_with_state(world, everywhere))
        .layer(from_fn_with_state(metrics, count))
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(SetRequestIdLayer::x_request_id(MakeRequestUuid))
}

/// Middleware that counts each response by its status.
async fn count(State(metrics): State<Metrics>, request: Request<Body>, next: Next) -> Response {
    let response = next.run(request).await;
    metrics.add_request(response.status().as_u16());
    response
}

/// Ends a request whose response does not begin within [`PATIENCE`]. A stream may take longer.
async fn in_time(request: Request<Body>, next: Next) -> Response {
    tokio::time::timeout(PATIENCE, next.run(request)).await.unwrap_or_else(|_| {
        let detail = format!("the request took more than {} s", PATIENCE.as_secs());
        Problem::new(StatusCode::GATEWAY_TIMEOUT, "timeout", detail).into_response()
    })
}
