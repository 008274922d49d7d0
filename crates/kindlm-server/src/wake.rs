//! The times at which a worker looks into the queue: [`Wake`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use apalis::prelude::{PollSnapshot, PollStrategy};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// The time between a notification and the second look into the queue. By then, a look that was already running at the
/// notification has ended.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// Wakes a worker when this process has stored samples, and in regular intervals.
pub(crate) struct Wake {
    stored: Arc<Notify>,
    notified: Pin<Box<OwnedNotified>>,
    interval: Interval,
}

impl Wake {
    /// Creates the times of one worker. `stored` is notified when this process has stored samples.
    ///
    /// `pause` is the time between two regular looks. Regular looks find jobs whose time has come, and jobs that other
    /// processes have stored or abandoned.
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
        let mut is_notified = false;
        while self.notified.as_mut().poll(context).is_ready() {
            is_notified = true;
            self.notified = Box::pin(Arc::clone(&self.stored).notified_owned());
        }
        if is_notified {
            // A look that is already running may miss the new jobs, so a second look follows.
            self.interval.reset_after(SECOND_LOOK);
            // This call only registers the waker for the new time.
            let _ = self.interval.poll_tick(context);
        }
        if is_due || is_notified { Poll::Ready(Some(())) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl std::task::Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn stored_samples_wake_the_worker_again() {
        let stored = Arc::new(Notify::new());
        let mut wake = Wake::new(Arc::clone(&stored), Duration::from_hours(1));
        let counter = Arc::new(Counter::default());
        let waker = Arc::clone(&counter).into();
        // Returns whether the worker must look, and how often it was woken since the last call.
        let mut is_due = || {
            let due = wake.poll_drive(&mut Context::from_waker(&waker), &PollSnapshot::default());
            (due.is_ready(), counter.0.swap(0, Ordering::SeqCst))
        };
        // The interval begins at once. Timers have the precision of a millisecond.
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(is_due(), (true, 0));
        assert_eq!(is_due(), (false, 0));
        stored.notify_one();
        assert_eq!(is_due(), (true, 1));
        assert_eq!(is_due(), (false, 0));
        // The second look is for jobs that the first one has missed.
        tokio::time::sleep(SECOND_LOOK + Duration::from_millis(50)).await;
        assert_eq!(is_due(), (true, 1));
        assert_eq!(is_due(), (false, 0));
    }
}
