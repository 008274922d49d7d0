//! `POST /v1/evaluate`: one record.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::de::IgnoredAny;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::json;
use crate::access::guarded;
use crate::app::App;
use crate::problem::Problem;
use crate::records::{self, Evaluated};
use crate::store::tokens::Scope;

pub(super) fn routes(app: &App) -> OpenApiRouter<App> {
    guarded(app, Scope::Evaluate, OpenApiRouter::new().routes(routes!(evaluate)))
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
) -> Result<Json<Evaluated>, Problem> {
    let IgnoredAny = json(&headers, &body, "invalid-record")?;
    let evaluated = records::evaluate(&app, body.into()).await.map_err(|it| it.problem)?;
    app.metrics.add_evaluation("request", evaluated.evaluation.outcome);
    Ok(Json(evaluated))
}
