//! `/v1/metrics/assertions` and `/metrics`: numbers about samples and the process.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use kindlm_stats::Confidence;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::guarded;
use crate::app::App;
use crate::ewma::{WeightedRate, half_life};
use crate::problem::Problem;
use crate::store::rates::{Counts, Period, PeriodResults, RateFilter, RateKey};
use crate::store::releases::Release;
use crate::store::time_text;
use crate::store::tokens::Scope;

/// The media type of `/metrics`.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn routes(app: &App) -> OpenApiRouter<App> {
    let router = OpenApiRouter::new().routes(routes!(assertions)).routes(routes!(metrics));
    guarded(app, Scope::Read, router)
}

/// The query of pass rates.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RateQuery {
    /// The name of the agent; all agents if absent.
    agent: Option<String>,
    /// The id of a prompt assertion, or the name of another check; all if absent.
    assertion: Option<String>,
    /// The version of the assertion set, `name@version`; all if absent.
    set: Option<String>,
    /// A tag of the samples; all samples if absent.
    tag: Option<String>,
    /// The earliest time at which samples were received (RFC 3339); no limit if absent.
    #[param(format = DateTime)]
    after: Option<String>,
    /// The time before which samples were received (RFC 3339); no limit if absent.
    #[param(format = DateTime)]
    before: Option<String>,
    /// The width of a period: `hour`, `day` (the default) or `week`. Days start at 0:00 UTC, weeks on Mondays.
    #[param(inline)]
    period: Option<Period>,
}

/// The results of an assertion in a period.
#[derive(Serialize, ToSchema)]
struct AssertionRate {
    /// The name of the agent.
    agent: String,
    /// The id of a prompt assertion, or the name of another check.
    assertion: String,
    /// The version of the agent; empty if it is not known.
    version: String,
    /// The version of the assertion set: `name@version`.
    set: String,
    /// The start of the period (RFC 3339).
    start: String,
    /// The number of results that passed.
    passed: u64,
    /// The number of results that failed.
    failed: u64,
    /// The number of results that could not be decided.
    errored: u64,
    /// The number of results of assertions that did not apply.
    skipped: u64,
    /// The share of passes among passes and failures, from 0 to 1; `null` without passes and failures. If the samples
    /// were chosen with different sampling rates, the weight of each result is the inverse of its sampling rate.
    pass_rate: Option<f64>,
    /// The sum of the sampling weights of the passes and failures. The average of several rates uses it as the weight of
    /// each `pass_rate`.
    weight: f64,
    /// The lower end of the 95% confidence interval of the pass rate (Wilson); `null` without passes and failures.
    low: Option<f64>,
    /// The upper end of the 95% confidence interval of the pass rate; `null` without passes and failures.
    high: Option<f64>,
    /// The exponentially weighted pass rate of this period and the earlier periods since `after`; `null` without passes
    /// and failures. It combines only periods with the same agent, assertion, version and set. The half-life is 12
    /// hours for `period=hour`, 7 days for `day`, and 4 weeks for `week`.
    weighted_pass_rate: Option<f64>,
    /// The results of the samples that were evaluated only because of their `error`; absent if there are none. The
    /// other numbers do not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_samples: Option<ErrorSamples>,
}

/// The results of samples that the sampling rate did not choose, and that were evaluated because of their `error`.
#[derive(Serialize, ToSchema)]
struct ErrorSamples {
    /// The number of results that passed.
    passed: u64,
    /// The number of results that failed.
    failed: u64,
    /// The number of results that could not be decided.
    errored: u64,
    /// The number of results of assertions that did not apply.
    skipped: u64,
}

impl ErrorSamples {
    fn new(counts: Counts) -> Option<Self> {
        let Counts { passed, failed, errored, skipped } = counts;
        (counts.total() > 0).then_some(Self { passed, failed, errored, skipped })
    }
}

impl AssertionRate {
    fn new(key: RateKey, results: PeriodResults, weighted_pass_rate: Option<f64>) -> Self {
        let RateKey { agent, assertion, version, set, start } = key;
        let PeriodResults { counts, tally, of_errors } = results;
        let Counts { passed, failed, errored, skipped } = counts;
        let interval = tally.wilson(Confidence::P95);
        let start = time_text(start);
        Self {
            agent,
            assertion,
            version,
            set,
            start,
            passed,
            failed,
            errored,
            skipped,
            pass_rate: tally.rate(),
            weight: tally.total(),
            low: interval.map(|it| it.low),
            high: interval.map(|it| it.high),
            weighted_pass_rate,
            error_samples: ErrorSamples::new(of_errors),
        }
    }
}

/// The first sample of a version of an agent.
#[derive(Serialize, ToSchema)]
struct AgentRelease {
    /// The name of the agent.
    agent: String,
    /// The version of the agent.
    version: String,
    /// The time at which the first sample was received (RFC 3339).
    since: String,
}

