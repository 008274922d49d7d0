//! The observer of a run: [`Progress`].

use kindlm_engine::RunProgress;

use crate::FailedCase;

/// The observer of a run or a calibration.
///
/// The library drops the observer after the last request has finished or was aborted.
pub trait Progress: Sync {
    /// Receives an event of the run.
    fn on(&self, event: RunProgress<'_>);

    /// Receives a case that failed or could not be judged. Secrets are masked in the texts of the case, but not in the
    /// texts of events.
    fn case_failed(&self, _case: &FailedCase) {}

    /// Receives the end of judging one output of a calibration. The flag is true if there is a verdict.
    fn output_judged(&self, _is_judged: bool) {}

    /// Receives a notice, for example about a long wait or an interrupt.
    fn show_notice(&self, text: &str);
}

/// An observer that shows no progress.
impl Progress for () {
    fn on(&self, _event: RunProgress<'_>) {}

    fn show_notice(&self, _text: &str) {}
}
