//! The types of the rules in `Traits`.

use std::fmt;
use std::sync::Arc;

use kindlm_types::{AssertionResult, Execution, ResultEvidence, Score, Verdict};

use crate::Evidence;

/// The results that stay valid although a part of the output is missing.
///
/// A match stays valid. An absence does not, because the text may be in the missing part. If the answer was cut off,
/// the end of the output is missing.
#[derive(Clone, Debug)]
pub enum StaysValid {
    /// No result stays valid.
    Never,
    /// A pass stays valid, such as a wanted text that was found.
    Pass,
    /// A failure stays valid, such as an unwanted text that was found.
    Failure,
    /// The results for which the function returns true stay valid. This is for an assertion with several results.
    Results(fn(&AssertionResult) -> bool),
    /// All results stay valid if only the end of the output is missing, and the recorded beginning already decides the
    /// check.
    Beginning(BeginningRule),
}

impl StaysValid {
    /// Returns true if the result stays valid for the execution, whose output is incomplete.
    pub fn holds(&self, result: &AssertionResult, execution: &Execution) -> bool {
        match self {
            Self::Never => false,
            Self::Pass => result.verdict == Verdict::Pass,
            Self::Failure => matches!(result.verdict, Verdict::Fail { .. }),
            Self::Results(stays_valid) => stays_valid(result),
            Self::Beginning(rule) => only_end_is_missing(execution) && (rule.0)(&execution.output),
        }
    }
}

/// Returns true if at most the end of the output is missing.
fn only_end_is_missing(execution: &Execution) -> bool {
    execution.completeness.unread.is_none() && execution.turns.iter().all(|it| it.unread.is_none())
}

/// A rule that returns true if no text after the beginning of an output can change the result.
#[derive(Clone)]
pub struct BeginningRule(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl BeginningRule {
    /// Creates a rule. The function returns true if no text after the given beginning can change the result.
    pub fn new(decides: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(decides))
    }
}

impl fmt::Debug for BeginningRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BeginningRule").finish_non_exhaustive()
    }
}

/// The rule that gives the verdict for a score.
///
/// A judge panel uses the rule for the combined score of its votes.
#[derive(Clone)]
pub struct VerdictRule(Arc<dyn Fn(Score) -> Option<Verdict> + Send + Sync>);

impl VerdictRule {
    /// Creates a rule. The function returns `None` for a score that alone does not decide.
    pub fn new(verdict: impl Fn(Score) -> Option<Verdict> + Send + Sync + 'static) -> Self {
        Self(Arc::new(verdict))
    }

    /// Returns the verdict for a score; `None` if the score alone does not decide.
    pub fn verdict(&self, score: Score) -> Option<Verdict> {
        (self.0)(score)
    }
}

impl fmt::Debug for VerdictRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerdictRule").finish_non_exhaustive()
    }
}

type BuildEvidence = dyn Fn(&Evidence<'_>) -> Vec<ResultEvidence> + Send + Sync;

/// The function that returns the evidence that an assertion holds.
///
/// A passing result does not contain this evidence, so that a pass takes no extra time.
#[derive(Clone)]
pub struct PassEvidence(Arc<BuildEvidence>);

impl PassEvidence {
    /// Creates the evidence from a function, which is called only for a failure with `not-`.
    pub fn new(
        build: impl Fn(&Evidence<'_>) -> Vec<ResultEvidence> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(build))
    }

    /// Returns the evidence that the assertion holds.
    pub fn build(&self, evidence: &Evidence<'_>) -> Vec<ResultEvidence> {
        (self.0)(evidence)
    }
}

impl fmt::Debug for PassEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassEvidence").finish_non_exhaustive()
    }
}
