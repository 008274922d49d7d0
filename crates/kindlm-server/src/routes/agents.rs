//! `/v1/agents`: the assertion set and the sampling rate of each agent.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::{is_short, json};
use crate::access::{Caller, guarded};
use crate::app::App;
use crate::problem::Problem;
use crate::records;
use crate::store::agents::{Agent, AgentSettings, DailyBudget};
use crate::store::sampling::{Strata, is_rate};
use crate::store::spending::{Spent, today};
use crate::store::tokens::Scope;

pub(super) fn routes(app: &App) -> OpenApiRouter<App> {
    let reads = OpenApiRouter::new().routes(routes!(list));
    let writes = OpenApiRouter::new().routes(routes!(put, remove));
    guarded(app, Scope::Read, reads).merge(guarded(app, Scope::Admin, writes))
}

/// The evaluation of the samples of an agent.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct AgentBody {
    /// The assertion set: `name` for its newest version, or `name@version`.
    set: String,
    /// The share of the samples that is evaluated: 0, or from 0.000001 to 1; 1 by default. It is rounded to a
    /// millionth.
    #[serde(default = "all")]
    #[schema(minimum = 0, maximum = 1)]
    rate: f64,
    /// The rates of groups of samples, in place of `rate`: by the version of the agent, or by a key of `metadata`.
    strata: Option<Strata>,
    /// The budget of a day (UTC): `evaluations`, `usd`, or both. When it is spent, samples are stored and not
    /// evaluated.
    daily_budget: Option<DailyBudget>,
}

/// An agent, and its evaluations of the current day (UTC).
#[derive(Serialize, ToSchema)]
struct AgentToday {
    #[serde(flatten)]
    agent: Agent,
    spent_today: Spent,
}

fn all() -> f64 {
    1.0
}

/// Sets the assertion set, the sampling rate and the daily budget of an agent.
///
/// The rate applies to samples that are stored from now on. The set applies to each sample that is not evaluated yet.
///
/// The id of a sample and the rate decide if the sample is evaluated. A sample with an `error` is always evaluated.
#[utoipa::path(put, path = "/v1/agents/{name}",
    params(("name" = String, Path, description = "the `agent` of its samples")),
    request_body(content = AgentBody, content_type = "application/json"),
    responses(
        (status = 200, description = "the agent", body = Agent),
        (status = 400, description = "the body is not JSON", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "the body is larger than 8 MiB", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "the body is not `application/json`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "a value is invalid, or the set is unknown", body = Problem, content_type = "application/problem+json"),
    ))]
async fn put(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Agent>, Problem> {
    const RATE: &str = "expected 0, or a number from 0.000001 to 1";
    let AgentBody { set, rate, strata, daily_budget } = json(&headers, &body, "invalid-agent")?;
    let invalid =
        |detail: &str| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-agent", detail);
    if !is_short(&name) {
        return Err(invalid(
            "the name of an agent has 1 to 100 characters, without control characters",
        ));
    }
    if !is_rate(rate) {
        return Err(invalid(&format!("`rate`: {RATE}")));
    }
    if let Some(strata) = &strata {
        if !strata.has_property() {
            return Err(invalid("`strata.by`: expected `version` or `metadata.<key>`"));
        }
        if let Some((group, _)) = strata.rates.iter().find(|(_, rate)| !is_rate(**rate)) {
            return Err(invalid(&format!("`strata.rates`: \"{group}\": {RATE}")));
        }
    }
    if daily_budget.is_some_and(|it| it == DailyBudget::default()) {
        return Err(invalid("`daily_budget`: expected `evaluations`, `usd` or both"));
    }
    if daily_budget.and_then(|it| it.usd).is_some_and(|it| it < 0.0) {
        return Err(invalid("`daily_budget.usd`: expected a number from 0"));
    }
    records::find(&app, &Value::from(set.as_str())).await?;
    let settings = AgentSettings { set, rate, strata, daily_budget };
    Ok(Json(app.store.put_agent(&name, &settings, caller.name()).await?))
}

/// Removes an agent: its samples are stored and not evaluated, and its alerts end.
///
/// Its samples and results stay; `DELETE /v1/samples?agent=<name>` deletes them.
#[utoipa::path(delete, path = "/v1/agents/{name}",
    params(("name" = String, Path, description = "the name of the agent")),
    responses(
        (status = 204, description = "the agent is removed"),
        (status = 404, description = "the agent has no set", body = Problem, content_type = "application/problem+json"),
    ))]
async fn remove(State(app): State<App>, Path(name): Path<String>) -> Result<StatusCode, Problem> {
    if app.store.remove_agent(&name).await? {
        return Ok(StatusCode::NO_CONTENT);
    }
    let detail = format!("the agent \"{name}\" has no set; `GET /v1/agents` lists all agents");
    Err(Problem::new(StatusCode::NOT_FOUND, "unknown-agent", detail))
}

/// Lists the agents whose samples are evaluated, by name.
#[utoipa::path(get, path = "/v1/agents",
    responses((status = 200, description = "the agents", body = Vec<AgentToday>)))]
async fn list(State(app): State<App>) -> Result<Json<Vec<AgentToday>>, Problem> {
    let mut spent = app.store.spent_on(today()).await?;
    let today = |agent: Agent| {
        let spent_today = spent.remove(&agent.name).unwrap_or_default();
        AgentToday { agent, spent_today }
    };
    Ok(Json(app.store.agents().await?.into_iter().map(today).collect()))
}
