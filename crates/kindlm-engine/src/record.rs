//! The record of a run: stores finished executions, so that the run can be resumed.

use std::ops::Range;

use kindlm_types::{CaseResult, ExecutionResult};

/// A store for finished executions, outside the memory of the run.
///
/// A record holds the executions of this run and of earlier processes. A new execution is stored before it is counted,
/// reported and aggregated. `()` stores nothing.
pub trait Record: Sync {
    /// Returns a stored execution of a case on a model.
    ///
    /// Returns `None` if the execution must be carried out. Fails if a stored execution cannot be loaded.
    ///
    /// `at` is the position in the plan, and `repeat` the index of the repeat, both from 0. If the execution [is
    /// unjudged](ExecutionResult::is_unjudged), only the judgement is repeated.
    ///
    /// The run calls `recall` once for each execution in the order of the plan, before any request is sent. The run
    /// calls `recall` again for unjudged executions, and for executions that are compared or have a history.
    fn recall(
        &self,
        at: usize,
        case: &str,
        model: &str,
        repeat: u32,
    ) -> Result<Option<ExecutionResult>, RecordError>;

    /// Returns the known cost of stored attempts that must be repeated, in US dollars; 0 without such attempts.
    ///
    /// [`recall`](Self::recall) does not return these attempts. Fails if the record cannot be read.
    fn spent_before(&self, case: &str, model: &str, repeat: u32) -> Result<f64, RecordError> {
        let _ = (case, model, repeat);
        Ok(0.0)
    }

    /// Stores executions that have just finished, each with its position in the plan.
    ///
    /// Several executions are passed if they finished at the same time; either all or none are stored. The record also
    /// removes data that must not be stored, such as secrets, from the passed executions.
    ///
    /// After success, the run counts the executions. After an error with several executions, the run passes each
    /// execution again, one by one. An execution that still cannot be stored is lost. The run then finishes the
    /// executions in progress, and starts no further executions.
    fn keep(&self, finished: &mut [(usize, ExecutionResult)]) -> Result<(), RecordError>;

    /// Returns the reason to stop the run, if the stored data may be lost.
    ///
    /// The run then finishes the executions in progress, and counts them. Returns `None` if the data is safe.
    fn failure(&self) -> Option<RecordError> {
        None
    }

    /// Receives a case whose executions have all finished.
    ///
    /// `position` is the position of the case in the plan, from 0.
    fn case_finished(&self, position: usize, case: &CaseResult) {
        let _ = (position, case);
    }
}

/// A record whose executions can be loaded at any time.
///
/// The run then does not hold the executions in memory.
pub trait ReadRecord: Record {
    /// Loads the execution at a position of the plan, which was stored or recalled in this run. Fails if the execution
    /// cannot be loaded.
    fn read_execution(&self, at: usize) -> Result<ExecutionResult, RecordError>;

    /// Returns the serialized case at a position. Fails if the case cannot be loaded.
    ///
    /// Returns `None` if only the executions of the case are available.
    ///
    /// See [`CaseSource::written`]. `units` are the plan positions of the case's executions.
    ///
    /// [`CaseSource::written`]: kindlm_types::CaseSource::written
    fn written(&self, position: usize, units: Range<usize>) -> Result<Option<String>, RecordError> {
        let _ = (position, units);
        Ok(None)
    }

    /// Removes secrets from an execution that is about to be reported.
    fn clean(&self, result: &mut ExecutionResult);
}

/// The reason why an execution could not be stored or loaded.
///
/// The text is a sentence without a full stop that names the location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RecordError(pub String);

impl Record for () {
    fn recall(
        &self,
        _: usize,
        _: &str,
        _: &str,
        _: u32,
    ) -> Result<Option<ExecutionResult>, RecordError> {
        Ok(None)
    }

    fn keep(&self, _: &mut [(usize, ExecutionResult)]) -> Result<(), RecordError> {
        Ok(())
    }
}
