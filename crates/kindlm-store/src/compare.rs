//! The changes between a baseline and another run.

use std::collections::BTreeMap;

use kindlm_types::{FailureCode, Severity};

use crate::baseline::{Conditions, EntryScore};
use crate::{Baseline, Entry, EntryCheck};

/// Rates and scores that differ by no more than this are equal.
const TOLERANCE: f64 = 0.001;

/// The changes between a baseline and another run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Cases whose pass rate fell, in the order of the new run.
    pub regressions: Vec<Change>,
    /// Cases whose pass rate rose, in the order of the new run.
    pub improvements: Vec<Change>,
    /// Cases whose pass rate stayed, in the order of the new run.
    pub unchanged: Vec<Change>,
    /// Cases that cannot be compared: repeats could not be judged, then or now. In the order of the new run.
    pub unknown: Vec<Change>,
    /// Cases that the baseline does not have.
    pub added: Vec<Entry>,
    /// Cases that were executed for the baseline and not in the new run.
    pub removed: Vec<Entry>,
    /// The other differences: judges, models, rules, the version of KindLM.
    pub differences: Vec<Difference>,
}

/// A case that both runs have.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The test case's name.
    pub case: String,
    /// The model's id.
    pub model: String,
    /// The pass rate in the baseline, from 0 to 1; `None` if no repeat was judged.
    pub before: Option<f64>,
    /// The pass rate now, from 0 to 1; `None` if no repeat was judged.
    pub after: Option<f64>,
    /// The number of repeats that could not be judged: then, now.
    pub errored: (u32, u32),
    /// The number of executed repeats: then, now.
    pub repeats: (u32, u32),
    /// Failure codes that the baseline did not have.
    pub new_failure_codes: Vec<FailureCode>,
    /// Checks of the baseline that were not made in the new run.
    pub removed_checks: Vec<EntryCheck>,
    /// Checks of which a failure failed the case then, and does not now.
    pub softened_checks: Vec<EntryCheck>,
    /// Checks that the baseline does not have.
    pub added_checks: Vec<EntryCheck>,
    /// Checks whose mean score moved.
    pub scores: Vec<ScoreChange>,
    /// True if the case sends or expects something else.
    pub test_changed: bool,
    /// True if the output is another one.
    pub output_changed: bool,
}

/// A check whose mean score moved.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreChange {
    /// The assertion's id.
    pub assertion: String,
    /// The check's label.
    pub label: String,
    /// The mean in the baseline.
    pub before: f64,
    /// The mean now.
    pub after: f64,
}

/// A condition of the runs that is not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The name of the condition: `KindLM`, `judges`, ``the model `gpt` ``, ``the rules `kind` ``.
    pub what: String,
    /// In the baseline; `None` if it was not there.
    pub before: Option<String>,
    /// Now; `None` if it is not there.
    pub after: Option<String>,
}

impl Comparison {
    /// True if the new run is no worse than the baseline, as far as the baseline goes: no pass rate fell or is unknown, no
    /// case and no check is missing, and no check became soft.
    pub fn held(&self) -> bool {
        self.regressions.is_empty()
            && self.unknown.is_empty()
            && self.removed.is_empty()
            && self.removed_checks() == 0
            && self.softened_checks() == 0
    }

    /// The number of checks of the baseline that no longer fail a case.
    pub fn softened_checks(&self) -> usize {
        self.changes().map(|it| it.softened_checks.len()).sum()
    }

    /// The number of checks of the baseline that the new run did not make.
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
    /// Compares a later run with this one. Pass rates within 0.001 of each other are equal.
    ///
    /// A case that was not executed counts as one that is not there.
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
                // The judged part shows that it is worse; the rest cannot change that.
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
        // The checks of a repeat that broke off are unknown.
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

/// The checks of an entry; of one without a list, those that have a score.
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

/// The checks of two runs, of which each has a partner in the other run or none.
#[derive(Default)]
struct Pairs {
    removed: Vec<EntryCheck>,
    softened: Vec<EntryCheck>,
    added: Vec<EntryCheck>,
}

impl Pairs {
    fn of(before: &[EntryCheck], mut after: Vec<EntryCheck>) -> Self {
        let mut pairs = Self::default();
        // Equal ones first, so that of two checks with one label the soft one is not paired with the other.
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
