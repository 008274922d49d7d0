//! `/v1/suites/{suite}/baselines` and `/v1/compare`: baselines of suites, and comparisons with them.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use kindlm_run::baselines::Insist;
use kindlm_run::compare::parse_margin;
use kindlm_wire::v1::ComparisonDocument;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::json;
use super::runs::blocking;
use crate::access::guarded;
use crate::app::App;
use crate::problem::Problem;
use crate::runs::{BaselineInfo, RunService};
use crate::store::tokens::Scope;

pub(super) fn routes(app: &App) -> OpenApiRouter<App> {
    let reads = OpenApiRouter::new().routes(routes!(list)).routes(routes!(compare));
    let writes = OpenApiRouter::new().routes(routes!(put, delete));
    guarded(app, Scope::Read, reads).merge(guarded(app, Scope::Admin, writes))
}

/// The baselines of a suite.
#[derive(Serialize, ToSchema)]
struct Listed {
    /// The baselines, by label.
    items: Vec<BaselineInfo>,
}

/// Lists the baselines of a suite.
#[utoipa::path(get, path = "/v1/suites/{suite}/baselines",
    params(("suite" = String, Path, description = "the path of the suite, with `%2F` for `/`")),
    responses(
        (status = 200, description = "the baselines", body = Listed),
        (status = 404, description = "there is no such suite", body = Problem, content_type = "application/problem+json"),
    ))]
async fn list(State(app): State<App>, Path(suite): Path<String>) -> Result<Json<Listed>, Problem> {
    let items = blocking(app, move |runs| runs.baselines(&suite)).await?;
    Ok(Json(Listed { items }))
}

/// The run whose results become a baseline.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewBaseline {
    /// The id of the run.
    run: String,
    /// True to accept a run with failed or errored cases, or without cases.
    #[serde(default)]
    force: bool,
    /// True to accept an incomplete run, or a run that lacks cases of the suite or of the replaced baseline.
    #[serde(default)]
    partial: bool,
}

/// Stores the results of a run as a baseline of its suite, and replaces the baseline with this label.
///
/// Later runs are compared with the baseline `default`.
#[utoipa::path(put, path = "/v1/suites/{suite}/baselines/{label}",
    params(
        ("suite" = String, Path, description = "the path of the suite, with `%2F` for `/`"),
        ("label" = String, Path, description = "the label"),
    ),
    request_body(content = NewBaseline, content_type = "application/json"),
    responses(
        (status = 200, description = "the baseline is replaced", body = BaselineInfo),
        (status = 201, description = "the baseline is new", body = BaselineInfo),
        (status = 400, description = "the body is not JSON", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "there is no such suite or run", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "the run has no report yet", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "the body is larger than 8 MiB", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "the body is not `application/json`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "the label is invalid, or the run is of another suite, has failed cases or is incomplete", body = Problem, content_type = "application/problem+json"),
    ))]
async fn put(
    State(app): State<App>,
    Path((suite, label)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let NewBaseline { run, force, partial } = json(&headers, &body, "invalid-baseline")?;
    let set = move |runs: &RunService| {
        runs.set_baseline(&suite, &label, (&run, Insist { force, partial }))
    };
    let (baseline, is_new) = blocking(app, set).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(baseline)).into_response())
}

/// Deletes a baseline of a suite. The run from which the baseline was made is not deleted.
#[utoipa::path(delete, path = "/v1/suites/{suite}/baselines/{label}",
    params(
        ("suite" = String, Path, description = "the path of the suite, with `%2F` for `/`"),
        ("label" = String, Path, description = "the label"),
    ),
    responses(
        (status = 204, description = "the baseline is deleted"),
        (status = 404, description = "there is no such suite or baseline", body = Problem, content_type = "application/problem+json"),
    ))]
async fn delete(
    State(app): State<App>,
    Path((suite, label)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    blocking(app, move |runs| runs.delete_baseline(&suite, &label)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The sides of a comparison.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Sides {
    /// The path of the suite.
    #[param(min_length = 1)]
    suite: String,
    /// The earlier side: the label of a baseline, the id of a run, or `last` for the newest run.
    #[param(min_length = 1)]
    before: String,
    /// The later side: a label, the id of a run, or `last`, like `before`.
    #[param(min_length = 1)]
    after: String,
    /// The non-inferiority margin: the largest tolerated fall of the pass rate in percentage points, such as `3pp`.
    /// The verdict "no regression" then needs a confidence interval that excludes a larger fall.
    #[param(pattern = r"^(0\.[0-9]{0,6}[1-9]|[1-9][0-9]?(\.[0-9]{1,6})?|100)pp$")]
    margin: Option<String>,
}

/// Compares two runs or baselines of a suite. The response is the output of `kindlm compare --json`.
#[utoipa::path(get, path = "/v1/compare", params(Sides), responses(
    (status = 200, description = "the comparison: an object with `schemaVersion` and `comparison`", body = serde_json::Value),
    (status = 400, description = "a parameter is missing or invalid", body = Problem, content_type = "application/problem+json"),
    (status = 404, description = "there is no such suite, run or baseline", body = Problem, content_type = "application/problem+json"),
    (status = 409, description = "a run has no report yet", body = Problem, content_type = "application/problem+json"),
    (status = 422, description = "a run is of another suite, or a run or a baseline cannot be read", body = Problem, content_type = "application/problem+json"),
))]
async fn compare(
    State(app): State<App>,
    Query(Sides { suite, before, after, margin }): Query<Sides>,
) -> Result<Response, Problem> {
    let margin = margin.map(|it| parse_margin(&it)).transpose().map_err(|why| {
        Problem::new(StatusCode::BAD_REQUEST, "invalid-query", format!("`margin`: {why}"))
    })?;
    let sides = move |runs: &RunService| runs.compare_sides(&suite, [&before, &after], margin);
    let comparison = blocking(app, sides).await?;
    Ok(Json(ComparisonDocument::borrowing(&comparison)).into_response())
}
