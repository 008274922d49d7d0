//! Checks on which everything after them depends.

use kindlm_assertions::Check;
use kindlm_types::{AssertionResult, Verdict};

/// A required check did not hold, so that an execution goes no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halt {
    /// The label of the check.
    pub label: String,
    /// True if it failed; else it could not be judged.
    pub failed: bool,
}

impl Halt {
    /// True if an execution halts after a check with these results.
    pub(crate) fn of(check: &Check, results: &[AssertionResult]) -> Option<Self> {
        if !check.options.require {
            return None;
        }
        let failed = |it: &&AssertionResult| matches!(it.verdict, Verdict::Fail { .. });
        let errored = |it: &&AssertionResult| matches!(it.verdict, Verdict::Errored { .. });
        let result = results.iter().find(failed).or_else(|| results.iter().find(errored))?;
        Some(Self { label: result.label.clone(), failed: failed(&result) })
    }

    /// Why something was not done, in words.
    pub fn reason(&self) -> String {
        let what = if self.failed { "does not hold" } else { "could not be judged" };
        format!("not run: the required check `{}` {what}", self.label)
    }
}

/// The result of a check that was not made.
pub(crate) fn not_run(check: &Check, halt: &Halt) -> AssertionResult {
    check.without_looking(Verdict::Skipped { reason: halt.reason() })
}

/// The checks that decide whether an execution goes on; none if no check is required.
pub(crate) fn up_to_the_last_required(checks: &[Check]) -> &[Check] {
    let end = checks.iter().rposition(|it| it.options.require).map_or(0, |it| it + 1);
    checks.get(..end).unwrap_or_default()
}
