//! The text of a check's result, with its parts in a verbose report.

use std::fmt;

use kindlm_types::{AssertionResult, Severity, Verdict, ecma};

use super::difference;
use super::text::{MESSAGE_BYTES, compact, field, paragraphs, whole_text};
use crate::message;
use crate::page::{Ink, Page, Span};
use crate::panel;
use crate::plain::one_line;
use crate::score::{THRESHOLDS, beside_wanted, has_details};

/// The maximum number of lines of a message, unless the report is verbose.
const MESSAGE_LINES: usize = 5;

/// The maximum indentation level. A script may nest parts arbitrarily deep.
const DEEPEST: usize = 6;

/// Writes a check with all details, and its nested parts below it.
pub(super) fn result_tree(
    page: &mut Page<'_>,
    indent: usize,
    result: &AssertionResult,
) -> fmt::Result {
    // Use a stack instead of recursion, because a script may nest parts arbitrarily deep.
    let mut open = vec![(0, result)];
    while let Some((depth, result)) = open.pop() {
        let place = if depth > DEEPEST { format!("level {depth}") } else { String::new() };
        result_lines(page, indent + 2 * depth.min(DEEPEST), result, &place, true)?;
        open.extend(result.components.iter().rev().map(|part| (depth + 1, part)));
    }
    Ok(())
}

/// Writes a check with its verdict and message. A check that did not hold also has its reasoning and its differences.
///
/// With `verbose`, every check has all details.
pub(super) fn result_lines(
    page: &mut Page<'_>,
    indent: usize,
    result: &AssertionResult,
    place: &str,
    verbose: bool,
) -> fmt::Result {
    let label = one_line(&result.label);
    let code = result.verdict.code().map(|it| format!("  {}", one_line(it.as_str())));
    let code = code.unwrap_or_default();
    let score = score_of(result);
    let mut facts: Vec<String> = Vec::new();
    if let Some(turn) = &result.turn {
        facts.push(format!("turn `{}`", one_line(turn)));
    }
    if !place.is_empty() {
        facts.push(place.to_owned());
    }
    if verbose && result.weight.to_bits() != 1.0_f64.to_bits() {
        facts.push(format!("weight {}", ecma::number(result.weight)));
    }
    if verbose && let Some(metric) = &result.metric {
        facts.push(format!("scores `{}`", one_line(metric)));
    }
    let facts = if facts.is_empty() { String::new() } else { format!("  {}", facts.join(", ")) };
    let (ink, sign) = sign(result);
    let spans: [Span<'_>; 5] =
        [(ink, sign), (ink, &score), (Ink::Plain, &label), (ink, &code), (Ink::Faint, &facts)];
    page.spans(indent, 2, &spans)?;
    if let Some(whole) = result.verdict.message() {
        if verbose {
            whole_text(page, indent + 2, whole)?;
        } else {
            let text = message::shown(result, MESSAGE_LINES, MESSAGE_BYTES);
            paragraphs(page, indent + 2, Ink::Plain, &text)?;
        }
    }
    let jurors = if verbose || result.verdict.held() { Vec::new() } else { panel::jurors(result) };
    // A list of the votes shows the reason of a juror.
    let is_listed = !jurors.is_empty() && message::is_of_juror(result);
    let wants_reason = verbose || !result.verdict.held() && !is_listed;
    if let Some(reasoning) = message::reason(result).filter(|_| wants_reason) {
        paragraphs(page, indent + 2, Ink::Faint, reasoning)?;
    }
    for juror in &jurors {
        field(page, indent + 2, "vote     ", juror)?;
    }
    let is_compared =
        !result.verdict.held() && difference::render(page, indent + 2, result, verbose)?;
    for (key, value) in &result.metadata {
        // The expected and the actual value explain a failure. The other values are only for verbose reports.
        let is_side = matches!(key.as_str(), "expected" | "actual");
        if is_side && is_compared {
            continue;
        }
        let explains = is_side && !result.verdict.held();
        let is_shown_above = THRESHOLDS.contains(&key.as_str()) || key == panel::CHOICES;
        if explains || (verbose && !is_shown_above) {
            field(page, indent + 2, &format!("{:8} ", one_line(key)), &compact(value))?;
        }
    }
    if verbose && !result.named_scores.is_empty() {
        let named = result.named_scores.iter();
        let named =
            named.map(|it| format!("{} {}", one_line(&it.name), ecma::number(it.score.get())));
        field(page, indent + 2, "scores   ", &named.collect::<Vec<_>>().join(", "))?;
    }
    if verbose {
        for (key, line) in panel::lines(result) {
            field(page, indent + 2, &format!("{key:8} "), &line)?;
        }
    }
    Ok(())
}

/// Returns the mark of a check's result.
///
/// A soft check has a score mark instead of a check mark.
fn sign(result: &AssertionResult) -> (Ink, &'static str) {
    match (&result.verdict, result.severity) {
        (Verdict::Fail { .. }, Severity::Gate) => (Ink::Bad, "✗ "),
        (Verdict::Fail { .. }, Severity::Soft) => (Ink::Warning, "~ "),
        (Verdict::Errored { .. }, _) => (Ink::Trouble, "! "),
        (Verdict::Skipped { .. }, _) => (Ink::Faint, "– "),
        (Verdict::Pass, Severity::Gate) => (Ink::Good, "✓ "),
        (Verdict::Pass, Severity::Soft) => (Ink::Plain, "· "),
    }
}

/// Returns the score before the label, such as `0.62 (wants 0.8)  `.
///
/// Returns an empty text if the mark already implies the score.
pub(super) fn score_of(result: &AssertionResult) -> String {
    let score = beside_wanted(result).filter(|_| has_details(result));
    score.map(|it| format!("{it}  ")).unwrap_or_default()
}
