//! The failed cases by name, at the end of a long report.

use kindlm_types::{AnyReport, CaseMark, Outcome, Summary};

use super::case::mark_of;
use crate::RenderError;
use crate::amount::count;
use crate::page::{Ink, Page};
use crate::plain::one_line;
use crate::rerun;

/// The maximum number of failed cases that are named.
const MOST: usize = 10;

/// The number of cases above which the failed cases are named again. A shorter report fits on a screen.
const SHORT: usize = 5;

/// Writes the names and places of the failed and errored cases of a long report, and the commands that run them again.
pub(super) fn render(
    page: &mut Page<'_>,
    report: &AnyReport<'_>,
    summary: &Summary,
) -> Result<(), RenderError> {
    let failed = summary.totals.failed + summary.totals.errored;
    if failed == 0 || report.cases.len() <= SHORT {
        return Ok(());
    }
    page.text(0, Ink::Strong, "Did not hold")?;
    let is_failed = |it: CaseMark<'_>| matches!(it.outcome, Outcome::Failed | Outcome::Errored);
    for case in report.each_where(is_failed).take(MOST) {
        let case = case?;
        let name = one_line(&case.case);
        let model = format!(" · {}", one_line(&case.model));
        let place = case.source.as_ref().map(|it| one_line(&it.to_string())).unwrap_or_default();
        let left = [mark_of(&case), (Ink::Plain, &*name), (Ink::Faint, &*model)];
        page.between(2, 2, &left, &place)?;
        page.text(4, Ink::Faint, &rerun::of_case(report, &case))?;
    }
    let more = failed.saturating_sub(MOST as u64);
    if more > 0 {
        let command = rerun::of_failed(report);
        page.text(2, Ink::Faint, &format!("… {} more; all again: {command}", count(more)))?;
    }
    page.blank()?;
    Ok(())
}
