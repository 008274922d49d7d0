//! The difference between the expected and the actual value of a check.

use std::fmt;

use kindlm_types::AssertionResult;

use crate::diff::{self, DiffLine, LineKind};
use crate::page::{Ink, Page, Span};
use crate::plain::one_line;

/// The maximum number of lines of one difference, unless the report is verbose.
const MOST: usize = 12;

/// The maximum number of characters of a part of a line, unless the report is verbose.
const LINE: usize = 160;

/// The number of equal lines that are shown beside a change.
const CONTEXT: usize = 1;

/// Writes the differences of a result. Returns true if there is one.
pub(super) fn render(
    page: &mut Page<'_>,
    indent: usize,
    result: &AssertionResult,
    verbose: bool,
) -> Result<bool, fmt::Error> {
    let differences: Vec<Vec<DiffLine>> =
        result.evidence.iter().filter_map(diff::of_evidence).collect();
    let is_compared = !differences.is_empty();
    for lines in differences {
        page.text(indent, Ink::Faint, "- expected  + actual")?;
        if verbose {
            write(page, indent, &lines, usize::MAX)?;
        } else {
            let lines: Vec<DiffLine> = lines.into_iter().map(|it| diff::elided(it, LINE)).collect();
            write(page, indent, &lines, MOST)?;
        }
    }
    Ok(is_compared)
}

pub(crate) fn difference(page: &mut Page<'_>, indent: usize, lines: &[DiffLine]) -> fmt::Result {
    write(page, indent, lines, MOST)
}

/// Writes at most `most` lines: those that differ, and equal lines beside them.
fn write(page: &mut Page<'_>, indent: usize, lines: &[DiffLine], most: usize) -> fmt::Result {
    let changed = |at: usize| lines.get(at).is_some_and(|it| it.kind != LineKind::Same);
    let is_near = |at: &usize| (at.saturating_sub(CONTEXT)..=at + CONTEXT).any(changed);
    let near: Vec<usize> = (0..lines.len()).filter(is_near).collect();
    for at in near.iter().take(most) {
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
    let more = near.len().saturating_sub(most);
    if more > 0 {
        page.text(indent, Ink::Faint, &format!("… {more} more lines differ"))?;
    }
    Ok(())
}
