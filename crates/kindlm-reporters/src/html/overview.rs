//! The part of the page before the cases: the overview.

use askama::Template;
use kindlm_types::{
    AnyReport, AssertionSummary, CaseChangeKind, CauseTotals, ExitStatus, GateOutcome, GateResult,
    MeasuredRate, ModelDifference, ModelInfo, ModelTotals, Outcome, SuiteTotals, Summary, ecma,
};
use kindlm_wire::mutation::MutationReport;
use kindlm_wire::v1::RunHead;

use super::distribution::scaled;
use super::spark::{self, Spark};
use super::{Look, STYLE, data, policy};
use crate::amount::{cost, count, duration, judge_cost, percent, plural, share, usd};
use crate::comparison::{headline, signed};
use crate::percent::in_url;
use crate::plain::{one_line, visible};
use crate::{RenderError, mutation, score, verdict};

/// The maximum number of causes on the overview.
const CAUSES: usize = 12;
/// The maximum number of skipped tests on the overview.
const SKIPPED: usize = 50;

/// The part of the page before the first case.
#[derive(Template)]
#[template(path = "html/page.html")]
pub(super) struct Page {
    style: &'static str,
    policy: String,
    /// True if the page has a section for comparisons.
    has_comparison: bool,
    /// True if the report has a comparison. Then the table of tests and models shows the changes.
    is_compared: bool,
    head: String,
    title: String,
    project: String,
    description: Option<String>,
    listed: String,
    tone: &'static str,
    word: &'static str,
    rate: String,
    why: String,
    spent: String,
    compared: Option<String>,
    bar: Vec<Part>,
    tiles: Vec<Tile>,
    chips: Vec<Chip>,
    warnings: Vec<String>,
    gates: Vec<Gate>,
    causes: Vec<Cause>,
    more_causes: String,
    rules: Vec<Rule>,
    models: Vec<Model>,
    metrics: Vec<Metric>,
    skipped: Vec<Skipped>,
    more_skipped: String,
    /// The mutation score; `None` without a mutation result.
    mutation_score: Option<String>,
    /// The section about the mutation result as HTML; empty without a mutation result.
    strength: String,
}

/// A segment of the bar of outcomes, in thousandths of the bar's width.
struct Part {
    tone: &'static str,
    x: u64,
    width: u64,
}

struct Tile {
    tone: &'static str,
    mark: &'static str,
    word: &'static str,
    count: String,
    link: String,
}

/// A link that filters the list of cases by a query.
struct Chip {
    query: &'static str,
    word: &'static str,
    count: String,
}

/// A bar with a limit and an interval. The numbers are in thousandths of the bar's width.
struct Bullet {
    width: u64,
    low: u64,
    high: u64,
    limit: u64,
    has_limit: bool,
}

struct Gate {
    tone: &'static str,
    mark: &'static str,
    word: &'static str,
    id: String,
    message: String,
    bullet: Option<Bullet>,
}

/// The failures with the same cause.
struct Cause {
    number: usize,
    cases: String,
    title: String,
    code: String,
    models: String,
    examples: Vec<Example>,
    /// The chart of the cause in earlier runs; `None` without earlier runs.
    spark: Option<Spark>,
}

struct Example {
    name: String,
    name_in_url: String,
    model_in_url: String,
}

/// The results of a prompt assertion.
struct Rule {
    id: String,
    id_in_url: String,
    kept: Share,
    /// The change of the share since the reference of the comparison; empty without a comparison.
    change: String,
    errored: String,
    skipped: String,
    failing: Vec<String>,
    more: String,
    example: String,
}

struct Model {
    id: String,
    name: String,
    held: Share,
    /// The difference to the first model; empty for the first model, and without common tests.
    difference: String,
    /// The share of cases that held, such as `94%`.
    short: String,
    /// The interval of the share of cases that held, such as `[90–97]`.
    short_range: String,
    flaky: String,
    p50: String,
    p95: String,
    tokens: String,
    each: String,
    cost: String,
}

/// A named score or a derived metric of one model.
struct Metric {
    model: String,
    name: String,
    value: String,
    note: String,
}

/// A share as a bar and as text, with its confidence interval.
struct Share {
    tone: &'static str,
    bullet: Option<Bullet>,
    text: String,
    range: String,
}

struct Skipped {
    name: String,
    tags: Vec<String>,
    reason: String,
}

