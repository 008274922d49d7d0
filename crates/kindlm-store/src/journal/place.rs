//! The place of an entry in its journal.

use kindlm_types::{ExecutionResult, Outcome};

/// The place of an entry in its journal, and the outcome of its execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub(super) offset: u64,
    /// In bytes, line break included.
    pub(super) len: u64,
    /// From 1.
    pub(super) line: u64,
    pub(super) outcome: Outcome,
    pub(super) is_done: bool,
}

impl Place {
    /// `len` is that of the line, line break included.
    pub(super) fn new(offset: u64, len: usize, line: u64, result: &ExecutionResult) -> Self {
        let is_done = match result.outcome {
            Outcome::Errored => false,
            Outcome::Skipped => result.is_unchecked(),
            Outcome::Passed | Outcome::Scored | Outcome::Failed => true,
        };
        Self { offset, len: len as u64, line, outcome: result.outcome, is_done }
    }

    /// True if the execution could be executed and judged, so that it need not be made again.
    pub fn is_done(self) -> bool {
        self.is_done
    }

    /// The outcome of the execution.
    pub fn outcome(self) -> Outcome {
        self.outcome
    }
}
