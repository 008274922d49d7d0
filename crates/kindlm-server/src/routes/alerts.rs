//! `/v1/alerts`: the alerts about fallen pass rates.

use axum::Json;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::guarded;
use crate::alerts::Alert;
use crate::app::App;
use crate::problem::Problem;
use crate::store::alerts::AlertFilter;
use crate::store::tokens::Scope;

pub(super) fn routes(app: &App) -> OpenApiRouter<App> {
    guarded(app, Scope::Read, OpenApiRouter::new().routes(routes!(list)))
}

/// The query of alerts.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AlertQuery {
    /// The name of the agent; all agents if absent.
    agent: Option<String>,
    /// True for the alerts that stand, false for the ended alerts; all if absent.
    standing: Option<bool>,
}

/// Alerts about fallen pass rates.
#[derive(Serialize, ToSchema)]
struct AlertList {
    /// The alerts, the newest first.
    items: Vec<Alert>,
}

/// Lists the newest alerts, at most 1,000. Each assertion of an agent has at most one alert that stands.
#[utoipa::path(get, path = "/v1/alerts", params(AlertQuery),
    responses(
        (status = 200, description = "the alerts", body = AlertList),
        (status = 400, description = "a parameter is invalid", body = Problem, content_type = "application/problem+json"),
    ))]
async fn list(
    State(app): State<App>,
    Query(AlertQuery { agent, standing }): Query<AlertQuery>,
) -> Result<Json<AlertList>, Problem> {
    let filter = AlertFilter { agent: agent.unwrap_or_default(), standing };
    Ok(Json(AlertList { items: app.alerts.list(&app.store, &filter, app.runs.world()).await? }))
}