/// The pass rates of assertions over time.
#[derive(Serialize, ToSchema)]
struct AssertionRates {
    /// The rates by agent, assertion, version, set and time.
    items: Vec<AssertionRate>,
    /// The versions of agents whose first sample was received from `after` to `before`: the newest 1,000, sorted by
    /// time.
    releases: Vec<AgentRelease>,
}

/// Adds the exponentially weighted rate to the rates of each series. The order of `rates` is by series, then by time.
fn weighted(rates: BTreeMap<RateKey, PeriodResults>, period: Period) -> Vec<AssertionRate> {
    let mut series: Option<(RateKey, WeightedRate)> = None;
    let mut items = Vec::new();
    for (key, results) in rates {
        let is_same = |it: &RateKey| RateKey { start: key.start, ..it.clone() } == key;
        let mut rate = match series.take() {
            Some((before, rate)) if is_same(&before) => rate,
            _ => WeightedRate::new(half_life(period.milliseconds())),
        };
        let weighted = rate.add(key.start, results.tally);
        series = Some((key.clone(), rate));
        items.push(AssertionRate::new(key, results, weighted));
    }
    items
}

/// Returns the error (status 400) of an invalid query.
pub(super) fn bad(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "invalid-query", detail)
}

/// Reads the time of a parameter, in milliseconds since 1970; `default` if the parameter is absent.
pub(super) fn time(name: &str, text: Option<&str>, default: i64) -> Result<i64, Problem> {
    let Some(text) = text else { return Ok(default) };
    text.parse::<Timestamp>().map(Timestamp::as_millisecond).map_err(|err| {
        bad(format!("`{name}`: expected a time such as 2026-01-31T00:00:00Z: {err}"))
    })
}

/// Returns the pass rate of each assertion over time, by agent, version and assertion set.
#[utoipa::path(get, path = "/v1/metrics/assertions", params(RateQuery),
    responses(
        (status = 200, description = "the pass rates with 95% confidence intervals", body = AssertionRates),
        (status = 400, description = "a parameter is invalid, or the time has too many periods", body = Problem, content_type = "application/problem+json"),
    ))]
async fn assertions(
    State(app): State<App>,
    Query(query): Query<RateQuery>,
) -> Result<Json<AssertionRates>, Problem> {
    let after = time("after", query.after.as_deref(), 0)?;
    let before = time("before", query.before.as_deref(), i64::MAX)?;
    let filter = RateFilter {
        agent: query.agent.unwrap_or_default(),
        assertion: query.assertion.unwrap_or_default(),
        set: query.set.unwrap_or_default(),
        tag: query.tag.unwrap_or_default(),
        received: after..before,
        period: query.period.unwrap_or(Period::Day),
    };
    let rates = app.store.rates(&filter).await?.ok_or_else(|| {
        bad("the response would be too long; use `agent`, `after` or a longer `period`")
    })?;
    let releases = app.store.releases(&filter.agent, filter.received).await?;
    let releases = releases.into_iter().map(|Release { agent, version, since }| AgentRelease {
        agent,
        version,
        since: time_text(since),
    });
    Ok(Json(AssertionRates { items: weighted(rates, filter.period), releases: releases.collect() }))
}

/// Returns the numbers of this process for Prometheus, in the text format of `OpenMetrics`.
#[utoipa::path(get, path = "/metrics",
    responses((status = 200, description = "the numbers", body = String, content_type = "application/openmetrics-text")))]
async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    let states = app.store.sample_states().await?;
    let text = app.metrics.text(&states, app.store.standing_alerts().await?).map_err(|err| {
        let detail = format!("cannot write the metrics: {err}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    })?;
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_series_is_weighted_by_itself() {
        let key = |version: &str, start| RateKey {
            agent: "shop".to_owned(),
            assertion: "polite".to_owned(),
            version: version.to_owned(),
            set: "s@1".to_owned(),
            start,
        };
        let day = Period::Day.milliseconds();
        let counts = |passed, failed| {
            let mut results = PeriodResults::default();
            results.tally.add(passed, failed, 1.0);
            results
        };
        let rates = BTreeMap::from([
            (key("v1", 0), counts(4, 0)),
            (key("v1", 7 * day), counts(0, 2)),
            (key("v2", 7 * day), counts(0, 2)),
            (key("v3", 0), counts(0, 0)),
        ]);
        // Of 4 passes, 2 are left after the half-life of 7 days.
        let expected = [Some(1.0), Some(0.5), Some(0.0), None];
        for (item, expected) in weighted(rates, Period::Day).iter().zip(expected) {
            let found = item.weighted_pass_rate;
            assert_eq!(found.is_some(), expected.is_some(), "{} {}", item.version, item.start);
            assert!((found.unwrap_or(0.0) - expected.unwrap_or(0.0)).abs() < 1e-12);
        }
    }
}
