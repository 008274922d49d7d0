//! Renders the result of `kindlm mutate`, for a terminal and as a page.

mod page;
mod text;

use std::collections::HashMap;

use kindlm_wire::mutation::{CheckScore, MutantCounts, MutationReport};

use crate::amount::{count, percent, plural};

pub use page::html;
pub(crate) use page::{score_line, section};
pub use text::text;

/// The totals of the checks with one assertion: the number of checks, and the numbers of mutants.
struct AssertionWork<'a> {
    id: &'a str,
    checks: u64,
    kills: u64,
    /// The number of harmful mutants that would survive without one of the checks.
    alone: u64,
    /// The number of failures on harmless mutants.
    brittle: u64,
}

/// Adds up the checks of each assertion, in the order of their first check.
fn by_assertion(checks: &[CheckScore]) -> Vec<AssertionWork<'_>> {
    let mut all: Vec<AssertionWork<'_>> = Vec::new();
    for check in checks {
        let id = check.assertion.as_str();
        let at = all.iter().position(|it| it.id == id).unwrap_or_else(|| {
            all.push(AssertionWork { id, checks: 0, kills: 0, alone: 0, brittle: 0 });
            all.len() - 1
        });
        if let Some(work) = all.get_mut(at) {
            work.checks += 1;
            work.kills += check.kills;
            work.alone += check.kills_alone;
            work.brittle += check.brittle;
        }
    }
    all
}

/// The checks with the same label that are never the only check to kill a mutant.
struct IdleChecks<'a> {
    label: &'a str,
    checks: u64,
    kills: u64,
}

/// Returns the checks that are never the only check to kill a mutant, grouped by label. Checks that kill no mutant at
/// all come first.
fn idle(checks: &[CheckScore]) -> Vec<IdleChecks<'_>> {
    let mut all: Vec<IdleChecks<'_>> = Vec::new();
    let mut index = HashMap::new();
    for check in checks.iter().filter(|it| it.kills_alone == 0) {
        let label = check.label.as_str();
        let at = *index.entry((&check.assertion, label)).or_insert_with(|| {
            all.push(IdleChecks { label, checks: 0, kills: 0 });
            all.len() - 1
        });
        if let Some(idle) = all.get_mut(at) {
            idle.checks += 1;
            idle.kills += check.kills;
        }
    }
    all.sort_by_key(|it| it.kills > 0);
    all
}

/// Formats a score as `94.0% (150 of 160)`.
fn score(counts: &MutantCounts) -> String {
    let decided = counts.killed + counts.survived;
    match counts.score() {
        Some(share) => {
            format!("{}% ({} of {})", percent(share), count(counts.killed), count(decided))
        }
        None => "none".to_owned(),
    }
}

/// Formats the numbers of mutants without a result: one line for harmful mutants, and one for harmless mutants.
fn undecided_lines(report: &MutationReport) -> impl Iterator<Item = String> {
    let families = [
        ("harmful", report.harmful, "score"),
        ("harmless", report.harmless, "number of brittle ones"),
    ];
    families.into_iter().filter_map(|(family, counts, of)| {
        let parts = [(counts.errored, "errored"), (counts.not_judged, "not judged")];
        let shown: Vec<String> = parts
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, word)| format!("{} {word}", plural(number, &format!("{family} mutant"))))
            .collect();
        (!shown.is_empty()).then(|| format!("{}: not in the {of}", shown.join(", ")))
    })
}

/// Returns whether the gate holds, with the reason as a sentence; `None` without a gate.
fn gate(report: &MutationReport) -> Option<(bool, String)> {
    let gate = report.gate?;
    let min = percent(gate.min);
    let sentence = match (gate.held, report.score) {
        (true, _) => format!("the score reaches the minimum of {min}%"),
        (false, None) => format!("no mutant was decided, and the minimum score is {min}%"),
        (false, Some(score)) if score + 1e-9 >= gate.min => {
            format!("not every mutant was decided, and the minimum score is {min}%")
        }
        (false, Some(_)) => format!("the score is below the minimum of {min}%"),
    };
    Some((gate.held, sentence))
}
