//! Ends waits that lead to another request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// A switch that ends every wait for a turn or for a retry. A request that is on its way is not touched.
///
/// Clones share one switch, so that a signal handler can hold one.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    stopped: AtomicBool,
    changed: Notify,
}

impl Stop {
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
}
