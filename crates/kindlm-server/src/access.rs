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
use crate::store::tokens::{Scope, Token};

/// The name of the security scheme in the OpenAPI description.
pub(crate) const SCHEME: &str = "token";

/// The kind of the error of a request without a valid token.
pub(crate) const UNAUTHORIZED: &str = "unauthorized";

/// The sender of a request: its token, or `None` on a server without tokens.
#[derive(Clone, Debug)]
pub(crate) struct Caller(Option<Token>);

impl Caller {
    /// Returns the id of the token; an empty text on a server without tokens.
    pub(crate) fn id(&self) -> &str {
        self.0.as_ref().map_or("", |it| &it.id)
    }

    /// Returns the name of the token; an empty text on a server without tokens.
    pub(crate) fn name(&self) -> &str {
        self.0.as_ref().map_or("", |it| &it.name)
    }

    /// Checks that the sender may do what `scope` permits. A server without tokens permits everything.
    ///
    /// # Errors
    ///
    /// Fails with the status 403 if the token does not have the scope.
    pub(crate) fn require(&self, scope: Scope) -> Result<(), Problem> {
        if self.0.as_ref().is_none_or(|it| it.permits(scope)) {
            return Ok(());
        }
        let name = scope.name();
        let detail = format!("the token does not have the scope `{name}`; use a token that has it");
        Err(Problem::new(StatusCode::FORBIDDEN, "scope", detail))
    }
}

/// The scope that a group of routes needs, and the services that look up tokens.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) app: App,
    pub(crate) scope: Scope,
}

/// Makes all routes of `router` need a token with `scope`, and adds this to the OpenAPI description of the routes.
///
/// The handlers can take the [`Caller`] as an extension.
pub(crate) fn guarded(app: &App, scope: Scope, router: OpenApiRouter<App>) -> OpenApiRouter<App> {
    let guard = Guard { app: app.clone(), scope };
    let mut router = router.route_layer(from_fn_with_state(guard, check));
    describe(router.get_openapi_mut(), scope);
    router
}

async fn check(State(guard): State<Guard>, mut request: Request<Body>, next: Next) -> Response {
    match caller(&guard, request.headers(), bearer(request.headers())).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => refusal(problem),
    }
}

/// Finds the sender of a request. `text` is the token of the request; `None` if the request has none.
///
/// # Errors
///
/// Fails if:
///
/// - the token is invalid, or does not have the scope
/// - the server has tokens, and the request has none
/// - the server and the request have no token, and the request does not come from this machine
/// - the database fails
pub(crate) async fn caller(
    guard: &Guard,
    headers: &HeaderMap,
    text: Option<&str>,
) -> Result<Caller, Problem> {
    let store = &guard.app.store;
    let unauthorized = |detail| Problem::new(StatusCode::UNAUTHORIZED, UNAUTHORIZED, detail);
    let missing = "the request has no token; send the header `Authorization: Bearer <token>` once";
    if text.is_some_and(str::is_empty) {
        let detail = "the request has no valid token; send exactly one header `Authorization: Bearer <token>`";
        return Err(unauthorized(detail));
    }
    let Some(text) = text else {
        if store.has_tokens().await? {
            return Err(unauthorized(missing));
        }
        return match local::refusal(headers) {
            Some(why) => Err(Problem::new(StatusCode::FORBIDDEN, "not-local", why)),
            None => Ok(Caller(None)),
        };
    };
    let token = store.find_token(text).await?;
    let token = token.ok_or_else(|| unauthorized("the token is unknown or revoked"))?;
    let caller = Caller(Some(token));
    caller.require(guard.scope)?;
    Ok(caller)
}

/// Returns the token of the header `Authorization: Bearer <token>`; `None` without the header.
///
/// Returns an empty text if the header is repeated, or has another form.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.contains_key(AUTHORIZATION).then(|| {
        let value = local::single(headers, AUTHORIZATION).and_then(|it| it.split_once(' '));
        let bearer = value.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        bearer.map_or("", |(_, token)| token.trim())
    })
}

fn refusal(problem: Problem) -> Response {
    let is_unauthorized = problem.status == StatusCode::UNAUTHORIZED.as_u16();
    let mut response = problem.into_response();
    if is_unauthorized {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Adds the scope and the error responses (401, 403 and 503) to all operations of a description.
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
