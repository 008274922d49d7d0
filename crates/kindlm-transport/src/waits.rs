//! A handle that ends waits before requests, and reports long waits.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::StructuredOutput;

/// A handle for the waits of requests. It ends every wait for a rate limiter or a retry, and reports long waits.
/// Requests in flight continue.
///
/// Clones share their state, so that a signal handler can hold a clone.
#[derive(Clone, Debug, Default)]
pub struct Waits(Arc<Inner>);

/// A notice about a model, for the user, while requests are in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Requests wait, or fail immediately.
    Wait(BackOff),
    /// The model refuses a form of structured output. Judges use another form from now on.
    Form {
        /// The provider and the model, as `provider:model`.
        target: String,
        /// The new form.
        form: StructuredOutput,
        /// The provider's message.
        why: String,
    },
}

/// A wait before further requests to a model, because its provider refused a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackOff {
    /// The provider and the model, as `provider:model`.
    pub target: String,
    /// The duration of the wait.
    pub wait: Duration,
    /// The reason, which also determines whether the requests wait or fail.
    pub why: WaitReason,
}

/// The reason for a wait, and its effect on the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The provider requested the wait. Requests wait.
    Requested,
    /// The provider requested too long a wait. During the wait, requests fail immediately.
    TooLong,
    /// The provider refused the only request in flight, without naming a wait. Requests wait.
    Refused,
    /// The provider has refused every request for too long. During the wait, requests fail immediately.
    GivenUp,
}

#[derive(Debug, Default)]
struct Inner {
    stopped: AtomicBool,
    changed: Notify,
    notices: Mutex<VecDeque<Notice>>,
    told: Notify,
}

/// The shortest wait that is reported.
const SHORT: Duration = Duration::from_secs(1);

/// The maximum number of unread notices. Further notices are dropped.
const MOST: usize = 64;

impl Waits {
    /// Ends all waits, present and future.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }

    /// Resolves after a stop; immediately if the waits are already stopped.
    pub async fn stopped(&self) {
        let mut changed = std::pin::pin!(self.0.changed.notified());
        // Register this waiter before the check, so that a stop in between is not missed.
        changed.as_mut().enable();
        if !self.0.stopped.load(Ordering::SeqCst) {
            changed.await;
        }
    }

    /// Reports a wait, unless it is short.
    pub fn report_wait(&self, back_off: BackOff) {
        if back_off.wait >= SHORT {
            self.report(Notice::Wait(back_off));
        }
    }

    /// Adds a notice to the queue of unread notices. Drops the notice if the queue is full.
    pub fn report(&self, notice: Notice) {
        let mut waiting = self.0.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MOST {
            waiting.push_back(notice);
        }
        drop(waiting);
        self.0.told.notify_one();
    }

    /// Waits for the next notice, removes it from the queue, and returns it.
    pub async fn next(&self) -> Notice {
        loop {
            match self.try_next() {
                Some(notice) => return notice,
                None => self.0.told.notified().await,
            }
        }
    }

    /// Removes and returns the next notice, without waiting. Returns `None` if the queue is empty.
    pub fn try_next(&self) -> Option<Notice> {
        self.0.notices.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Notice {
    /// Returns the notice as text.
    pub fn in_words(&self) -> String {
        match self {
            Self::Wait(back_off) => back_off.in_words(),
            Self::Form { target, form, why } => {
                let (now, word) = match form {
                    StructuredOutput::Schema => ("with a JSON Schema", "schema"),
                    StructuredOutput::Tool => ("with a tool that it must call", "tool"),
                    StructuredOutput::None => ("with instructions alone", "none"),
                };
                let help = format!(
                    "set `structuredOutput: {word}` for the provider to avoid the failed request"
                );
                format!(
                    "{target} rejects the format of judge answers ({why}): later requests ask for it {now}; {help}"
                )
            }
        }
    }
}

impl BackOff {
    /// Returns the notice about this wait as text.
    pub fn in_words(&self) -> String {
        let Self { target, wait, why } = self;
        let seconds = wait.as_secs_f64().ceil();
        match why {
            WaitReason::Requested => {
                format!("{target} asks to wait {seconds} s: requests to it wait")
            }
            WaitReason::TooLong => format!(
                "{target} asks to wait {seconds} s, which is too long: requests to it until then are errored"
            ),
            WaitReason::Refused => {
                format!(
                    "{target} is overloaded or limits the rate: nothing is sent to it for {seconds} s"
                )
            }
            WaitReason::GivenUp => format!(
                "{target} refuses everything: requests to it in the next {seconds} s are errored; `kindlm test \
                 --resume` sends them later"
            ),
        }
    }
}
