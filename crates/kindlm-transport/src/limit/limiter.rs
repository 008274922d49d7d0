//! The rate limiter for one model of a provider.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kindlm_types::{AttemptBudget, ProviderError, Unlimited};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::Limits;
use super::bucket::Bucket;
use super::window::{Sent, Window};

/// The rate limiter for one model of a provider. Every request to the model passes through it.
///
/// The limiter admits requests in the order of their calls. Only the first waiting request has a timer; the other
/// requests sleep until it is their turn.
pub struct RateLimiter {
    state: Mutex<State>,
    /// The number of calls so far.
    calls: AtomicU64,
    counts_tokens: bool,
    /// The provider and the model, for notices and error messages; empty if not set.
    pub(super) name: String,
}

struct State {
    window: Window,
    in_flight: u32,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    /// The end of the current back-off; no request is sent before this time. The field is `None` without a back-off.
    closed: Option<Instant>,
    /// True if the provider requested the current back-off. An answer then ends this back-off.
    is_asked: bool,
    /// Until this time, requests fail immediately with this error; `None` if requests may be sent. The field is set if
    /// the provider requested too long a wait, or has refused every request for too long.
    failing_until: Option<(Instant, Arc<ProviderError>)>,
    /// The number of refusals that started or extended a back-off since the last answer.
    refusals: u32,
    /// The times of the first and the last refusal of the current series. The field is `None` after an answer or
    /// another error of the provider.
    refused: Option<(Instant, Instant)>,
    /// The number of failures recorded by [`has_failed`](RateLimiter::has_failed) before the first answer; `None` after
    /// the first answer.
    failed: Option<u32>,
    /// The error of every further request; `None` while the circuit is closed.
    circuit_error: Option<Arc<ProviderError>>,
    /// The waiting requests, by the number of their call.
    queue: BTreeMap<u64, Arc<Notify>>,
}

/// The position of one call in the queue of a rate limiter. All attempts of the call share it.
///
/// The transport handles rate limiters for its own requests. Other code calls the limiter directly:
///
/// ```
/// use kindlm_transport::limit::{RateLimiter, Limits};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let limiter = RateLimiter::new(Limits { rpm: 600.try_into().ok(), ..Limits::default() });
/// let call = limiter.enqueue(0);
/// let permit = call.enter(0).await?;
/// // Send the request here. After its answer:
/// permit.answered();
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct QueuedCall<'a> {
    limiter: &'a RateLimiter,
    number: u64,
    /// The estimated tokens of the call.
    estimate: u64,
    /// The tokens that the call used; 0 until they are counted.
    used: AtomicU64,
    /// The budget that pays for the call; unlimited by default.
    budget: &'a dyn AttemptBudget,
}

/// The permission to send one request. Dropping the permit ends the request in the rate limiter, and wakes the next
/// request.
#[must_use = "a request has left its rate limiter when its permit is dropped"]
pub struct Permit<'a> {
    queued: &'a QueuedCall<'a>,
    sent: Sent,
    ended: Ended,
}

/// The outcome of a request.
#[derive(Clone, Copy)]
enum Ended {
    /// The request was dropped before an answer, or failed without a status.
    Dropped,
    Answered,
    /// The provider reported an error; no tokens were used.
    Failed,
    /// The provider refused the request because of its load.
    Refused,
}

/// The decision of the rate limiter about a request.
enum Entry {
    Now(Sent),
    /// The request may be sent at this time.
    At(Instant),
    /// The request waits until the limiter wakes it.
    Later,
    Never(Arc<ProviderError>),
}

impl RateLimiter {
    /// Creates a rate limiter without requests.
    pub fn new(limits: Limits) -> Self {
        let now = Instant::now();
        let bucket = |per_minute: std::num::NonZeroU32| Bucket::new(per_minute.get().into(), now);
        let state = State {
            window: Window::new(limits.concurrency),
            in_flight: 0,
            requests: limits.rpm.map(bucket),
            tokens: limits.tpm.map(bucket),
            closed: None,
            is_asked: false,
            failing_until: None,
            refusals: 0,
            refused: None,
            failed: Some(0),
            circuit_error: None,
            queue: BTreeMap::new(),
        };
        let counts_tokens = limits.tpm.is_some();
        let name = String::new();
        Self { state: Mutex::new(state), calls: AtomicU64::new(0), counts_tokens, name }
    }

