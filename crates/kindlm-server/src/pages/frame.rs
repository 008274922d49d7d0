//! The parts of all pages: the frame around the content, the headers of the response, and the page of an error.

use std::fmt;

use askama::Template;
use askama::filters::HtmlSafe;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;

use crate::access::Caller;
use crate::problem::Problem;
use crate::store::StoreError;

/// The content security policy. It permits only scripts, styles and requests of this server, and no frame around a
/// page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The frame around the content of a page.
#[derive(Clone, Debug, Default)]
pub(super) struct Frame {
    pub(super) title: String,
    /// The path of the menu entry that the page belongs to; empty for none.
    pub(super) menu: &'static str,
    /// The name of the visitor's token; `None` on a server without tokens.
    pub(super) user: Option<String>,
}

impl Frame {
    pub(super) fn new(title: impl Into<String>, menu: &'static str, caller: &Caller) -> Self {
        let user = (!caller.id().is_empty()).then(|| caller.name().to_owned());
        Self { title: title.into(), menu, user }
    }
}

/// The look of a result: its colour, its mark, and its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) tone: &'static str,
    pub(super) mark: &'static str,
    pub(super) word: &'static str,
}

impl Look {
    /// Returns the look of a status or an outcome by its name in JSON.
    pub(super) fn from_name(name: &str) -> Self {
        let (tone, mark, word) = match name {
            "passed" => ("good", "✓", "passed"),
            "held" => ("good", "✓", "held"),
            "scored" => ("good", "~", "scored"),
            "failed" => ("bad", "✗", "failed"),
            "violated" => ("bad", "✗", "violated"),
            "errored" => ("trouble", "!", "errored"),
            "skipped" => ("none", "–", "skipped"),
            _ => ("none", "–", "not measured"),
        };
        Self { tone, mark, word }
    }
}

/// Renders a page. An error of the template becomes a problem with the status 500.
pub(super) fn page(status: StatusCode, template: &impl Template) -> Response {
    let Ok(html) = template.render() else {
        let detail = "the page cannot be rendered";
        return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail).into_response();
    };
    let headers: [(HeaderName, HeaderValue); 5] = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // With `no-referrer`, browsers send the origin `null` with a form.
        (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
        (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff")),
    ];
    (status, headers, html).into_response()
}

/// Renders a page with the status 200.
pub(super) fn ok(template: &impl Template) -> Response {
    page(StatusCode::OK, template)
}

/// An error that is shown as a page.
#[derive(Debug)]
pub(super) struct PageError(Problem);

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    frame: Frame,
    detail: String,
    /// True if the token lacks a scope, so that another token could open the page.
    needs_scope: bool,
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let needs_scope = self.0.is("scope");
        let Problem { title, status, detail, .. } = self.0.clone();
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let frame = Frame { title, ..Frame::default() };
        self.0.response_with(page(status, &ErrorPage { frame, detail, needs_scope }))
    }
}

impl From<Problem> for PageError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> Self {
        Self(error.into())
    }
}

/// A time. The server writes it in UTC, and `times.js` shows it in the time zone of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment(Option<Timestamp>);

impl Moment {
    /// Reads a time (RFC 3339). A text that is no time is shown as `–`.
    pub(super) fn of_text(time: &str) -> Self {
        Self(time.parse().ok())
    }

    pub(super) fn of_milliseconds(time: i64) -> Self {
        Self(Timestamp::from_millisecond(time).ok())
    }

    /// Returns the time in UTC without seconds, for texts that no script changes.
    pub(super) fn in_utc(self) -> String {
        self.0.map_or_else(|| "–".to_owned(), |it| it.strftime("%Y-%m-%d %H:%M UTC").to_string())
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(time) => write!(f, "<time datetime=\"{time}\">{}</time>", self.in_utc()),
            None => f.write_str("–"),
        }
    }
}

impl HtmlSafe for Moment {}
