//! Bearer tokens (RFC 6750): which requests need a token, and with which scope.
//!
//! A server is open until its first token is created. An open server answers only requests from this machine.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use utoipa::openapi::path::PathItem;
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Content, OpenApi, Ref, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;
use crate::local;
use crate::problem::{PROBLEM_JSON, Problem};
use crate::store::tokens::Scope;

/// The name of the security scheme in the OpenAPI description.
pub(crate) const SCHEME: &str = "token";

/// The sender of a request. Both texts are empty on a server without tokens.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// The id of the token.
    pub(crate) id: String,
    /// The name of the token.
    pub(crate) name: String,
}

#[derive(Clone)]
struct Guard {
    app: App,
    scope: Scope,
}

/// Makes all routes of `router` need a token with `scope`, and describes this in its OpenAPI description.
///
/// The handlers can take the [`Caller`] as an extension.
pub(crate) fn guarded(app: &App, scope: Scope, router: OpenApiRouter<App>) -> OpenApiRouter<App> {
    let guard = Guard { app: app.clone(), scope };
    let mut router = router.route_layer(from_fn_with_state(guard, check));
    describe(router.get_openapi_mut(), scope);
    router
}

async fn check(State(guard): State<Guard>, mut request: Request<Body>, next: Next) -> Response {
    match caller(&guard, request.headers()).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => refusal(problem),
    }
}

async fn caller(guard: &Guard, headers: &HeaderMap) -> Result<Caller, Problem> {
    let unauthorized =
        |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail);
    let store = &guard.app.store;
    if !headers.contains_key(AUTHORIZATION) && !store.has_tokens().await? {
        return match local::refusal(headers) {
            Some(why) => Err(Problem::new(StatusCode::FORBIDDEN, "not-local", why)),
            None => Ok(Caller::default()),
        };
    }
    let Some(text) = bearer(headers) else {
        return Err(unauthorized(
            "the request has no token; send the header `Authorization: Bearer <token>` once",
        ));
    };
    let found = store.find_token(text).await?;
    let token = found.ok_or_else(|| unauthorized("the token is unknown or revoked"))?;
    if token.permits(guard.scope) {
        return Ok(Caller { id: token.id, name: token.name });
    }
    let detail = format!("the token does not have the scope `{}`", guard.scope.name());
    Err(Problem::new(StatusCode::FORBIDDEN, "scope", detail))
}

/// Returns the token of a request with exactly one `Authorization: Bearer`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (scheme, token) = values.next()?.to_str().ok()?.split_once(' ')?;
    let is_single = values.next().is_none();
    (is_single && scheme.eq_ignore_ascii_case("bearer")).then(|| token.trim())
}

fn refusal(problem: Problem) -> Response {
    let is_unauthorized = problem.status == StatusCode::UNAUTHORIZED.as_u16();
    let mut response = problem.into_response();
    if is_unauthorized {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Adds the scope and the refusals to all operations of a description.
fn describe(api: &mut OpenApi, scope: Scope) {
    let refusals = [
        ("401", "the request has no valid token".to_owned()),
        ("403", format!("the token does not have the scope `{}`", scope.name())),
        ("503", "the database does not answer".to_owned()),
    ];
    for PathItem { get, put, post, delete, .. } in api.paths.paths.values_mut() {
        for operation in [get, put, post, delete].into_iter().flatten() {
            operation.security = Some(vec![
                SecurityRequirement::new(SCHEME, [scope.name()]),
                SecurityRequirement::default(),
            ]);
            for (status, description) in &refusals {
                let content = Content::new(Some(Ref::from_schema_name("Problem")));
                let response = ResponseBuilder::new().description(description.clone());
                let response = response.content(PROBLEM_JSON, content).build();
                operation.responses.responses.insert((*status).to_owned(), response.into());
            }
        }
    }
}
