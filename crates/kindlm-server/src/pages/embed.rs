//! `/embed/…`: a panel that an agent builder on another origin shows in a frame.
//!
//! `--embed-origin` permits the origins. The panel and its host exchange messages with `postMessage`. The host gives a
//! token to the panel, and the panel sends the token with its requests to `/v1`. So the panel needs no cookie.

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde::Deserialize;

use super::frame::{PageError, ok};
use crate::app::App;
use crate::problem::Problem;

const ELEMENT: &str = include_str!("kindlm-panel.js");

pub(super) fn routes() -> Router<App> {
    Router::new().route("/embed/panel", get(panel)).route("/embed/kindlm-panel.js", get(element))
}

async fn element() -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("text/javascript; charset=utf-8"))], ELEMENT)
        .into_response()
}

#[derive(Deserialize)]
struct PanelQuery {
    /// The origin of the page around the panel.
    #[serde(default)]
    origin: String,
}

#[derive(Template)]
#[template(path = "panel.html")]
struct PanelPage {
    origin: String,
}

async fn panel(
    State(app): State<App>,
    Query(query): Query<PanelQuery>,
) -> Result<Response, PageError> {
    let Some(origin) = app.embed_origins.iter().find(|it| it.as_str() == query.origin) else {
        let detail = format!(
            "the origin \"{}\" may not show the panel; start the server with `--embed-origin <origin>`",
            query.origin
        );
        return Err(Problem::new(StatusCode::FORBIDDEN, "embed-origin", detail).into());
    };
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         form-action 'none'; base-uri 'none'; frame-ancestors {origin}"
    );
    let mut response = ok(&PanelPage { origin: origin.to_string() });
    let policy = HeaderValue::from_str(&policy).map_err(|_| {
        Problem::of_status(StatusCode::INTERNAL_SERVER_ERROR, "the origin is not a header value")
    })?;
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    Ok(response)
}
