//! The bodies and names in requests.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::access::Caller;
use crate::problem::Problem;
use crate::store::digest;
use crate::store::idempotency::RequestKey;

/// The maximum size of a request, in bytes: 8 MiB.
pub(super) const MAX_BODY: usize = 8 << 20;

/// The media type of one JSON value.
pub(super) const JSON: &str = "application/json";

/// The media type of JSON values, one per line.
pub(super) const NDJSON: &str = "application/x-ndjson";

/// The header with the idempotency key of a request. A repeated request with the same key changes nothing.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The maximum length of a name or an id, in characters.
const LONGEST_NAME: usize = 100;

/// Returns true if the header `content-type` has this media type, with any parameters.
pub(super) fn has_type(headers: &HeaderMap, media_type: &str) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|it| it.trim().eq_ignore_ascii_case(media_type))
}

/// Returns true if the header `content-type` has one of the usual media types of JSON lines.
pub(super) fn is_ndjson(headers: &HeaderMap) -> bool {
    [NDJSON, "application/ndjson", "application/jsonl"].iter().any(|it| has_type(headers, it))
}

/// Returns the error (status 415) of a request without the expected media type.
pub(super) fn wrong_type(expected: &str) -> Problem {
    let detail = format!("the body must have the header `content-type: {expected}`");
    Problem::of_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)
}

/// Reads a JSON body.
///
/// # Errors
///
/// Fails if:
///
/// - the media type is not that of JSON
/// - the body is not JSON
/// - the JSON value does not have the type `T`; the kind of this error is `kind`
pub(super) fn json<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: &[u8],
    kind: &str,
) -> Result<T, Problem> {
    if !has_type(headers, JSON) {
        return Err(wrong_type(JSON));
    }
    serde_json::from_slice(body).map_err(|err| match err.classify() {
        Category::Data => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, kind, err.to_string()),
        _ => not_json(format!("the body is not JSON: {err}")),
    })
}

/// Reads the header `idempotency-key`; `None` without it. `endpoint` is the method and the path of the request.
///
/// # Errors
///
/// Fails if the key does not have 1 to 100 ASCII characters, or has control characters.
pub(super) fn request_key(
    headers: &HeaderMap,
    caller: &Caller,
    endpoint: &str,
    body: &[u8],
) -> Result<Option<RequestKey>, Problem> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    let key = value.to_str().ok().filter(|it| is_short(it)).ok_or_else(|| {
        let detail = "the header `idempotency-key` must have 1 to 100 ASCII characters";
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-key", detail)
    })?;
    let digest = digest(format!("{endpoint} {}", digest(body)).as_bytes());
    Ok(Some(RequestKey { owner: caller.id().to_owned(), key: key.to_owned(), digest }))
}

/// Returns the error (status 400) of a body that is not JSON.
pub(super) fn not_json(detail: String) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "not-json", detail)
}

/// Returns true if a text can be the name of a set: 1 to 100 ASCII letters, digits, `-`, `_` and `.`.
pub(crate) fn is_name(text: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    is_short(text) && text.chars().all(is_plain)
}

/// Returns true if a text can be an id or a name: 1 to 100 characters, without control characters.
pub(crate) fn is_short(text: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}
