//! The named scores and the derived metrics of each model.

use std::fmt;

use kindlm_types::{AnyReport, Summary, ecma};

use crate::Verbosity;
use crate::amount::plural;
use crate::page::{Ink, Page};
use crate::plain::one_line;

/// Writes the derived metrics, and in a verbose report the named scores.
///
/// A quiet report has neither.
pub(super) fn render(
    page: &mut Page<'_>,
    report: &AnyReport<'_>,
    summary: &Summary,
    verbosity: Verbosity,
) -> fmt::Result {
    let named = verbosity == Verbosity::Verbose;
    let is_derived = verbosity > Verbosity::Quiet;
    let mut begun = false;
    for model in &summary.models {
        let mut lines = Vec::new();
        for it in model.named_scores.iter().filter(|_| named) {
            let over = plural(it.count, "execution");
            lines.push((
                one_line(&it.name),
                ecma::to_fixed(it.mean(), 2),
                format!("mean of {over}"),
            ));
        }
        for metric in report.derived.iter().filter(|_| is_derived) {
            let found = metric.values.iter().find(|it| it.model == model.model);
            let (value, note) = match found.map(|it| &it.value) {
                Some(Ok(value)) => (ecma::to_fixed(*value, 2), one_line(&metric.formula)),
                Some(Err(why)) => ("–".to_owned(), one_line(why)),
                None => continue,
            };
            lines.push((one_line(&metric.name), value, note));
        }
        if lines.is_empty() {
            continue;
        }
        if !begun {
            page.text(0, Ink::Strong, "Metrics")?;
            begun = true;
        }
        page.text(2, Ink::Plain, &one_line(&model.model))?;
        let widest = lines.iter().map(|(name, ..)| name.chars().count()).max();
        let widest = widest.unwrap_or(0).min(24);
        for (name, value, note) in lines {
            let name = format!("{name:widest$}  ");
            let note = format!("  {note}");
            page.spans(
                4,
                widest + 4,
                &[(Ink::Plain, &name), (Ink::Strong, &value), (Ink::Faint, &note)],
            )?;
        }
    }
    if begun { page.blank() } else { Ok(()) }
}
