//! Work that would block other requests for too long: [`blocking`].

use axum::http::StatusCode;

use crate::problem::{BUG, Problem};

/// Runs work that would block other requests for too long, in a thread of its own.
///
/// # Errors
///
/// Fails with the status 500 if the work panics. An error of the work is a part of `T`.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|err| {
        let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", BUG);
        Problem { cause: Some(err.to_string()), ..problem }
    })
}
