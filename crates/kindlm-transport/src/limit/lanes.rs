//! All lanes of one provider, and what they share: a key, and an account that pays.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kindlm_types::{ProviderError, ProviderErrorKind};
use tokio::time::Instant;

use super::{Lane, Limits};

/// The lanes of one provider. A lane is there from the first request on.
#[derive(Debug, Default)]
pub struct Lanes {
    /// The provider's key; empty if it is not known.
    provider: String,
    /// By model.
    limits: HashMap<String, Limits>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    lanes: HashMap<String, Arc<Lane>>,
    shut: Option<Arc<ProviderError>>,
    has_answered: bool,
    /// The calls in a row that did not reach the provider at all: how many, and when the first one had failed.
    unreached: Option<(u32, Instant)>,
}

/// How many calls in a row may be refused, or not reach the provider, before the circuit opens.
const REFUSED: u32 = 3;

/// How long a provider that has answered may be out of reach before the circuit opens. A restart takes less.
const OUTAGE: Duration = Duration::from_mins(3);

/// How many calls may fail in another way before the circuit to a model opens that has never answered.
const FAILED: u32 = 10;

impl Lanes {
    /// Lanes of this provider with these limits, by model.
    pub fn of(provider: &str, limits: HashMap<String, Limits>) -> Self {
        Self { provider: provider.to_owned(), limits, open: Mutex::default() }
    }

    /// The lane of a model.
    pub fn to(&self, model: &str) -> Arc<Lane> {
        let mut open = self.open();
        if let Some(lane) = open.lanes.get(model) {
            return Arc::clone(lane);
        }
        let limits = self.limits.get(model).copied().unwrap_or_default();
        let lane = Arc::new(Lane::new(limits).named(format!("{}:{model}", self.provider)));
        if let Some(why) = &open.shut {
            lane.shut(why);
        }
        open.lanes.insert(model.to_owned(), Arc::clone(&lane));
        lane
    }

    /// A model of the provider has answered.
    pub fn answered(&self, lane: &Lane) {
        lane.has_answered();
        let mut open = self.open();
        open.has_answered = true;
        open.unreached = None;
    }

    /// Opens the circuit that a failed call, after its retries, shows to be hopeless. A call that was not sent shows
    /// nothing.
    ///
    /// A key that is refused, and an account that has nothing left to spend, are the same for all models, and so is a
    /// server that cannot be reached. One that has answered may only be out of reach for a while. Only 403 may mean that
    /// the account must not use this one model. Anything else may be the fault of one request, unless the model has never
    /// answered.
    pub fn heed(&self, lane: &Lane, err: &ProviderError) {
        use ProviderErrorKind as Kind;
        if err.attempts == 0 {
            return;
        }
        if err.kind == Kind::Connection && err.status.is_none() {
            return self.open().not_reached(err, &self.provider);
        }
        self.open().unreached = None;
        let most = match (err.kind, err.status) {
            (Kind::Auth, Some(403)) => return lane.shut(&Arc::new(err.clone())),
            (Kind::Auth | Kind::QuotaExhausted, _) => return self.open().shut(err),
            (Kind::ModelNotFound, _) | (_, Some(403..=405)) => REFUSED,
            (Kind::Server | Kind::Timeout | Kind::MalformedResponse, _) => FAILED,
            _ => return,
        };
        if let Some(failed) = lane.has_failed().filter(|it| *it >= most) {
            lane.shut(&Arc::new(given_up(err, failed, &lane.name)));
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Counts a call that did not reach the provider, and opens the circuit after too many.
    fn not_reached(&mut self, err: &ProviderError, provider: &str) {
        let now = Instant::now();
        let (before, since) = self.unreached.unwrap_or((0, now));
        let calls = before.saturating_add(1);
        self.unreached = Some((calls, since));
        let is_long = !self.has_answered || now.duration_since(since) >= OUTAGE;
        if calls >= REFUSED && is_long {
            self.shut(&given_up(err, calls, provider));
        }
    }

    /// Sends nothing any more, to no model.
    fn shut(&mut self, err: &ProviderError) {
        let why = Arc::clone(self.shut.get_or_insert_with(|| Arc::new(err.clone())));
        self.lanes.values().for_each(|it| it.shut(&why));
    }
}

/// The error of calls that are not sent, because those before them all failed.
fn given_up(err: &ProviderError, failed: u32, whom: &str) -> ProviderError {
    let message = format!(
        "{}; {failed} calls in a row have failed, so nothing more is sent to `{whom}` in this run",
        err.message
    );
    ProviderError { message, retryable: false, ..err.clone() }
}
