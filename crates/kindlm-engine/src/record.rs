//! Where finished executions are kept, so that a run can be gone on with.

use std::ops::Range;

use kindlm_types::{CaseResult, ExecutionResult};

/// Keeps finished executions outside the memory of the run, and knows those that an earlier process finished.
///
/// An execution is counted, reported and aggregated only after it was stored. `()` stores nothing.
pub trait Record: Sync {
    /// The execution of this case on this model and of this repeat (from 0), if it was kept and need not be made
    /// again. If it [is unjudged](ExecutionResult::is_unjudged), only its judgement is made again.
    ///
    /// Asked once for each execution of the plan, in its order, before anything is sent, and once more for those that are
    /// unjudged when it is their turn; `at` is its position in the plan, from 0.
    fn recall(
        &self,
        at: usize,
        case: &str,
        model: &str,
        repeat: u32,
    ) -> Result<Option<ExecutionResult>, RecordError>;

    /// What attempts of an execution cost that were kept but are to be made again, in US dollars, as far as it is known:
    /// [`recall`](Self::recall) gives none of them back. 0 if there is none.
    fn spent_before(&self, case: &str, model: &str, repeat: u32) -> Result<f64, RecordError> {
        let _ = (case, model, repeat);
        Ok(0.0)
    }

    /// Keeps executions that have just been carried out, whatever came of them, each with its position in the plan; what
    /// must not be kept, such as secrets, is taken out of them on the way. There is one at least, and several where
    /// they finished at the same time: all of them are kept, or none is.
    ///
    /// Once this returns, the executions may be counted. After an error they must not be. Of several, each is then given
    /// once more by itself; what fails so is lost, and the run sends nothing more and finishes what is in flight.
    fn keep(&self, finished: &mut [(usize, ExecutionResult)]) -> Result<(), RecordError>;

    /// Why nothing more is to be sent, although everything was kept: what was kept may not stay. The run finishes what is
    /// in flight, and counts it.
    fn failure(&self) -> Option<RecordError> {
        None
    }

    /// Hears of a case all of whose executions are finished; `position` is its place among the cases of the plan, from 0.
    fn case_finished(&self, position: usize, case: &CaseResult) {
        let _ = (position, case);
    }
}

/// A record whose executions can be read as often as they are needed, so that the run need not hold them.
pub trait ReadRecord: Record {
    /// Reads the execution at a position of the plan, which was kept or recalled in this run.
    fn read(&self, at: usize) -> Result<ExecutionResult, RecordError>;

    /// The case at a position, whose executions are at `units` of the plan, as [`CaseSource::written`] has it, if that is
    /// at hand.
    ///
    /// [`CaseSource::written`]: kindlm_types::CaseSource::written
    fn written(&self, position: usize, units: Range<usize>) -> Result<Option<String>, RecordError> {
        let _ = (position, units);
        Ok(None)
    }

    /// Takes out what must not be shown of an execution that could not be kept, or was not run.
    fn clean(&self, result: &mut ExecutionResult);
}

/// Why an execution could not be kept or brought back: a sentence without a full stop that says where.
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
