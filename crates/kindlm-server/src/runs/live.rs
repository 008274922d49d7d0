//! A run of this process, with the events that clients follow.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use jiff::Timestamp;
use kindlm_run::stored_runs::RunOutcome;
use kindlm_run::{FailedCase, Interrupt, Interrupts, Progress, RunProgress, World};
use kindlm_types::{AnyReport, BoxFuture, CaseResult, Outcome};
use kindlm_wire::v1::RunHead;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;
use utoipa::ToSchema;

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RunState {
    /// The run waits until other runs have ended.
    Queued,
    /// The run is going on.
    Running,
    /// All gates held.
    Passed,
    /// A gate is violated.
    Failed,
    /// A provider or KindLM failed, or the run could not start.
    Errored,
    /// The run was cancelled.
    Interrupted,
    /// The run stopped without a report. It can be resumed.
    Unfinished,
    /// The report cannot be read.
    Unreadable,
}

impl From<RunOutcome> for RunState {
    fn from(outcome: RunOutcome) -> Self {
        match outcome {
            RunOutcome::Passed => Self::Passed,
            RunOutcome::Failed => Self::Failed,
            RunOutcome::Errored => Self::Errored,
            RunOutcome::Interrupted => Self::Interrupted,
            RunOutcome::Running => Self::Running,
            RunOutcome::Unfinished => Self::Unfinished,
            _ => Self::Unreadable,
        }
    }
}

/// The name of the events with the number of finished executions.
const PROGRESS: &str = "progress";

/// The maximum number of failed and errored cases that the page of a run shows.
const FAILURES: usize = 100;

/// The maximum size of the events that a run keeps, in bytes. The events of 10,000 passed cases need less.
const KEPT: usize = 4 << 20;

/// The maximum size of the events of an ended run, in bytes. The limit applies when another run is added.
const KEPT_AFTER: usize = 64 << 10;

/// The size of an event in memory besides its data, in bytes, rounded up.
const EVENT_SIZE: usize = 64;

/// An event of a run.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// `progress`, `case`, `gate`, `done`, or `omitted` in place of events that were removed from memory.
    pub(crate) name: &'static str,
    /// A JSON object.
    pub(crate) data: Arc<str>,
}

impl Event {
    fn new(name: &'static str, data: &serde_json::Value) -> Self {
        Self { name, data: data.to_string().into() }
    }

    /// Returns the event of a case that has ended.
    pub(super) fn of_case(case: &CaseResult) -> Self {
        let data = json!({"case": case.case, "model": case.model, "outcome": case.outcome});
        Self::new("case", &data)
    }

    /// Returns the event of a failed or errored case.
    pub(super) fn of_failed_case(case: &FailedCase) -> Self {
        let (file, line) = match &case.place {
            Some(place) => (Some(&place.file), Some(place.line)),
            None => (None, None),
        };
        let data = json!({
            "case": case.case, "model": case.model, "outcome": case.outcome, "reason": case.reason,
            "file": file, "line": line,
        });
        Self::new("case", &data)
    }

    /// Returns the events of the gates of a finished run.
    pub(crate) fn of_gates(head: &RunHead) -> impl Iterator<Item = Self> + '_ {
        head.gates.iter().map(|it| Self::new("gate", &json!(it)))
    }

    /// Returns the last event of a run.
    pub(crate) fn done(id: &str, state: RunState, error: Option<&str>) -> Self {
        Self::new("done", &json!({"run": id, "state": state, "error": error}))
    }
}

/// The state and the progress of a run.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) state: RunState,
    /// The number of planned executions; `None` before the run starts.
    pub(crate) total: Option<usize>,
    /// The number of executions that have ended.
    pub(crate) finished: usize,
    /// The reason why the run failed without a report; `None` for any other run.
    pub(crate) error: Option<String>,
    /// The number of cases with the outcome `passed` or `scored`.
    pub(crate) held: usize,
    /// The number of cases that have ended and were not skipped.
    pub(crate) ended: usize,
    /// The first failed or errored cases, at most [`FAILURES`].
    pub(crate) failures: Vec<FailedCase>,
    /// The number of further failed or errored cases.
    pub(crate) more_failures: usize,
    /// The newest events without the `progress` events, with their numbers.
    events: VecDeque<(usize, Event)>,
    /// The size of `events`, in bytes.
    bytes: usize,
    /// The number of the last event that was removed; 0 if none was removed.
    omitted: usize,
    /// The last `progress` event. It replaces the earlier `progress` events.
    progress: Option<(usize, Event)>,
    /// The number of all events so far, including removed events.
    count: usize,
}

impl Known {
    fn add(&mut self, event: Event) {
        self.count += 1;
        let numbered = (self.count, event);
        if numbered.1.name == PROGRESS {
            self.progress = Some(numbered);
        } else {
            self.bytes += size(&numbered.1);
            self.events.push_back(numbered);
            self.trim(KEPT);
        }
    }

    /// Removes the oldest events, until at most `most` bytes are left.
    fn trim(&mut self, most: usize) {
        while self.bytes > most
            && let Some((number, event)) = self.events.pop_front()
        {
            self.bytes -= size(&event);
            self.omitted = number;
        }
    }

