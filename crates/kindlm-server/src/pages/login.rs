//! `/login` and `/logout`: a token in a form becomes a cookie that no script can read.

use askama::Template;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::{ORIGIN, SET_COOKIE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use axum::{Form, Router};
use serde::Deserialize;

use super::frame::{Frame, PageError, page};
use super::request::{COOKIE_NAME, same_origin};
use crate::app::App;

/// The maximum size of a form, in bytes. The limit is low, because the sender has not logged in.
const MAX_FORM: usize = 4096;

pub(super) fn routes() -> Router<App> {
    let routes =
        Router::new().route("/login", get(show).post(log_in)).route("/logout", post(log_out));
    routes.layer(DefaultBodyLimit::max(MAX_FORM))
}

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    frame: Frame,
    /// The page that is shown after the login.
    next: String,
    /// The path of the page that was requested without a valid cookie; empty if the login page was requested.
    again: String,
    error: &'static str,
}

impl LoginPage {
    fn new(next: &str) -> Self {
        let frame = Frame { title: "Log in".to_owned(), ..Frame::default() };
        Self { frame, next: next.to_owned(), again: String::new(), error: "" }
    }
}

/// Makes a response with the login form in place of the page with this path.
///
/// A browser does not send the cookie if the visitor follows a link from another site. So the login page has a link to
/// the requested page.
pub(super) fn needed(path: &str) -> Response {
    let shown = LoginPage { again: path.to_owned(), ..LoginPage::new(path) };
    refused(&shown)
}

fn refused(shown: &LoginPage) -> Response {
    let mut response = page(StatusCode::UNAUTHORIZED, shown);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

async fn show(State(app): State<App>) -> Result<Response, PageError> {
    if !app.store.has_tokens().await? {
        return Ok(Redirect::to("/").into_response());
    }
    Ok(page(StatusCode::OK, &LoginPage::new("/")))
}

#[derive(Deserialize)]
struct LoginForm {
    token: String,
    #[serde(default)]
    next: String,
}

async fn log_in(
    State(app): State<App>,
    headers: HeaderMap,
    Form(form): Form<LoginForm>,
) -> Result<Response, PageError> {
    same_origin(&headers)?;
    let next = if is_own_path(&form.next) { form.next } else { "/".to_owned() };
    let token = form.token.trim();
    if app.store.find_token(token).await?.is_none() {
        let error = "The token is unknown or revoked.";
        return Ok(refused(&LoginPage { error, ..LoginPage::new(&next) }));
    }
    Ok(([(SET_COOKIE, cookie(token, &headers))], Redirect::to(&next)).into_response())
}

async fn log_out(headers: HeaderMap) -> Result<Response, PageError> {
    same_origin(&headers)?;
    let ended = cookie("", &headers) + "; Max-Age=0";
    Ok(([(SET_COOKIE, ended)], Redirect::to("/login")).into_response())
}

/// Returns the value of the header `set-cookie`. Browsers delete the cookie when they are closed.
fn cookie(token: &str, headers: &HeaderMap) -> String {
    let origin = headers.get(ORIGIN).map_or(&[][..], HeaderValue::as_bytes);
    let secure = if origin.starts_with(b"https://") { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={token}; Path=/; HttpOnly; SameSite=Strict{secure}")
}

/// Returns true if a text is a path of this server, and not an address of another server.
fn is_own_path(text: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_graphic() && it != '\\';
    text.starts_with('/') && !text.starts_with("//") && text.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_paths_follow_a_login() {
        for (text, expected) in [
            ("/", true),
            ("/runs/2026?x=1", true),
            ("", false),
            ("runs", false),
            ("//evil.test", false),
            ("/\\evil.test", false),
            ("https://evil.test", false),
            ("/a\r\nset-cookie: x", false),
        ] {
            assert_eq!(is_own_path(text), expected, "{text:?}");
        }
    }
}