impl Page {
    /// Collects the data of the overview. With `has_comparison`, the page has the section that shows a comparison.
    pub(super) fn new(
        report: &AnyReport<'_>,
        summary: &Summary,
        has_comparison: bool,
    ) -> Result<Self, RenderError> {
        let totals = &summary.totals;
        let (title, project) = match (report.suite.name.as_str(), report.suite.project.as_str()) {
            ("", "") => ("KindLM report".to_owned(), String::new()),
            ("", project) => (one_line(project), String::new()),
            (name, project) => (one_line(name), one_line(project)),
        };
        let more = |all: usize, most: usize, word: &str| match all.saturating_sub(most) {
            0 => String::new(),
            more => format!("… and {}", plural(more as u64, word)),
        };
        let causes = summary.causes.iter().enumerate().take(CAUSES);
        Ok(Self {
            style: STYLE,
            policy: policy(has_comparison),
            has_comparison,
            is_compared: report.comparison.is_some(),
            head: data::head(report, summary)?,
            title,
            project,
            description: report.suite.description.as_deref().map(one_line),
            listed: count(report.cases.len() as u64),
            tone: tone(report, summary),
            word: verdict::word(report, summary),
            rate: rate(totals),
            why: one_line(&sentence(&verdict::clauses(report, summary))),
            spent: one_line(&spent(report, summary)),
            bar: bar(totals),
            tiles: outcomes(totals)
                .map(|(look, number)| tile(look, number, link(report, look)))
                .collect(),
            chips: chips(report, summary),
            compared: report
                .comparison
                .as_ref()
                .map(|it| visible(&format!("Against {}: {}", it.before.name, headline(it)))),
            warnings: report.warnings.iter().map(|it| visible(it)).collect(),
            gates: gates(report, summary),
            causes: causes.map(|(number, it)| cause(number, it)).collect(),
            more_causes: more_causes(more(summary.causes.len(), CAUSES, "more cause"), summary),
            rules: summary.assertions.iter().map(|it| rule(report, it)).collect(),
            models: models(report, summary),
            metrics: metrics(report, summary),
            skipped: report.skipped.iter().take(SKIPPED).map(skipped).collect(),
            more_skipped: more(report.skipped.len(), SKIPPED, "more skipped test"),
            mutation_score: None,
            strength: String::new(),
        })
    }

    /// Adds the mutation result of the run, if there is one.
    pub(super) fn measure(&mut self, result: Option<&MutationReport>) -> Result<(), RenderError> {
        self.mutation_score = result.map(mutation::score_line);
        self.strength = result.map(mutation::section).transpose()?.unwrap_or_default();
        Ok(())
    }

    /// Adds a chart of the earlier runs to each cause.
    pub(super) fn add_past(&mut self, report: &AnyReport<'_>, summary: &Summary, past: &[RunHead]) {
        let sparks = spark::of_causes(report, summary, past);
        for (cause, spark) in self.causes.iter_mut().zip(sparks) {
            cause.spark = spark;
        }
    }

    /// Adds a warning.
    pub(super) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }
}

/// Adds to `more` the number of failures whose causes are not in the summary.
fn more_causes(more: String, summary: &Summary) -> String {
    if summary.failures_left_out == 0 {
        return more;
    }
    let failures = plural(summary.failures_left_out, "failure");
    format!("{more}; {failures} of further causes that no report lists")
}

