//! Scores, verdicts, and the outcome of an execution derived from its verdicts.

mod evidence;
mod judging;
mod result;
mod scores;

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use evidence::{
    Bound, CheckedText, DiffFormat, FailedTest, Mismatch, ResultEvidence, TextSpan,
};
pub use judging::{JudgePanel, JudgeVote, Judging, VoteStatus};
pub use result::{AGGREGATE_SCORE, ASSERT_SET, AssertionResult, NOT, NamedScore, SetRule};
pub use scores::{named_scores, weighted_score};

/// The score of a check: a finite number.
///
/// KindLM's checks give scores from 0 (not at all) to 1 (perfectly). Users' scripts may give any finite number. NaN and
/// infinities are excluded, because they would corrupt a mean.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "f64", into = "f64")]
pub struct Score(f64);

/// The error for a number that is not a score.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{0} is not a score: a score is a finite number")]
pub struct ScoreError(f64);

impl Score {
    /// The lowest score of KindLM's checks.
    pub const ZERO: Score = Score(0.0);
    /// The highest score of KindLM's checks.
    pub const ONE: Score = Score(1.0);

    /// Creates a score from any finite number. Fails for any other number.
    pub fn new(value: f64) -> Result<Self, ScoreError> {
        if value.is_finite() { Ok(Self(value)) } else { Err(ScoreError(value)) }
    }

    /// Creates the nearest score in 0..=1; `None` for NaN.
    pub fn clamped(value: f64) -> Option<Self> {
        (!value.is_nan()).then(|| Self(value.clamp(0.0, 1.0)))
    }

    /// Returns the number.
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

/// A stable, upper-case code for a failed or errored check: `TOOL_CALL_MISSING`.
///
/// Each assertion declares its own codes next to its logic.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct FailureCode(Cow<'static, str>);

/// A group of failure codes that a gate counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeFamily {
    /// The output does not match a schema: `SCHEMA_…`.
    Schema,
    /// The output contains a denied word, or lacks a required one: `KEYWORD_…`.
    Keyword,
    /// Any other code.
    Other,
}

impl FailureCode {
    /// The provider did not answer in time, or the answer took longer than allowed.
    pub const PROVIDER_TIMEOUT: Self = Self::new("PROVIDER_TIMEOUT");
    /// The credentials for a provider are missing, or the provider rejected them.
    pub const PROVIDER_AUTH_FAILED: Self = Self::new("PROVIDER_AUTH_FAILED");
    /// Any other error of a provider.
    pub const PROVIDER_ERROR: Self = Self::new("PROVIDER_ERROR");
    /// A user's script was aborted, or could not be run.
    pub const SCRIPT_ERROR: Self = Self::new("SCRIPT_ERROR");
    /// A user's script threw an error, cannot be loaded, or returned an invalid verdict.
    ///
    /// The check fails, even if it is negated.
    pub const SCRIPT_THREW: Self = Self::new("SCRIPT_THREW");
    /// A question of a check was not sent, because the run's budget does not allow it. The check `cost` also has this
    /// code, if an execution cost more than the limit of the check.
    pub const BUDGET_EXCEEDED: Self = Self::new("BUDGET_EXCEEDED");
    /// A check needs a model to answer a question, but no model is configured, or the named model is unknown.
    pub const JUDGE_NOT_CONFIGURED: Self = Self::new("JUDGE_NOT_CONFIGURED");
    /// The repeats of a case ended without a decision, because their number is limited.
    pub const UNDECIDED: Self = Self::new("UNDECIDED");
    /// A conversation reached `maxTurns` before the model was done.
    pub const MAX_TURNS_EXCEEDED: Self = Self::new("MAX_TURNS_EXCEEDED");
    /// An internal error of KindLM.
    pub const INTERNAL_ERROR: Self = Self::new("INTERNAL_ERROR");

    /// Creates a code from a name that is known at compile time.
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// Returns the family of the code. Gates count all codes of a family together.
    pub fn family(&self) -> CodeFamily {
        match self.0.split_once('_') {
            Some(("SCHEMA", _)) => CodeFamily::Schema,
            Some(("KEYWORD", _)) => CodeFamily::Keyword,
            _ => CodeFamily::Other,
        }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The verdict of a check.
///
/// Misbehaviour of the model is [`Fail`](Verdict::Fail). A check that cannot be decided is
/// [`Errored`](Verdict::Errored): the judge's reply was unreadable, or evidence is missing. An errored check is never
/// a pass, and never has score 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The expectation held.
    Pass,
    /// The expectation did not hold.
    Fail {
        /// The kind of failure.
        code: FailureCode,
        /// The message, with the expected and the actual value.
        message: String,
    },
    /// The check could not be decided.
    Errored {
        /// The kind of error.
        code: FailureCode,
        /// The error message.
        message: String,
    },
    /// The check does not apply. It counts as held, and is excluded from all rates.
    Skipped {
        /// The reason why the check does not apply.
        reason: String,
    },
}

impl Verdict {
    /// Returns true if the check passed or was skipped.
    pub fn held(&self) -> bool {
        matches!(self, Self::Pass | Self::Skipped { .. })
    }

