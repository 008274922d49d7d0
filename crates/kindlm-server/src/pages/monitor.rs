//! `/monitor`: the alerts that stand, the pass rate of each assertion over time, and the newest samples with failed or
//! errored checks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use askama::Template;
use axum::Router;
use axum::extract::{Extension, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use jiff::Timestamp;
use kindlm_stats::Confidence;
use serde::Deserialize;
use serde_json::Value;

use super::access::guarded;
use super::frame::{Frame, Moment, PageError, ok, page};
use super::sets::short;
use super::today::Today;
use crate::access::Caller;
use crate::alerts::Alert;
use crate::app::App;
use crate::case::{CaseForm, case};
use crate::ewma::{WeightedRate, half_life};
use crate::routes::feedback_rates::{OpinionCorrelation, VerdictTimes};
use crate::store::alerts::AlertFilter;
use crate::store::attention::{AttentionFilter, AttentionSample, SampleCounts};
use crate::store::feedback_rates::{FeedbackFilter, FeedbackRates};
use crate::store::rates::{Counts, Period, PeriodResults, RateFilter, RateKey};
use crate::store::releases::Release;
use crate::store::tokens::Scope;

/// The maximum number of samples in the list.
const LISTED: u32 = 20;

/// The maximum number of charts on the page.
const CHARTS: usize = 100;

/// The maximum number of releases in a chart.
const MARKS: usize = 20;

/// The width of a chart, in the units of its SVG.
const WIDTH: f64 = 640.0;

/// The height of the part with the rates, in the units of the SVG.
const HEIGHT: f64 = 100.0;

/// The height of the bars with the numbers of results, below the rates, in the units of the SVG.
const COUNTS: f64 = 26.0;

/// The width of the space for the labels of the axis, left of the rates, in the units of the SVG.
const LEFT: f64 = 52.0;

pub(super) fn routes(app: &App) -> Router<App> {
    let router = Router::new().route("/monitor", get(show)).route("/monitor/case", get(show_case));
    guarded(app, Scope::Read, router)
}

/// The windows: the name in the URL, the description, the number of periods, and the width of a period.
const WINDOWS: [(&str, &str, i64, Period); 3] = [
    ("day", "the last 24 hours, by hour", 24, Period::Hour),
    ("month", "the last 30 days, by day", 30, Period::Day),
    ("year", "the last 52 weeks, by week", 52, Period::Week),
];

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct MonitorQuery {
    agent: String,
    version: String,
    /// The version of the assertion set.
    set: String,
    tag: String,
    window: String,
}

#[derive(Template)]
#[template(path = "monitor.html")]
struct Monitor {
    frame: Frame,
    query: MonitorQuery,
    agents: Vec<String>,
    windows: Vec<(&'static str, &'static str)>,
    alerts: Vec<Alert>,
    today: Today,
    charts: Vec<Chart>,
    more: usize,
    is_too_long: bool,
    listed: Vec<ListedSample>,
    /// The numbers of samples in the time window.
    counts: SampleCounts,
    usage: Usage,
}

/// The opinions of users and the use of sets in the time window, in words.
struct Usage {
    /// The correlation of scores with thumbs.
    thumbs: String,
    /// The agents with a set, and the edits of sets.
    sets: String,
    /// One line for the times from a new version of a set to its first evaluation, and one line per page for the
    /// durations of evaluations. Lines without durations are left out.
    times: Vec<String>,
}

impl Usage {
    async fn load(app: &App, window: &RateFilter) -> Result<Self, PageError> {
        let RateFilter { agent, received, .. } = window;
        let filter = FeedbackFilter { agent: agent.clone(), received: received.clone() };
        let thumbs = match app.store.overall_feedback(&filter).await? {
            None => "There are too many scores: choose an agent or a shorter time.".to_owned(),
            Some(rates) => correlation_in_words(&rates),
        };
        let adoption = app.store.adoption(received.clone()).await?;
        let sets = format!(
            "{} of {} agents have a set. New versions of sets: {}, of {} sets.",
            adoption.agents_with_set, adoption.agents, adoption.edits, adoption.sets_edited
        );
        let saved = ("From a new version to its first verdict", &adoption.edit_to_verdict);
        let pages = adoption.pages.iter().map(|(page, times)| match page.as_str() {
            "panel" => ("Evaluations in the panel", times),
            "set" => ("Evaluations on pages of sets", times),
            _ => ("Evaluations in the playground", times),
        });
        let times = std::iter::once(saved).chain(pages).filter_map(|(what, times)| {
            let VerdictTimes { count, median_seconds, p95_seconds, within_30_seconds } =
                VerdictTimes::new(times);
            let (median, high) = (median_seconds?, p95_seconds?);
            Some(format!(
                "{what}: {count}, median {median} s, 95% within {high} s, {within_30_seconds} within 30 s."
            ))
        });
        Ok(Self { thumbs, sets, times: times.collect() })
    }
}

fn correlation_in_words(rates: &FeedbackRates) -> String {
    let FeedbackRates { thumbs_up, thumbs_down, samples, overall, .. } = rates;
    let thumbs = format!("{thumbs_up} thumbs up and {thumbs_down} down, about {samples} samples.");
    let OpinionCorrelation { samples, correlation, low, high } = OpinionCorrelation::new(overall);
    match (correlation, low, high) {
        (Some(value), Some(low), Some(high)) => format!(
            "Correlation of scores with thumbs: {value:.2} (95%: {low:.2} to {high:.2}) on {samples} samples. {thumbs}"
        ),
        _ => format!(
            "The correlation of scores with thumbs is not known: it needs samples with different scores and opinions. {thumbs}"
        ),
    }
}

/// The query of a test case: the sample, and optionally a prompt with its variable. An empty text counts as absent.
#[derive(Deserialize)]
struct CaseQuery {
    id: String,
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    variable: String,
}

/// The page that shows a sample as a test case.
#[derive(Template)]
#[template(path = "case.html")]
struct CasePage {
    frame: Frame,
    id: String,
    prompt: String,
    variable: String,
    yaml: String,
    /// The reason why there is no test case; empty if there is one.
    error: String,
}

struct ListedSample {
    id: String,
    agent: String,
    time: Moment,
    failed: String,
    errored: String,
    output: String,
}

/// The pass rate of an assertion of an agent.
struct Chart {
    agent: String,
    assertion: String,
    now: String,
    /// The results of samples that were evaluated only because of their error; empty if there are none.
    of_errors: String,
    tone: &'static str,
    rate: f64,
    points: Vec<Point>,
    /// The points of the lines, as `x,y` pairs. A period without a rate ends a line, and the next rate begins another.
    curves: Vec<String>,
    /// The points of the line of the exponentially weighted rate, as `x,y` pairs.
    weighted: String,
    releases: Vec<Mark>,
}

/// The first sample of a version of the agent, in the coordinates of the chart.
struct Mark {
    version: String,
    time: Moment,
    x: String,
}

/// A period with results, in the coordinates of the chart.
struct Point {
    time: Moment,
    rate: String,
    interval: String,
    count: u64,
    undecided: u64,
    weighted: String,
    x: String,
    y: String,
    low: String,
    high: String,
    bar_x: String,
    bar_y: String,
    bar_width: String,
    bar_height: String,
}

async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(mut query): Query<MonitorQuery>,
) -> Result<Response, PageError> {
    let known = WINDOWS.into_iter().find(|it| it.0 == query.window);
    let (name, _, periods, period) = known.unwrap_or(WINDOWS[1]);
    query.window = name.to_owned();
    let width = period.milliseconds();
    // The last period of the window is the current one.
    let end = period.start(Timestamp::now().as_millisecond()) + width;
    let start = end - periods * width;
    let filter = RateFilter {
        agent: query.agent.clone(),
        assertion: String::new(),
        set: query.set.clone(),
        tag: query.tag.clone(),
        received: start..end,
        period,
    };
    let rates = app.store.rates(&filter).await?;
    let is_too_long = rates.is_none();
    let window = Window { start, width, periods };
    let releases = app.store.releases(&query.agent, start..end).await?;
    let mut charts = charts(rates.unwrap_or_default(), &query.version, &releases, &window);
    let more = charts.len().saturating_sub(CHARTS);
    charts.truncate(CHARTS);
    let standing = AlertFilter { agent: query.agent.clone(), standing: Some(true) };
    let alerts = app.alerts.list(&app.store, &standing, app.runs.world()).await?;
    let MonitorQuery { agent, version, set, tag, .. } = query.clone();
    let listed = AttentionFilter { agent, version, set, tag, after: start };
    let counts = app.store.evaluated_samples(&listed).await?;
    let listed = app.store.attention_samples(&listed, LISTED).await?;
    let all_agents = app.store.agents().await?;
    let today = Today::load(&app.store, &all_agents, &query.agent).await?;
    let usage = Usage::load(&app, &filter).await?;
    Ok(ok(&Monitor {
        frame: Frame::new("Quality in production", "/monitor", &caller),
        agents: all_agents.into_iter().map(|it| it.name).collect(),
        windows: WINDOWS.iter().map(|it| (it.0, it.1)).collect(),
        alerts,
        today,
        charts,
        more,
        is_too_long,
        listed: listed.into_iter().map(ListedSample::new).collect(),
        counts,
        usage,
        query,
    }))
}