fn tone(report: &AnyReport<'_>, summary: &Summary) -> &'static str {
    match summary.exit_status {
        // The gates apply to the whole run, so a shard has no verdict.
        ExitStatus::Success if report.shard.is_some() => "none",
        ExitStatus::Success => "good",
        ExitStatus::GatesFailed => "bad",
        ExitStatus::Interrupted => "warn",
        ExitStatus::ProviderError | ExitStatus::Internal | ExitStatus::InvalidInput => "trouble",
    }
}

/// Returns the share of cases that held, with its interval; empty if nothing was checked.
fn rate(totals: &SuiteTotals) -> String {
    let held = totals.held();
    match held.rate() {
        Some(rate) => format!(
            "{} of {} held ({}%{})",
            count(held.count),
            plural(held.total, "case"),
            percent(rate),
            match range(held).as_str() {
                "" => String::new(),
                range => format!(", 95% interval {range}"),
            }
        ),
        None => String::new(),
    }
}

/// Formats the interval as `87.3 to 92.2%`, with the same digits as in the other reports.
fn range(rate: MeasuredRate) -> String {
    let text = |it: f64| percent(it.clamp(0.0, 1.0));
    let interval = rate.interval;
    interval.map(|it| format!("{} to {}%", text(it.low), text(it.high))).unwrap_or_default()
}

/// Returns a rate and its interval as whole percentages; two empty texts if the rate or the interval is unknown.
///
/// A rate just below 1 is never shown as 100%.
fn short(rate: MeasuredRate) -> (String, String) {
    let whole = |it: f64| ecma::to_fixed(100.0 * it, 0);
    match (rate.rate(), rate.interval) {
        (Some(rate), Some(it)) => {
            let shown = if rate < 1.0 { rate.min(0.99) } else { rate };
            (format!("{}%", whole(shown)), format!("[{}–{}]", whole(it.low), whole(it.high)))
        }
        _ => (String::new(), String::new()),
    }
}

/// Returns the links above the list of cases. A query that matches no case has no link.
fn chips(report: &AnyReport<'_>, summary: &Summary) -> Vec<Chip> {
    let totals = &summary.totals;
    let chip = |query, word, number: u64| Chip { query, word, count: count(number) };
    let mut chips = vec![Chip { query: "", word: "All", count: String::new() }];
    let open = totals.scored + totals.failed + totals.errored;
    for (query, word, number) in [
        ("s:open", "Needs a look", open),
        ("s:failed", "Failed", totals.failed),
        ("s:errored", "Errored", totals.errored),
        ("s:flaky", "Flaky", summary.flaky.count),
    ] {
        if number > 0 {
            chips.push(chip(query, word, number));
        }
    }
    let compared = report.comparison.iter().flat_map(|it| &it.cases);
    let changed = compared.filter(|it| is_changed(&it.kind)).count() as u64;
    if changed > 0 {
        chips.push(chip("s:changed", "Changed", changed));
    }
    if summary.models.len() > 1 && open > 0 {
        chips.push(Chip { query: "s:different", word: "Models differ", count: String::new() });
    }
    chips
}

/// Returns true if the table of tests and models marks cases with this change. `more.js` has the same list.
fn is_changed(kind: &CaseChangeKind) -> bool {
    use CaseChangeKind::{Changed, Fix, New, Regression};
    matches!(kind, Regression | Fix | Changed | New)
}

fn spent(report: &AnyReport<'_>, summary: &Summary) -> String {
    let totals = &summary.totals;
    let mut parts = Vec::new();
    if totals.executions > 0 {
        parts.push(plural(totals.executions, "execution"));
        parts.push(cost(totals.cost));
    }
    if let Some(judges) = judge_cost(totals) {
        parts.push(format!("judges {judges}"));
    }
    if report.run.duration_ms > 0.0 {
        parts.push(duration(report.run.duration_ms));
    }
    if summary.flaky.count > 0 {
        parts.push(format!("{} flaky", plural(summary.flaky.count, "case")));
    }
    parts.push(started(report));
    parts.retain(|it| !it.is_empty());
    parts.join(" · ")
}

/// Returns the start time without fractions of a second.
pub(super) fn started(report: &AnyReport<'_>) -> String {
    let at = &report.run.started_at;
    let text = at.split('.').next().unwrap_or_default().replace('T', " ");
    let zone = if at.ends_with('Z') && !text.is_empty() { " UTC" } else { "" };
    text.trim_end_matches('Z').to_owned() + zone
}

/// Joins the clauses to a sentence, with a capital letter and a full stop.
fn sentence(clauses: &[String]) -> String {
    let text = clauses.join("; ");
    let mut chars = text.chars();
    let first = chars.next().map(char::to_uppercase).into_iter().flatten();
    first.chain(chars).chain(std::iter::once('.')).collect()
}

/// Returns the outcomes with at least one case, each with its number of cases.
fn outcomes(totals: &SuiteTotals) -> impl Iterator<Item = (Look, u64)> {
    [
        (Outcome::Passed, totals.passed),
        (Outcome::Scored, totals.scored),
        (Outcome::Failed, totals.failed),
        (Outcome::Errored, totals.errored),
        (Outcome::Skipped, totals.skipped),
    ]
    .into_iter()
    .filter(|(_, number)| *number > 0)
    .map(|(outcome, number)| (Look::from_outcome(outcome), number))
}

fn tile(look: Look, number: u64, link: String) -> Tile {
    Tile { tone: look.tone, mark: look.mark, word: look.word, count: count(number), link }
}

/// Returns the link to the cases with an outcome.
///
/// Tests that were skipped as a whole have no cases. For these tests, the link leads to the list of skipped tests.
fn link(report: &AnyReport<'_>, look: Look) -> String {
    let is_listed = look.word == "skipped" && !report.skipped.is_empty();
    if is_listed { "#skipped".to_owned() } else { format!("#cases&q=s:{}", look.word) }
}

fn bar(totals: &SuiteTotals) -> Vec<Part> {
    let all = totals.listed();
    let mut before = 0;
    let parts = outcomes(totals).map(|(look, number)| {
        let (from, to) = (thousandths(before, all), thousandths(before + number, all));
        before += number;
        Part { tone: look.tone, x: from, width: to - from }
    });
    parts.collect()
}

fn thousandths(part: u64, all: u64) -> u64 {
    (u128::from(part) * 1000 / u128::from(all.max(1))).try_into().unwrap_or(1000)
}

/// Returns the gates, violated gates first.
fn gates(report: &AnyReport<'_>, summary: &Summary) -> Vec<Gate> {
    // The gates apply to the whole run, so the report of a shard does not have them.
    if report.shard.is_some() {
        return Vec::new();
    }
    let mut gates: Vec<&GateResult> = report.gates.iter().collect();
    gates.sort_by_key(|it| it.passed());
    gates.into_iter().map(|it| gate(it, summary)).collect()
}

fn gate(gate: &GateResult, summary: &Summary) -> Gate {
    let (tone, mark, word) = match gate.outcome {
        GateOutcome::Held => ("good", "✓", "held"),
        GateOutcome::Violated => ("bad", "✗", "violated"),
        GateOutcome::NothingToMeasure => ("none", "–", "not measured"),
    };
    let bullet = gate.actual.filter(|it| it.is_finite()).map(|actual| {
        let limit = gate.threshold;
        let is_rate = gate.gate.ends_with("Min") || gate.gate.contains('[');
        let is_share = is_rate && (0.0..=1.0).contains(&actual) && (0.0..=1.0).contains(&limit);
        let most = if is_share { 1.0 } else { actual.max(limit) * 1.15 };
        let interval =
            if gate.gate == "passRateMin" { summary.totals.held().interval } else { None };
        Bullet {
            width: scaled(actual, most),
            low: interval.map_or(0, |it| scaled(it.low, most)),
            high: interval.map_or(0, |it| scaled(it.high, most)),
            limit: scaled(limit, most).min(995),
            has_limit: true,
        }
    });
    let (id, message) = (one_line(&gate.gate), one_line(&gate.message));
    Gate { tone, mark, word, id, message, bullet }
}

fn cause(number: usize, it: &CauseTotals) -> Cause {
    let models =
        it.models.iter().take(4).map(|(model, cases)| format!("{model} {}", count(*cases)));
    let mut models = models.collect::<Vec<_>>().join(" · ");
    if it.models.len() > 4 {
        models.push_str(" · …");
    }
    let is_repeated = |case: &str| it.examples.iter().filter(|it| it.case == case).count() > 1;
    let examples = it.examples.iter().map(|it| Example {
        name: if is_repeated(&it.case) {
            one_line(&format!("{} ({})", it.case, it.model))
        } else {
            one_line(&it.case)
        },
        name_in_url: in_url(&it.case),
        model_in_url: in_url(&it.model),
    });
    Cause {
        number,
        cases: count(it.cases),
        title: one_line(&it.title),
        code: it.code.as_ref().map(|it| one_line(it.as_str())).unwrap_or_default(),
        models: one_line(&models),
        examples: examples.collect(),
        spark: None,
    }
}

fn rule(report: &AnyReport<'_>, it: &AssertionSummary) -> Rule {
    let plain = held(it.kept);
    let kept = match it.kept.total {
        0 if it.errored == 0 => Share { text: "did not apply".to_owned(), ..plain },
        0 => Share { tone: "trouble", text: "never judged".to_owned(), ..plain },
        _ => plain,
    };
    let some = |number: u64, words: &str| {
        if number > 0 { format!("{} {words}", count(number)) } else { String::new() }
    };
    let failing = it.failing.iter().map(|it| one_line(&format!("{} ({})", it.case, it.model)));
    let mut changes = report.comparison.iter().flat_map(|it| &it.assertions);
    let change = changes.find(|one| one.assertion == it.id && one.label.is_none());
    Rule {
        id: one_line(&it.id),
        id_in_url: in_url(&format!("\"{}\"", it.id.replace('"', " "))),
        kept,
        change: change
            .map(|it| format!("{} pp against the reference", signed(it.change.difference)))
            .unwrap_or_default(),
        errored: some(it.errored, "could not be judged"),
        skipped: some(it.skipped, "did not apply"),
        failing: failing.collect(),
        more: some(it.unnamed(), "more"),
        example: it.example.as_deref().map(visible).unwrap_or_default(),
    }
}

fn models(report: &AnyReport<'_>, summary: &Summary) -> Vec<Model> {
    let differences = report.model_differences();
    let of = |it: &ModelTotals| {
        let difference = differences.iter().find(|one| one.model == it.model);
        Model {
            difference: difference.map(difference_text).unwrap_or_default(),
            ..model(report, it)
        }
    };
    summary.models.iter().map(of).collect()
}

/// Formats a difference as `−5.0 pp (95% CI −9.1 to −0.9) against gpt-4o in 200 tests`.
fn difference_text(it: &ModelDifference) -> String {
    let (low, high) = (signed(it.interval.low), signed(it.interval.high));
    let tests = plural(it.tests, "test");
    let against = one_line(&it.against);
    format!("{} pp (95% CI {low} to {high}) against {against} in {tests}", signed(it.mean))
}

fn model(report: &AnyReport<'_>, it: &ModelTotals) -> Model {
    let known = report.models.iter().find(|info| info.id == it.model);
    let name = |info: &ModelInfo| format!("{} {}", info.provider, info.name);
    let unknown = || "–".to_owned();
    let latency = it.latency_ms;
    let tokens = it.tokens.map(|it| it.p50);
    let (short, short_range) = short(it.totals.held());
    Model {
        id: one_line(&it.model),
        name: known.map(name).map(|it| one_line(&it)).unwrap_or_default(),
        held: held(it.totals.held()),
        difference: String::new(),
        short,
        short_range,
        flaky: match it.flaky.total {
            0 => unknown(),
            total => format!("{} of {}", count(it.flaky.count), count(total)),
        },
        p50: latency.map_or_else(unknown, |it| duration(it.p50)),
        p95: latency.map_or_else(unknown, |it| duration(it.p95)),
        tokens: tokens.map_or_else(unknown, |it| ecma::to_fixed(it, 0)),
        each: it.cost_usd.map_or_else(unknown, |it| usd(it.p50)),
        cost: cost(it.totals.cost),
    }
}

/// Returns the metrics of all models: named scores and derived metrics.
fn metrics(report: &AnyReport<'_>, summary: &Summary) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for model in &summary.models {
        let id = one_line(&model.model);
        let mut add = |name: &str, value: String, note: String| {
            metrics.push(Metric { model: id.clone(), name: one_line(name), value, note });
        };
        for it in &model.named_scores {
            let note = format!("mean of {}", plural(it.count, "execution"));
            add(&it.name, score::two(it.mean()), note);
        }
        for metric in &report.derived {
            match metric.values.iter().find(|it| it.model == model.model).map(|it| &it.value) {
                Some(Ok(value)) => add(&metric.name, score::two(*value), one_line(&metric.formula)),
                Some(Err(why)) => add(&metric.name, "none".to_owned(), one_line(why)),
                None => {}
            }
        }
    }
    metrics
}

