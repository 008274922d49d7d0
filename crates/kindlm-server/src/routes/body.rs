//! The media types of requests.

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;

/// The media type of one JSON value.
pub(super) const JSON: &str = "application/json";

/// Returns true if the header `content-type` has this media type, with any parameters.
pub(super) fn has_type(headers: &HeaderMap, media_type: &str) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|it| it.trim().eq_ignore_ascii_case(media_type))
}
