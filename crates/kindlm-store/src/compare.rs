//! Compares a later run with a baseline.

use std::collections::BTreeMap;

use kindlm_types::{FailureCode, Severity};

use crate::baseline::{Conditions, EntryScore};
use crate::{Baseline, Entry, EntryCheck};

/// The maximum difference between rates or scores that count as equal.
const TOLERANCE: f64 = 0.001;

/// The changes from a baseline to a later run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// The cases whose pass rate fell, in the order of the new run.
    pub regressions: Vec<Change>,
    /// The cases whose pass rate rose or became known, in the order of the new run.
    pub improvements: Vec<Change>,
    /// The cases whose pass rate did not change, in the order of the new run.
    pub unchanged: Vec<Change>,
    /// The cases that cannot be compared, in the order of the new run.
    ///
    /// Some repeats were not judged in one of the runs.
    pub unknown: Vec<Change>,
    /// The cases that are not in the baseline.
    pub added: Vec<Entry>,
    /// The cases that were executed for the baseline but not in the new run.
    pub removed: Vec<Entry>,
    /// The other differences: judges, models, rules, and versions of KindLM.
    pub differences: Vec<Difference>,
}

/// A case that is in both runs, and its changes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// The test case's name.
    pub case: String,
    /// The model's id.
    pub model: String,
    /// The pass rate in the baseline, from 0 to 1; `None` if no repeat was judged.
    pub before: Option<f64>,
    /// The pass rate in the new run, from 0 to 1; `None` if no repeat was judged.
    pub after: Option<f64>,
    /// The number of repeats that could not be judged, in each of the two runs.
    pub errored: (u32, u32),
    /// The number of executed repeats, in the baseline and in the new run.
    pub repeats: (u32, u32),
    /// The failure codes that are not in the baseline.
    pub new_failure_codes: Vec<FailureCode>,
    /// The checks of the baseline that the new run did not make.
    pub removed_checks: Vec<EntryCheck>,
    /// The checks whose severity changed from gate to soft.
    pub softened_checks: Vec<EntryCheck>,
    /// The checks that are not in the baseline.
    pub added_checks: Vec<EntryCheck>,
    /// The checks whose mean score changed.
    pub scores: Vec<ScoreChange>,
    /// True if the case sends or expects something else than in the baseline.
    pub test_changed: bool,
    /// True if the output differs from the output in the baseline.
    pub output_changed: bool,
}

/// A check whose mean score changed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScoreChange {
    /// The assertion's id.
    pub assertion: String,
    /// The check's label.
    pub label: String,
    /// The mean score in the baseline.
    pub before: f64,
    /// The mean score in the new run.
    pub after: f64,
}

/// A condition of the results that differs between the runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The name of the condition, such as `KindLM`, `judges` or ``the model `gpt` ``.
    pub what: String,
    /// The value in the baseline; `None` if the baseline does not have it.
    pub before: Option<String>,
    /// The value in the new run; `None` if the new run does not have it.
    pub after: Option<String>,
}

impl Comparison {
    /// Returns true if the new run is not worse than the baseline.
    ///
    /// In a run that is not worse, no pass rate fell or is unknown. No case and no check is missing, and no check
    /// became soft.
    pub fn held(&self) -> bool {
        self.regressions.is_empty()
            && self.unknown.is_empty()
            && self.removed.is_empty()
            && self.removed_checks() == 0
            && self.softened_checks() == 0
    }

    /// Returns the number of checks of the baseline that became soft.
    pub fn softened_checks(&self) -> usize {
        self.changes().map(|it| it.softened_checks.len()).sum()
    }

    /// Returns the number of checks of the baseline that are missing in the new run.
    pub fn removed_checks(&self) -> usize {
        self.changes().map(|it| it.removed_checks.len()).sum()
    }

    fn changes(&self) -> impl Iterator<Item = &Change> {
        [&self.regressions, &self.improvements, &self.unchanged, &self.unknown]
            .into_iter()
            .flatten()
    }
}

impl Baseline {
    /// Compares a later run with this baseline.
    ///
    /// Pass rates that differ by at most 0.001 count as equal.
    ///
    /// A case that was not executed counts as absent.
    pub fn compare(&self, current: &Self) -> Comparison {
        let mut comparison = Comparison::default();
        for now in current.entries().filter(|it| it.was_executed()) {
            let then = self.get(&now.case, &now.model).filter(|it| it.was_executed());
            let Some(then) = then else {
                comparison.added.push(now.clone());
                continue;
            };
            let change = Change::between(then, now);
            let is_known = change.errored == (0, 0);
            let changes = match (change.before, change.after) {
                // The judged repeats already show a regression, so the unjudged repeats do not matter.
                (Some(before), Some(after)) if after - before < -TOLERANCE => {
                    &mut comparison.regressions
                }
                (Some(before), Some(after)) if is_known && after - before > TOLERANCE => {
                    &mut comparison.improvements
                }
                (Some(_), Some(_)) | (None, None) if is_known => &mut comparison.unchanged,
                (None, Some(_)) if is_known => &mut comparison.improvements,
                _ => &mut comparison.unknown,
            };
            changes.push(change);
        }
        let is_gone = |then: &&Entry| {
            let now = current.get(&then.case, &then.model);
            then.was_executed() && !now.is_some_and(Entry::was_executed)
        };
        comparison.removed = self.entries().filter(is_gone).cloned().collect();
        if let (Some(then), Some(now)) = (&self.conditions, &current.conditions) {
            comparison.differences = then.differences(now);
        }
        comparison
    }
}

