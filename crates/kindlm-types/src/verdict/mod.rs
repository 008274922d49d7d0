//! Scores, verdicts, and how the verdicts of an execution add up to its outcome.

mod result;
mod scores;

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use result::{AGGREGATE_SCORE, ASSERT_SET, AssertionResult, NOT_ASSERT_SET, NamedScore};
pub use scores::{named_scores, weighted_score};

/// A finite number that says how well a check was met.
///
/// Checks of this product give scores from 0 (not at all) to 1 (perfectly). Users' own scripts may give
/// any finite number; NaN and infinities cannot be represented, so no sentinel can hide in a mean.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "f64", into = "f64")]
pub struct Score(f64);

/// A number that is not a score.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{0} is not a score: a score is a finite number")]
pub struct ScoreError(f64);

impl Score {
    /// Nothing of the check was met.
    pub const ZERO: Score = Score(0.0);
    /// The check was met perfectly.
    pub const ONE: Score = Score(1.0);

    /// Accepts any finite number.
    pub fn new(value: f64) -> Result<Self, ScoreError> {
        if value.is_finite() { Ok(Self(value)) } else { Err(ScoreError(value)) }
    }

    /// The nearest score in 0..=1; `None` for NaN.
    pub fn clamped(value: f64) -> Option<Self> {
        (!value.is_nan()).then(|| Self(value.clamp(0.0, 1.0)))
    }

    /// The number itself.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Score {
    type Error = ScoreError;
    fn try_from(value: f64) -> Result<Self, ScoreError> {
        Self::new(value)
    }
}

impl From<Score> for f64 {
    fn from(score: Score) -> f64 {
        score.0
    }
}

impl From<bool> for Score {
    fn from(held: bool) -> Self {
        if held { Self::ONE } else { Self::ZERO }
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::ecma::number(self.0))
    }
}

/// Why a check failed or could not be judged: a stable, upper-case name such as `TOOL_CALL_MISSING`.
///
/// Each assertion declares its own codes beside its logic; this type only carries them.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct FailureCode(Cow<'static, str>);

/// Failure codes that a gate counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeFamily {
    /// The output is not in the form that a schema asks for: `SCHEMA_…`.
    Schema,
    /// A denied word is in the output, or a required one is not: `KEYWORD_…`.
    Keyword,
    /// Every other code.
    Other,
}

impl FailureCode {
    /// The provider did not answer in time, or the answer took longer than allowed.
    pub const PROVIDER_TIMEOUT: Self = Self::new("PROVIDER_TIMEOUT");
    /// The provider refused the credentials.
    pub const PROVIDER_AUTH_FAILED: Self = Self::new("PROVIDER_AUTH_FAILED");
    /// The provider could not be reached, or answered with an error.
    pub const PROVIDER_ERROR: Self = Self::new("PROVIDER_ERROR");
    /// A user's script did not end, or could not be run.
    pub const SCRIPT_ERROR: Self = Self::new("SCRIPT_ERROR");
    /// A user's script threw, cannot be read, or returned an invalid verdict: the check fails, whether or not it is
    /// negated.
    pub const SCRIPT_THREW: Self = Self::new("SCRIPT_THREW");
    /// A question was not asked, as the run's budget does not allow it.
    pub const BUDGET_EXCEEDED: Self = Self::new("BUDGET_EXCEEDED");
    /// A check asks a model, and no model is configured that could answer.
    pub const JUDGE_NOT_CONFIGURED: Self = Self::new("JUDGE_NOT_CONFIGURED");
    /// KindLM itself failed.
    pub const INTERNAL_ERROR: Self = Self::new("INTERNAL_ERROR");

    /// A code with a name known at compile time.
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// The family that gates count.
    pub fn family(&self) -> CodeFamily {
        match self.0.split_once('_') {
            Some(("SCHEMA", _)) => CodeFamily::Schema,
            Some(("KEYWORD", _)) => CodeFamily::Keyword,
            _ => CodeFamily::Other,
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A check's answer.
///
/// A model that misbehaved is [`Fail`](Verdict::Fail). A check that could not be made, because a judge was
/// unreadable or evidence is missing, is [`Errored`](Verdict::Errored): never a pass, never a zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The expectation held.
    Pass,
    /// The expectation did not hold.
    Fail {
        /// The kind of failure.
        code: FailureCode,
        /// The expected and the actual value, in words.
        message: String,
    },
    /// It is unknown whether the expectation holds.
    Errored {
        /// The kind of obstacle.
        code: FailureCode,
        /// The obstacle, in words.
        message: String,
    },
    /// The check does not apply here. It counts as held and is left out of every rate.
    Skipped {
        /// Why it does not apply.
        reason: String,
    },
}

impl Verdict {
    /// Passed, or skipped: the check does not fail the execution.
    pub fn held(&self) -> bool {
        matches!(self, Self::Pass | Self::Skipped { .. })
    }

    /// The code of a failed or errored check.
    pub fn code(&self) -> Option<&FailureCode> {
        match self {
            Self::Fail { code, .. } | Self::Errored { code, .. } => Some(code),
            Self::Pass | Self::Skipped { .. } => None,
        }
    }

    /// The message of a failed or errored check, or the reason of a skipped one.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Fail { message, .. } | Self::Errored { message, .. } => Some(message),
            Self::Skipped { reason } => Some(reason),
            Self::Pass => None,
        }
    }

