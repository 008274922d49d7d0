//! The parts of the page before and after the cases.

use askama::Template;
use kindlm_types::{
    AnyReport, AssertionSummary, ExitStatus, GateOutcome, GateResult, ModelInfo, ModelTotals,
    Outcome, RateCount, SuiteTotals, Summary,
};

use super::Look;
use crate::amount::{cost, count, duration, judge_cost, plural, share, tokens};
use crate::plain::{head, one_line, visible};
use crate::{score, verdict};

/// The embedded style sheet.
const STYLE: &str = include_str!("style.css");

/// The hash of the style sheet for the page's content security policy.
///
/// The policy allows no other style sheet and no script.
const STYLE_HASH: &str = "sha256-VLJZynJME7ffiXViM5APquAHPCzG2qpfuS7glcuWBBY=";

/// The part of the page before the first case.
#[derive(Template)]
#[template(path = "html/begin.html")]
pub(super) struct Begin {
    style: &'static str,
    style_hash: &'static str,
    title: String,
    project: String,
    description: Option<String>,
    facts: Vec<(&'static str, String)>,
    verdict: Verdict,
    bar: Vec<Part>,
    tiles: Vec<Tile>,
    warnings: Vec<String>,
    gates: Vec<Gate>,
    rules: Vec<Rule>,
    models: Vec<Model>,
    metrics: Vec<Metric>,
    filters: Vec<Filter>,
}

struct Verdict {
    tone: &'static str,
    word: &'static str,
    why: String,
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
}

struct Gate {
    tone: &'static str,
    word: &'static str,
    id: String,
    message: String,
}

/// The results of a prompt assertion.
struct Rule {
    id: String,
    kept: Share,
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
    latency: String,
    tokens: String,
    cost: String,
}

/// A named score or a derived metric of one model.
struct Metric {
    model: String,
    name: String,
    value: String,
    note: String,
}

/// A share as a bar, in hundredths of the bar's width, and as text.
struct Share {
    tone: &'static str,
    width: u64,
    text: String,
}

struct Filter {
    id: &'static str,
    word: &'static str,
    count: String,
}

impl Begin {
    pub(super) fn of(report: &AnyReport<'_>, summary: &Summary) -> Self {
        let totals = &summary.totals;
        let why = sentence(&verdict::clauses(report, summary));
        let (title, project) = match (report.suite.name.as_str(), report.suite.project.as_str()) {
            ("", "") => ("KindLM report".to_owned(), String::new()),
            ("", project) => (one_line(project), String::new()),
            (name, project) => (one_line(name), one_line(project)),
        };
        Self {
            style: STYLE,
            style_hash: STYLE_HASH,
            title,
            project,
            description: report.suite.description.as_deref().map(one_line),
            facts: facts(report, summary),
            verdict: Verdict {
                tone: tone(report, summary),
                word: verdict::word(report, summary),
                why: one_line(&why),
            },
            bar: bar(totals),
            tiles: outcomes(totals).map(|(look, number)| tile(look, number)).collect(),
            warnings: report.warnings.iter().map(|it| visible(it)).collect(),
            gates: gates(report),
            rules: summary.assertions.iter().map(rule).collect(),
            models: summary.models.iter().map(|it| model(report, it)).collect(),
            metrics: metrics(report, summary),
            filters: filters(totals),
        }
    }
}

fn tone(report: &AnyReport<'_>, summary: &Summary) -> &'static str {
    match summary.exit_status {
        // The gates are not evaluated for a shard.
        ExitStatus::Success if report.shard.is_some() => "none",
        ExitStatus::Success => "good",
        ExitStatus::GatesFailed => "bad",
        ExitStatus::Interrupted => "warn",
        ExitStatus::ProviderError | ExitStatus::Internal | ExitStatus::InvalidInput => "trouble",
    }
}

/// Joins the clauses to a sentence, with a capital letter and a full stop.
fn sentence(clauses: &[String]) -> String {
    let text = clauses.join("; ");
    let mut chars = text.chars();
    let first = chars.next().map(char::to_uppercase).into_iter().flatten();
    first.chain(chars).chain(std::iter::once('.')).collect()
}

fn facts(report: &AnyReport<'_>, summary: &Summary) -> Vec<(&'static str, String)> {
    let run = &report.run;
    let commit = run.git_commit.as_deref().map(|it| head(it, 10).to_owned());
    let checks = summary.deterministic.total + summary.probabilistic.total;
    let totals = &summary.totals;
    // Show the start time without fractions of a second.
    let started = run.started_at.split('.').next().unwrap_or_default().replace('T', " ");
    let zone = if run.started_at.ends_with('Z') { " UTC" } else { "" };
    let facts = [
        (
            "Started",
            started.trim_end_matches('Z').to_owned() + if started.is_empty() { "" } else { zone },
        ),
        ("Took", if run.duration_ms > 0.0 { duration(run.duration_ms) } else { String::new() }),
        (
            "Executions",
            if totals.executions > 0 { count(totals.executions) } else { String::new() },
        ),
        ("Checks", if checks > 0 { count(checks) } else { String::new() }),
        ("Average score", totals.average_score.map(score::two).unwrap_or_default()),
        ("Cost", if totals.executions > 0 { cost(totals.cost) } else { String::new() }),
        ("Judges", judge_cost(totals).unwrap_or_default()),
        ("Run", run.id.clone()),
        (
            "Shard",
            report
                .shard
                .as_ref()
                .map_or_else(String::new, |it| format!("{} of {}", it.index, it.count)),
        ),
        ("Commit", commit.unwrap_or_default()),
        ("Config", report.suite.config_path.clone().unwrap_or_default()),
    ];
    facts
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name, one_line(&value)))
        .collect()
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
    .map(|(outcome, number)| (Look::of(outcome), number))
}

