//! The progress of a run: a bar on a terminal, occasional lines in CI, and failed cases as they occur.

use std::collections::{HashSet, VecDeque};
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kindlm_engine::RunProgress;
use kindlm_reporters::{clock, count, usd};
use kindlm_run::FailedCase;
use kindlm_types::Outcome;

use crate::{Io, Stderr};

/// The default name of the counted unit.
const EXECUTIONS: &str = "executions";

/// The minimum time between two lines at the beginning of a run, and between two samples of the rate.
const INTERVAL: Duration = Duration::from_secs(1);

/// The time after the start of the run before failed cases are shown. In a shorter run, only the report shows them.
const PATIENCE: Duration = Duration::from_secs(1);

/// The number of samples over which the rate is measured.
const SAMPLES: usize = 15;

/// The maximum number of failed cases that are shown.
const NAMED: usize = 50;

/// The display of a run's progress on stderr.
pub(crate) struct Progress {
    state: Mutex<State>,
}

struct State {
    stderr: Stderr,
    view: View,
    color: bool,
    /// The name of the counted unit.
    what: &'static str,
    total: usize,
    done: usize,
    failed: usize,
    errored: usize,
    /// The known cost in US dollars, with judges.
    spent_usd: f64,
    budget_usd: Option<f64>,
    began: Instant,
    /// The numbers of finished items at earlier times, oldest first.
    samples: VecDeque<(Instant, usize)>,
    /// True after the first execution has started. Executions that were loaded from a journal count as finished
    /// earlier.
    has_started: bool,
    /// The failed cases that are not shown yet.
    held: Vec<String>,
    /// The number of failed cases so far, including those that are not shown.
    named: usize,
    /// The causes of the errors that are shown. Each cause is shown once.
    errors: HashSet<String>,
}

enum View {
    Nothing,
    Bar(ProgressBar),
    Lines { last: Instant },
}

impl Progress {
    /// Creates a display that suits the terminal or pipe; no display if `quiet`.
    pub(crate) fn new(io: &Io, quiet: bool) -> Self {
        let now = Instant::now();
        let view = match (quiet, io.can_animate()) {
            (true, _) => View::Nothing,
            (_, true) => bar().map_or(View::Nothing, View::Bar),
            // The first line is printed after one second, because a short run needs no progress lines.
            _ => View::Lines { last: now },
        };
        let state = State {
            stderr: io.stderr.clone(),
            view,
            color: io.color_stderr(),
            what: EXECUTIONS,
            total: 0,
            done: 0,
            failed: 0,
            errored: 0,
            spent_usd: 0.0,
            budget_usd: None,
            began: now,
            samples: VecDeque::from([(now, 0)]),
            has_started: false,
            held: Vec::new(),
            named: 0,
            errors: HashSet::new(),
        };
        Self { state: Mutex::new(state) }
    }

