//! The causes of failures, each with its number of cases.

use std::fmt;

use kindlm_types::Summary;

use crate::amount::{count, plural};
use crate::page::{Ink, Page};
use crate::plain::{head, one_line};

/// The maximum number of causes that are listed.
const MOST: usize = 8;

/// The maximum length of a title, in bytes.
const TITLE: usize = 100;

/// Writes the causes that several cases have in common.
pub(super) fn render(page: &mut Page<'_>, summary: &Summary) -> fmt::Result {
    let common = || summary.causes.iter().filter(|it| it.cases > 1);
    if common().next().is_none() {
        return Ok(());
    }
    page.text(0, Ink::Strong, "Causes")?;
    for cause in common().take(MOST) {
        let number = format!("{:>6} × ", count(cause.cases));
        let shown = head(&cause.title, TITLE);
        let more = if shown.len() < cause.title.len() { "…" } else { "" };
        let title = one_line(shown) + more;
        let models =
            cause.models.iter().map(|(model, cases)| format!("{} {cases}", one_line(model)));
        let models = models.collect::<Vec<_>>().join(", ");
        let left = [(Ink::Bad, &*number), (Ink::Plain, &*title)];
        page.between(0, 9, &left, &models)?;
    }
    let more = common().count().saturating_sub(MOST);
    if more > 0 {
        page.text(
            2,
            Ink::Faint,
            &format!("… {more} more causes; the html report has all of them"),
        )?;
    }
    if summary.failures_left_out > 0 {
        let failures = plural(summary.failures_left_out, "failure");
        page.text(2, Ink::Faint, &format!("… {failures} of further causes that no report lists"))?;
    }
    page.blank()
}
