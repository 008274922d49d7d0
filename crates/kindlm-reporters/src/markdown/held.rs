//! The cases that hold, but with low soft scores or doubtful verdicts.

use kindlm_types::{AnyReport, CaseMark, CaseResult, Outcome, Summary};

use super::escape::shown;
use super::fit::length;
use super::limits::{NAME, NAMED, WORDS};
use crate::amount::{plural, repeats};
use crate::score::beside_wanted;
use crate::{RenderError, panel};

/// The maximum number of cases of each kind that the comment of a passing run names.
const FEW: usize = 3;

/// Writes the cases that pass with a low soft score, one line each.
///
/// Lines that do not fit into `room` are only counted.
pub(super) fn scored(
    page: &mut String,
    report: &AnyReport<'_>,
    summary: &Summary,
    room: usize,
) -> Result<(), RenderError> {
    let total = summary.totals.scored;
    if total == 0 {
        return Ok(());
    }
    let title = format!("\n### Scores below their thresholds: {}\n\n", plural(total, "case"));
    let mut left = room.saturating_sub(length(&title));
    let mut listed = 0;
    page.push_str(&title);
    for case in report.each_where(is_scored) {
        let line = format!("- {}\n", scores_of(case?.as_ref()));
        let Some(rest) = left.checked_sub(length(&line)) else { break };
        left = rest;
        listed += 1;
        page.push_str(&line);
    }
    if total > listed {
        page.extend(["\n*", &plural(total - listed, "more case"), ".*\n"]);
    }
    Ok(())
}

/// Returns the first cases with a low soft score, as one line; `None` if there are none.
pub(super) fn low_scores(
    report: &AnyReport<'_>,
    summary: &Summary,
) -> Result<Option<String>, RenderError> {
    let total = summary.totals.scored;
    if total == 0 {
        return Ok(None);
    }
    let mut listed = Vec::new();
    for case in report.each_where(is_scored).take(FEW) {
        listed.push(scores_of(case?.as_ref()));
    }
    let title = format!("Scores below their thresholds: {}", plural(total, "case"));
    Ok(Some(in_one_line(&title, &listed, total)))
}

fn is_scored(it: CaseMark<'_>) -> bool {
    it.outcome == Outcome::Scored
}

fn in_one_line(title: &str, listed: &[String], total: u64) -> String {
    let more = total.saturating_sub(listed.len() as u64);
    let more = if more > 0 { format!("; {}", plural(more, "more case")) } else { String::new() };
    format!("{title}: {}{more}", listed.join("; "))
}

/// Returns a case with its first low scores.
fn scores_of(case: &CaseResult) -> String {
    let of = case.executions.len();
    let findings = case.findings();
    let mut scores: Vec<String> = findings
        .iter()
        .take(NAMED)
        .map(|it| {
            let mut facts = vec![shown(&it.result.label, NAME)];
            facts.extend(it.result.turn.as_ref().map(|turn| format!("turn {}", shown(turn, NAME))));
            facts.extend(beside_wanted(it.result));
            facts.push(repeats(&it.repeats, of));
            facts.retain(|it| !it.is_empty());
            facts.join(", ")
        })
        .collect();
    let more = findings.len().saturating_sub(NAMED) as u64;
    if more > 0 {
        scores.push(plural(more, "more finding"));
    }
    format!("{}: {}", name_of(case), scores.join("; "))
}

/// Returns the cases with doubtful checks (see [`panel::doubts`]), one line each.
///
/// Lines that do not fit into `room` are only counted. The text is empty if there are no such cases.
pub(super) fn doubtful(report: &AnyReport<'_>, room: usize) -> Result<String, RenderError> {
    let (mut lines, mut total, mut left) = (String::new(), 0_u64, room);
    for case in report.each() {
        let Some(line) = doubts_of(case?.as_ref()).map(|it| format!("- {it}\n")) else { continue };
        total += 1;
        // After the first line that does not fit, cases are only counted.
        left = left.saturating_sub(length(&line));
        if left > 0 {
            lines.push_str(&line);
        }
    }
    if total == 0 {
        return Ok(lines);
    }
    let listed = lines.lines().count() as u64;
    if total > listed {
        let more = plural(total - listed, "more case");
        lines.extend(["\n*", &more, ".*\n"]);
    }
    Ok(format!("\n### Held, but judges differ: {}\n\n{lines}", plural(total, "case")))
}

/// Returns the first cases with doubtful checks, as one line; `None` if there are none.
pub(super) fn doubts(report: &AnyReport<'_>) -> Result<Option<String>, RenderError> {
    let (mut listed, mut total) = (Vec::new(), 0_u64);
    for case in report.each() {
        let Some(doubts) = doubts_of(case?.as_ref()) else { continue };
        total += 1;
        if listed.len() < FEW {
            listed.push(doubts);
        }
    }
    let title = format!("Held, but judges differ: {}", plural(total, "case"));
    Ok((total > 0).then(|| in_one_line(&title, &listed, total)))
}

/// Returns a case with its first doubtful checks; `None` if there are none.
fn doubts_of(case: &CaseResult) -> Option<String> {
    let doubts = panel::doubts(case);
    if doubts.is_empty() {
        return None;
    }
    let first = doubts.iter().take(NAMED);
    let mut reasons: Vec<String> = first
        .map(|(label, why)| format!("{} ({})", shown(label, NAME), shown(why, WORDS)))
        .collect();
    let more = doubts.len().saturating_sub(NAMED) as u64;
    if more > 0 {
        reasons.push(plural(more, "more check"));
    }
    Some(format!("{}: {}", name_of(case), reasons.join("; ")))
}

fn name_of(case: &CaseResult) -> String {
    format!("{} · {}", shown(&case.case, NAME), shown(&case.model, NAME))
}
