//! `/v1/metrics/feedback` and `/v1/metrics/adoption`: the correlation of scores with opinions, and the use of sets.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Query, State};
use kindlm_stats::{Confidence, Correlation};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::rates::{bad, time};
use crate::access::guarded;
use crate::app::App;
use crate::problem::Problem;
use crate::store::adoption::{Adoption, Durations};
use crate::store::feedback_rates::{FeedbackFilter, FeedbackRates};
use crate::store::tokens::Scope;

/// The goal for the time from a new version of a set to the first evaluation with it, in seconds.
const GOAL: u64 = 30;

pub(super) fn routes(app: &App) -> OpenApiRouter<App> {
    let router = OpenApiRouter::new().routes(routes!(feedback)).routes(routes!(adoption));
    guarded(app, Scope::Read, router)
}

/// The query of correlations.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct FeedbackQuery {
    /// The name of the agent; all agents if absent.
    agent: Option<String>,
    /// The earliest time at which samples were received (RFC 3339); no limit if absent.
    #[param(format = DateTime)]
    after: Option<String>,
    /// The time before which samples were received (RFC 3339); no limit if absent.
    #[param(format = DateTime)]
    before: Option<String>,
}

/// The correlation of scores with the opinions of users about the same samples.
#[derive(Serialize, ToSchema)]
pub(crate) struct OpinionCorrelation {
    /// The number of samples with a score and an opinion.
    pub(crate) samples: u64,
    /// Pearson's correlation, from -1 to 1; `null` if all scores or all opinions are equal.
    pub(crate) correlation: Option<f64>,
    /// The lower end of the 95% confidence interval of the correlation; `null` with too few samples.
    pub(crate) low: Option<f64>,
    /// The upper end of the 95% confidence interval of the correlation; `null` with too few samples.
    pub(crate) high: Option<f64>,
}

impl OpinionCorrelation {
    pub(crate) fn new(pairs: &Correlation) -> Self {
        let interval = pairs.interval(Confidence::P95);
        Self {
            samples: pairs.count(),
            correlation: pairs.value(),
            low: interval.map(|it| it.low),
            high: interval.map(|it| it.high),
        }
    }
}

/// The correlation of an assertion.
#[derive(Serialize, ToSchema)]
struct AssertionCorrelation {
    /// The name of the agent.
    agent: String,
    /// The id of a prompt assertion, or the name of another check.
    assertion: String,
    #[serde(flatten)]
    correlation: OpinionCorrelation,
}

/// The opinions of users, and their correlation with scores.
#[derive(Serialize, ToSchema)]
struct FeedbackMetrics {
    /// The number of thumbs up.
    thumbs_up: u64,
    /// The number of thumbs down.
    thumbs_down: u64,
    /// The number of samples with an opinion.
    samples: u64,
    /// The correlation of the opinion about a sample with the mean score of all assertions of the sample.
    overall: OpinionCorrelation,
    /// The correlation of each assertion, by agent and assertion.
    items: Vec<AssertionCorrelation>,
}

/// Returns the correlation of scores with thumbs.
///
/// The opinion about a sample is the share of thumbs up. The correlations do not count samples that were evaluated only
/// because of their `error`.
#[utoipa::path(get, path = "/v1/metrics/feedback", params(FeedbackQuery),
    responses(
        (status = 200, description = "the correlations with 95% confidence intervals", body = FeedbackMetrics),
        (status = 400, description = "a parameter is invalid, or there are too many different scores", body = Problem, content_type = "application/problem+json"),
    ))]
async fn feedback(
    State(app): State<App>,
    Query(query): Query<FeedbackQuery>,
) -> Result<Json<FeedbackMetrics>, Problem> {
    let after = time("after", query.after.as_deref(), 0)?;
    let before = time("before", query.before.as_deref(), i64::MAX)?;
    let filter = FeedbackFilter { agent: query.agent.unwrap_or_default(), received: after..before };
    let rates = app.store.feedback_rates(&filter).await?;
    let rates = rates.ok_or_else(|| bad("there are too many scores; use `agent` or `after`"))?;
    let FeedbackRates { thumbs_up, thumbs_down, samples, overall, assertions } = rates;
    let items = assertions.into_iter().map(|((agent, assertion), pairs)| AssertionCorrelation {
        agent,
        assertion,
        correlation: OpinionCorrelation::new(&pairs),
    });
    let (overall, items) = (OpinionCorrelation::new(&overall), items.collect());
    Ok(Json(FeedbackMetrics { thumbs_up, thumbs_down, samples, overall, items }))
}

