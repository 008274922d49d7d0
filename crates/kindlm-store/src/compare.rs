//! What changed between a baseline and another run.

use kindlm_types::FailureCode;

use crate::baseline::EntryScore;
use crate::{Baseline, Entry};

/// Rates and scores that differ by no more than this are equal.
const TOLERANCE: f64 = 0.001;

/// What changed between a baseline and another run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Cases whose pass rate fell, in the order of the new run.
    pub regressions: Vec<Change>,
    /// Cases whose pass rate rose, in the order of the new run.
    pub improvements: Vec<Change>,
    /// Cases whose pass rate stayed, in the order of the new run.
    pub unchanged: Vec<Change>,
    /// Cases that the baseline does not have.
    pub added: Vec<Entry>,
    /// Cases that only the baseline has.
    pub removed: Vec<Entry>,
}

/// A case that both runs have.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The test case's name.
    pub case: String,
    /// The model's id.
    pub model: String,
    /// The pass rate in the baseline, from 0 to 1.
    pub before: f64,
    /// The pass rate now, from 0 to 1.
    pub after: f64,
    /// Failure codes that the baseline did not have.
    pub new_failure_codes: Vec<FailureCode>,
    /// Checks whose mean score moved.
    pub scores: Vec<ScoreChange>,
    /// Whether the output is another one.
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

impl Baseline {
    /// Compares a later run with this one. Pass rates within 0.001 of each other are equal.
    pub fn compare(&self, current: &Self) -> Comparison {
        let mut comparison = Comparison::default();
        for now in current.entries() {
            let Some(then) = self.get(&now.case, &now.model) else {
                comparison.added.push(now.clone());
                continue;
            };
            let change = Change::between(then, now);
            let difference = now.pass_rate - then.pass_rate;
            if difference < -TOLERANCE {
                comparison.regressions.push(change);
            } else if difference > TOLERANCE {
                comparison.improvements.push(change);
            } else {
                comparison.unchanged.push(change);
            }
        }
        comparison.removed = self
            .entries()
            .filter(|then| current.get(&then.case, &then.model).is_none())
            .cloned()
            .collect();
        comparison
    }
}

impl Change {
    fn between(then: &Entry, now: &Entry) -> Self {
        let new_failure_codes =
            now.failure_codes.iter().filter(|it| !then.failure_codes.contains(it));
        Self {
            case: now.case.clone(),
            model: now.model.clone(),
            before: then.pass_rate,
            after: now.pass_rate,
            new_failure_codes: new_failure_codes.cloned().collect(),
            scores: now.scores.iter().filter_map(|score| moved(&then.scores, score)).collect(),
            output_changed: then.output_text != now.output_text,
        }
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