fn tile(look: Look, number: u64) -> Tile {
    Tile { tone: look.tone, mark: look.mark, word: look.word, count: count(number) }
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

fn gates(report: &AnyReport<'_>) -> Vec<Gate> {
    // The gates are not evaluated for a shard.
    if report.shard.is_some() {
        return Vec::new();
    }
    report.gates.iter().map(gate).collect()
}

fn gate(gate: &GateResult) -> Gate {
    let (tone, word) = match gate.outcome {
        GateOutcome::Held => ("good", "held"),
        GateOutcome::Broken => ("bad", "broken"),
        GateOutcome::NothingToMeasure => ("none", "not measured"),
    };
    Gate { tone, word, id: one_line(&gate.gate), message: one_line(&gate.message) }
}

fn rule(it: &AssertionSummary) -> Rule {
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
    Rule {
        id: one_line(&it.id),
        kept,
        errored: some(it.errored, "could not be judged"),
        skipped: some(it.skipped, "did not apply"),
        failing: failing.collect(),
        more: some(it.unnamed(), "more"),
        example: it.example.as_deref().map(visible).unwrap_or_default(),
    }
}

fn model(report: &AnyReport<'_>, it: &ModelTotals) -> Model {
    let known = report.models.iter().find(|info| info.id == it.model);
    let name = |info: &ModelInfo| format!("{} {}", info.provider, info.name);
    Model {
        id: one_line(&it.model),
        name: known.map(name).map(|it| one_line(&it)).unwrap_or_default(),
        held: held(it.totals.held()),
        latency: it.latency_avg_ms.map_or_else(|| "not measured".to_owned(), duration),
        tokens: tokens(&it.totals),
        cost: cost(it.totals.cost),
    }
}

/// Returns the named scores and the derived metrics of each model.
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

fn held(rate: RateCount) -> Share {
    let tone = match rate.rate() {
        None => "none",
        Some(_) if rate.count == rate.total => "good",
        Some(_) => "bad",
    };
    Share { tone, width: thousandths(rate.count, rate.total) / 10, text: share(rate) }
}

fn filters(totals: &SuiteTotals) -> Vec<Filter> {
    let filter = |id, word, number| Filter { id, word, count: count(number) };
    let open = totals.scored + totals.failed + totals.errored;
    let mut filters = vec![filter("all", "All", totals.listed())];
    if open > 0 && open < totals.listed() {
        filters.push(filter("open", "Needs a look", open));
    }
    let each = outcomes(totals).map(|(look, number)| {
        let word = match look.word {
            "passed" => "Passed",
            "scored" => "Scored",
            "failed" => "Failed",
            "errored" => "Errored",
            _ => "Skipped",
        };
        filter(look.word, word, number)
    });
    filters.extend(each);
    filters
}

/// The part of the page after the last case.
#[derive(Template)]
#[template(path = "html/end.html")]
pub(super) struct End {
    cases: u64,
    skipped: Vec<Skipped>,
    made_by: String,
}

struct Skipped {
    name: String,
    tags: Vec<String>,
    reason: String,
}

impl End {
    pub(super) fn of(report: &AnyReport<'_>) -> Self {
        let skipped = report.skipped.iter().map(|it| Skipped {
            name: one_line(&it.case),
            tags: it.tags.iter().map(|it| one_line(it)).collect(),
            reason: one_line(&it.reason),
        });
        let run = &report.run;
        let mut made_by = format!("Made by KindLM {}", run.version);
        if !run.platform.is_empty() {
            made_by = format!("{made_by} on {}", run.platform);
        }
        if let Some(digest) = &report.suite.config_sha256 {
            made_by = format!("{made_by}; SHA-256 of the config file {digest}");
        }
        Self {
            cases: report.cases.len() as u64,
            skipped: skipped.collect(),
            made_by: one_line(made_by.trim_end()) + ".",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest as _, Sha256};

    #[test]
    fn the_policy_names_the_style_sheet() {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut base64 = String::new();
        for three in Sha256::digest(STYLE).chunks(3) {
            let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
            let bits = bits << (8 * (3 - three.len()));
            for place in 0..=three.len() {
                base64.push(char::from(DIGITS[(bits >> (18 - 6 * place) & 63) as usize]));
            }
        }
        while !base64.len().is_multiple_of(4) {
            base64.push('=');
        }
        let expected = format!("sha256-{base64}");
        assert_eq!(STYLE_HASH, expected, "the style sheet was changed: so must be `STYLE_HASH`");
        assert!(
            !STYLE.contains("</") && !STYLE.contains("http"),
            "it stands in the page, and asks nobody"
        );
    }

    #[test]
    fn parts_of_the_bar_meet() {
        let totals =
            SuiteTotals { cases: 5, passed: 2, failed: 3, skipped: 2, ..SuiteTotals::default() };
        let parts: Vec<(u64, u64)> = bar(&totals).iter().map(|it| (it.x, it.width)).collect();
        assert_eq!(parts, [(0, 285), (285, 429), (714, 286)]);
        assert!(bar(&SuiteTotals::default()).is_empty());
    }
}
