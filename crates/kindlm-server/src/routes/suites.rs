//! `/v1/suites/{suite}/versions`: the versions of the files of suites.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::runs::blocking;
use crate::access::guarded;
use crate::app::App;
use crate::problem::Problem;
use crate::runs::NotRead;
use crate::store::suites::{SuiteSummary, SuiteVersion};
use crate::store::tokens::Scope;

pub(super) fn routes(app: &App) -> OpenApiRouter<App> {
    let reads = OpenApiRouter::new()
        .routes(routes!(versions))
        .routes(routes!(version))
        .routes(routes!(diff));
    guarded(app, Scope::Read, reads)
}

/// Lists the versions of a suite, from the newest to the oldest.
///
/// A version is stored when a run of a changed file starts, or when a request changes the file.
#[utoipa::path(get, path = "/v1/suites/{suite}/versions",
    params(("suite" = String, Path, description = "the path of the suite, with `%2F` for `/`")),
    responses(
        (status = 200, description = "the versions, without their texts", body = Vec<SuiteSummary>),
        (status = 404, description = "there is no such suite", body = Problem, content_type = "application/problem+json"),
    ))]
async fn versions(
    State(app): State<App>,
    Path(suite): Path<String>,
) -> Result<Json<Vec<SuiteSummary>>, Problem> {
    let versions = app.store.suite_versions(&suite).await?;
    if versions.is_empty() {
        // A suite that exists has no versions until it has run.
        blocking(app, move |runs| {
            let is_known = runs.suites()?.contains(&suite);
            if is_known { Ok(()) } else { Err(NotRead::NoSuite(suite)) }
        })
        .await?;
    }
    Ok(Json(versions))
}

/// Returns one version of a suite: its text, and the difference to the version before.
#[utoipa::path(get, path = "/v1/suites/{suite}/versions/{version}",
    params(
        ("suite" = String, Path, description = "the path of the suite, with `%2F` for `/`"),
        ("version" = i64, Path, description = "the number of the version, from 1"),
    ),
    responses(
        (status = 200, description = "the version", body = SuiteVersion),
        (status = 400, description = "the version is not a number", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "there is no such version", body = Problem, content_type = "application/problem+json"),
    ))]
async fn version(
    State(app): State<App>,
    Path((suite, version)): Path<(String, i64)>,
) -> Result<Json<SuiteVersion>, Problem> {
    find(&app, &suite, version).await.map(Json)
}

/// Returns the lines of a version of a suite that differ from the version before, as a unified diff.
#[utoipa::path(get, path = "/v1/suites/{suite}/versions/{version}/diff",
    params(
        ("suite" = String, Path, description = "the path of the suite, with `%2F` for `/`"),
        ("version" = i64, Path, description = "the number of the version, from 1"),
    ),
    responses(
        (status = 200, description = "the unified diff", body = String, content_type = "text/plain"),
        (status = 400, description = "the version is not a number", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "there is no such version", body = Problem, content_type = "application/problem+json"),
    ))]
async fn diff(
    State(app): State<App>,
    Path((suite, version)): Path<(String, i64)>,
) -> Result<Response, Problem> {
    let diff = find(&app, &suite, version).await?.diff;
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], diff).into_response())
}

async fn find(app: &App, suite: &str, version: i64) -> Result<SuiteVersion, Problem> {
    app.store.suite_version(suite, version).await?.ok_or_else(|| {
        let detail = format!(
            "the suite `{suite}` has no version {version}; `GET /v1/suites/{{suite}}/versions` lists its versions"
        );
        Problem::new(StatusCode::NOT_FOUND, "unknown-version", detail)
    })
}
