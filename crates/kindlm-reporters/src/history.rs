//! The history of a suite or a case as text for a terminal.

use std::fmt::Write as _;

use kindlm_types::{Interval, MeasuredRate};
use kindlm_wire::history::{
    ChangePoint, Entry, FileChange, Flip, FlippedCase, History, RunChanges, Series, Unit,
    ValueChange,
};
use kindlm_wire::v1::{Cost, Rate};

use crate::amount::{cost, count, duration, plural};
use crate::comparison::{condition, line_text, p_value};
use crate::plain::{head, one_line};

/// The text for a value that was not recorded or not measured.
const MISSING: &str = "–";
/// The mark of a run with a change point.
const CHANGE: &str = "▲";
/// The maximum number of flipped cases that are named. A case flips if it has another outcome than in the run before.
const NAMED: usize = 20;
/// The number of characters of a digest or a commit that are shown.
const SHOWN: usize = 8;

/// Returns the history as text for a terminal: a table of the runs, the change points, the current rate, and the flips.
pub fn history_text(history: &History) -> String {
    let mut text = String::new();
    for (at, series) in history.series.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        add_series(&mut text, history, series);
    }
    text
}

fn add_series(text: &mut String, history: &History, series: &Series) {
    let runs = plural(series.runs.len() as u64, "run");
    let of = match (&history.case, &series.model) {
        (Some(case), Some(model)) => format!("{case} · {model}"),
        _ => format!("suite {}", history.suite),
    };
    let older = if history.has_older { "newest " } else { "" };
    add_line(text, &format!("{of}: {older}{runs}, oldest first"));
    text.push('\n');
    text.push_str(&table(series));
    text.push('\n');
    for it in &series.change_points {
        add_line(text, &change_point(it, series.unit));
    }
    add_line(text, &current(series));
    for it in &series.flips {
        text.push('\n');
        add_flip(text, history, it);
    }
}

fn add_line(text: &mut String, line: &str) {
    text.push_str(&one_line(line));
    text.push('\n');
}

/// Returns the runs as a table with a header row and aligned columns.
fn table(series: &Series) -> String {
    let time = if series.model.is_some() { "latency" } else { "duration" };
    let head = ["", "run", "started", "outcome", "held", "score", "cost", time, "commit"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(series.runs.iter().map(|it| row(it, series)));
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|it| it.get(column));
        cells.map(|it| it.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Numbers are aligned on the right.
            let _ = match at {
                0 => write!(line, "{cell:1}"),
                4..=7 => write!(line, "  {cell:>width$}"),
                1 => write!(line, " {cell:width$}"),
                _ => write!(line, "  {cell:width$}"),
            };
        }
        add_line(&mut text, line.trim_end());
    }
    text
}

fn row(entry: &Entry, series: &Series) -> [String; 9] {
    let changed = series.change_points.iter().any(|it| it.run == entry.run);
    let held = match (entry.held.total, entry.errored) {
        (0, 0) => MISSING.to_owned(),
        (0, errored) => format!("{} errored", count(errored)),
        (total, 0) => format!("{} of {}", count(entry.held.count), count(total)),
        (total, errored) => {
            let errored = count(errored);
            format!("{} of {}, {errored} errored", count(entry.held.count), count(total))
        }
    };
    let is_part = entry.partial && series.model.is_none();
    let outcome = if is_part { format!("{}, part", entry.outcome) } else { entry.outcome.clone() };
    let dirty = if entry.git_dirty == Some(true) { "+" } else { "" };
    let commit = entry.git_commit.as_deref().map(|it| format!("{}{dirty}", short(it)));
    let time = entry.latency_ms.or(entry.duration_ms).map(duration);
    let missing = || MISSING.to_owned();
    [
        if changed { CHANGE } else { "" }.to_owned(),
        entry.run.clone(),
        started(&entry.started_at),
        outcome,
        held,
        entry.score.map_or_else(missing, |it| format!("{it:.2}")),
        money(entry.cost),
        time.unwrap_or_else(missing),
        commit.unwrap_or_else(missing),
    ]
}

/// Formats a time in RFC 3339 as `2026-01-31 08:00:00 UTC`. A time in another zone than UTC stays unchanged.
fn started(time: &str) -> String {
    match time.split_once('T') {
        Some((day, time)) if time.ends_with('Z') => format!("{day} {} UTC", head(time, 8)),
        _ => time.to_owned(),
    }
}

