//! Required checks: if a required check does not hold, later checks are skipped.

use kindlm_assertions::Check;
use kindlm_types::{AssertionResult, Verdict};

/// A required check that did not hold. All later checks are skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Halt {
    /// The label of the check.
    pub label: String,
    /// True if the check failed; false if it could not be judged.
    pub failed: bool,
}

impl Halt {
    /// Returns the halt for the results of a check.
    ///
    /// Returns `None` if the check is not required, or if it neither failed nor is errored.
    pub(crate) fn from_results(check: &Check, results: &[AssertionResult]) -> Option<Self> {
        if !check.options.require {
            return None;
        }
        let failed = |it: &&AssertionResult| matches!(it.verdict, Verdict::Fail { .. });
        let errored = |it: &&AssertionResult| matches!(it.verdict, Verdict::Errored { .. });
        let result = results.iter().find(failed).or_else(|| results.iter().find(errored))?;
        Some(Self { label: result.label.clone(), failed: failed(&result) })
    }

    /// Returns the reason for skipping later checks.
    pub fn reason(&self) -> String {
        let what = if self.failed { "does not hold" } else { "could not be judged" };
        format!("not run: the required check `{}` {what}", self.label)
    }
}

/// Returns the result of a skipped check.
pub(crate) fn not_run(check: &Check, halt: &Halt) -> AssertionResult {
    check.without_looking(Verdict::Skipped { reason: halt.reason() })
}

/// Returns the checks up to the last required check; empty without a required check.
///
/// These checks decide if an execution continues.
pub(crate) fn up_to_the_last_required(checks: &[Check]) -> &[Check] {
    let end = checks.iter().rposition(|it| it.options.require).map_or(0, |it| it + 1);
    checks.get(..end).unwrap_or_default()
}
