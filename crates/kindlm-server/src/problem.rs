//! Errors as `application/problem+json` (RFC 9457).

use std::any::Any;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use kindlm_run::World;
use serde::Serialize;
use utoipa::ToSchema;

use crate::store::StoreError;

/// The media type of an error.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The header with the id of a request. The response has the header with the same id.
const REQUEST_ID: &str = "x-request-id";

/// The maximum size of an error text that a library wrote, in bytes.
const LONGEST_TEXT: usize = 4096;

/// The `detail` of an error that a bug of the server caused.
pub(crate) const BUG: &str =
    "the server has a bug; the standard error of the server has the details";

/// The body of an error.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// The kind of error, as a URI: `urn:kindlm:problem:<name>`, or `about:blank` for an error that only the HTTP
    /// status describes.
    #[serde(rename = "type")]
    #[schema(rename = "type")]
    pub kind: String,
    /// The HTTP status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, where, and what to do.
    pub detail: String,
    /// The cause, for the operator of the server only.
    #[serde(skip)]
    pub(crate) cause: Option<String>,
}

impl Problem {
    /// Creates an error of a named kind, such as `unknown-set`.
    pub fn new(status: StatusCode, kind: &str, detail: impl Into<String>) -> Self {
        Self { kind: format!("urn:kindlm:problem:{kind}"), ..Self::of_status(status, detail) }
    }

    /// Returns true if the error has this named kind, such as `unknown-set`.
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind.strip_prefix("urn:kindlm:problem:") == Some(kind)
    }

    /// Creates an error without a named kind: its `type` is `about:blank`.
    pub fn of_status(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error").to_owned();
        let (kind, detail) = ("about:blank".to_owned(), detail.into());
        Self { kind, title, status: status.as_u16(), detail, cause: None }
    }

    /// Sends the cause and the time to the operator of the server. The client does not see the cause.
    pub(crate) fn report_cause(&self, world: &World) {
        self.report_cause_of(world, None);
    }

    /// Reports the cause to the operator. `request` is the id of the request; `None` if the request has no id.
    fn report_cause_of(&self, world: &World, request: Option<&str>) {
        if let Some(cause) = &self.cause {
            let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ");
            let request = request.map(|it| format!(" request {it}")).unwrap_or_default();
            world.notify(&format!("{time} error{request}: {cause}"));
        }
    }

    /// Makes a response, and adds the error to its extensions, so that [`everywhere`] reports the cause.
    pub(crate) fn response_with(self, response: impl IntoResponse) -> Response {
        let mut response = response.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let head = [(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON))];
        self.response_with((status, head, body))
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let cause = error.to_string();
        let (status, kind) = match error {
            StoreError::KeyReused => {
                return Self::new(StatusCode::UNPROCESSABLE_ENTITY, "key-reused", cause);
            }
            StoreError::KeyInUse => return Self::new(StatusCode::CONFLICT, "key-in-use", cause),
            StoreError::SetInUse { .. } => {
                return Self::new(StatusCode::CONFLICT, "set-in-use", cause);
            }
            StoreError::UnknownSet(_) => {
                return Self::new(StatusCode::UNPROCESSABLE_ENTITY, "unknown-set", cause);
            }
            StoreError::SetChanged { .. } => {
                return Self::new(StatusCode::PRECONDITION_FAILED, "set-changed", cause);
            }
            StoreError::IdReused(_) => {
                return Self::new(StatusCode::UNPROCESSABLE_ENTITY, "id-reused", cause);
            }
            StoreError::Panicked => {
                let problem = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", BUG);
                return Self { cause: Some(cause), ..problem };
            }
            StoreError::Random(_) => {
                let detail = "the server cannot make random numbers; the standard error of the server has the details";
                let problem = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail);
                return Self { cause: Some(cause), ..problem };
            }
            StoreError::Invalid(_) | StoreError::Counts(_) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "internal")
            }
            _ => (StatusCode::SERVICE_UNAVAILABLE, "database"),
        };
        let detail = "the database failed; the standard error of the server has the details";
        Self { cause: Some(cause), ..Self::new(status, kind, detail) }
    }
}

/// Converts a panic into an error. The text of the panic may contain data of a request, so it is not shown.
pub(crate) fn of_panic(_panic: Box<dyn Any + Send + 'static>) -> Response {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", BUG).into_response()
}

/// Middleware for all requests: refuses URLs with NUL characters, and reports the causes of errors to the operator.
///
/// Converts the error responses of libraries into problems: an unknown path, a wrong method, or a too large body.
pub(crate) async fn everywhere(
    State(world): State<World>,
    request: Request<Body>,
    next: Next,
) -> Response {
    let path = request.uri().path().to_owned();
    // PostgreSQL cannot store NUL characters, so the request would fail with an error of the database.
    let has_nul = request.uri().path_and_query().is_some_and(|it| it.as_str().contains("%00"));
    if has_nul {
        let detail = "the URL has a NUL character (`%00`); remove it";
        return Problem::of_status(StatusCode::BAD_REQUEST, detail).into_response();
    }
    let id = request.headers().get(REQUEST_ID).and_then(|it| it.to_str().ok()).map(str::to_owned);
    let response = next.run(request).await;
    if let Some(problem) = response.extensions().get::<Problem>() {
        problem.report_cause_of(&world, id.as_deref());
    }
    let status = response.status();
    if !(status.is_client_error() || status.is_server_error()) || is_final(response.headers()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let body = http_body_util::Limited::new(body, LONGEST_TEXT).collect().await;
    let text = body.map(|it| String::from_utf8_lossy(&it.to_bytes()).into_owned());
    let detail = match (status, text.unwrap_or_default()) {
        (StatusCode::NOT_FOUND, _) => {
            format!("there is no `{path}`; `/openapi.json` lists all paths")
        }
        (StatusCode::METHOD_NOT_ALLOWED, _) => {
            format!("`{path}` does not have this method; the header `allow` lists its methods")
        }
        (_, text) if text.is_empty() => "the request was refused".to_owned(),
        (_, text) => text,
    };
    let problem = Problem::of_status(status, detail).into_response();
    // Keep headers such as `allow`, but not those that describe the old body.
    let (new, body) = problem.into_parts();
    for name in [CONTENT_TYPE, axum::http::header::CONTENT_LENGTH] {
        parts.headers.remove(name);
    }
    parts.headers.extend(new.headers);
    Response::from_parts(parts, body)
}

/// Returns true if the body is an error of this server: a problem, or a page that shows a problem.
fn is_final(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    kind == PROBLEM_JSON.as_bytes() || kind.starts_with(b"text/html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_is_no_failure_of_the_database() {
        let problem = Problem::from(StoreError::Panicked);
        assert_eq!((problem.status, problem.detail.as_str()), (500, BUG));
        assert_eq!(problem.cause.as_deref(), Some("the reading of a trace panicked"));
    }

    #[test]
    fn missing_random_numbers_are_no_failure_of_the_database() {
        let problem = Problem::from(StoreError::Random(getrandom::Error::UNSUPPORTED));
        assert_eq!((problem.status, problem.is("internal")), (500, true));
        assert!(problem.detail.contains("random numbers"), "{}", problem.detail);
        assert!(problem.cause.is_some_and(|it| it.contains("cannot make random numbers")));
    }
}
