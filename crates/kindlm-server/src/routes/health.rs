//! `/healthz` and `/readyz`: the state of the process, for load balancers. They need no token.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::problem::Problem;

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz))
}

/// Returns `ok` if the process answers.
#[utoipa::path(get, path = "/healthz", responses((status = 200, description = "the process answers")))]
async fn healthz() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// Returns `ok` if the process and its database answer.
#[utoipa::path(get, path = "/readyz", responses(
    (status = 200, description = "the database answers"),
    (status = 503, description = "the database does not answer", body = Problem, content_type = "application/problem+json"),
))]
async fn readyz(State(app): State<App>) -> Result<Json<Value>, Problem> {
    app.store.ping().await?;
    Ok(Json(json!({"status": "ok"})))
}
