//! The difference between the expected and the actual value of a check.

use std::fmt;

use kindlm_types::AssertionResult;

use super::paths::{self, Change};
use super::text::{VALUE_BYTES, head_of};
use crate::amount::count;
use crate::diff::{self, DiffLine, LineKind};
use crate::evidence;
use crate::page::{Ink, Page, Span};
use crate::plain::one_line;

/// The maximum number of lines of one difference, unless the report is verbose.
const MOST: usize = 12;

/// The maximum number of characters of a part of a line, unless the report is verbose.
const LINE: usize = 160;

/// The number of equal lines that are shown beside a change.
const CONTEXT: usize = 1;

/// Writes the schema errors that the message lacks, and the differences of a result. Returns true if there is a
/// difference.
pub(super) fn render(
    page: &mut Page<'_>,
    indent: usize,
    result: &AssertionResult,
    verbose: bool,
) -> Result<bool, fmt::Error> {
    schema_errors(page, indent, result, if verbose { usize::MAX } else { MOST })?;
    let mut is_compared = false;
    for evidence in &result.evidence {
        let Some(lines) = diff::of_evidence(evidence) else { continue };
        is_compared = true;
        page.text(indent, Ink::Faint, "- expected  + actual")?;
        if let Some(changes) = paths::of_evidence(evidence) {
            by_path(page, indent, &changes)?;
            continue;
        }
        if verbose {
            write(page, indent, &lines, usize::MAX)?;
        } else {
            let lines: Vec<DiffLine> = lines.into_iter().map(|it| diff::elided(it, LINE)).collect();
            write(page, indent, &lines, MOST)?;
        }
    }
    Ok(is_compared)
}

/// Writes at most `most` schema errors that the message of the result lacks.
fn schema_errors(
    page: &mut Page<'_>,
    indent: usize,
    result: &AssertionResult,
    most: usize,
) -> fmt::Result {
    let errors = evidence::unnamed_errors(result);
    for error in errors.iter().take(most) {
        let error = one_line(&head_of(error, VALUE_BYTES));
        page.spans(indent, 2, &[(Ink::Bad, "- "), (Ink::Plain, &error)])?;
    }
    let more = errors.len().saturating_sub(most);
    if more > 0 {
        page.text(indent, Ink::Faint, &format!("… {more} more; -v shows all"))?;
    }
    Ok(())
}

/// Writes the changed values of a JSON document, such as `/items/1/qty  - 2  + 3`.
fn by_path(page: &mut Page<'_>, indent: usize, changes: &[Change]) -> fmt::Result {
    let value = |sign, it: &Option<String>| match it {
        Some(text) => format!("  {sign} {}", one_line(text)),
        None => format!("  {sign} no value"),
    };
    for it in changes {
        let path = one_line(&it.path);
        let (expected, actual) = (value('-', &it.expected), value('+', &it.actual));
        let spans = [(Ink::Plain, &*path), (Ink::Bad, &*expected), (Ink::Good, &*actual)];
        page.spans(indent, 2, &spans)?;
    }
    Ok(())
}

pub(crate) fn difference(page: &mut Page<'_>, indent: usize, lines: &[DiffLine]) -> fmt::Result {
    write(page, indent, lines, MOST)
}

/// Writes at most `most` lines: those that differ, and equal lines beside them. `…` stands for the lines between.
fn write(page: &mut Page<'_>, indent: usize, lines: &[DiffLine], most: usize) -> fmt::Result {
    let changed = |at: usize| lines.get(at).is_some_and(|it| it.kind != LineKind::Same);
    let is_near = |at: &usize| (at.saturating_sub(CONTEXT)..=at + CONTEXT).any(changed);
    let near: Vec<usize> = (0..lines.len()).filter(is_near).collect();
    for (number, at) in near.iter().take(most).enumerate() {
        let is_after_gap = number > 0 && near.get(number - 1).is_some_and(|it| it + 1 < *at);
        if is_after_gap {
            page.text(indent, Ink::Faint, "…")?;
        }
        let Some(line) = lines.get(*at) else { continue };
        let (ink, sign) = match line.kind {
            LineKind::Same => (Ink::Faint, "  "),
            LineKind::Removed => (Ink::Bad, "- "),
            LineKind::Added => (Ink::Good, "+ "),
        };
        let texts: Vec<(bool, String)> =
            line.segments.iter().map(|(is_strong, text)| (*is_strong, one_line(text))).collect();
        let mut spans: Vec<Span<'_>> = vec![(ink, sign)];
        spans.extend(texts.iter().map(|(is_strong, text)| {
            let ink = if *is_strong || line.kind == LineKind::Same { ink } else { Ink::Plain };
            (ink, text.as_str())
        }));
        page.spans(indent, 2, &spans)?;
    }
    match near.iter().skip(most).filter(|at| changed(**at)).count() as u64 {
        0 => Ok(()),
        1 => page.text(indent, Ink::Faint, "… 1 more line differs"),
        more => page.text(indent, Ink::Faint, &format!("… {} more lines differ", count(more))),
    }
}