/// Formats a cost. If no part of the cost is known, returns [`MISSING`].
fn money(it: Cost) -> String {
    if it.unknown_executions > 0 && it.known_usd == 0.0 {
        MISSING.to_owned()
    } else {
        cost(it.into())
    }
}

fn short(digest: &str) -> &str {
    head(digest, SHOWN)
}

fn change_point(it: &ChangePoint, unit: Unit) -> String {
    let direction = match (it.before.rate, it.after.rate) {
        (Some(before), Some(after)) if after < before => "fell",
        _ => "rose",
    };
    format!(
        "{CHANGE} {}: the rate of {} that held {direction} from {} to {}, p {}",
        it.run,
        units(unit),
        share(&it.before),
        share(&it.after),
        p_value(it.p_value)
    )
}

fn units(unit: Unit) -> &'static str {
    match unit {
        Unit::Cases => "cases",
        Unit::Repeats => "repeats",
        Unit::Runs => "runs",
    }
}

fn share(rate: &Rate) -> String {
    let interval = rate.low.zip(rate.high).map(|(low, high)| Interval::new(low, high));
    MeasuredRate { count: rate.count, total: rate.total, interval }.to_string()
}

fn current(series: &Series) -> String {
    let since = match &series.since {
        Some(run) => format!("since {run}"),
        None => "all runs shown".to_owned(),
    };
    if series.current.total == 0 {
        return format!("{since}: nothing was judged");
    }
    let verdict = match series.flaky {
        Some(true) => ": flaky",
        Some(false) => ": stable",
        None => "",
    };
    format!("{since}: {} of {} held{verdict}", share(&series.current), units(series.unit))
}

fn add_flip(text: &mut String, history: &History, flip: &Flip) {
    let (before, after) = (&flip.before, &flip.after);
    let lines = causes(flip);
    let changed = if lines.is_empty() {
        format!("nothing recorded changed since {before}: chance, or a change at the provider")
    } else {
        format!("changed since {before}:")
    };
    match (&*flip.cases, &history.case) {
        ([it], Some(_)) => {
            let (was, is) = (it.before, it.after);
            add_line(text, &format!("flipped in {after}: {was} → {is}; {changed}"));
        }
        (cases, _) => {
            let flipped = plural(cases.len() as u64, "case");
            add_line(text, &format!("{flipped} flipped in {after}; {changed}"));
        }
    }
    for line in lines {
        add_line(text, &format!("  {line}"));
    }
    if history.case.is_none() {
        add_cases(text, &flip.cases);
    }
}

fn add_cases(text: &mut String, cases: &[FlippedCase]) {
    for FlippedCase { case, model, before, after, .. } in cases.iter().take(NAMED) {
        let after = after.as_str();
        add_line(text, &format!("{after:7}  {case} · {model}  (was {before})"));
    }
    let more = cases.len().saturating_sub(NAMED);
    if more > 0 {
        add_line(text, &format!("and {}", plural(more as u64, "more case")));
    }
}

/// Returns the changes between the runs before and after a flip, one line each.
fn causes(flip: &Flip) -> Vec<String> {
    let RunChanges { git_commit, git_dirty, config, files, conditions } = &flip.changes;
    let digests = |word: &str, it: &ValueChange| {
        let value = |it: &Option<String>| it.as_deref().map_or(MISSING, short).to_owned();
        format!("{word} {} → {}", value(&it.before), value(&it.after))
    };
    let mut lines = Vec::new();
    lines.extend(git_commit.iter().map(|it| digests("commit", it)));
    if *git_dirty == Some(true) {
        lines.push("changes that were not committed".to_owned());
    }
    lines.extend(config.iter().map(|it| digests("config file: digest", it)));
    for FileChange { path, sha256, .. } in files {
        lines.push(digests(&format!("file {path}: digest"), sha256));
    }
    lines.extend(conditions.iter().map(|it| line_text(&condition(it))));
    if let [FlippedCase { case_changed, task_changed, .. }] = &*flip.cases {
        match (case_changed, task_changed) {
            (Some(true), Some(true)) => {
                lines.push("the variables or the checks of the case".to_owned());
            }
            (Some(true), Some(false)) => lines.push("the prompt or command of the case".to_owned()),
            _ => {}
        }
    }
    lines
}
