//! Which scores are worth showing, and what they were to be.

use std::borrow::Cow;

use kindlm_types::{AssertionResult, CaseResult, Score, ScoreSummary, Severity, ecma};

/// Where results keep the score that they want.
pub(crate) const THRESHOLDS: [&str; 2] = ["threshold", "minScore"];

/// Whether the score says more than the verdict: a soft check is a score to watch, and scripts may give any number.
pub(crate) fn says_more(result: &AssertionResult) -> bool {
    let between = |it: Score| ![0.0, 1.0].contains(&it.get());
    result.score.is_some_and(|it| result.severity == Severity::Soft || between(it))
}

/// The score that the check wants.
pub(crate) fn wanted(result: &AssertionResult) -> Option<f64> {
    THRESHOLDS
        .iter()
        .find_map(|it| result.metadata.get(*it)?.as_f64())
        .or_else(|| result.metadata.get("assertionSet")?.get("threshold")?.as_f64())
}

/// The mean score of a check over the repeats, where it says more than the verdicts.
pub(crate) fn mean_of(case: &CaseResult, result: &AssertionResult) -> Option<String> {
    // The scores of a turn's check stand under the turn's label and its own.
    let label = match &result.turn {
        Some(turn) => Cow::Owned(format!("{turn}: {}", result.label)),
        None => Cow::Borrowed(result.label.as_str()),
    };
    let same = |it: &&ScoreSummary| it.assertion == result.assertion && it.label == label;
    let summary = case.scores.iter().find(same)?;
    (summary.count > 1 && says_more(result)).then(|| two(summary.mean))
}

/// With two decimals.
pub(crate) fn two(score: f64) -> String {
    ecma::to_fixed(score, 2)
}
