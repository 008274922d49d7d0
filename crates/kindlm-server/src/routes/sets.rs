//! `/v1/assertion-sets`: named checks with versions.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::http::header::{ETAG, IF_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::json;
use crate::access::{Caller, guarded};
use crate::app::App;
use crate::problem::Problem;
use crate::records;
use crate::store::sets::{ExpectedVersion, SetSummary, SetVersion};
use crate::store::tokens::Scope;

pub(super) fn routes(app: &App) -> OpenApiRouter<App> {
    let reads = OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(newest))
        .routes(routes!(versions))
        .routes(routes!(version));
    let writes = OpenApiRouter::new().routes(routes!(put)).routes(routes!(remove));
    guarded(app, Scope::Read, reads).merge(guarded(app, Scope::Admin, writes))
}

/// Lists the newest version of each set, by name.
#[utoipa::path(get, path = "/v1/assertion-sets",
    responses((status = 200, description = "the newest version of each set, without its checks", body = Vec<SetSummary>)))]
async fn list(State(app): State<App>) -> Result<Json<Vec<SetSummary>>, Problem> {
    Ok(Json(app.store.sets().await?))
}

/// Stores a set. If the checks differ from those of the newest version, this makes a new version.
///
/// With `if-match`, this fails if another client has stored a version meanwhile.
#[utoipa::path(put, path = "/v1/assertion-sets/{name}",
    params(
        ("name" = String, Path, description = "letters, digits, `-`, `_` and `.`, at most 100"),
        ("if-match" = Option<String>, Header, description = "the `etag` of the newest version, or `*` for any version; without it, the set may have changed"),
    ),
    request_body(content = ref("#/components/schemas/SetContent"), content_type = "application/json"),
    responses(
        (status = 200, description = "the newest version has these checks already", body = SetVersion),
        (status = 201, description = "the new version", body = SetVersion),
        (status = 400, description = "the body is not JSON", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "the newest version is not that of `if-match`", body = Problem, content_type = "application/problem+json"),
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
) -> Result<Response, Problem> {
    let content: Value = json(&headers, &body, "invalid-set")?;
    let expected = expected_version(&headers)?;
    let (version, is_new) =
        records::put_set(&app, &name, content, caller.name(), &expected).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, tagged(version)).into_response())
}

/// Deletes all versions of a set.
///
/// The results of the samples that the set evaluated stay, with the name and version of the set.
#[utoipa::path(delete, path = "/v1/assertion-sets/{name}",
    params(("name" = String, Path, description = "the name of the set")),
    responses(
        (status = 204, description = "the set is deleted"),
        (status = 404, description = "there is no such set", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "an agent has the set", body = Problem, content_type = "application/problem+json"),
    ))]
async fn remove(State(app): State<App>, Path(name): Path<String>) -> Result<StatusCode, Problem> {
    let is_deleted = app.store.delete_set(&name).await?;
    if is_deleted { Ok(StatusCode::NO_CONTENT) } else { Err(unknown(&name)) }
}

/// Reads the header `if-match`: `*`, or a list of digests in quotes. Without it, any version is expected.
fn expected_version(headers: &HeaderMap) -> Result<ExpectedVersion, Problem> {
    let mut digests = Vec::new();
    for value in headers.get_all(IF_MATCH) {
        for tag in value.as_bytes().split(|it| *it == b',').map(<[u8]>::trim_ascii) {
            if tag == b"*" {
                return Ok(ExpectedVersion::Exists);
            }
            let quoted = tag.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\""));
            let digest = quoted.and_then(|it| std::str::from_utf8(it).ok()).ok_or_else(|| {
                let detail = "the header `if-match` must be `*`, or the `etag` of a version, such as `\"sha256:…\"`";
                Problem::of_status(StatusCode::BAD_REQUEST, detail)
            })?;
            digests.push(digest.to_owned());
        }
    }
    Ok(if digests.is_empty() { ExpectedVersion::Any } else { ExpectedVersion::Digest(digests) })
}

/// Makes a response with a version, whose `etag` is its digest.
fn tagged(version: SetVersion) -> Response {
    let etag = format!("\"{}\"", version.digest);
    ([(ETAG, etag)], Json(version)).into_response()
}

/// Returns the newest version of a set.
#[utoipa::path(get, path = "/v1/assertion-sets/{name}",
    params(("name" = String, Path, description = "the name of the set")),
    responses(
        (status = 200, description = "the newest version; its digest is the `etag`", body = SetVersion),
        (status = 404, description = "there is no such set", body = Problem, content_type = "application/problem+json"),
    ))]
async fn newest(State(app): State<App>, Path(name): Path<String>) -> Result<Response, Problem> {
    app.store.set(&name, None).await?.map(tagged).ok_or_else(|| unknown(&name))
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