    /// Returns the next event after the event with the number `seen`; `None` if there is none.
    ///
    /// Removed events are replaced by one event `omitted`, with the number of the last removed event.
    fn next(&self, seen: usize) -> Option<(usize, Event)> {
        if seen < self.omitted {
            let data = json!({"after": seen, "until": self.omitted});
            return Some((self.omitted, Event::new("omitted", &data)));
        }
        let at = self.events.partition_point(|it| it.0 <= seen);
        let progress = self.progress.iter().filter(|it| it.0 > seen);
        self.events.get(at).into_iter().chain(progress).min_by_key(|it| it.0).cloned()
    }
}

fn size(event: &Event) -> usize {
    event.data.len() + EVENT_SIZE
}

/// A run that this process started.
#[derive(Debug)]
pub(crate) struct LiveRun {
    pub(crate) id: String,
    /// The suite: its path below the folder of suites.
    pub(crate) suite: String,
    /// The version of the suite, once it is stored.
    pub(crate) suite_version: OnceLock<i64>,
    known: Mutex<Known>,
    /// The series of the events: the time at which the run was planned, in milliseconds since 1970. A resumed run has a
    /// new series.
    pub(crate) series: i64,
    /// The number of all events so far. Readers of events wait until this number changes.
    count: watch::Sender<usize>,
    /// The number of cancellations. The first cancellation lets running executions end, the second one aborts them.
    cancels: watch::Sender<u8>,
}