fn held(rate: MeasuredRate) -> Share {
    let tone = match rate.rate() {
        None => "none",
        Some(_) if rate.count == rate.total => "good",
        Some(_) => "bad",
    };
    let bullet = rate.interval.map(|it| Bullet {
        width: thousandths(rate.count, rate.total),
        low: scaled(it.low, 1.0),
        high: scaled(it.high, 1.0),
        limit: 0,
        has_limit: false,
    });
    Share { tone, bullet, text: share(rate), range: range(rate) }
}

fn skipped(it: &kindlm_types::SkippedCase) -> Skipped {
    Skipped {
        name: one_line(&it.case),
        tags: it.tags.iter().map(|it| one_line(it)).collect(),
        reason: one_line(&it.reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_bar_meet() {
        let totals =
            SuiteTotals { cases: 5, passed: 2, failed: 3, skipped: 2, ..SuiteTotals::default() };
        let parts: Vec<(u64, u64)> = bar(&totals).iter().map(|it| (it.x, it.width)).collect();
        assert_eq!(parts, [(0, 285), (285, 429), (714, 286)]);
        assert!(bar(&SuiteTotals::default()).is_empty());
    }

    #[test]
    fn rate_below_one_is_not_shown_as_100_percent() {
        let of = MeasuredRate::of_independent;
        for (count, expected) in [(399, "99%"), (400, "100%"), (200, "50%")] {
            let rate = of(kindlm_types::RateCount { count, total: 400 });
            assert_eq!(short(rate).0, expected);
        }
    }
}
