//! The rate limiters of one provider, and their shared circuit. All models share a key and an account.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kindlm_types::{ProviderError, ProviderErrorKind};
use tokio::time::Instant;

use super::{Limits, RateLimiter};

/// The rate limiters of one provider. Each is created on the first request to its model.
#[derive(Debug, Default)]
pub struct RateLimiters {
    /// The provider's name in the suite; empty if not set.
    provider: String,
    /// The limits by model.
    limits: HashMap<String, Limits>,
    /// The time after which an open circuit closes; `None` for never.
    closes_after: Option<Duration>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    limiters: HashMap<String, Arc<RateLimiter>>,
    circuit_error: Option<Arc<ProviderError>>,
    has_answered: bool,
    /// The consecutive calls that could not reach the provider; `None` without such calls. Their number comes first,
    /// then the time of the first call.
    unreached: Option<(u32, Instant)>,
    /// The time at which the first circuit opened, of the provider or of a model; `None` if all are closed.
    opened: Option<Instant>,
}

/// The number of failed calls that opens the circuit if the last call:
/// - could not reach the provider
/// - did not find the model
/// - got a status from 403 to 405
const REFUSED: u32 = 3;

/// If a provider has answered before, an outage of this duration opens its circuit. A server restart is shorter.
const OUTAGE: Duration = Duration::from_mins(3);

/// The number of failed calls after which the circuit to a model opens, if the model has never answered. The last call
/// must have ended with a server error, a timeout or an unreadable answer.
const FAILED: u32 = 10;

impl RateLimiters {
    /// Creates the rate limiters of a provider, with limits by model.
    pub fn new(provider: &str, limits: HashMap<String, Limits>) -> Self {
        Self { provider: provider.to_owned(), limits, closes_after: None, open: Mutex::default() }
    }

    /// Closes open circuits after this time, so that requests are tried again. By default, they stay open.
    ///
    /// This time starts when the first circuit of the provider opens. Rate limits are not affected.
    pub fn close_circuits_after(&mut self, time: Duration) {
        self.closes_after = Some(time);
    }

    /// Returns the rate limiter of a model, which is created on first use.
    pub fn to(&self, model: &str) -> Arc<RateLimiter> {
        let mut open = self.open();
        let is_over = |opened: Instant| self.closes_after.is_some_and(|it| opened.elapsed() >= it);
        if open.opened.is_some_and(is_over) {
            open.limiters.values().for_each(|it| it.close_circuit());
            (open.circuit_error, open.unreached, open.opened) = (None, None, None);
        }
        if let Some(limiter) = open.limiters.get(model) {
            return Arc::clone(limiter);
        }
        let limits = self.limits.get(model).copied().unwrap_or_default();
        let limiter =
            Arc::new(RateLimiter::new(limits).named(format!("{}:{model}", self.provider)));
        if let Some(why) = &open.circuit_error {
            limiter.open_circuit(why);
        }
        open.limiters.insert(model.to_owned(), Arc::clone(&limiter));
        limiter
    }

    /// Records that a model of the provider has answered.
    pub fn answered(&self, limiter: &RateLimiter) {
        limiter.has_answered();
        let mut open = self.open();
        open.has_answered = true;
        open.unreached = None;
    }

    /// Records a call that failed after its retries, and may open the circuit. The circuit opens if further calls are
    /// hopeless. Calls that were not sent are ignored.
    ///
    /// - A refused key, an exhausted account and an unreachable server affect all models.
    /// - If the server has answered before, it may be unreachable for three minutes before the circuit opens.
    /// - A refused key with status 403 affects one model, because the account may lack access to this model only.
    /// - Other failures open the circuit only to a model that has never answered, after several failed calls. These
    ///   failures are a model that was not found, a status from 403 to 405, a server error, a timeout and an unreadable
    ///   answer.
    pub fn record_failure(&self, limiter: &RateLimiter, err: &ProviderError) {
        use ProviderErrorKind as Kind;
        if err.attempts == 0 {
            return;
        }
        if err.kind == Kind::Connection && err.status.is_none() {
            return self.open().not_reached(err, &self.provider);
        }
        self.open().unreached = None;
        let most = match (err.kind, err.status) {
            (Kind::Auth, Some(403)) => return self.open_for_model(limiter, err.clone()),
            (Kind::Auth | Kind::QuotaExhausted, _) => return self.open().open_circuit(err),
            (Kind::ModelNotFound, _) | (_, Some(403..=405)) => REFUSED,
            (Kind::Server | Kind::Timeout | Kind::MalformedResponse, _) => FAILED,
            _ => return,
        };
        if let Some(failed) = limiter.has_failed().filter(|it| *it >= most) {
            self.open_for_model(limiter, given_up(err, failed, &limiter.name));
        }
    }

    /// Opens the circuit for one model.
    fn open_for_model(&self, limiter: &RateLimiter, err: ProviderError) {
        self.open().opened.get_or_insert_with(Instant::now);
        limiter.open_circuit(&Arc::new(err));
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
            self.open_circuit(&given_up(err, calls, provider));
        }
    }

    /// Opens the circuit for all models. If the circuit is already open, the first error stays.
    fn open_circuit(&mut self, err: &ProviderError) {
        self.opened.get_or_insert_with(Instant::now);
        let why = Arc::clone(self.circuit_error.get_or_insert_with(|| Arc::new(err.clone())));
        self.limiters.values().for_each(|it| it.open_circuit(&why));
    }
}

/// Returns the error of calls that are not sent, because earlier calls failed.
fn given_up(err: &ProviderError, failed: u32, target: &str) -> ProviderError {
    let message = format!(
        "{}; {failed} calls have failed, so nothing more is sent to `{target}` in this run",
        err.message
    );
    ProviderError { message, retryable: false, ..err.clone() }
}
