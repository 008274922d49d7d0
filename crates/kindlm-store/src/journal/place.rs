//! The location of an entry in its journal.

use kindlm_types::{ExecutionResult, Outcome};

/// The location of an entry in its journal, and the outcome of its execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryLocation {
    pub(super) offset: u64,
    /// The length in bytes, including the line break.
    pub(super) len: u64,
    /// The line number, from 1.
    pub(super) line: u64,
    pub(super) outcome: Outcome,
    pub(super) is_done: bool,
}

impl EntryLocation {
    /// Creates a location.
    ///
    /// `len` is the length of the line, including the line break.
    pub(super) fn new(offset: u64, len: usize, line: u64, result: &ExecutionResult) -> Self {
        let is_done = match result.outcome {
            Outcome::Errored => false,
            Outcome::Skipped => result.is_unchecked(),
            Outcome::Passed | Outcome::Scored | Outcome::Failed => true,
        };
        Self { offset, len: len as u64, line, outcome: result.outcome, is_done }
    }

    /// Returns true if the execution was executed and judged.
    ///
    /// Such an execution need not run again.
    pub fn is_done(self) -> bool {
        self.is_done
    }

    /// Returns the outcome of the execution.
    pub fn outcome(self) -> Outcome {
        self.outcome
    }
}