    /// Returns the code of a failed or errored check; otherwise `None`.
    pub fn code(&self) -> Option<&FailureCode> {
        match self {
            Self::Fail { code, .. } | Self::Errored { code, .. } => Some(code),
            Self::Pass | Self::Skipped { .. } => None,
        }
    }

    /// Returns the message of a failed or errored check, or the reason of a skipped one.
    ///
    /// Returns `None` for a pass.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Fail { message, .. } | Self::Errored { message, .. } => Some(message),
            Self::Skipped { reason } => Some(reason),
            Self::Pass => None,
        }
    }

    /// Returns the name of the verdict: `passed`, `failed`, `errored` or `skipped`.
    pub fn status(&self) -> &'static str {
        match self {
            Self::Pass => "passed",
            Self::Fail { .. } => "failed",
            Self::Errored { .. } => "errored",
            Self::Skipped { .. } => "skipped",
        }
    }
}

/// The effect of a failed check on the execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The check must hold: a failure fails the execution.
    #[default]
    Gate,
    /// The check is a score to watch: a failure makes the execution `scored`.
    Soft,
}

/// The class of a check, by the reproducibility of its verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Rules judge: the same evidence always gives the same verdict.
    #[default]
    Deterministic,
    /// A model judges: the verdict may vary.
    Probabilistic,
}

/// The outcome of an execution, or of all repeats of a case.
///
/// The variants up to `Errored` are in order of precedence: of several outcomes, the last one in this order counts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// All checks held or, with a `threshold`, the mean score reached the threshold. A case passes if its pass rate
    /// reaches `passRateMin`.
    Passed,
    /// The conditions of `Passed` hold, but a soft check failed.
    Scored,
    /// A gate-severity check failed. With a `threshold`, the mean score is below the threshold, or a required check
    /// failed. A case fails if its pass rate is below `passRateMin`, or if its repeats ended without a decision.
    Failed,
    /// The execution could not be carried out or judged.
    Errored,
    /// The execution was not carried out, or no check applied.
    Skipped,
}

impl Outcome {
    /// Returns the outcome of an execution with these check results.
    ///
    /// An execution without checks has passed. If all checks were skipped, the outcome is skipped, because
    /// nothing was checked.
    pub fn from_results<'a>(results: impl IntoIterator<Item = &'a AssertionResult>) -> Self {
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

    /// Returns the outcome of an execution that has a threshold for its mean score.
    ///
    /// The first line that applies decides:
    ///
    /// - errored: a check is errored.
    /// - failed: the weighted mean score is below the threshold, with a tolerance of 1e-9. Or a
    ///   [deciding](AssertionResult::decides_score) comparison did not select the output.
    /// - scored: a soft check failed.
    /// - passed: otherwise.
    ///
    /// Without any score, the outcome is that of [`from_results`](Self::from_results). But if the checks hold and one
    /// was skipped, the outcome is skipped, because the skipped check might have given a score.
    pub fn against(threshold: f64, results: &[AssertionResult]) -> Self {
        let outcome = Self::from_results(results);
        let is_skipped = |it: &AssertionResult| matches!(it.verdict, Verdict::Skipped { .. });
        match (outcome, crate::weighted_score(results)) {
            (Self::Passed | Self::Scored | Self::Failed, Some(score)) => {
                let is_rejected = results.iter().any(AssertionResult::rejects_output);
                if is_rejected || score < threshold - 1e-9 {
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

    /// Returns the outcome of an execution with or without a threshold.
    ///
    /// `fails_required` is true if a required check failed. The outcome is then failed, errored or skipped, regardless
    /// of the score.
    pub fn concluded(
        threshold: Option<f64>,
        results: &[AssertionResult],
        fails_required: bool,
    ) -> Self {
        let outcome = match threshold {
            Some(threshold) => Self::against(threshold, results),
            None => Self::from_results(results),
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

    /// Returns true if the outcome is passed or scored.
    pub fn held(self) -> bool {
        matches!(self, Self::Passed | Self::Scored)
    }

    /// Returns the name of the outcome in lower case.
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
    fn skipped_checks_do_not_reach_a_threshold_of_zero() {
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