/// The query of the use of assertion sets.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AdoptionQuery {
    /// The earliest time that counts (RFC 3339); no limit if absent.
    #[param(format = DateTime)]
    after: Option<String>,
    /// The end of the time that counts (RFC 3339), not included; no limit if absent.
    #[param(format = DateTime)]
    before: Option<String>,
}

/// A distribution of durations in whole seconds, rounded up.
#[derive(Serialize, ToSchema)]
pub(crate) struct VerdictTimes {
    /// The number of durations.
    pub(crate) count: u64,
    /// The median; `null` without durations.
    pub(crate) median_seconds: Option<u64>,
    /// The 95th percentile; `null` without durations.
    pub(crate) p95_seconds: Option<u64>,
    /// The number of durations of at most 30 seconds.
    pub(crate) within_30_seconds: u64,
}

impl VerdictTimes {
    pub(crate) fn new(durations: &Durations) -> Self {
        let count: u64 = durations.values().sum();
        let quantile = |percent: u64| {
            let rank = (count * percent).div_ceil(100);
            let mut sum = 0;
            let is_reached = |(_, number): &(&u64, &u64)| {
                sum += **number;
                sum >= rank
            };
            durations.iter().find(is_reached).map(|(seconds, _)| *seconds)
        };
        Self {
            count,
            median_seconds: quantile(50),
            p95_seconds: quantile(95),
            within_30_seconds: durations.range(..=GOAL).map(|(_, number)| number).sum(),
        }
    }
}

/// The use of assertion sets by people.
#[derive(Serialize, ToSchema)]
struct AdoptionMetrics {
    /// The number of agents that have a set, or samples from `after` to `before`.
    agents: u64,
    /// The number of agents that have a set now.
    agents_with_set: u64,
    /// The number of sets with a new version from `after` to `before`.
    sets_edited: u64,
    /// The number of new versions.
    edits: u64,
    /// The number of different names of the tokens that stored the new versions.
    authors: u64,
    /// The durations from a new version to the end of the first evaluation with it. Versions without an evaluation do
    /// not count.
    edit_to_verdict: VerdictTimes,
    /// The durations of the evaluations that people started, by page: `playground`, `set` or `panel`.
    page_evaluations: BTreeMap<String, VerdictTimes>,
}

/// Returns the use of assertion sets by people: new versions, the time until the first evaluation with each, and agents
/// with a set.
///
/// Evaluations on pages are counted by whole days (UTC).
#[utoipa::path(get, path = "/v1/metrics/adoption", params(AdoptionQuery),
    responses(
        (status = 200, description = "the numbers", body = AdoptionMetrics),
        (status = 400, description = "a parameter is invalid", body = Problem, content_type = "application/problem+json"),
    ))]
async fn adoption(
    State(app): State<App>,
    Query(query): Query<AdoptionQuery>,
) -> Result<Json<AdoptionMetrics>, Problem> {
    let after = time("after", query.after.as_deref(), 0)?;
    let before = time("before", query.before.as_deref(), i64::MAX)?;
    let Adoption { agents, agents_with_set, sets_edited, edits, authors, edit_to_verdict, pages } =
        app.store.adoption(after..before).await?;
    let pages = pages.into_iter().map(|(page, times)| (page, VerdictTimes::new(&times)));
    Ok(Json(AdoptionMetrics {
        agents,
        agents_with_set,
        sets_edited,
        edits,
        authors,
        edit_to_verdict: VerdictTimes::new(&edit_to_verdict),
        page_evaluations: pages.collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_single_times() {
        let none = VerdictTimes::new(&Durations::new());
        assert_eq!((none.count, none.median_seconds, none.p95_seconds), (0, None, None));
        let times = VerdictTimes::new(&Durations::from([(1, 10), (30, 9), (31, 1)]));
        assert_eq!((times.count, times.within_30_seconds), (20, 19));
        assert_eq!((times.median_seconds, times.p95_seconds), (Some(1), Some(30)));
        let one = VerdictTimes::new(&Durations::from([(40, 1)]));
        assert_eq!(
            (one.median_seconds, one.p95_seconds, one.within_30_seconds),
            (Some(40), Some(40), 0)
        );
    }
}
