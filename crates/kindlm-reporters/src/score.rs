//! Decides which scores are shown, and finds the thresholds of scores.

use std::borrow::Cow;

use kindlm_types::{
    AssertionResult, Bound, CaseResult, ResultEvidence, Score, ScoreSummary, Severity, ecma,
};

/// The metadata keys that hold the score that a check requires.
pub(crate) const THRESHOLDS: [&str; 2] = ["threshold", "minScore"];

/// Returns true if the score has more information than the verdict.
///
/// This is true for the scores of soft checks, and for scores other than 0 and 1.
pub(crate) fn has_details(result: &AssertionResult) -> bool {
    let between = |it: Score| ![0.0, 1.0].contains(&it.get());
    result.score.is_some_and(|it| result.severity == Severity::Soft || between(it))
}

/// Returns the score that the check requires: from its metadata, from the threshold of its set, or from the evidence of
/// its failure. Returns `None` if none of these has a required score.
pub(crate) fn wanted(result: &AssertionResult) -> Option<f64> {
    THRESHOLDS
        .iter()
        .find_map(|it| result.metadata.get(*it)?.as_f64())
        .or_else(|| result.set.as_ref()?.threshold)
        .or_else(|| {
            result.evidence.iter().find_map(|it| match it {
                ResultEvidence::Measure { name, limit, bound: Bound::AtLeast, .. }
                    if name == "score" =>
                {
                    Some(*limit)
                }
                _ => None,
            })
        })
}

/// Returns the score with its threshold, such as `0.62 (wants 0.8)`.
///
/// Returns `None` without a score.
pub(crate) fn beside_wanted(result: &AssertionResult) -> Option<String> {
    let score = two(result.score?.get());
    Some(match wanted(result) {
        Some(wanted) => format!("{score} (wants {})", ecma::number(wanted)),
        None => score,
    })
}

/// Returns the soft scores that reach their thresholds in all repeats, by label.
///
/// The label includes the turn. If a case has several repeats, the mean is added.
pub(crate) fn watched(case: &CaseResult) -> Vec<(String, String)> {
    let mut watched: Vec<(String, String)> = Vec::new();
    let findings = case.findings();
    let low = |it: &AssertionResult| {
        findings.iter().any(|low| low.result.label == it.label && low.result.turn == it.turn)
    };
    let results = case.executions.iter().flat_map(|it| &it.results);
    for result in results.filter(|it| it.severity == Severity::Soft && !low(it)) {
        let label = match &result.turn {
            Some(turn) => format!("{turn}: {}", result.label),
            None => result.label.clone(),
        };
        let Some(score) = beside_wanted(result) else { continue };
        if !watched.iter().any(|(known, _)| *known == label) {
            let score = match mean_of(case, result) {
                Some(mean) => format!("{score}, {mean} on average"),
                None => score,
            };
            watched.push((label, score));
        }
    }
    watched
}

/// Returns the mean score of a check over the repeats.
///
/// Returns `None` for a single score, or if the score has no more information than the verdict.
pub(crate) fn mean_of(case: &CaseResult, result: &AssertionResult) -> Option<String> {
    // In the summary, the label of a turn's check begins with the label of the turn.
    let label = match &result.turn {
        Some(turn) => Cow::Owned(format!("{turn}: {}", result.label)),
        None => Cow::Borrowed(result.label.as_str()),
    };
    let same = |it: &&ScoreSummary| it.assertion == result.assertion && it.label == label;
    let summary = case.scores.iter().find(same)?;
    (summary.count > 1 && has_details(result)).then(|| two(summary.mean))
}

/// Formats a score with two decimals.
pub(crate) fn two(score: f64) -> String {
    ecma::to_fixed(score, 2)
}
