//! The times at which a worker looks into the queue: [`Wake`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use apalis::prelude::{PollSnapshot, PollStrategy};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Wakes a worker when this process has stored samples, and in regular intervals.
pub(crate) struct Wake {
    stored: Arc<Notify>,
    notified: Pin<Box<OwnedNotified>>,
    interval: Interval,
}

impl Wake {
    /// `pause` is the interval, for jobs whose time has come, and for those that other processes have stored or left.
    pub(crate) fn new(stored: Arc<Notify>, pause: Duration) -> Self {
        let notified = Box::pin(Arc::clone(&stored).notified_owned());
        let mut interval = interval(pause);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { stored, notified, interval }
    }
}

impl PollStrategy for Wake {
    fn poll_drive(&mut self, context: &mut Context<'_>, _: &PollSnapshot) -> Poll<Option<()>> {
        let mut is_due = false;
        while self.interval.poll_tick(context).is_ready() {
            is_due = true;
        }
        while self.notified.as_mut().poll(context).is_ready() {
            is_due = true;
            self.notified = Box::pin(Arc::clone(&self.stored).notified_owned());
        }
        if !is_due {
            return Poll::Pending;
        }
        // A look into the queue that began before this moment may miss the new jobs, so there must be another one.
        context.waker().wake_by_ref();
        Poll::Ready(Some(()))
    }
}