async fn show_case(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(CaseQuery { id, prompt, variable }): Query<CaseQuery>,
) -> Result<Response, PageError> {
    let given = |text: &str| Some(text.trim().to_owned()).filter(|it| !it.is_empty());
    let form =
        CaseForm { prompt: given(&prompt), variable: given(&variable), ..CaseForm::default() };
    let (status, yaml, error) = match case(&app, &id, &form).await {
        Ok(yaml) => (StatusCode::OK, yaml, String::new()),
        Err(problem) if problem.status == 422 => {
            (StatusCode::UNPROCESSABLE_ENTITY, String::new(), problem.detail)
        }
        Err(problem) => return Err(problem.into()),
    };
    let frame = Frame::new("Test of a sample", "/monitor", &caller);
    Ok(page(status, &CasePage { frame, id, prompt, variable, yaml, error }))
}

impl ListedSample {
    fn new(sample: AttentionSample) -> Self {
        let AttentionSample { id, agent, received_at, body, error, failed, mut errored } = sample;
        let parsed = |it: &str| serde_json::from_str(it).unwrap_or(Value::Null);
        errored.extend(parsed(&error)["error"].as_str().map(str::to_owned));
        let output = match body.as_str() {
            "" => "the sample is large; `GET /v1/samples` returns it".to_owned(),
            body => short(&parsed(body)["agent_output"]),
        };
        let (failed, errored) = (failed.join(", "), errored.join(", "));
        Self { id, agent, time: Moment::of_text(&received_at), failed, errored, output }
    }
}

