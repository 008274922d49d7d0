//! The parts of the comment before the cases: gates, models, causes, prompt assertions and warnings.

use kindlm_types::{
    AnyReport, AssertionSummary, CauseTotals, Comparison, FailingCase, GateOutcome, ModelTotals,
    Summary,
};

use super::escape::shown;
use super::fit::first_that_fit;
use super::limits::{NAME, NAMED, WORDS};
use crate::amount::{cost, count, duration, plural};
use crate::comparison::{change_of, counts, headline, line_text, lines};

/// The maximum number of characters of each part. The cases get the remaining characters.
const CHANGES_ROOM: usize = 6_000;
const GATES_ROOM: usize = 6_000;
const MODELS_ROOM: usize = 5_000;
const CAUSES_ROOM: usize = 8_000;
const ASSERTIONS_ROOM: usize = 12_000;
const WARNINGS_ROOM: usize = 3_000;
/// The maximum number of causes.
const CAUSES: usize = 8;
/// The maximum number of lines of each kind of change.
const CHANGES: usize = 10;

/// Returns the result of the comparison in one line; `None` if the run was not compared.
pub(super) fn compared(report: &AnyReport<'_>) -> Option<String> {
    let it = report.comparison.as_ref()?;
    let name = shown(&it.before.name, NAME);
    Some(format!("against {name}: {}", shown(&headline(it), WORDS)))
}

/// Returns the result of the comparison, and the changes; empty if the run was not compared.
pub(super) fn comparison(report: &AnyReport<'_>) -> String {
    let (Some(it), Some(result)) = (&report.comparison, compared(report)) else {
        return String::new();
    };
    let lines = lines(it, CHANGES);
    let mut part = format!("\n### Changes\n\n{result} ({}).\n\n", counts(it));
    let items = lines.iter().map(|line| {
        let (strong, text) = (line.word, shown(&line_text(line), WORDS));
        format!("- **{strong}** {text}")
    });
    rows(&mut part, items, lines.len(), CHANGES_ROOM, "change");
    part
}

/// Returns the violated gates as a table. The others are only counted.
pub(super) fn gates(report: &AnyReport<'_>) -> String {
    let mut part = String::new();
    // The gates apply to the whole run, so the report of a shard does not have them.
    if report.gates.is_empty() || report.shard.is_some() {
        return part;
    }
    let violated: Vec<_> =
        report.gates.iter().filter(|it| it.outcome == GateOutcome::Violated).collect();
    if !violated.is_empty() {
        part.push_str("\n### Violated gates\n\n| | Gate | |\n|---|---|---|\n");
        let lines = violated.iter().map(|it| {
            format!("| ❌ | {} | {} |", shown(&it.gate, NAME), shown(&it.message, WORDS))
        });
        rows(&mut part, lines, violated.len(), GATES_ROOM, "gate");
    }
    if let Some(others) = gates_that_hold(report) {
        part.extend(["\n", &others, ".\n"]);
    }
    part
}

