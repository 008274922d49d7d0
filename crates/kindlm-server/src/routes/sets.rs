//! `/v1/assertion-sets`: named checks with versions.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::json;
use crate::access::{Caller, guarded};
use crate::app::App;
use crate::problem::Problem;
use crate::records;
use crate::store::sets::{SetSummary, SetVersion};
use crate::store::tokens::Scope;

pub(super) fn routes(app: &App) -> OpenApiRouter<App> {
    let reads = OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(newest))
        .routes(routes!(versions))
        .routes(routes!(version));
    let writes = OpenApiRouter::new().routes(routes!(put));
    guarded(app, Scope::Read, reads).merge(guarded(app, Scope::Admin, writes))
}

/// Lists the newest version of each set, by name.
#[utoipa::path(get, path = "/v1/assertion-sets",
    responses((status = 200, description = "the newest version of each set, without its checks", body = Vec<SetSummary>)))]
async fn list(State(app): State<App>) -> Result<Json<Vec<SetSummary>>, Problem> {
    Ok(Json(app.store.sets().await?))
}

/// Stores a set. If the checks differ from those of the newest version, this makes a new version.
#[utoipa::path(put, path = "/v1/assertion-sets/{name}",
    params(("name" = String, Path, description = "letters, digits, `-`, `_` and `.`, at most 100")),
    request_body(content = Object, description = "`assertions`, `expect` and `threshold`, as in a record", content_type = "application/json"),
    responses(
        (status = 200, description = "the newest version has these checks already", body = SetVersion),
        (status = 201, description = "the new version", body = SetVersion),
        (status = 400, description = "the body is not JSON", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "the body is larger than 8 MiB", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "the body is not `application/json`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "the name or a check is invalid", body = Problem, content_type = "application/problem+json"),
    ))]
async fn put(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Json<SetVersion>), Problem> {
    let content: Value = json(&headers, &body, "invalid-set")?;
    let (version, is_new) = records::put_set(&app, &name, content, caller.name()).await?;
    Ok((if is_new { StatusCode::CREATED } else { StatusCode::OK }, Json(version)))
}

/// Returns the newest version of a set.
#[utoipa::path(get, path = "/v1/assertion-sets/{name}",
    params(("name" = String, Path, description = "the name of the set")),
    responses(
        (status = 200, description = "the newest version", body = SetVersion),
        (status = 404, description = "there is no such set", body = Problem, content_type = "application/problem+json"),
    ))]
async fn newest(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<SetVersion>, Problem> {
    app.store.set(&name, None).await?.map(Json).ok_or_else(|| unknown(&name))
}

/// Lists the versions of a set, from the newest to the oldest.
#[utoipa::path(get, path = "/v1/assertion-sets/{name}/versions",
    params(("name" = String, Path, description = "the name of the set")),
    responses(
        (status = 200, description = "the versions, without their checks", body = Vec<SetSummary>),
        (status = 404, description = "there is no such set", body = Problem, content_type = "application/problem+json"),
    ))]
async fn versions(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<Vec<SetSummary>>, Problem> {
    let versions = app.store.set_versions(&name).await?;
    if versions.is_empty() { Err(unknown(&name)) } else { Ok(Json(versions)) }
}

/// Returns one version of a set, with the difference to the version before.
#[utoipa::path(get, path = "/v1/assertion-sets/{name}/versions/{version}",
    params(
        ("name" = String, Path, description = "the name of the set"),
        ("version" = i64, Path, description = "the number of the version, from 1"),
    ),
    responses(
        (status = 200, description = "the version", body = SetVersion),
        (status = 400, description = "the version is not a number", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "there is no such version", body = Problem, content_type = "application/problem+json"),
    ))]
async fn version(
    State(app): State<App>,
    Path((name, version)): Path<(String, i64)>,
) -> Result<Json<SetVersion>, Problem> {
    let found = app.store.set(&name, Some(version)).await?;
    found.map(Json).ok_or_else(|| unknown(&format!("{name}@{version}")))
}

fn unknown(name: &str) -> Problem {
    let detail = format!("unknown set \"{name}\"; `GET /v1/assertion-sets` lists all sets");
    Problem::new(StatusCode::NOT_FOUND, "unknown-set", detail)
}