struct Window {
    start: i64,
    width: i64,
    periods: i64,
}

/// Makes a chart for each assertion of each agent, the lowest pass rate first.
fn charts(
    rates: BTreeMap<RateKey, PeriodResults>,
    version: &str,
    releases: &[Release],
    window: &Window,
) -> Vec<Chart> {
    let mut series: BTreeMap<(String, String), BTreeMap<i64, PeriodResults>> = BTreeMap::new();
    for (key, results) in rates {
        if !version.is_empty() && key.version != version {
            continue;
        }
        let sum =
            series.entry((key.agent, key.assertion)).or_default().entry(key.start).or_default();
        sum.add_all(results);
    }
    let charts = series
        .into_iter()
        .map(|((agent, assertion), it)| Chart::new(agent, assertion, &it, releases, window));
    let mut charts: Vec<Chart> = charts.collect();
    charts.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    charts
}

impl Chart {
    fn new(
        agent: String,
        assertion: String,
        periods: &BTreeMap<i64, PeriodResults>,
        releases: &[Release],
        window: &Window,
    ) -> Self {
        let mut all = PeriodResults::default();
        for it in periods.values() {
            all.add_all(*it);
        }
        let Counts { passed, failed, errored, .. } = all.counts;
        let decided = passed + failed;
        let decided_in = |it: &PeriodResults| it.counts.passed + it.counts.failed;
        let most = periods.values().map(decided_in).max().unwrap_or(0).max(1);
        let mut points: Vec<Point> =
            periods.iter().map(|(start, it)| Point::new(*start, *it, most, window)).collect();
        let mut weighted = WeightedRate::new(half_life(window.width));
        let mut curve = String::new();
        for ((start, results), point) in periods.iter().zip(&mut points) {
            if let Some(rate) = weighted.add(*start, results.tally) {
                point.weighted = whole(rate);
                let _ = write!(curve, "{},{} ", point.x, height(rate));
            }
        }
        let of_agent = releases.iter().filter(|it| it.agent == agent).rev().take(MARKS);
        let releases: Vec<Mark> = of_agent.map(|it| Mark::new(it, window)).collect();
        let mut curves: Vec<String> = Vec::new();
        let mut last = i64::MIN;
        for (start, point) in periods.keys().zip(&points).filter(|(_, it)| !it.y.is_empty()) {
            if *start != last.saturating_add(window.width) {
                curves.push(String::new());
            }
            if let Some(curve) = curves.last_mut() {
                let _ = write!(curve, "{},{} ", point.x, point.y);
            }
            last = *start;
        }
        let (rate, range) = (all.tally.rate(), all.tally.wilson(Confidence::P95));
        let mut now = match rate.zip(range) {
            Some((rate, range)) => format!(
                "{} ({}–{}) of {decided}",
                whole(rate),
                percent(range.low),
                percent(range.high)
            ),
            None if all.counts.total() == 0 => "no sample was chosen by the rate".to_owned(),
            None => "no result could be decided".to_owned(),
        };
        if errored > 0 {
            let _ = write!(now, ", {errored} errored");
        }
        let Counts { passed, failed, .. } = all.of_errors;
        let of_errors = if all.of_errors.total() > 0 {
            format!(
                "Not counted, because these samples were evaluated only for their error: {passed} passed, {failed} failed."
            )
        } else {
            String::new()
        };
        let rate = rate.unwrap_or(0.0);
        let tone = if rate >= 0.999_999 && errored == 0 { "good" } else { "warn" };
        let weighted = curve;
        Self { agent, assertion, now, of_errors, tone, rate, points, curves, weighted, releases }
    }
}

