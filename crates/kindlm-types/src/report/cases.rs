//! The sources of the case results of a report: memory, or a journal that is read again.

use std::borrow::Cow;
use std::fmt;

use crate::{CaseResult, Outcome, Tally};

/// The case results of a run, in the order of the plan, one at a time.
///
/// A `Vec` of them is one. A large run keeps its executions in its journal, and has another that reads a case from
/// there whenever it is asked for: reporters go through the cases as often as they like, and never hold all of them.
pub trait CaseSource: fmt::Debug {
    /// The number of cases.
    fn len(&self) -> usize;

    /// True if there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The data of a case that is known without reading it; `None` beyond the last.
    fn mark(&self, position: usize) -> Option<CaseMark<'_>>;

    /// Reads one case, `position` from 0.
    fn read(&self, position: usize) -> Result<Cow<'_, CaseResult>, CaseError>;

    /// The case as `Case` of `kindlm-wire` in compact JSON, where that costs less than reading it;
    /// `None` where it does not. It goes into reports as it stands, so a source that keeps it in a file makes sure that it
    /// is what was put there.
    fn written(&self, position: usize) -> Result<Option<String>, CaseError> {
        let _ = position;
        Ok(None)
    }

    /// The sums over all cases.
    fn tally(&self) -> Cow<'_, Tally>;
}

/// The data of a case that is known without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaseMark<'a> {
    /// The model's id in the suite.
    pub model: &'a str,
    /// The outcome of the case.
    pub outcome: Outcome,
    /// In a part of a run: the position among the cases of the whole run, from 0.
    pub plan_index: Option<u64>,
}

/// Why a case result could not be read.
///
/// A report without it would be wrong, so rendering stops with this error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CaseError {
    message: String,
}

impl CaseError {
    /// An error: the case that could not be read, the reason, and the advice.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl CaseSource for Vec<CaseResult> {
    fn len(&self) -> usize {
        self.len()
    }

    fn mark(&self, position: usize) -> Option<CaseMark<'_>> {
        let case = self.get(position)?;
        let plan_index = case.plan_index;
        Some(CaseMark { model: &case.model, outcome: case.outcome, plan_index })
    }

    fn read(&self, position: usize) -> Result<Cow<'_, CaseResult>, CaseError> {
        let found = self.get(position).map(Cow::Borrowed);
        found.ok_or_else(|| CaseError::new(format!("there is no case result {position}")))
    }

    fn tally(&self) -> Cow<'_, Tally> {
        Cow::Owned(Tally::of(self))
    }
}