    /// Sets the name, which holds the provider and the model.
    pub(super) fn named(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// Returns true if tokens are limited; otherwise requests need no token estimate.
    pub fn counts_tokens(&self) -> bool {
        self.counts_tokens
    }

    /// Creates the queue position of a new call, with its estimated tokens. Older calls have priority.
    pub fn enqueue(&self, estimate: u64) -> QueuedCall<'_> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        QueuedCall { limiter: self, number, estimate, used: AtomicU64::new(0), budget: &Unlimited }
    }

    /// Records that the model has answered a call.
    pub(super) fn has_answered(&self) {
        self.state().failed = None;
    }

    /// Records a failed call. Returns the number of failed calls so far, or `None` if an earlier call was answered.
    pub(super) fn has_failed(&self) -> Option<u32> {
        let mut state = self.state();
        state.failed = state.failed.map(|it| it.saturating_add(1));
        state.failed
    }

    /// Opens the circuit: every request, waiting or new, fails with this error.
    pub(super) fn open_circuit(&self, why: &Arc<ProviderError>) {
        let mut state = self.state();
        state.circuit_error.get_or_insert_with(|| Arc::clone(why));
        state.queue.values().for_each(|it| it.notify_one());
    }

    /// Closes the circuit, if it is open. Failures are counted anew.
    pub(super) fn close_circuit(&self) {
        let mut state = self.state();
        if state.circuit_error.take().is_some() {
            state.failed = Some(0);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for RateLimiter {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("RateLimiter")
            .field("window", &state.window)
            .field("in_flight", &state.in_flight)
            .field("waiting", &state.queue.len())
            .finish_non_exhaustive()
    }
}

impl<'a> QueuedCall<'a> {
    /// Sets the budget that pays for the attempts of this call.
    #[must_use]
    pub fn paid_by(self, budget: &'a dyn AttemptBudget) -> Self {
        Self { budget, ..self }
    }
}

impl QueuedCall<'_> {
    /// Reserves budget for another attempt after a lost answer. Fails if the budget does not allow the attempt.
    pub fn reserve(&self) -> Result<(), String> {
        self.budget.reserve()
    }

    /// Releases the reservation of [`reserve`](Self::reserve), because its attempt is not sent.
    pub fn release(&self) {
        self.budget.release();
    }

    /// Returns the queue position of a request that polls for the unfinished answer of this call. The request takes no
    /// tokens and no budget, because the call has taken them.
    pub fn poll(&self) -> QueuedCall<'_> {
        let used = AtomicU64::new(0);
        QueuedCall {
            limiter: self.limiter,
            number: self.number,
            estimate: 0,
            used,
            budget: &Unlimited,
        }
    }

    /// Returns the provider and the model, as `provider:model`; empty without a name.
    pub fn target(&self) -> String {
        self.limiter.name.clone()
    }

    /// Records the tokens that the answer reports; 0 if the answer reports no tokens.
    pub fn used(&self, tokens: u64) {
        self.used.store(tokens, Ordering::Relaxed);
    }

    /// Records the tokens of an answer that the caller reads after the request has ended. `tokens` is 0 if the answer
    /// reports no tokens.
    ///
    /// Until then, the limiter counts the estimated tokens. [`used`](Self::used) must not be called for this answer.
    #[expect(clippy::cast_precision_loss, reason = "tokens are far below 2⁵³")]
    pub fn used_after_all(&self, tokens: u64) {
        if tokens == 0 {
            return;
        }
        let mut state = self.limiter.state();
        if let Some(bucket) = &mut state.tokens {
            bucket.settle(self.estimate as f64 - tokens as f64);
        }
        state.wake();
    }

    /// Waits until the request may be sent. `retry` is the number of earlier attempts of the same request.
    ///
    /// Fails in these cases:
    /// - The circuit is open.
    /// - The provider requested too long a wait.
    /// - The provider has refused every request for too long.
    ///
    /// The error has 0 attempts, because nothing was sent.
    pub async fn enter(&self, retry: u32) -> Result<Permit<'_>, ProviderError> {
        let mut waiting = None;
        loop {
            let when = match self.limiter.state().enter(self, retry) {
                Entry::Now(sent) => {
                    return Ok(Permit { queued: self, sent, ended: Ended::Dropped });
                }
                Entry::Never(why) => return Err(not_sent(&why)),
                Entry::At(when) => Some(when),
                Entry::Later => None,
            };
            match &waiting {
                // The loop checks again after queueing, because a request may have ended in between.
                None => waiting = Some(Waiting::begin(self)),
                Some(waiting) => waiting.until(when).await,
            }
        }
    }
}