impl Mark {
    fn new(release: &Release, window: &Window) -> Self {
        let age = to_float(release.since - window.start) / to_float(window.width);
        Self {
            version: release.version.clone(),
            time: Moment::of_milliseconds(release.since),
            x: format!("{:.1}", LEFT + age * (WIDTH - LEFT) / to_float(window.periods)),
        }
    }
}

/// Returns the vertical position of a rate.
fn height(rate: f64) -> String {
    format!("{:.1}", 6.0 + (1.0 - rate) * (HEIGHT - 12.0))
}

impl Point {
    fn new(start: i64, results: PeriodResults, most: u64, window: &Window) -> Self {
        let Counts { passed, failed, errored, .. } = results.counts;
        let decided = passed + failed;
        let rate = results.tally.rate();
        let range = results.tally.wilson(Confidence::P95);
        let step = (WIDTH - LEFT) / to_float(window.periods);
        let x = LEFT + step * (to_float((start - window.start) / window.width) + 0.5);
        let bar = COUNTS * to_float(decided) / to_float(most);
        Self {
            time: Moment::of_milliseconds(start),
            rate: rate.map_or_else(|| "–".to_owned(), whole),
            interval: range
                .map_or_else(String::new, |it| format!("{}–{}", percent(it.low), percent(it.high))),
            count: decided,
            undecided: errored,
            x: format!("{x:.1}"),
            weighted: "–".to_owned(),
            y: rate.map(height).unwrap_or_default(),
            low: range.map(|it| height(it.low)).unwrap_or_default(),
            high: range.map(|it| height(it.high)).unwrap_or_default(),
            bar_x: format!("{:.1}", x - step * 0.35),
            bar_y: format!("{:.1}", HEIGHT + COUNTS - bar),
            bar_width: format!("{:.1}", step * 0.7),
            bar_height: format!("{bar:.1}"),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts in a chart are far below 2^52")]
fn to_float<T: TryInto<i64>>(value: T) -> f64 {
    value.try_into().unwrap_or(i64::MAX) as f64
}

/// Formats a rate as a whole percentage. A rate just below 1 is never shown as 100 %.
fn whole(rate: f64) -> String {
    percent(if rate < 1.0 { rate.min(0.99) } else { rate })
}

fn percent(rate: f64) -> String {
    format!("{:.0} %", rate * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64, errored: u64) -> PeriodResults {
        let counts = Counts { passed, failed, errored, skipped: 0 };
        let mut results = PeriodResults { counts, ..PeriodResults::default() };
        results.tally.add(passed, failed, 1.0);
        results
    }

    fn key(agent: &str, version: &str, set: &str, start: i64) -> RateKey {
        let (agent, version, set) = (agent.to_owned(), version.to_owned(), set.to_owned());
        RateKey { agent, assertion: "polite".to_owned(), version, set, start }
    }

    #[test]
    fn versions_are_joined_and_gaps_end_the_line() {
        let rates = BTreeMap::from([
            (key("shop", "v1", "s@1", 10), counts(3, 1, 0)),
            (key("shop", "v2", "s@1", 10), counts(1, 3, 0)),
            (key("shop", "v1", "s@2", 20), counts(4, 0, 0)),
            // A period with only errored results has no rate.
            (key("shop", "v1", "s@2", 30), counts(0, 0, 2)),
            (key("shop", "v1", "s@2", 50), counts(4, 0, 0)),
            (key("desk", "v1", "s@2", 50), counts(1, 3, 0)),
        ]);
        let window = Window { start: 0, width: 10, periods: 10 };
        let release = |agent: &str, version: &str, since| {
            let (agent, version) = (agent.to_owned(), version.to_owned());
            Release { agent, version, since }
        };
        let releases =
            [release("shop", "v1", 10), release("shop", "v2", 15), release("desk", "v1", 50)];
        let all = charts(rates.clone(), "", &releases, &window);
        let agents: Vec<&str> = all.iter().map(|it| it.agent.as_str()).collect();
        assert_eq!(agents, ["desk", "shop"]);
        let shop = &all[1];
        assert_eq!(shop.curves.len(), 2, "{:?}", shop.curves);
        assert_eq!(shop.curves[0].split_whitespace().count(), 2);
        let numbers: Vec<(&str, u64, u64)> =
            shop.points.iter().map(|it| (it.rate.as_str(), it.count, it.undecided)).collect();
        assert_eq!(numbers, [("50 %", 8, 0), ("100 %", 4, 0), ("–", 0, 2), ("100 %", 4, 0)]);
        // The time 15 is 1.5 of 10 periods after the start of the window.
        let marks: Vec<(&str, &str)> =
            shop.releases.iter().map(|it| (it.version.as_str(), it.x.as_str())).collect();
        assert_eq!(marks, [("v2", "140.2"), ("v1", "110.8")]);
        // A period without a rate has the weighted rate of the previous period.
        let weighted: Vec<&str> = shop.points.iter().map(|it| it.weighted.as_str()).collect();
        assert_eq!(weighted, ["50 %", "67 %", "67 %", "75 %"]);
        let first = &charts(rates, "v2", &[], &window)[0].points;
        assert_eq!((first.len(), first[0].rate.as_str()), (1, "25 %"));
    }

    #[test]
    fn rate_below_one_is_not_shown_as_100_percent() {
        let window = Window { start: 0, width: 10, periods: 10 };
        let rates = BTreeMap::from([(key("a", "v", "s", 0), counts(399, 1, 0))]);
        let chart = &charts(rates, "", &[], &window)[0];
        assert!(chart.now.starts_with("99 % ("), "{}", chart.now);
        assert_eq!([&chart.points[0].rate, &chart.points[0].weighted], ["99 %", "99 %"]);
    }

    #[test]
    fn only_charts_without_failed_and_errored_results_are_good() {
        let window = Window { start: 0, width: 10, periods: 10 };
        for (counts, tone, errored) in [
            (counts(4, 0, 0), "good", ""),
            (counts(4, 1, 0), "warn", ""),
            (counts(4, 0, 96), "warn", "96 errored"),
            (counts(0, 0, 2), "warn", "no result could be decided, 2 errored"),
        ] {
            let chart =
                &charts(BTreeMap::from([(key("a", "v", "s", 0), counts)]), "", &[], &window)[0];
            assert_eq!(chart.tone, tone, "{}", chart.now);
            assert!(chart.now.ends_with(errored), "{}", chart.now);
        }
    }
}