impl Change {
    fn between(then: &Entry, now: &Entry) -> Self {
        let new_failure_codes =
            now.failure_codes.iter().filter(|it| !then.failure_codes.contains(it));
        let rate = |it: &Entry| it.was_judged().then_some(it.pass_rate);
        let (before, after) = (checks_of(then), checks_of(now));
        let Pairs { mut removed, mut softened, mut added } = Pairs::of(&before, after);
        // If no repeat was judged, it is not known which checks are missing.
        if !now.was_judged() {
            (removed, softened) = (Vec::new(), Vec::new());
        }
        if before.is_empty() {
            added = Vec::new();
        }
        Self {
            case: now.case.clone(),
            model: now.model.clone(),
            before: rate(then),
            after: rate(now),
            errored: (then.errored_repeats, now.errored_repeats),
            repeats: (then.run_count, now.run_count),
            new_failure_codes: new_failure_codes.cloned().collect(),
            removed_checks: removed,
            softened_checks: softened,
            added_checks: added,
            scores: now.scores.iter().filter_map(|score| moved(&then.scores, score)).collect(),
            test_changed: then.digest.is_some() && then.digest != now.digest,
            output_changed: then.output_text != now.output_text,
        }
    }
}

/// Returns the checks of an entry.
///
/// Without a list of checks, the checks with a score are returned.
fn checks_of(entry: &Entry) -> Vec<EntryCheck> {
    let of_score = |it: &EntryScore| EntryCheck {
        assertion: it.assertion.clone(),
        label: it.label.clone(),
        severity: None,
    };
    if entry.checks.is_empty() {
        entry.scores.iter().map(of_score).collect()
    } else {
        entry.checks.clone()
    }
}

/// The differences between the checks of a case in two runs.
#[derive(Default)]
struct Pairs {
    removed: Vec<EntryCheck>,
    softened: Vec<EntryCheck>,
    added: Vec<EntryCheck>,
}

impl Pairs {
    fn of(before: &[EntryCheck], mut after: Vec<EntryCheck>) -> Self {
        let mut pairs = Self::default();
        // Match equal checks first. Otherwise two checks with the same label but different severity could be paired
        // wrongly.
        let mut left = Vec::new();
        for check in before {
            match after.iter().position(|it| it == check) {
                Some(at) => {
                    after.remove(at);
                }
                None => left.push(check),
            }
        }
        for check in left {
            let is_same =
                |it: &EntryCheck| it.assertion == check.assertion && it.label == check.label;
            let Some(at) = after.iter().position(is_same) else {
                pairs.removed.push(check.clone());
                continue;
            };
            let now = after.remove(at).severity;
            if (check.severity, now) == (Some(Severity::Gate), Some(Severity::Soft)) {
                pairs.softened.push(check.clone());
            }
        }
        Self { added: after, ..pairs }
    }
}

fn moved(before: &[EntryScore], now: &EntryScore) -> Option<ScoreChange> {
    let then = before.iter().find(|it| it.assertion == now.assertion && it.label == now.label)?;
    ((then.mean - now.mean).abs() > TOLERANCE).then(|| ScoreChange {
        assertion: now.assertion.clone(),
        label: now.label.clone(),
        before: then.mean,
        after: now.mean,
    })
}

impl Conditions {
    fn differences(&self, now: &Self) -> Vec<Difference> {
        let mut found = Vec::new();
        let mut compare = |what: String, before: Option<String>, after: Option<String>| {
            if before != after {
                found.push(Difference { what, before, after });
            }
        };
        compare("KindLM".to_owned(), Some(self.kindlm.clone()), Some(now.kindlm.clone()));
        let judges = |it: &Self| {
            let judges = it.judges.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            Some(judges).filter(|it| !it.is_empty())
        };
        compare("judges".to_owned(), judges(self), judges(now));
        for (kind, then, now) in
            [("model", &self.models, &now.models), ("rules", &self.rules, &now.rules)]
        {
            let names: BTreeMap<_, _> = then.iter().chain(now).collect();
            for name in names.keys() {
                let what = format!("the {kind} `{name}`");
                compare(what, then.get(*name).cloned(), now.get(*name).cloned());
            }
        }
        found
    }
}