impl LiveRun {
    pub(super) fn new(id: String, suite: String) -> Arc<Self> {
        let known = Known {
            state: RunState::Queued,
            total: None,
            finished: 0,
            error: None,
            held: 0,
            ended: 0,
            failures: Vec::new(),
            more_failures: 0,
            events: VecDeque::new(),
            bytes: 0,
            omitted: 0,
            progress: None,
            count: 0,
        };
        Arc::new(Self {
            id,
            suite,
            suite_version: OnceLock::new(),
            known: Mutex::new(known),
            series: Timestamp::now().as_millisecond(),
            count: watch::Sender::new(0),
            cancels: watch::Sender::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state and the progress of the run, without its events.
    pub(crate) fn known(&self) -> Known {
        let known = self.lock();
        Known {
            error: known.error.clone(),
            failures: known.failures.clone(),
            events: VecDeque::new(),
            progress: None,
            ..*known
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        !matches!(self.lock().state, RunState::Queued | RunState::Running)
    }

    /// Removes all but the newest events, if the run has ended.
    pub(super) fn trim(&self) {
        if self.has_ended() {
            self.lock().trim(KEPT_AFTER);
        }
    }

    /// Waits until the run has ended.
    pub(super) async fn ended(&self) {
        let mut count = self.count.subscribe();
        // This cannot fail, because the sender is a field of this value.
        let _ = count.wait_for(|_| self.has_ended()).await;
    }

    /// Cancels the run. The first time, running executions may end; the second time, they are aborted.
    pub(crate) fn cancel(&self) {
        self.cancels.send_modify(|it| *it = it.saturating_add(1));
    }

    /// Waits until the run is cancelled.
    pub(super) async fn cancelled(&self) {
        let _ = self.cancels.subscribe().wait_for(|it| *it > 0).await;
    }

    /// Returns a copy of `world` that interrupts the run when the run is cancelled.
    pub(super) fn world(self: &Arc<Self>, world: &World) -> World {
        let run = Arc::clone(self);
        let interrupts: Interrupts =
            Arc::new(move || Box::new(Cancels { asked: run.cancels.subscribe(), seen: 0 }));
        World { interrupts, ..world.clone() }
    }

    fn add(&self, events: impl IntoIterator<Item = Event>, change: impl FnOnce(&mut Known)) {
        let mut known = self.lock();
        change(&mut known);
        events.into_iter().for_each(|it| known.add(it));
        let count = known.count;
        drop(known);
        self.count.send_replace(count);
    }

    /// Marks the run as started.
    pub(super) fn start(&self) {
        self.add([], |it| it.state = RunState::Running);
    }

    /// Adds the events of the gates of the report.
    pub(super) fn judged(&self, report: &AnyReport<'_>) {
        self.add(Event::of_gates(&RunHead::from_report(report)), |_| {});
    }

    /// Marks the run as ended, and adds the last event. Clients see `error`, so it must not contain secrets.
    pub(super) fn end(&self, state: RunState, error: Option<String>) {
        let done = Event::done(&self.id, state, error.as_deref());
        self.add([done], |it| {
            it.state = state;
            it.error = error;
        });
    }

    /// Follows the events after the event with the number `seen`.
    pub(crate) fn events(self: Arc<Self>, seen: usize) -> Events {
        Events { count: self.count.subscribe(), run: self, seen }
    }
}

/// The events of a run, in order.
pub(crate) struct Events {
    run: Arc<LiveRun>,
    count: watch::Receiver<usize>,
    seen: usize,
}

impl Events {
    /// Returns true if no event is left, and none will come.
    pub(crate) fn is_at_end(&self) -> bool {
        let known = self.run.lock();
        let has_ended = !matches!(known.state, RunState::Queued | RunState::Running);
        has_ended && self.seen >= known.count
    }

    /// Waits for the next event, and returns the event with its number; `None` after the last event.
    pub(crate) async fn next(&mut self) -> Option<(usize, Event)> {
        loop {
            self.count.mark_unchanged();
            let found = self.run.lock().next(self.seen);
            if let Some(found) = found {
                self.seen = found.0;
                return Some(found);
            }
            if self.is_at_end() {
                return None;
            }
            self.count.changed().await.ok()?;
        }
    }
}

/// The cancellations of a run. The run handles them like interrupts (Ctrl-C).
struct Cancels {
    asked: watch::Receiver<u8>,
    seen: u8,
}

impl Interrupt for Cancels {
    fn next(&mut self) -> BoxFuture<'_, &'static str> {
        Box::pin(async {
            let seen = self.seen;
            if self.asked.wait_for(|it| *it > seen).await.is_err() {
                std::future::pending::<()>().await;
            }
            self.seen = seen.saturating_add(1);
            "cancelled"
        })
    }
}

/// Turns the progress of a run into events.
pub(super) struct Watcher(pub(super) Arc<LiveRun>);

impl Progress for Watcher {
    fn on(&self, event: RunProgress<'_>) {
        match event {
            RunProgress::RunStarted { total } => {
                let progress = json!({"finished": 0, "total": total});
                self.0.add([Event::new(PROGRESS, &progress)], |it| it.total = Some(total));
            }
            RunProgress::ExecutionFinished(_) => {
                let (finished, total) = {
                    let known = self.0.lock();
                    (known.finished + 1, known.total)
                };
                let progress = json!({"finished": finished, "total": total});
                self.0.add([Event::new(PROGRESS, &progress)], |it| it.finished = finished);
            }
            // `case_failed` receives failed and errored cases, with their reasons.
            RunProgress::CaseFinished(case)
                if !matches!(case.outcome, Outcome::Failed | Outcome::Errored) =>
            {
                let is_skipped = case.outcome == Outcome::Skipped;
                self.0.add([Event::of_case(case)], |it| {
                    it.ended += usize::from(!is_skipped);
                    it.held += usize::from(!is_skipped);
                });
            }
            _ => {}
        }
    }

    fn case_failed(&self, case: &FailedCase) {
        self.0.add([Event::of_failed_case(case)], |it| {
            it.ended += 1;
            if it.failures.len() < FAILURES {
                it.failures.push(case.clone());
            } else {
                it.more_failures += 1;
            }
        });
    }

    fn show_notice(&self, _text: &str) {}
}

/// Returns the state of a run that ended with this outcome, and the text of its error; `None` without an error.
pub(super) fn state_of(outcome: &kindlm_run::Outcome) -> (RunState, Option<String>) {
    match outcome {
        Ok(status) => (RunOutcome::of_exit_code(status.code()).into(), None),
        Err(failure) => {
            let state = RunOutcome::of_exit_code(failure.status.code()).into();
            (state, failure.render(false))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_progress_is_stored() {
        let run = LiveRun::new("r".to_owned(), "s".to_owned());
        let event = |name| Event::new(name, &json!({}));
        run.add([event("case")], |_| {});
        for _ in 0..1000 {
            run.add([event(PROGRESS)], |_| {});
        }
        run.add([event("case"), event("gate")], |_| {});
        let known = run.lock();
        assert_eq!(known.events.len(), 3);
        let mut numbers = vec![0];
        while let Some((number, _)) = known.next(numbers[numbers.len() - 1]) {
            numbers.push(number);
        }
        assert_eq!(numbers, [0, 1, 1001, 1002, 1003]);
    }

    #[test]
    fn events_of_10_000_cases_are_bounded() {
        let run = LiveRun::new("r".to_owned(), "s".to_owned());
        let case = |reason: &str| Event::new("case", &json!({"case": "c", "reason": reason}));
        for _ in 0..10_000 {
            run.add([case("")], |_| {});
        }
        assert_eq!(run.lock().events.len(), 10_000);
        assert_eq!(run.lock().omitted, 0);
        let reason = "x".repeat(1000);
        for _ in 0..10_000 {
            run.add([case(&reason)], |_| {});
        }
        run.trim();
        let bytes = run.lock().bytes;
        assert!(bytes <= KEPT && bytes > KEPT / 2, "a running run: {bytes}");
        run.end(RunState::Passed, None);
        run.trim();
        let known = run.lock();
        assert!(known.bytes <= KEPT_AFTER, "{}", known.bytes);
        let kept: usize = known.events.iter().map(|it| size(&it.1)).sum();
        assert_eq!(kept, known.bytes);
        let (number, first) = known.next(5).unwrap();
        assert_eq!((number, first.name), (known.omitted, "omitted"));
        assert_eq!(*first.data, *format!("{{\"after\":5,\"until\":{number}}}"));
        assert_eq!(known.next(number).unwrap().0, number + 1);
        assert_eq!(known.next(known.count - 1).unwrap().1.name, "done");
    }
}
