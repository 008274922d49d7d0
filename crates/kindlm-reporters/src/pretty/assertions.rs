//! The summary of prompt assertions: violated rules, cases and reasons.

use std::fmt;

use kindlm_types::{AssertionSummary, Summary};

use super::text::field;
use crate::Verbosity;
use crate::amount::{count, plural};
use crate::page::{Ink, Page};
use crate::plain::one_line;

/// The maximum number of failing cases that are named. The JSON report names more.
const NAMED: usize = 3;

pub(super) fn render(page: &mut Page<'_>, summary: &Summary, verbosity: Verbosity) -> fmt::Result {
    let shown = |it: &&AssertionSummary| verbosity > Verbosity::Quiet || !it.held();
    let shown: Vec<&AssertionSummary> = summary.assertions.iter().filter(shown).collect();
    if shown.is_empty() {
        return Ok(());
    }
    page.text(0, Ink::Strong, "Prompt assertions")?;
    let widest = shown.iter().map(|it| one_line(&it.id).chars().count()).max();
    let widest = widest.unwrap_or(0).min(24);
    for it in shown {
        line(page, it, widest)?;
    }
    page.blank()
}

fn line(page: &mut Page<'_>, it: &AssertionSummary, widest: usize) -> fmt::Result {
    let (ink, sign) = match () {
        () if it.kept.count < it.kept.total => (Ink::Bad, "✗ "),
        () if it.errored > 0 => (Ink::Trouble, "! "),
        () if it.kept.total == 0 => (Ink::Faint, "– "),
        () => (Ink::Good, "✓ "),
    };
    let name = format!("{:widest$}  ", one_line(&it.id));
    let mut facts = vec![match it.kept.total {
        0 if it.errored == 0 => "did not apply".to_owned(),
        0 => "never judged".to_owned(),
        _ => format!("kept in {}", it.kept),
    }];
    if it.errored > 0 {
        facts.push(format!("{} errored", count(it.errored)));
    }
    if it.skipped > 0 && it.kept.total + it.errored > 0 {
        facts.push(format!("did not apply to {}", count(it.skipped)));
    }
    let facts = facts.join(", ");
    page.spans(2, widest + 4, &[(ink, sign), (Ink::Plain, &name), (Ink::Plain, &facts)])?;
    if !it.failing.is_empty() {
        let first = it.failing.iter().take(NAMED);
        let mut names: Vec<String> =
            first.map(|it| format!("{} ({})", it.case, it.model)).collect();
        let more = it.failing_cases.saturating_sub(names.len() as u64);
        if more > 0 {
            names.push(format!("and {}", plural(more, "more case")));
        }
        field(page, 4, "in     ", &names.join(", "))?;
    }
    match &it.example {
        Some(example) => field(page, 4, "as in  ", example),
        None => Ok(()),
    }
}
