//! How far a run is: a bar on a terminal, a line now and then in CI.

use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kindlm_engine::RunProgress;
use kindlm_types::Outcome;

use crate::Io;

/// The least time between two lines.
const INTERVAL: Duration = Duration::from_secs(1);

/// Shows how far a run is, on stderr.
pub(crate) struct Progress<'a> {
    state: Mutex<State<'a>>,
}

struct State<'a> {
    stderr: &'a mut (dyn Write + Send),
    view: View,
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

impl<'a> Progress<'a> {
    /// Progress as this terminal, or this pipe, can show it; none if it should be quiet.
    pub(crate) fn new(io: &'a mut Io, quiet: bool) -> Self {
        let view = match (quiet, io.can_animate()) {
            (true, _) => View::Nothing,
            (_, true) => bar().map_or(View::Nothing, View::Bar),
            // The first line comes after a second: a short run needs none.
            _ => View::Lines { last: Instant::now() },
        };
        let stderr = &mut *io.stderr;
        let state = State { stderr, view, total: 0, done: 0, failed: 0, errored: 0 };
        Self { state: Mutex::new(state) }
    }

    /// Something happened.
    pub(crate) fn on(&self, event: RunProgress<'_>) {
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
            RunProgress::ExecutionStarted { .. } | RunProgress::CaseFinished(_) => {}
        }
    }

    /// Says something without disturbing the bar.
    pub(crate) fn say(&self, text: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let View::Bar(bar) = &state.view {
            bar.println(text);
        } else {
            state.line(text);
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let View::Bar(bar) = &state.view {
            bar.finish_and_clear();
        }
    }
}

impl State<'_> {
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
                    let line = format!("{} of {} executions{trouble}", self.done, self.total);
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
        // If nobody listens, nobody is told.
        let _ = writeln!(self.stderr, "{text}");
    }
}

/// Redrawn a few times a second at most, however fast the run is.
fn bar() -> Option<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} executions{msg}").ok()?;
    let target = ProgressDrawTarget::stderr_with_hz(8);
    Some(ProgressBar::with_draw_target(None, target).with_style(style))
}
