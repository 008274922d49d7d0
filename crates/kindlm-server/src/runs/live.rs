//! A run of this process, with the events that clients follow.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kindlm_run::stored_runs::RunOutcome;
use kindlm_run::{FailedCase, Interrupt, Interrupts, Outcome, Progress, RunProgress, World};
use kindlm_types::{AnyReport, BoxFuture};
use kindlm_wire::v1::RunHead;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;
use utoipa::ToSchema;

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RunState {
    /// The run waits for other runs.
    Queued,
    /// The run is going on.
    Running,
    /// All gates passed.
    Passed,
    /// A gate failed.
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

/// An event of a run. Its id is its position, from 1.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// `progress`, `case`, `gate` or `done`.
    pub(crate) name: &'static str,
    /// A JSON object.
    pub(crate) data: Arc<str>,
}

impl Event {
    fn new(name: &'static str, data: &serde_json::Value) -> Self {
        Self { name, data: data.to_string().into() }
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
    /// The reason why the run failed without a report.
    pub(crate) error: Option<String>,
    events: Vec<Event>,
}

/// A run that this process started.
#[derive(Debug)]
pub(crate) struct LiveRun {
    pub(crate) id: String,
    /// The name of the suite's file.
    pub(crate) suite: String,
    known: Mutex<Known>,
    /// The number of events. Readers wait for its next change.
    count: watch::Sender<usize>,
    /// How often the run was cancelled: once to let running executions end, twice to abort them.
    cancels: watch::Sender<u8>,
}

impl LiveRun {
    pub(super) fn new(id: String, suite: String) -> Arc<Self> {
        let known = Known {
            state: RunState::Queued,
            total: None,
            finished: 0,
            error: None,
            events: Vec::new(),
        };
        Arc::new(Self {
            id,
            suite,
            known: Mutex::new(known),
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
        Known { events: Vec::new(), error: known.error.clone(), ..*known }
    }

    pub(crate) fn has_ended(&self) -> bool {
        !matches!(self.lock().state, RunState::Queued | RunState::Running)
    }

    /// Waits until the run has ended.
    pub(super) async fn ended(&self) {
        let mut count = self.count.subscribe();
        // The sender is a field of this value, so it cannot be closed.
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

    /// Returns a world that interrupts the run when it is cancelled.
    pub(super) fn world(self: &Arc<Self>, world: &World) -> World {
        let run = Arc::clone(self);
        let interrupts: Interrupts =
            Arc::new(move || Box::new(Cancels { asked: run.cancels.subscribe(), seen: 0 }));
        World { interrupts, ..world.clone() }
    }

    fn add(&self, events: impl IntoIterator<Item = Event>, change: impl FnOnce(&mut Known)) {
        let mut known = self.lock();
        change(&mut known);
        known.events.extend(events);
        let count = known.events.len();
        drop(known);
        self.count.send_replace(count);
    }

    /// Marks the run as started.
    pub(super) fn start(&self) {
        self.add([], |it| it.state = RunState::Running);
    }

    /// Adds the events of the gates.
    pub(super) fn judged(&self, report: &AnyReport<'_>) {
        self.add(Event::of_gates(&RunHead::of(report)), |_| {});
    }

    /// Marks the run as ended, and adds the last event. The error has no secrets.
    pub(super) fn end(&self, state: RunState, error: Option<String>) {
        let done = Event::done(&self.id, state, error.as_deref());
        self.add([done], |it| {
            it.state = state;
            it.error = error;
        });
    }

    /// Returns the events so far.
    pub(crate) fn past_events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    /// Follows the events after the first `seen` events.
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
        has_ended && self.seen >= known.events.len()
    }

    /// Waits for the next event. Returns it with its id, and `None` after the last event.
    pub(crate) async fn next(&mut self) -> Option<(usize, Event)> {
        loop {
            self.count.mark_unchanged();
            let found = self.run.lock().events.get(self.seen).cloned();
            if let Some(event) = found {
                self.seen += 1;
                return Some((self.seen, event));
            }
            if self.is_at_end() {
                return None;
            }
            self.count.changed().await.ok()?;
        }
    }
}

/// The cancellations of a run, as interrupts.
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
                self.0.add([Event::new("progress", &progress)], |it| it.total = Some(total));
            }
            RunProgress::ExecutionFinished(_) => {
                let (finished, total) = {
                    let known = self.0.lock();
                    (known.finished + 1, known.total)
                };
                let progress = json!({"finished": finished, "total": total});
                self.0.add([Event::new("progress", &progress)], |it| it.finished = finished);
            }
            // `case_failed` gets the other cases, with their reasons.
            RunProgress::CaseFinished(case)
                if !matches!(
                    case.outcome,
                    kindlm_types::Outcome::Failed | kindlm_types::Outcome::Errored
                ) =>
            {
                let data = json!({"case": case.case, "model": case.model, "outcome": case.outcome});
                self.0.add([Event::new("case", &data)], |_| {});
            }
            _ => {}
        }
    }

    fn case_failed(&self, case: &FailedCase) {
        let (file, line) = match &case.place {
            Some(place) => (Some(&place.file), Some(place.line)),
            None => (None, None),
        };
        let data = json!({
            "case": case.case, "model": case.model, "outcome": case.outcome, "reason": case.reason,
            "file": file, "line": line,
        });
        self.0.add([Event::new("case", &data)], |_| {});
    }

    fn show_notice(&self, _text: &str) {}
}

/// Returns the state of a run that ended with this outcome, and its error.
pub(super) fn state_of(outcome: &Outcome) -> (RunState, Option<String>) {
    match outcome {
        Ok(status) => (RunOutcome::of_exit_code(status.code()).into(), None),
        Err(failure) => {
            let state = RunOutcome::of_exit_code(failure.status.code()).into();
            (state, failure.render(false))
        }
    }
}
