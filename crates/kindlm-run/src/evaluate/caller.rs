//! The caller of a record, which may leave before the evaluation ends.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// The time limit for the judges of an abandoned record. Their answers are still needed to know the cost.
const LATE_ANSWERS: Duration = Duration::from_mins(1);

/// The caller of a record. The default caller waits until the evaluation ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Caller(Option<watch::Receiver<bool>>);

/// The caller's side: it sends true to abandon the record, and is dropped when the caller leaves.
pub(super) type Abandon = watch::Sender<bool>;

impl Caller {
    /// Creates a caller that may leave.
    pub(super) fn new() -> (Abandon, Self) {
        let (abandon, state) = watch::channel(false);
        (abandon, Self(Some(state)))
    }

    /// Returns true if the caller has left, or has abandoned the record.
    pub(super) fn has_left(&self) -> bool {
        self.0.as_ref().is_some_and(|it| *it.borrow() || it.has_changed().is_err())
    }

    /// Returns true if the caller can leave.
    pub(super) fn can_leave(&self) -> bool {
        self.0.is_some()
    }

    /// Waits until the evaluation must end, because the caller leaves or abandons the record.
    ///
    /// If the record asks judges, the caller of an abandoned record still waits for the cost of the judges. So the
    /// evaluation ends only [`LATE_ANSWERS`] later.
    pub(super) async fn must_end(&self, asks_judges: bool) {
        let Some(mut state) = self.0.clone() else { return std::future::pending().await };
        let is_abandoned = state.wait_for(|it| *it).await.is_ok();
        if is_abandoned && asks_judges {
            // The wait ends early, with an error, when the caller leaves.
            let _ = timeout(LATE_ANSWERS, state.wait_for(|it| !*it)).await;
        }
    }
}