impl State {
    /// Admits a request, lets it wait, or rejects it.
    fn enter(&mut self, queued: &QueuedCall<'_>, retry: u32) -> Entry {
        if let Some(why) = &self.circuit_error {
            return Entry::Never(Arc::clone(why));
        }
        if let Some((until, why)) = &self.failing_until {
            if Instant::now() < *until {
                return Entry::Never(Arc::clone(why));
            }
            self.failing_until = None;
        }
        let is_first = self.queue.first_key_value().is_none_or(|(it, _)| *it >= queued.number);
        if !is_first || !self.window.has_room(self.in_flight, retry > 0) {
            return Entry::Later;
        }
        if let Some(when) = self.not_before(queued) {
            return Entry::At(when);
        }
        self.in_flight += 1;
        Entry::Now(self.window.send(self.in_flight))
    }

    /// If the limits admit the request now, takes its amounts from the token buckets, and returns `None`. Otherwise
    /// returns the time of the next attempt.
    #[expect(clippy::cast_precision_loss, reason = "estimates are far below 2⁵³")]
    fn not_before(&mut self, queued: &QueuedCall<'_>) -> Option<Instant> {
        if self.closed.is_none() && self.requests.is_none() && self.tokens.is_none() {
            return None;
        }
        let now = Instant::now();
        let tokens = queued.estimate as f64;
        let closed = self.closed.filter(|it| *it > now);
        let requests = self.requests.as_mut().and_then(|it| it.ready(1.0, now));
        // A request without tokens, such as a poll, does not wait until earlier tokens are refilled.
        let bucket = self.tokens.as_mut().filter(|_| queued.estimate > 0);
        let enough = bucket.and_then(|it| it.ready(tokens, now));
        let when = closed.max(requests).max(enough);
        if when.is_none() {
            self.closed = None;
            self.is_asked = false;
            self.requests.iter_mut().for_each(|it| it.take(1.0));
            self.tokens.iter_mut().for_each(|it| it.take(tokens));
        }
        when
    }

    /// Wakes the first waiting request.
    fn wake(&self) {
        if let Some((_, first)) = self.queue.first_key_value() {
            first.notify_one();
        }
    }
}

/// A waiting request. It stays in the queue until it is dropped.
struct Waiting<'a> {
    queued: &'a QueuedCall<'a>,
    turn: Arc<Notify>,
}

impl<'a> Waiting<'a> {
    fn begin(queued: &'a QueuedCall<'a>) -> Self {
        let turn = Arc::new(Notify::new());
        queued.limiter.state().queue.insert(queued.number, Arc::clone(&turn));
        Self { queued, turn }
    }

    /// Sleeps until the given time or until another request wakes this request. Without a time, only a wake-up ends the
    /// sleep.
    async fn until(&self, when: Option<Instant>) {
        let Some(when) = when else { return self.turn.notified().await };
        tokio::select! {
            () = sleep_until(when) => {}
            () = self.turn.notified() => {}
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.queued.limiter.state();
        state.queue.remove(&self.queued.number);
        state.wake();
    }
}

impl fmt::Debug for QueuedCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuedCall")
            .field("number", &self.number)
            .field("estimate", &self.estimate)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl Permit<'_> {
    /// Records an answer and ends the request.
    pub fn answered(mut self) {
        self.ended = Ended::Answered;
    }

    /// Records a refusal, and returns the duration of the current series of refusals. Returns `None` for any other
    /// error. A gap of more than `apart` between two refusals starts a new series, because no request was sent in the
    /// gap.
    pub fn silence(&self, err: &ProviderError, apart: Duration) -> Option<Duration> {
        if !is_refusal(err) {
            return None;
        }
        let (mut state, now) = (self.queued.limiter.state(), Instant::now());
        let goes_on = state.refused.filter(|(_, last)| now.duration_since(*last) <= apart);
        let (since, _) = goes_on.unwrap_or((now, now));
        state.refused = Some((since, now));
        Some(now.duration_since(since))
    }

