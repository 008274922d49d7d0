//! Access to pages: visitors need a cookie with a token. A server without tokens permits all visitors on its machine.
//!
//! A request that changes something must come from a page of this server: its `Origin` is compared with its `Host`.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};

use super::frame::PageError;
use super::login;
use super::request::{cookie, same_origin};
use crate::access::{Caller, Guard, UNAUTHORIZED, caller};
use crate::app::App;
use crate::problem::Problem;
use crate::store::tokens::Scope;

/// Makes all pages of `router` need a token with `scope`. The handlers can take the [`Caller`] as an extension.
pub(super) fn guarded(app: &App, scope: Scope, router: Router<App>) -> Router<App> {
    let guard = Guard { app: app.clone(), scope };
    router.route_layer(from_fn_with_state(guard, check))
}

async fn check(State(guard): State<Guard>, mut request: Request<Body>, next: Next) -> Response {
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    if !is_read && let Err(problem) = same_origin(request.headers()) {
        return PageError::from(problem).into_response();
    }
    match visitor(&guard, request.headers()).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) if problem.is(UNAUTHORIZED) => {
            let path = if is_read { request.uri().path_and_query() } else { None };
            login::needed(path.map_or("/", |it| it.as_str()))
        }
        Err(problem) => PageError::from(problem).into_response(),
    }
}

async fn visitor(guard: &Guard, headers: &HeaderMap) -> Result<Caller, Problem> {
    // Browsers send a cookie to all ports of a host, so the cookie may come from another server. A server without
    // tokens ignores the cookie.
    let text = if guard.app.store.has_tokens().await? { cookie(headers) } else { None };
    caller(guard, headers, text).await
}
