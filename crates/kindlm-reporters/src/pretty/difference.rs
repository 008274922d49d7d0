//! The difference between the expected and the actual value of a check.

use std::fmt;

use kindlm_types::AssertionResult;

use crate::diff::{self, DiffLine, LineKind};
use crate::page::{Ink, Page, Span};
use crate::plain::one_line;

/// The maximum number of lines of one difference.
const MOST: usize = 12;

/// The number of equal lines that are shown beside a change.
const CONTEXT: usize = 1;

/// Writes the differences of a result. Returns true if there is one.
pub(super) fn render(
    page: &mut Page<'_>,
    indent: usize,
    result: &AssertionResult,
) -> Result<bool, fmt::Error> {
    let differences: Vec<Vec<DiffLine>> =
        result.evidence.iter().filter_map(diff::of_evidence).collect();
    for lines in &differences {
        difference(page, indent, lines)?;
    }
    Ok(!differences.is_empty())
}

pub(crate) fn difference(page: &mut Page<'_>, indent: usize, lines: &[DiffLine]) -> fmt::Result {
    let changed = |at: usize| lines.get(at).is_some_and(|it| it.kind != LineKind::Same);
    let is_near = |at: &usize| (at.saturating_sub(CONTEXT)..=at + CONTEXT).any(changed);
    let near: Vec<usize> = (0..lines.len()).filter(is_near).collect();
    for at in near.iter().take(MOST) {
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
    let more = near.len().saturating_sub(MOST);
    if more > 0 {
        page.text(indent, Ink::Faint, &format!("… {more} more lines differ"))?;
    }
    Ok(())
}
