//! Who may open a page: a visitor whose cookie has a token, or anyone on this machine while the server has no token.
//!
//! A request that changes something must come from a page of this server: its `Origin` is compared with its `Host`.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};

use super::frame::PageError;
use super::login;
use super::request::{cookie, same_origin};
use crate::access::Caller;
use crate::app::App;
use crate::local;
use crate::problem::Problem;
use crate::store::tokens::Scope;

#[derive(Clone)]
struct Guard {
    app: App,
    scope: Scope,
}

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
    match caller(&guard, request.headers()).await {
        Ok(Some(caller)) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Ok(None) => {
            let path = if is_read { request.uri().path_and_query() } else { None };
            login::needed(path.map_or("/", |it| it.as_str()))
        }
        Err(problem) => PageError::from(problem).into_response(),
    }
}

/// Returns the visitor; `None` if the visitor must log in.
async fn caller(guard: &Guard, headers: &HeaderMap) -> Result<Option<Caller>, Problem> {
    let store = &guard.app.store;
    if !store.has_tokens().await? {
        return match local::refusal(headers) {
            Some(why) => Err(Problem::new(StatusCode::FORBIDDEN, "not-local", why)),
            None => Ok(Some(Caller::default())),
        };
    }
    let Some(text) = cookie(headers) else { return Ok(None) };
    let Some(token) = store.find_token(text).await? else { return Ok(None) };
    if token.permits(guard.scope) {
        return Ok(Some(Caller { id: token.id, name: token.name }));
    }
    let scope = guard.scope.name();
    let detail = format!(
        "your token does not have the scope `{scope}`; log in with a token that has it, or choose another page"
    );
    Err(Problem::new(StatusCode::FORBIDDEN, "scope", detail))
}
