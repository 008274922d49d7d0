//! The rate limiters of one provider, and their shared circuit. All models share a key and an account.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kindlm_types::{ProviderError, ProviderErrorKind};
use tokio::time::Instant;

use super::{Lane, Limits};

/// The rate limiters of one provider. Each is created on the first request to its model.
#[derive(Debug, Default)]
pub struct Lanes {
    /// The provider's name in the suite; empty if not set.
    provider: String,
    /// The limits by model.
    limits: HashMap<String, Limits>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    lanes: HashMap<String, Arc<Lane>>,
    shut: Option<Arc<ProviderError>>,
    has_answered: bool,
    /// The consecutive calls that could not reach the provider. Their number comes first, then the time of the first
    /// call.
    unreached: Option<(u32, Instant)>,
}

/// The number of consecutive refused or unreachable calls that opens the circuit.
const REFUSED: u32 = 3;

/// The duration of an outage that opens the circuit of a once reachable provider. A server restart is shorter.
const OUTAGE: Duration = Duration::from_mins(3);

/// The number of failed calls that opens the circuit to a model without an answer. Server errors, timeouts and
/// unreadable answers count.
const FAILED: u32 = 10;

impl Lanes {
    /// Creates the rate limiters of a provider, with limits by model.
    pub fn of(provider: &str, limits: HashMap<String, Limits>) -> Self {
        Self { provider: provider.to_owned(), limits, open: Mutex::default() }
    }

    /// Returns the rate limiter of a model, which is created on first use.
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

    /// Records that a model of the provider has answered.
    pub fn answered(&self, lane: &Lane) {
        lane.has_answered();
        let mut open = self.open();
        open.has_answered = true;
        open.unreached = None;
    }

    /// Records a call that failed after its retries, and may open the circuit. The circuit opens if further calls are
    /// hopeless. Calls that were not sent are ignored.
    ///
    /// - A refused key, an exhausted account and an unreachable server affect all models.
    /// - A server that has answered before may be unreachable for a while.
    /// - A refused key with status 403 affects one model, because the account may lack access to this model only.
    /// - Other errors open the circuit only to a model that has never answered, after several failed calls.
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
    /// Counts a call that could not reach the provider. Opens the circuit after too many such calls.
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

    /// Opens the circuit for all models. The error of the first call counts.
    fn shut(&mut self, err: &ProviderError) {
        let why = Arc::clone(self.shut.get_or_insert_with(|| Arc::new(err.clone())));
        self.lanes.values().for_each(|it| it.shut(&why));
    }
}

/// Returns the error of calls that are not sent, because all calls before failed.
fn given_up(err: &ProviderError, failed: u32, whom: &str) -> ProviderError {
    let message = format!(
        "{}; {failed} calls in a row have failed, so nothing more is sent to `{whom}` in this run",
        err.message
    );
    ProviderError { message, retryable: false, ..err.clone() }
}
