//! Ends waits that lead to another request, and tells of those that providers ask for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// The waits of requests: a switch that ends every wait for a turn or for a retry, and word of those that are long. A
/// request that is on its way is not touched.
///
/// Clones share one switch, so that a signal handler can hold one.
#[derive(Clone, Debug, Default)]
pub struct Waits(Arc<Inner>);

/// A provider has asked to wait, and so do the requests to its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The provider and the model.
    pub whom: String,
    /// How long.
    pub wait: Duration,
    /// Whether that is longer than it is waited for: then what would be sent fails at once.
    pub too_long: bool,
}

#[derive(Debug, Default)]
struct Inner {
    stopped: AtomicBool,
    changed: Notify,
    asked: Mutex<VecDeque<Asked>>,
    told: Notify,
}

/// Waits that are shorter are not worth a word.
const SHORT: Duration = Duration::from_secs(1);

/// Most that is remembered while nobody listens.
const MOST: usize = 64;

impl Waits {
    /// Ends all waits, those that have not begun included.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }

    /// Resolves once it is stopped.
    pub(crate) async fn stopped(&self) {
        let mut changed = std::pin::pin!(self.0.changed.notified());
        // Listens before it looks, so that a stop in between is not missed.
        changed.as_mut().enable();
        if !self.0.stopped.load(Ordering::SeqCst) {
            changed.await;
        }
    }

    /// Tells whoever listens that a provider has asked to wait.
    pub(crate) fn tell(&self, asked: Asked) {
        if asked.wait < SHORT {
            return;
        }
        let mut waiting = self.0.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MOST {
            waiting.push_back(asked);
        }
        drop(waiting);
        self.0.told.notify_one();
    }

    /// The next wait of a second or more that a provider asks for, and that nobody has heard of yet.
    pub async fn next(&self) -> Asked {
        loop {
            match self.unheard() {
                Some(asked) => return asked,
                None => self.0.told.notified().await,
            }
        }
    }

    /// The same without waiting for one.
    pub fn unheard(&self) -> Option<Asked> {
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Asked {
    /// What happens, in words.
    pub fn in_words(&self) -> String {
        let Self { whom, wait, too_long } = self;
        let seconds = wait.as_secs_f64().ceil();
        if *too_long {
            format!(
                "{whom} asks to wait {seconds} s, which is too long to wait for: what would be sent to it until then is errored"
            )
        } else {
            format!("{whom} asks to wait {seconds} s: requests to it wait")
        }
    }
}