/// Counts the gates that held, and those that had nothing to measure; `None` if there are no such gates.
fn gates_that_hold(report: &AnyReport<'_>) -> Option<String> {
    let number = |outcome| report.gates.iter().filter(|it| it.outcome == outcome).count() as u64;
    let (held, idle) = (number(GateOutcome::Held), number(GateOutcome::NothingToMeasure));
    let parts = [
        (held > 0).then(|| format!("{} held", plural(held, "gate"))),
        (idle > 0).then(|| format!("{} had nothing to measure", plural(idle, "gate"))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns the totals of the models: a table if it has at most `most` lines, else one line.
pub(super) fn models(report: &AnyReport<'_>, summary: &Summary, most: usize) -> String {
    let all = &summary.models;
    if all.is_empty() {
        return String::new();
    }
    if all.len().saturating_add(2) > most {
        let first = all.iter().take(NAMED);
        let mut shares: Vec<String> =
            first.map(|it| format!("{} {}", shown(&it.model, NAME), it.totals.held())).collect();
        let more = all.len().saturating_sub(NAMED) as u64;
        shares.extend((more > 0).then(|| plural(more, "more model")));
        return format!("\n{}\n", shares.join(", "));
    }
    let comparison = report.comparison.as_ref();
    let mut part = String::from(match comparison {
        Some(_) => {
            "\n| Model | Held | Change | Flaky | Cost | Latency (p50) |\n|---|---|---|---|---|---|\n"
        }
        None => "\n| Model | Held | Flaky | Cost | Latency (p50) |\n|---|---|---|---|---|\n",
    });
    let lines = all.iter().map(|it| model(it, comparison));
    rows(&mut part, lines, all.len(), MODELS_ROOM, "model");
    part
}

fn model(it: &ModelTotals, comparison: Option<&Comparison>) -> String {
    let flaky = match it.flaky.total {
        0 => "–".to_owned(),
        total => format!("{} of {}", count(it.flaky.count), count(total)),
    };
    let latency = it.latency_ms.map_or_else(|| "–".to_owned(), |it| duration(it.p50));
    let mut cells = vec![shown(&it.model, NAME), it.totals.held().to_string()];
    cells.extend(comparison.map(|all| change_of(all, &it.model).unwrap_or_else(|| "–".to_owned())));
    cells.extend([flaky, shown(&cost(it.totals.cost), NAME), latency]);
    format!("| {} |", cells.join(" | "))
}

/// Returns the causes of failures as a table, the most frequent first.
pub(super) fn causes(summary: &Summary) -> String {
    let all = &summary.causes;
    if all.is_empty() {
        return String::new();
    }
    let mut part = String::from(
        "\n### Causes\n\n| Cases | Cause | Models | For example |\n|---|---|---|---|\n",
    );
    rows(&mut part, all.iter().take(CAUSES).map(cause), all.len(), CAUSES_ROOM, "cause");
    if summary.failures_left_out > 0 {
        let failures = plural(summary.failures_left_out, "failure");
        part.extend(["\n", &failures, " of further causes that no report lists.\n"]);
    }
    part
}

fn cause(it: &CauseTotals) -> String {
    let code = it.code.as_ref().map(|it| format!(" ({})", shown(it.as_str(), NAME)));
    let title = format!("{}{}", shown(&it.title, NAME), code.unwrap_or_default());
    let first = it.models.iter().take(NAMED);
    let mut models: Vec<String> =
        first.map(|(model, cases)| format!("{} {}", shown(model, NAME), count(*cases))).collect();
    let more = it.models.len().saturating_sub(NAMED) as u64;
    models.extend((more > 0).then(|| format!("{} more", count(more))));
    let row = [count(it.cases), title, models.join(", "), examples(&it.examples, it.cases)];
    format!("| {} |", row.join(" | "))
}

/// Returns the most frequent causes of failures in one line, with their numbers of cases; `None` without causes.
pub(super) fn top_causes(summary: &Summary) -> Option<String> {
    let all = &summary.causes;
    let first = all.iter().take(NAMED);
    let mut causes: Vec<String> =
        first.map(|it| format!("{} × {}", count(it.cases), shown(&it.title, NAME))).collect();
    let more = (all.len() as u64).saturating_sub(causes.len() as u64);
    causes.extend((more > 0).then(|| plural(more, "more cause")));
    let failed = summary.totals.failed + summary.totals.errored;
    (!causes.is_empty())
        .then(|| format!("Did not hold: {}: {}", plural(failed, "case"), causes.join("; ")))
}

/// Names the first cases, and counts the others.
fn examples(first: &[FailingCase], total: u64) -> String {
    let first = first.iter().take(NAMED);
    let mut names: Vec<String> =
        first.map(|it| format!("{} ({})", shown(&it.case, NAME), shown(&it.model, NAME))).collect();
    let more = total.saturating_sub(names.len() as u64);
    names.extend((more > 0).then(|| format!("{} more", count(more))));
    names.join(", ")
}

/// Returns the violated prompt assertions as a table. The others are only counted.
pub(super) fn assertions(summary: &Summary) -> String {
    let (held, violated): (Vec<_>, Vec<_>) = summary.assertions.iter().partition(|it| it.held());
    let mut part = String::new();
    if !violated.is_empty() {
        part.push_str(
            "\n### Prompt assertions\n\n| | Assertion | Kept | Violated in | For example \
            |\n|---|---|---|---|---|\n",
        );
        let lines = violated.iter().map(|it| assertion(it));
        rows(&mut part, lines, violated.len(), ASSERTIONS_ROOM, "prompt assertion");
    }
    if let Some(others) = kept_of(&held) {
        part.extend(["\n", &others, ".\n"]);
    }
    part
}

/// Names the violated prompt assertions, and counts those that held and those that did not apply.
///
/// Returns `None` without prompt assertions.
pub(super) fn kept(summary: &Summary) -> Option<String> {
    let (held, violated): (Vec<_>, Vec<_>) = summary.assertions.iter().partition(|it| it.held());
    let mut parts: Vec<String> = kept_of(&held).into_iter().collect();
    let named = violated.iter().take(CAUSES);
    parts.extend(named.map(|it| match it.kept.total {
        0 => format!("{} never judged", shown(&it.id, NAME)),
        _ => format!("{} kept in {}", shown(&it.id, NAME), it.kept),
    }));
    let more = violated.len().saturating_sub(CAUSES) as u64;
    parts.extend((more > 0).then(|| format!("{} not kept", plural(more, "other"))));
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn kept_of(held: &[&AssertionSummary]) -> Option<String> {
    let idle = held.iter().filter(|it| it.kept.total == 0).count() as u64;
    let kept = held.len() as u64 - idle;
    let parts = [
        (kept > 0).then(|| format!("{} kept", plural(kept, "prompt assertion"))),
        (idle > 0).then(|| format!("{} did not apply", plural(idle, "prompt assertion"))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn assertion(it: &AssertionSummary) -> String {
    let sign = if it.kept.count < it.kept.total { "❌" } else { "⚠️" };
    let mut kept = match it.kept.total {
        0 => "never judged".to_owned(),
        _ => it.kept.to_string(),
    };
    if it.errored > 0 {
        kept = format!("{kept}; {} errored", count(it.errored));
    }
    let example = it.example.as_deref().map(|it| shown(it, WORDS)).unwrap_or_default();
    let names = examples(&it.failing, it.failing_cases);
    let row = [sign, &shown(&it.id, NAME), &kept, &names, &example].join(" | ");
    format!("| {row} |")
}

/// Returns the warnings as a list.
pub(super) fn warnings(report: &AnyReport<'_>) -> String {
    if report.warnings.is_empty() {
        return String::new();
    }
    let mut part = String::from("\n### Warnings\n\n");
    let lines = report.warnings.iter().map(|it| format!("- {}", shown(it, WORDS)));
    rows(&mut part, lines, report.warnings.len(), WARNINGS_ROOM, "warning");
    part
}

/// Returns the first warning and the number of the others, as one line; `None` without warnings.
pub(super) fn first_warning(report: &AnyReport<'_>) -> Option<String> {
    let first = report.warnings.first()?;
    let more = report.warnings.len() as u64 - 1;
    let more = if more > 0 { format!("; {}", plural(more, "more warning")) } else { String::new() };
    Some(format!("Warning: {}{more}", shown(first, WORDS)))
}

/// Writes the lines that fit into `room`, and the number of the other lines.
fn rows(
    page: &mut String,
    lines: impl Iterator<Item = String>,
    of: usize,
    room: usize,
    word: &str,
) {
    let kept = first_that_fit(lines, room);
    let more = of.saturating_sub(kept.len()) as u64;
    for line in kept {
        page.push_str(&line);
        page.push('\n');
    }
    if more > 0 {
        page.extend(["\n", &plural(more, &format!("more {word}")), ".\n"]);
    }
}
