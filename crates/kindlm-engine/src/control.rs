//! Stopping a run, and watching it.

use std::sync::{Arc, OnceLock};

use kindlm_types::{CaseResult, ExecutionResult};

/// A switch that stops a run: what is in flight is finished, nothing more is sent.
///
/// Clones share one switch, so that a signal handler can hold one.
///
/// ```
/// let control = kindlm_engine::Control::default();
/// let handler = control.clone();
/// handler.stop("interrupted");
/// handler.stop("too late: the first reason stays");
/// assert_eq!(control.reason(), Some("interrupted"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<OnceLock<String>>);

impl Control {
    /// Stops the run. Executions that have not begun are reported with this reason.
    pub fn stop(&self, reason: impl Into<String>) {
        // Only the first reason counts; losing the race is no error.
        let _ = self.0.set(reason.into());
    }

    /// Why the run is being stopped, if it is.
    pub fn reason(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// Something that happened during a run, for people who watch and for the journal.
#[derive(Clone, Copy, Debug)]
pub enum RunProgress<'a> {
    /// The run begins.
    RunStarted {
        /// The number of planned executions.
        total: usize,
    },
    /// An execution begins.
    ExecutionStarted {
        /// The test case's name.
        case: &'a str,
        /// The model's id; `command` for command tests.
        model: &'a str,
        /// Which repeat, from 0.
        repeat: u32,
    },
    /// An execution ended, or will not begin because the run was stopped.
    ExecutionFinished(&'a ExecutionResult),
    /// The last repeat of a case on one model ended. Comes in the order in which cases end.
    CaseFinished(&'a CaseResult),
    /// The run has ended, and answers were lost on their way: nobody knows whether the provider charges for them, so they
    /// count against the budget with the most that they may cost.
    AnswersLost {
        /// The number of answers.
        attempts: u64,
        /// The cost that is counted for them, in US dollars.
        usd: f64,
    },
}
