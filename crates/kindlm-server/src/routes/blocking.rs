//! Work that would stop other requests for too long: [`blocking`].

use axum::http::StatusCode;

use crate::problem::Problem;

/// Runs work that would stop other requests for too long.
///
/// # Errors
///
/// Fails if the work panics.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|err| {
        let detail = "the server has a bug; the standard error of the server has the details";
        let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail);
        Problem { cause: Some(err.to_string()), ..problem }
    })
}
