//! Ends waits that lead to another request, and tells of those that providers ask for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::StructuredOutput;

/// The waits of requests: a switch that ends every wait for a turn or for a retry, and word of those that are long. A
/// request that is on its way is not touched.
///
/// Clones share one switch, so that a signal handler can hold one.
#[derive(Clone, Debug, Default)]
pub struct Waits(Arc<Inner>);

/// Something about a model that the user should know while requests are under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Requests wait, or are given up.
    Wait(Asked),
    /// The model refuses a form of answers, and judges are asked in another one from now on.
    Form {
        /// The provider and the model.
        whom: String,
        /// The form from now on.
        form: StructuredOutput,
        /// The provider's own words.
        why: String,
    },
}

/// Requests to a model wait, or are given up, because its provider says that it is asked too much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The provider and the model.
    pub whom: String,
    /// How long.
    pub wait: Duration,
    /// Why, and what becomes of the requests.
    pub why: WaitReason,
}

/// Why requests to a model wait, and what becomes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The provider has asked for it: they wait.
    Asked,
    /// The provider has asked for more than is waited: what would be sent until then fails at once.
    TooLong,
    /// The provider has refused one although it was the only one under way, and does not say for how long: they wait.
    Refused,
    /// For too long the provider has refused everything: what would be sent within the wait fails at once.
    GivenUp,
}

#[derive(Debug, Default)]
struct Inner {
    stopped: AtomicBool,
    changed: Notify,
    notices: Mutex<VecDeque<Notice>>,
    told: Notify,
}

/// Waits that are shorter are not worth a word.
const SHORT: Duration = Duration::from_secs(1);

/// The most notices that are stored until they are read.
const MOST: usize = 64;

impl Waits {
    /// Ends all waits, those that have not begun included.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }

    /// Resolves once it is stopped.
    pub async fn stopped(&self) {
        let mut changed = std::pin::pin!(self.0.changed.notified());
        // Listens before it looks, so that a stop in between is not missed.
        changed.as_mut().enable();
        if !self.0.stopped.load(Ordering::SeqCst) {
            changed.await;
        }
    }

    /// Reports a wait, unless it is short.
    pub fn tell_wait(&self, asked: Asked) {
        if asked.wait >= SHORT {
            self.tell(Notice::Wait(asked));
        }
    }

    /// Reports to the listener.
    pub fn tell(&self, notice: Notice) {
        let mut waiting = self.0.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MOST {
            waiting.push_back(notice);
        }
        drop(waiting);
        self.0.told.notify_one();
    }

    /// The next notice. Waits of less than a second are left out.
    pub async fn next(&self) -> Notice {
        loop {
            match self.unheard() {
                Some(notice) => return notice,
                None => self.0.told.notified().await,
            }
        }
    }

    /// The same without waiting for one.
    pub fn unheard(&self) -> Option<Notice> {
        self.0.notices.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Notice {
    /// What happens, in words.
    pub fn in_words(&self) -> String {
        match self {
            Self::Wait(asked) => asked.in_words(),
            Self::Form { whom, form, why } => {
                let (now, word) = match form {
                    StructuredOutput::Schema => ("with a JSON Schema", "schema"),
                    StructuredOutput::Tool => ("with a tool that it must call", "tool"),
                    StructuredOutput::None => ("with instructions alone", "none"),
                };
                let help = format!(
                    "`structuredOutput: {word}` in the settings of the provider saves the request that finds this out"
                );
                format!(
                    "{whom} refuses the form in which judges must answer ({why}): it is asked {now} from now on; {help}"
                )
            }
        }
    }
}

impl Asked {
    /// What happens, in words.
    pub fn in_words(&self) -> String {
        let Self { whom, wait, why } = self;
        let seconds = wait.as_secs_f64().ceil();
        match why {
            WaitReason::Asked => format!("{whom} asks to wait {seconds} s: requests to it wait"),
            WaitReason::TooLong => format!(
                "{whom} asks to wait {seconds} s, which is too long to wait for: what would be sent to it until then is errored"
            ),
            WaitReason::Refused => {
                format!(
                    "{whom} is overloaded or limits the rate: nothing is sent to it for {seconds} s"
                )
            }
            WaitReason::GivenUp => format!(
                "{whom} refuses everything: what would be sent to it in the next {seconds} s is errored; `kindlm test --resume` sends it later"
            ),
        }
    }
}
