//! `/static/…`: the style sheet, the scripts and the icon. Visitors need no token for these files.

use axum::Router;
use axum::extract::Path;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

use crate::app::App;
use crate::routes::runs::with_etag;

const STYLE: &str = include_str!("style.css");
const EVENTS: &str = include_str!("events.js");
const TIMES: &str = include_str!("times.js");
const LIVE: &str = include_str!("live.js");
const PLAYGROUND: &str = include_str!("playground.js");
const PANEL: &str = include_str!("panel.js");
const PANEL_CARDS: &str = include_str!("panel-cards.js");
const ICON: &str = include_str!("icon.svg");

pub(super) fn routes() -> Router<App> {
    Router::new().route("/static/{name}", get(asset))
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let (media_type, text) = match name.as_str() {
        // The pages look like the report of a run, so they share its style sheet.
        "style.css" => {
            ("text/css; charset=utf-8", [kindlm_reporters::html_style(), STYLE].concat())
        }
        "events.js" => ("text/javascript; charset=utf-8", EVENTS.to_owned()),
        "times.js" => ("text/javascript; charset=utf-8", TIMES.to_owned()),
        "live.js" => ("text/javascript; charset=utf-8", LIVE.to_owned()),
        "playground.js" => ("text/javascript; charset=utf-8", PLAYGROUND.to_owned()),
        "panel.js" => ("text/javascript; charset=utf-8", PANEL.to_owned()),
        "panel-cards.js" => ("text/javascript; charset=utf-8", PANEL_CARDS.to_owned()),
        "icon.svg" => ("image/svg+xml", ICON.to_owned()),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let mut response = with_etag(&headers, media_type, false, text.into_bytes());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