    /// Records a failed request, and starts a back-off if needed.
    ///
    /// The limiter backs off if the provider requested a wait, or refused a request while no other request was in
    /// flight. All requests then wait together. `pause` computes the wait. Its argument is the number of refusals that
    /// have started or extended a back-off since the last answer. A back-off that the provider requested ends early if
    /// a request in flight is answered.
    ///
    /// Returns the duration of a back-off that started now; `None` if no back-off started.
    pub fn failed(
        mut self,
        err: &ProviderError,
        pause: impl FnOnce(u32) -> Duration,
    ) -> Option<Duration> {
        if !is_refusal(err) {
            // Without a status, the provider may have done the work, so the estimated tokens count as used.
            if err.status.is_some() {
                self.ended = Ended::Failed;
            }
            return None;
        }
        self.ended = Ended::Refused;
        let is_asked = err.retry_after.is_some_and(|it| !it.is_zero());
        let mut state = self.queued.limiter.state();
        let in_flight = state.in_flight;
        let closes = if is_asked {
            state.window.record_requested_wait(self.sent, in_flight);
            true
        } else {
            state.window.refused(self.sent, in_flight)
        };
        if !closes {
            return None;
        }
        let now = Instant::now();
        let wait = pause(state.refusals);
        let was_open = state.closed.is_none_or(|it| it <= now);
        state.closed = state.closed.max(Some(now + wait));
        state.is_asked |= is_asked;
        state.refusals = state.refusals.saturating_add(1);
        was_open.then_some(wait)
    }

    /// Records a refusal after which all requests fail immediately for the duration `wait`. This includes requests that
    /// already wait.
    pub fn fail_until(mut self, err: &ProviderError, wait: Duration) {
        self.ended = Ended::Refused;
        let mut state = self.queued.limiter.state();
        let until = Instant::now() + wait;
        if state.failing_until.as_ref().is_none_or(|(it, _)| *it < until) {
            state.failing_until = Some((until, Arc::new(err.clone())));
        }
        state.queue.values().for_each(|it| it.notify_one());
    }
}

impl Drop for Permit<'_> {
    #[expect(clippy::cast_precision_loss, reason = "tokens are far below 2⁵³")]
    fn drop(&mut self) {
        let queued = self.queued;
        let mut state = queued.limiter.state();
        state.in_flight = state.in_flight.saturating_sub(1);
        if matches!(self.ended, Ended::Answered | Ended::Failed) {
            state.refused = None;
        }
        if matches!(self.ended, Ended::Answered) {
            state.window.answered(self.sent);
            state.refusals = 0;
            // The answer shows that the provider still accepts requests at a lower rate, so the requested back-off
            // ends.
            if std::mem::take(&mut state.is_asked) {
                state.closed = None;
            }
        }
        if let Some(tokens) = &mut state.tokens {
            let estimate = queued.estimate as f64;
            match (self.ended, queued.used.load(Ordering::Relaxed)) {
                (Ended::Answered, 0) | (Ended::Dropped, _) => {}
                (Ended::Answered, used) => tokens.settle(estimate - used as f64),
                (Ended::Failed | Ended::Refused, _) => tokens.settle(estimate),
            }
        }
        state.wake();
    }
}

/// Returns true if the provider refuses the request because of its load. A retryable error with a requested wait
/// counts, too.
fn is_refusal(err: &ProviderError) -> bool {
    use kindlm_types::ProviderErrorKind::{Overloaded, RateLimited};
    matches!(err.kind, RateLimited | Overloaded) || (err.retryable && err.retry_after.is_some())
}

/// Returns the error of a request that is not sent because of an earlier error.
fn not_sent(why: &ProviderError) -> ProviderError {
    let because = match why.retry_after {
        Some(_) => "because the provider has asked for a longer wait",
        None if is_refusal(why) => "because the provider refuses everything",
        None => "because an earlier request failed permanently",
    };
    ProviderError {
        message: format!("not sent, {because}: {}", why.message),
        retryable: false,
        retry_after: None,
        attempts: 0,
        lost: false,
        ..why.clone()
    }
}
