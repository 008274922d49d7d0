//! A case that both runs have and that can be compared.

use std::collections::BTreeSet;

use kindlm_stats::{Difference, Tally, fisher_exact};
use kindlm_types::{CaseChange, CaseChangeKind, PassRate, cluster_of};

use super::{TOLERANCE, change};
use crate::{Entry, EntryRate};

/// A case of both runs, with equal conditions and known pass rates.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    then: &'a Entry,
    now: &'a Entry,
    pub(super) before: Tally,
    pub(super) after: Tally,
}

impl<'a> Pair<'a> {
    /// Pairs the entries of a case; fails with the reason why the entries cannot be compared.
    ///
    /// `rules` describes the sets of rules that differ between the runs.
    pub(super) fn new(
        then: &'a Entry,
        now: &'a Entry,
        rules: Option<&str>,
    ) -> Result<Self, CaseChangeKind> {
        if let Some(reason) = another_task(then, now, rules)
            .or_else(|| other_judges(&then.judges, &now.judges))
            .or_else(|| other_repeats(then, now))
            .or_else(|| stored_answers(then, "before"))
            .or_else(|| stored_answers(now, "after"))
        {
            return Err(CaseChangeKind::NotComparable { reason });
        }
        let unknown = |reason| Err(CaseChangeKind::Unknown { reason });
        if let Some(reason) = unjudged(then, "before").or_else(|| unjudged(now, "after")) {
            return unknown(reason);
        }
        let tally = |it: &Entry| it.rate().and_then(|it| Tally::new(it.passed, it.judged).ok());
        match (tally(then), tally(now)) {
            (Some(before), Some(after)) => Ok(Self { then, now, before, after }),
            (None, _) => unknown("no repeat is recorded before".to_owned()),
            (_, None) => unknown("no repeat is recorded after".to_owned()),
        }
    }

    /// Returns the change of the case, without a p value.
    pub(super) fn change(&self) -> CaseChange {
        let kind = if (self.after.rate() - self.before.rate()).abs() < TOLERANCE {
            CaseChangeKind::Unchanged
        } else {
            CaseChangeKind::Changed
        };
        let rate = |it: Tally| PassRate::from_counts(it.passed(), it.total());
        change(self.now, rate(self.before), rate(self.after), kind)
    }

    /// Returns the p value of this case alone.
    pub(super) fn p_value(&self) -> f64 {
        fisher_exact(self.before, self.after)
    }

    pub(super) fn difference(&self) -> Difference<'a> {
        Difference::new(self.cluster(), self.before, self.after)
    }

    pub(super) fn case(&self) -> &'a str {
        &self.now.case
    }

    pub(super) fn cluster(&self) -> &'a str {
        cluster_of(self.now.cluster.as_deref(), &self.now.case)
    }

    /// Returns the counts before and after, for each assertion and label that both runs judged.
    pub(super) fn assertions(&self) -> impl Iterator<Item = (&'a EntryRate, &'a EntryRate)> {
        let before = &self.then.assertions;
        self.now.assertions.iter().filter_map(move |after| {
            let is_same =
                |it: &&EntryRate| it.assertion == after.assertion && it.label == after.label;
            Some((before.iter().find(is_same)?, after))
        })
    }
}

/// Returns why the entries cannot be compared if they have different variables, turns or checks; else `None`.
///
/// A task digest does not cover the prompt, so the prompts may differ. If an entry has no task digest, the digests of
/// the whole case are compared.
fn another_task(then: &Entry, now: &Entry, rules: Option<&str>) -> Option<String> {
    let (before, after, what) = match (&then.task_digest, &now.task_digest) {
        (Some(before), Some(after)) => (before, after, "its variables, checks or `repeat` differ"),
        _ => (
            then.digest.as_ref()?,
            now.digest.as_ref()?,
            "its prompt, variables, checks or `repeat` differ; set the baseline again to compare prompts",
        ),
    };
    if before == after {
        return None;
    }
    let ids = |it: &Entry| it.checks.iter().map(|it| it.assertion.clone()).collect();
    let (before, after): (BTreeSet<String>, BTreeSet<String>) = (ids(then), ids(now));
    let list =
        |all: &[&String]| all.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
    let removed: Vec<_> = before.difference(&after).collect();
    let added: Vec<_> = after.difference(&before).collect();
    Some(match (removed.is_empty(), added.is_empty()) {
        (false, _) if now.was_judged() => format!("it no longer checks {}", list(&removed)),
        (_, false) if !before.is_empty() => format!("it now also checks {}", list(&added)),
        _ => rules.map_or_else(|| what.to_owned(), |rules| format!("{what} ({rules})")),
    })
}

/// Returns why the entries cannot be compared if different judges decided; else `None`.
///
/// One entry may lack judges of the other entry, because a judge may not have been asked or may not have answered.
fn other_judges(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Option<String> {
    let is_same = before.is_subset(after) || after.is_subset(before);
    let list = |all: &BTreeSet<String>| all.iter().cloned().collect::<Vec<_>>().join(", ");
    (!is_same).then(|| format!("judge {} → {}", list(before), list(after)))
}

/// Returns why the entries cannot be compared if the suites set different numbers of repeats; else `None`.
///
/// If repeats ended early, the numbers of executed repeats may differ. The paired test permits this.
fn other_repeats(then: &Entry, now: &Entry) -> Option<String> {
    let (before, after) = (then.planned_repeats(), now.planned_repeats());
    (before != after).then(|| format!("{before} → {after} repeats"))
}

/// Returns why the entries cannot be compared if answers of this entry are from the response store; else `None`.
///
/// The other run may have the same stored answers, so equal results would prove nothing.
fn stored_answers(entry: &Entry, when: &str) -> Option<String> {
    let (stored, all) = (entry.cached_repeats, entry.run_count);
    (stored > 0).then(|| {
        format!(
            "{stored} of {all} answers {when} are from the response store, and prove nothing new; run it with `--responses live`"
        )
    })
}

/// Returns why the pass rate is unknown if repeats of the entry have no verdict; else `None`.
fn unjudged(entry: &Entry, when: &str) -> Option<String> {
    if entry.errored_repeats > 0 {
        let (errored, all) = (entry.errored_repeats, entry.run_count);
        return Some(format!("{errored} of {all} repeats could not be judged {when}"));
    }
    (!entry.was_judged()).then(|| format!("no check applied {when}"))
}
