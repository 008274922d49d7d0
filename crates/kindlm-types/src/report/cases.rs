//! The sources of the case results of a report, such as memory, a journal or a report file.

use std::borrow::Cow;
use std::fmt;

use crate::{CaseResult, Outcome, Tally};

/// The case results of a run, in the order of the plan.
///
/// A `Vec` holds the case results in memory. For a large run, which stores its executions in a journal, the source
/// loads each case from the journal on request. So reporters can iterate several times without holding all cases in
/// memory.
pub trait CaseSource: fmt::Debug {
    /// Returns the number of cases.
    fn len(&self) -> usize;

    /// Returns true if there are no cases.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the data of a case that is available without loading it; `None` after the last case.
    fn mark(&self, position: usize) -> Option<CaseMark<'_>>;

    /// Loads the case at `position`, from 0. Fails if there is no such case, or if the case cannot be loaded.
    fn read_case(&self, position: usize) -> Result<Cow<'_, CaseResult>, CaseError>;

    /// Returns the case at `position` as compact JSON. Fails if the text cannot be loaded.
    ///
    /// Returns `None` if the source has no such text. The caller then loads the case with
    /// [`read_case`](Self::read_case).
    ///
    /// The format is `Case` of `kindlm-wire`. The text is copied into reports without a check. A source that reads the
    /// text from a file must verify that the text is unchanged.
    fn written(&self, position: usize) -> Result<Option<String>, CaseError> {
        let _ = position;
        Ok(None)
    }

    /// Returns the totals over all cases.
    fn tally(&self) -> Cow<'_, Tally>;
}

/// The data of a case that is available without loading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaseMark<'a> {
    /// The model's id in the suite.
    pub model: &'a str,
    /// The outcome of the case.
    pub outcome: Outcome,
    /// The position among the cases of the whole run, from 0, if the report covers a shard.
    pub plan_index: Option<u64>,
}

impl<'a> CaseMark<'a> {
    /// Creates the mark of a case. `plan_index` is its position in the whole run, if the report covers a shard.
    pub const fn new(model: &'a str, outcome: Outcome, plan_index: Option<u64>) -> Self {
        Self { model, outcome, plan_index }
    }
}

/// The reason why a case result could not be loaded.
///
/// A report without the case would be wrong, so rendering stops with this error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CaseError {
    message: String,
}

impl CaseError {
    /// Creates an error. The message names the case, the reason, and the advice.
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

    fn read_case(&self, position: usize) -> Result<Cow<'_, CaseResult>, CaseError> {
        let found = self.get(position).map(Cow::Borrowed);
        found.ok_or_else(|| CaseError::new(format!("there is no case result {position}")))
    }

    fn tally(&self) -> Cow<'_, Tally> {
        Cow::Owned(Tally::from_cases(self))
    }
}
