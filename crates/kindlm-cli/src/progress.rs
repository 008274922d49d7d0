//! The progress of a run: a bar on a terminal, occasional lines in CI.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kindlm_engine::RunProgress;
use kindlm_types::Outcome;

use crate::{Io, Stderr};

/// The default name of the counted unit.
const EXECUTIONS: &str = "executions";

/// The minimum time between two lines.
const INTERVAL: Duration = Duration::from_secs(1);

/// The display of a run's progress on stderr.
pub(crate) struct Progress {
    state: Mutex<State>,
}

struct State {
    stderr: Stderr,
    view: View,
    /// The name of the counted unit.
    what: &'static str,
    total: usize,
    done: usize,
    failed: usize,
    errored: usize,
}

enum View {
    Nothing,
    Bar(ProgressBar),
    Lines { last: Instant },
}

impl Progress {
    /// Creates a display that suits the terminal or pipe; no display if `quiet`.
    pub(crate) fn new(io: &Io, quiet: bool) -> Self {
        let view = match (quiet, io.can_animate()) {
            (true, _) => View::Nothing,
            (_, true) => bar().map_or(View::Nothing, View::Bar),
            // The first line is printed after one second, because a short run needs no progress lines.
            _ => View::Lines { last: Instant::now() },
        };
        let stderr = io.stderr.clone();
        let state =
            State { stderr, view, what: EXECUTIONS, total: 0, done: 0, failed: 0, errored: 0 };
        Self { state: Mutex::new(state) }
    }

    /// Creates a display for `total` items of another unit, such as `outputs`.
    pub(crate) fn of(io: &Io, what: &'static str, total: usize) -> Self {
        let mut progress = Self::new(io, false);
        let state = progress.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.what = what;
        state.total = total;
        if let View::Bar(bar) = &state.view {
            bar.set_length(total as u64);
            bar.set_prefix(what);
        }
        progress
    }
}

impl kindlm_run::Progress for Progress {
    /// Updates the display.
    fn on(&self, event: RunProgress<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            RunProgress::RunStarted { total } => {
                state.total = total;
                if let View::Bar(bar) = &state.view {
                    bar.set_length(total as u64);
                }
            }
            RunProgress::ExecutionFinished(result) => {
                state.done += 1;
                match result.outcome {
                    Outcome::Failed => state.failed += 1,
                    Outcome::Errored => state.errored += 1,
                    Outcome::Passed | Outcome::Scored | Outcome::Skipped => {}
                }
                state.show();
            }
            RunProgress::AnswersLost { attempts, usd } => {
                let (s, were) = if attempts == 1 { ("", "was") } else { ("s", "were") };
                let amount = kindlm_types::ecma::to_fixed(usd, 4);
                drop(state);
                self.show_notice(&format!(
                    "{attempts} answer{s} {were} lost: the provider may charge for the attempt{s}, so ${amount} counts against the budget"
                ));
            }
            RunProgress::ExecutionStarted { .. } | RunProgress::CaseFinished(_) => {}
        }
    }

    fn output_judged(&self, is_judged: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.done += 1;
        state.errored += usize::from(!is_judged);
        state.show();
    }

    /// Prints a text above the bar, or as a line if there is no bar.
    fn show_notice(&self, text: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let View::Bar(bar) = &state.view {
            bar.println(text);
        } else {
            state.line(text);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let View::Bar(bar) = &state.view {
            bar.finish_and_clear();
        }
    }
}

impl State {
    fn show(&mut self) {
        let trouble = self.trouble();
        match &mut self.view {
            View::Nothing => {}
            View::Bar(bar) => {
                bar.set_message(trouble);
                bar.set_position(self.done as u64);
            }
            View::Lines { last } => {
                if last.elapsed() >= INTERVAL && self.done < self.total {
                    *last = Instant::now();
                    let line = format!("{} of {} {}{trouble}", self.done, self.total, self.what);
                    self.line(&line);
                }
            }
        }
    }

    fn trouble(&self) -> String {
        match (self.failed, self.errored) {
            (0, 0) => String::new(),
            (failed, 0) => format!(", {failed} failed"),
            (0, errored) => format!(", {errored} errored"),
            (failed, errored) => format!(", {failed} failed, {errored} errored"),
        }
    }

    fn line(&mut self, text: &str) {
        self.stderr.line(text);
    }
}

/// Creates a bar that is redrawn at most 8 times a second.
///
/// Returns `None` if the template of the bar is invalid.
fn bar() -> Option<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} {prefix}{msg}").ok()?;
    let target = ProgressDrawTarget::stderr_with_hz(8);
    Some(ProgressBar::with_draw_target(None, target).with_style(style).with_prefix(EXECUTIONS))
}