    /// `passed`, `failed`, `errored` or `skipped`.
    pub fn status(&self) -> &'static str {
        match self {
            Self::Pass => "passed",
            Self::Fail { .. } => "failed",
            Self::Errored { .. } => "errored",
            Self::Skipped { .. } => "skipped",
        }
    }
}

/// The meaning of a failed check for the execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Must hold: a failure fails the execution.
    #[default]
    Gate,
    /// A score to watch: a failure makes the execution `scored`.
    Soft,
}

/// Whether the same evidence always gives the same answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Judged by rules.
    #[default]
    Deterministic,
    /// Judged by a model.
    Probabilistic,
}

/// The outcome of an execution, or of all repeats of a case.
///
/// The order is the order of precedence: of several that apply, the greatest wins.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Everything held.
    Passed,
    /// Every gate-severity check held, but a soft one is below its threshold.
    Scored,
    /// A gate-severity check failed.
    Failed,
    /// It could not be executed or judged.
    Errored,
    /// It was not executed, or no check of it applied: nothing was found out.
    Skipped,
}

impl Outcome {
    /// The outcome of an execution with these results.
    ///
    /// One without any check has passed: it was to be executed, and was. One of which every check was skipped has not:
    /// something was to be found out, and nothing was.
    pub fn of<'a>(results: impl IntoIterator<Item = &'a AssertionResult>) -> Self {
        let mut outcome = None;
        let mut skips = false;
        for result in results {
            match &result.verdict {
                Verdict::Skipped { .. } => skips = true,
                _ => outcome = outcome.max(Some(Self::of_one(result))),
            }
        }
        outcome.unwrap_or(if skips { Self::Skipped } else { Self::Passed })
    }

    /// The outcome of an execution that passes if the weighted mean of its scores reaches a threshold (with a
    /// tolerance of 1e-9), whichever checks failed.
    ///
    /// A check that could not be judged stays errored. Without any score, the threshold cannot be applied. Then the
    /// checks decide, unless a skipped check might have given a score.
    pub fn against(threshold: f64, results: &[AssertionResult]) -> Self {
        let outcome = Self::of(results);
        let is_skipped = |it: &AssertionResult| matches!(it.verdict, Verdict::Skipped { .. });
        match (outcome, crate::weighted_score(results)) {
            (Self::Passed | Self::Scored | Self::Failed, Some(score)) => {
                if score < threshold - 1e-9 {
                    Self::Failed
                } else if results.iter().any(|it| Self::of_one(it) == Self::Scored) {
                    Self::Scored
                } else {
                    Self::Passed
                }
            }
            (Self::Passed | Self::Scored, None) if results.iter().any(is_skipped) => Self::Skipped,
            _ => outcome,
        }
    }

    /// The outcome of an execution that may have a threshold. `fails_required`: a required check failed; that one must
    /// hold, however well the rest has done.
    pub fn concluded(
        threshold: Option<f64>,
        results: &[AssertionResult],
        fails_required: bool,
    ) -> Self {
        let outcome = match threshold {
            Some(threshold) => Self::against(threshold, results),
            None => Self::of(results),
        };
        if fails_required { outcome.max(Self::Failed) } else { outcome }
    }

    fn of_one(result: &AssertionResult) -> Self {
        match (&result.verdict, result.severity) {
            (Verdict::Pass, _) if !result.findings().is_empty() => Self::Scored,
            (Verdict::Pass | Verdict::Skipped { .. }, _) => Self::Passed,
            (Verdict::Fail { .. }, Severity::Soft) => Self::Scored,
            (Verdict::Fail { .. }, Severity::Gate) => Self::Failed,
            (Verdict::Errored { .. }, _) => Self::Errored,
        }
    }

    /// True if no check fails the execution (`scored` holds, unless the run is strict).
    pub fn held(self) -> bool {
        matches!(self, Self::Passed | Self::Scored)
    }

    /// The outcome as a lower-case word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Scored => "scored",
            Self::Failed => "failed",
            Self::Errored => "errored",
            Self::Skipped => "skipped",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_of_nothing_is_not_reached_where_something_was_skipped() {
        let weightless = AssertionResult { weight: 0.0, ..AssertionResult::pass("a", "a") };
        let skipped = AssertionResult::skipped("b", "b", "not yet");
        for (results, expected) in [
            (vec![weightless.clone(), skipped.clone()], Outcome::Skipped),
            (vec![weightless.clone()], Outcome::Passed),
            (vec![AssertionResult::pass("c", "c"), skipped.clone()], Outcome::Passed),
            (
                vec![AssertionResult::errored("d", "d", FailureCode::new("D"), "d"), skipped],
                Outcome::Errored,
            ),
        ] {
            assert_eq!(Outcome::against(0.5, &results), expected, "{results:?}");
        }
    }
}