    /// Sets the budget that is shown beside the cost.
    pub(crate) fn with_budget(mut self, budget_usd: Option<f64>) -> Self {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).budget_usd = budget_usd;
        self
    }

    /// Creates a display for `total` items of another unit, such as `outputs`.
    pub(crate) fn for_items(io: &Io, what: &'static str, total: usize) -> Self {
        let mut progress = Self::new(io, false);
        let state = progress.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.what = what;
        state.total = total;
        if let View::Bar(bar) = &state.view {
            bar.set_length(total as u64);
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
                state.show();
            }
            RunProgress::ExecutionStarted { .. } if !state.has_started => {
                state.has_started = true;
                let done = state.done;
                state.samples = VecDeque::from([(Instant::now(), done)]);
            }
            RunProgress::ExecutionFinished(result) => {
                state.done += 1;
                let judges = result.judge_cost_usd.unwrap_or_default();
                state.spent_usd += result.execution.spent_at_least().unwrap_or_default() + judges;
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
            RunProgress::CaseFinished(case) => state.leave_out(case.unneeded_repeats()),
            RunProgress::ExecutionStarted { .. } => {}
        }
    }

    fn case_failed(&self, case: &FailedCase) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // The first case with an error stands for the others. The report counts the cases with the same error.
        if case.error_cause.as_ref().is_some_and(|it| !state.errors.insert(it.clone())) {
            return;
        }
        if state.named < NAMED {
            let text = case.to_string();
            let text = match text.split_once(' ') {
                Some((mark, rest)) if state.color => format!("\u{1b}[31m{mark}\u{1b}[0m {rest}"),
                _ => text,
            };
            state.held.push(text);
        } else if state.named == NAMED {
            state.held.push("… more failures: the report names them all".to_owned());
        }
        state.named += 1;
        state.show_failed(Instant::now());
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
        state.line(text);
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
    /// Reduces the total by repeats that are not carried out.
    fn leave_out(&mut self, repeats: u64) {
        if repeats == 0 {
            return;
        }
        self.total = self.total.saturating_sub(usize::try_from(repeats).unwrap_or(usize::MAX));
        if let View::Bar(bar) = &self.view {
            bar.set_length(self.total as u64);
        }
        self.show();
    }

    fn show(&mut self) {
        let now = Instant::now();
        self.show_failed(now);
        let text = self.text(now);
        match &mut self.view {
            View::Nothing => {}
            View::Bar(bar) => {
                bar.set_message(text);
                bar.set_position(self.done as u64);
            }
            View::Lines { last } => {
                // The lines of a long run become rare, because they stay in the log.
                let pause = ((now - self.began) / 10).clamp(INTERVAL, Duration::from_mins(1));
                if now.duration_since(*last) >= pause && self.done < self.total {
                    *last = now;
                    self.line(&text);
                }
            }
        }
    }

    /// Prints the failed cases that are not shown yet; a quiet display drops them. Does nothing before [`PATIENCE`] has
    /// passed.
    fn show_failed(&mut self, now: Instant) {
        if now.duration_since(self.began) < PATIENCE {
            return;
        }
        for text in std::mem::take(&mut self.held) {
            if !matches!(self.view, View::Nothing) {
                self.line(&text);
            }
        }
    }

    /// Returns the numbers, such as `1,240 of 3,000  ✗ 12  ! 0  41/s  0:43 left  $1.12 of $5.00`.
    fn text(&mut self, now: Instant) -> String {
        let mut text = format!("{} of {}", count(self.done as u64), count(self.total as u64));
        // Beside the bar, there is no room for the name of the unit.
        if !matches!(self.view, View::Bar(_)) {
            let _ = write!(text, " {}", self.what);
        }
        // A narrow terminal cuts the end of the line, so the failures come before the rate.
        if self.failed + self.errored > 0 {
            let failed = count(self.failed as u64);
            let _ = write!(text, "  ✗ {failed}  ! {}", count(self.errored as u64));
        }
        if let Some(rate) = self.rate(now) {
            let digits = usize::from(rate < 10.0);
            let _ = write!(text, "  {rate:.digits$}/s");
            let open = self.total.saturating_sub(self.done);
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let left = Duration::try_from_secs_f64((open as f64 / rate).ceil());
            if let (Ok(left), true) = (left, open > 0) {
                let _ = write!(text, "  {} left", clock(left));
            }
        }
        match self.budget_usd {
            Some(budget) => {
                let _ = write!(text, "  {} of {}", usd(self.spent_usd), usd(budget));
            }
            None if self.spent_usd > 0.0 => {
                let _ = write!(text, "  {}", usd(self.spent_usd));
            }
            None => {}
        }
        text
    }

    /// Returns the finished items per second over the last samples; `None` if the rate is not known yet.
    fn rate(&mut self, now: Instant) -> Option<f64> {
        let (from, before) = *self.samples.front()?;
        let (last, _) = *self.samples.back()?;
        if now.duration_since(last) >= INTERVAL {
            self.samples.push_back((now, self.done));
            if self.samples.len() > SAMPLES {
                self.samples.pop_front();
            }
        }
        let elapsed = now.duration_since(from);
        let count = u32::try_from(self.done.saturating_sub(before)).ok()?;
        (elapsed >= INTERVAL && count > 0).then(|| f64::from(count) / elapsed.as_secs_f64())
    }

    /// Prints a text above the bar, or as a line if there is no bar.
    fn line(&mut self, text: &str) {
        match &self.view {
            View::Bar(bar) => bar.suspend(|| self.stderr.line(text)),
            View::Nothing | View::Lines { .. } => self.stderr.line(text),
        }
    }
}

/// Creates a bar that is redrawn at most 8 times a second.
///
/// Returns `None` if the template of the bar is invalid.
fn bar() -> Option<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:10} {wide_msg}").ok()?;
    let target = ProgressDrawTarget::stderr_with_hz(8);
    Some(ProgressBar::with_draw_target(None, target).with_style(style))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_run::World;
    use std::sync::Arc;

    fn progress(edit: impl FnOnce(&mut State)) -> Progress {
        let world = World::new("", Arc::new(|_| None));
        let io = Io::new(world, Stderr::new(std::io::sink()));
        let mut progress = Progress::new(&io, false);
        edit(progress.state.get_mut().unwrap());
        progress
    }

    #[test]
    fn shows_rate_time_cost_and_failures() {
        let mut long = progress(|it| {
            (it.done, it.total) = (1240, 3000);
            (it.failed, it.errored) = (12, 0);
            (it.spent_usd, it.budget_usd) = (1.12, Some(5.0));
        });
        let long = long.state.get_mut().unwrap();
        let later = long.began + Duration::from_secs(30);
        assert_eq!(
            long.text(later),
            "1,240 of 3,000 executions  ✗ 12  ! 0  41/s  0:43 left  $1.12 of $5.00"
        );
        let mut short = progress(|it| (it.done, it.total) = (1, 2));
        let short = short.state.get_mut().unwrap();
        let begun = short.began;
        assert_eq!(short.text(begun), "1 of 2 executions");
    }

    #[test]
    fn the_rate_leaves_out_loaded_executions() {
        let mut resumed = progress(|it| {
            (it.done, it.total) = (1000, 1010);
            it.samples = VecDeque::from([(it.began, 1000)]);
        });
        let resumed = resumed.state.get_mut().unwrap();
        resumed.done += 5;
        let later = resumed.began + Duration::from_secs(10);
        assert_eq!(resumed.text(later), "1,005 of 1,010 executions  0.5/s  0:10 left");
    }

    #[test]
    fn an_early_end_reduces_the_total() {
        let mut shown = progress(|it| (it.done, it.total) = (3, 61));
        let state = shown.state.get_mut().unwrap();
        state.leave_out(57);
        let begun = state.began;
        assert_eq!(state.text(begun), "3 of 4 executions");
    }
}
