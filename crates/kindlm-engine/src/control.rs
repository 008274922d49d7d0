//! Stopping a run, and observing it.

use std::sync::{Arc, OnceLock};

use kindlm_types::{CaseResult, ExecutionResult};

/// A switch that stops a run.
///
/// Executions in progress are finished, but no further execution starts. Clones share one switch, so that a signal
/// handler can hold a clone.
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
    /// Stops the run. Executions that have not started are reported with this reason.
    pub fn stop(&self, reason: impl Into<String>) {
        // If the run is already being stopped, the first reason stays.
        let _ = self.0.set(reason.into());
    }

    /// Returns the reason why the run is being stopped; `None` while the run continues.
    pub fn reason(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// An event of a run, for progress displays.
#[derive(Clone, Copy, Debug)]
pub enum RunProgress<'a> {
    /// The run starts.
    RunStarted {
        /// The number of planned executions.
        total: usize,
    },
    /// An execution starts.
    ExecutionStarted {
        /// The test case's name.
        case: &'a str,
        /// The model's id; `command` or `transcript` for tests that run on no model.
        model: &'a str,
        /// The index of the repeat, from 0.
        repeat: u32,
    },
    /// An execution ended, was loaded from the run's record, or will not start because the run was stopped.
    ExecutionFinished(&'a ExecutionResult),
    /// All repeats of a case on one model have ended. Cases may finish in any order.
    CaseFinished(&'a CaseResult),
    /// The run has ended, and the answers to some requests were lost.
    ///
    /// The provider may charge for these answers, so they count against the budget with their maximum cost.
    AnswersLost {
        /// The number of answers.
        attempts: u64,
        /// The cost that is counted for these answers, in US dollars.
        usd: f64,
    },
}
