//! The cookie and the origin of a request from a browser.

use axum::http::header::{COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};

use crate::local::single;
use crate::problem::Problem;

/// The name of the cookie with the token.
pub(super) const COOKIE_NAME: &str = "kindlm_token";

/// Returns the token in the cookie; `None` without the cookie.
pub(super) fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|it| it.to_str().ok());
    let mut pairs = cookies.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value)
}

/// Checks that a page of this server sent the request. A proxy must pass on the `Host` of the browser.
///
/// # Errors
///
/// Fails if the `Origin` is missing, or is not the `Host`.
pub(super) fn same_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let origin = single(headers, ORIGIN).and_then(|it| it.split_once("://")).map(|(_, it)| it);
    match (origin, single(headers, HOST)) {
        (Some(origin), Some(host)) if origin.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err(Problem::new(
            StatusCode::FORBIDDEN,
            "origin",
            "the request does not come from a page of this server: its `Origin` is not its `Host`",
        )),
    }
}
