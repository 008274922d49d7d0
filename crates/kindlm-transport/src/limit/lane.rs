//! The way to one model of a provider.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kindlm_types::{ProviderError, Purse};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::Limits;
use super::bucket::Bucket;
use super::window::{Sent, Window};

/// The way to one model of a provider: everything that is sent to it goes through here.
///
/// Requests enter in the order of their calls. Only the first one that waits has a timer; the others sleep
/// until it is their turn.
pub struct Lane {
    state: Mutex<State>,
    /// How many calls there have been.
    calls: AtomicU64,
    counts_tokens: bool,
    /// The provider and the model, for messages; empty for a lane without a name.
    pub(super) name: String,
}

struct State {
    window: Window,
    in_flight: u32,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    /// Nothing is sent before this.
    closed: Option<Instant>,
    /// True if the provider has asked for it, and no request was answered since.
    is_asked: bool,
    /// What is to be sent before this fails with this error: it would have to wait too long.
    put_off: Option<(Instant, Arc<ProviderError>)>,
    /// How often in a row a request was refused though it was alone.
    strikes: u32,
    /// When the first request was refused after which there have been nothing but refusals, and when the last one was.
    refused: Option<(Instant, Instant)>,
    /// How many calls have failed while none was answered; `None` once one was.
    failed: Option<u32>,
    /// Nothing is sent any more.
    shut: Option<Arc<ProviderError>>,
    /// Those who wait, by the number of their call.
    queue: BTreeMap<u64, Arc<Notify>>,
}

/// The place of one call in its lane. It keeps the place over its retries.
///
/// The transport enters and leaves lanes by itself. Who sends by other means does it so:
///
/// ```
/// use kindlm_transport::limit::{Lane, Limits};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let lane = Lane::new(Limits { rpm: 600.try_into().ok(), ..Limits::default() });
/// let ticket = lane.ticket(0);
/// let permit = ticket.enter(0).await?;
/// // Send it, and then:
/// permit.answered();
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct Ticket<'a> {
    lane: &'a Lane,
    number: u64,
    /// Tokens that it will take, roughly.
    estimate: u64,
    /// Tokens that it took; 0 until they are counted.
    used: AtomicU64,
    /// The budget that pays for it, if there is one.
    purse: Option<&'a dyn Purse>,
}

/// A request that may be sent now, or is in flight. It leaves the lane when this is dropped.
#[must_use = "a request has left its lane when its permit is dropped"]
pub struct Permit<'a> {
    ticket: &'a Ticket<'a>,
    sent: Sent,
    ended: Ended,
}

/// How a request came back.
#[derive(Clone, Copy)]
enum Ended {
    /// It did not: the caller lost interest.
    Dropped,
    Answered,
    /// The provider said no; the tokens were not used.
    Failed,
    /// The provider said that it is too much.
    Refused,
}

/// Whether a request may be sent.
enum Entry {
    Now(Sent),
    /// Not before that.
    At(Instant),
    /// When another one has left.
    Later,
    Never(Arc<ProviderError>),
}

impl Lane {
    /// An empty lane.
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
            put_off: None,
            strikes: 0,
            refused: None,
            failed: Some(0),
            shut: None,
            queue: BTreeMap::new(),
        };
        let counts_tokens = limits.tpm.is_some();
        let name = String::new();
        Self { state: Mutex::new(state), calls: AtomicU64::new(0), counts_tokens, name }
    }

    /// The same lane with the name of its provider and its model.
    pub(super) fn named(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// True if tokens are limited; if not, they need no estimate.
    pub fn counts_tokens(&self) -> bool {
        self.counts_tokens
    }

    /// The place of a new call, which will take about this many tokens.
    pub fn ticket(&self, estimate: u64) -> Ticket<'_> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        Ticket { lane: self, number, estimate, used: AtomicU64::new(0), purse: None }
    }

    /// The model has answered a call.
    pub(super) fn has_answered(&self) {
        self.state().failed = None;
    }

    /// A call has failed; gives how many have, if none was answered.
    pub(super) fn has_failed(&self) -> Option<u32> {
        let mut state = self.state();
        state.failed = state.failed.map(|it| it.saturating_add(1));
        state.failed
    }

    /// Sends nothing any more: every request, waiting or new, fails with this error.
    pub(super) fn shut(&self, why: &Arc<ProviderError>) {
        let mut state = self.state();
        state.shut.get_or_insert_with(|| Arc::clone(why));
        state.queue.values().for_each(|it| it.notify_one());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Lane {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Lane")
            .field("window", &state.window)
            .field("in_flight", &state.in_flight)
            .field("waiting", &state.queue.len())
            .finish_non_exhaustive()
    }
}

impl<'a> Ticket<'a> {
    /// The same call, whose attempts are paid from a budget.
    #[must_use]
    pub fn paid_by(self, purse: Option<&'a dyn Purse>) -> Self {
        Self { purse, ..self }
    }
}

impl Ticket<'_> {
    /// Asks for the money for one more attempt after one whose answer was lost.
    pub fn another(&self) -> Result<(), String> {
        self.purse.map_or(Ok(()), Purse::another)
    }

    /// The attempt that [`another`](Self::another) was asked for is not made.
    pub fn not_made(&self) {
        if let Some(purse) = self.purse {
            purse.not_made();
        }
    }

    /// The provider and the model.
    pub fn whom(&self) -> String {
        self.lane.name.clone()
    }

    /// Tells how many tokens the answer says were used; 0 if it does not say.
    pub fn used(&self, tokens: u64) {
        self.used.store(tokens, Ordering::Relaxed);
    }

    /// Waits for the turn. `retry` says how often the same request was sent already.
    ///
    /// Fails if the lane is shut; the error says that nothing was sent.
    pub async fn enter(&self, retry: u32) -> Result<Permit<'_>, ProviderError> {
        let mut waiting = None;
        loop {
            let when = match self.lane.state().enter(self, retry) {
                Entry::Now(sent) => {
                    return Ok(Permit { ticket: self, sent, ended: Ended::Dropped });
                }
                Entry::Never(why) => return Err(not_sent(&why)),
                Entry::At(when) => Some(when),
                Entry::Later => None,
            };
            match &waiting {
                // It checks again once it is in the queue: a request may have ended in between.
                None => waiting = Some(Waiting::begin(self)),
                Some(waiting) => waiting.until(when).await,
            }
        }
    }
}

impl State {
    /// Takes one in, if that is possible.
    fn enter(&mut self, ticket: &Ticket<'_>, retry: u32) -> Entry {
        if let Some(why) = &self.shut {
            return Entry::Never(Arc::clone(why));
        }
        if let Some((until, why)) = &self.put_off {
            if Instant::now() < *until {
                return Entry::Never(Arc::clone(why));
            }
            self.put_off = None;
        }
        let is_first = self.queue.first_key_value().is_none_or(|(it, _)| *it >= ticket.number);
        if !is_first || !self.window.has_room(self.in_flight, retry > 0) {
            return Entry::Later;
        }
        if let Some(when) = self.not_before(ticket) {
            return Entry::At(when);
        }
        self.in_flight += 1;
        Entry::Now(self.window.send(self.in_flight))
    }

    /// When the limits allow one more; `None` for now. Takes it from the buckets if so.
    #[expect(clippy::cast_precision_loss, reason = "estimates are far below 2⁵³")]
    fn not_before(&mut self, ticket: &Ticket<'_>) -> Option<Instant> {
        if self.closed.is_none() && self.requests.is_none() && self.tokens.is_none() {
            return None;
        }
        let now = Instant::now();
        let tokens = ticket.estimate as f64;
        let closed = self.closed.filter(|it| *it > now);
        let requests = self.requests.as_mut().and_then(|it| it.ready(1.0, now));
        let enough = self.tokens.as_mut().and_then(|it| it.ready(tokens, now));
        let when = closed.max(requests).max(enough);
        if when.is_none() {
            self.closed = None;
            self.is_asked = false;
            self.requests.iter_mut().for_each(|it| it.take(1.0));
            self.tokens.iter_mut().for_each(|it| it.take(tokens));
        }
        when
    }

    /// Wakes the one whose turn it is.
    fn wake(&self) {
        if let Some((_, first)) = self.queue.first_key_value() {
            first.notify_one();
        }
    }
}

/// Stands in the queue for as long as it lives.
struct Waiting<'a> {
    ticket: &'a Ticket<'a>,
    turn: Arc<Notify>,
}

impl<'a> Waiting<'a> {
    fn begin(ticket: &'a Ticket<'a>) -> Self {
        let turn = Arc::new(Notify::new());
        ticket.lane.state().queue.insert(ticket.number, Arc::clone(&turn));
        Self { ticket, turn }
    }

    /// Sleeps until it is time, or until something has changed.
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
        let mut state = self.ticket.lane.state();
        state.queue.remove(&self.ticket.number);
        state.wake();
    }
}

impl fmt::Debug for Ticket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
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
    /// An answer came.
    pub fn answered(mut self) {
        self.ended = Ended::Answered;
    }

    /// If this error is a refusal: how long there have been nothing but refusals, none of which is more than `apart`
    /// from the next. In a longer time nobody has asked, and so nobody was refused.
    pub fn silence(&self, err: &ProviderError, apart: Duration) -> Option<Duration> {
        if !is_refusal(err) {
            return None;
        }
        let (mut state, now) = (self.ticket.lane.state(), Instant::now());
        let goes_on = state.refused.filter(|(_, last)| now.duration_since(*last) <= apart);
        let (since, _) = goes_on.unwrap_or((now, now));
        state.refused = Some((since, now));
        Some(now.duration_since(since))
    }

    /// No answer came. `pause` is how long the lane closes if even one request is too much, given how often
    /// that has happened in a row before, or if the provider says when to come back: then all wait together and once,
    /// and not each when it has been refused, unless one that was under way is answered all the same.
    ///
    /// Says how long the lane is closed, if it has been closed just now.
    pub fn failed(
        mut self,
        err: &ProviderError,
        pause: impl FnOnce(u32) -> Duration,
    ) -> Option<Duration> {
        if !is_refusal(err) {
            // Without a status it is unknown whether the provider did the work.
            if err.status.is_some() {
                self.ended = Ended::Failed;
            }
            return None;
        }
        self.ended = Ended::Refused;
        let is_asked = err.retry_after.is_some_and(|it| !it.is_zero());
        let mut state = self.ticket.lane.state();
        let in_flight = state.in_flight;
        let closes = if is_asked {
            state.window.told_to_wait(self.sent, in_flight);
            true
        } else {
            state.window.refused(self.sent, in_flight)
        };
        if !closes {
            return None;
        }
        let now = Instant::now();
        let wait = pause(state.strikes);
        let was_open = state.closed.is_none_or(|it| it <= now);
        state.closed = state.closed.max(Some(now + wait));
        state.is_asked |= is_asked;
        state.strikes = state.strikes.saturating_add(1);
        was_open.then_some(wait)
    }

    /// No answer came, and the provider asks for so long a wait that nobody waits: until then whatever would be sent
    /// fails at once, those that wait for their turn included.
    pub fn put_off(mut self, err: &ProviderError, wait: Duration) {
        self.ended = Ended::Refused;
        let mut state = self.ticket.lane.state();
        let until = Instant::now() + wait;
        if state.put_off.as_ref().is_none_or(|(it, _)| *it < until) {
            state.put_off = Some((until, Arc::new(err.clone())));
        }
        state.queue.values().for_each(|it| it.notify_one());
    }
}

impl Drop for Permit<'_> {
    #[expect(clippy::cast_precision_loss, reason = "tokens are far below 2⁵³")]
    fn drop(&mut self) {
        let ticket = self.ticket;
        let mut state = ticket.lane.state();
        state.in_flight = state.in_flight.saturating_sub(1);
        if matches!(self.ended, Ended::Answered | Ended::Failed) {
            state.refused = None;
        }
        if matches!(self.ended, Ended::Answered) {
            state.window.answered(self.sent);
            state.strikes = 0;
            // The wish was about the request that it came with: others are still taken, at a lower rate.
            if std::mem::take(&mut state.is_asked) {
                state.closed = None;
            }
        }
        if let Some(tokens) = &mut state.tokens {
            let estimate = ticket.estimate as f64;
            match (self.ended, ticket.used.load(Ordering::Relaxed)) {
                (Ended::Answered, 0) | (Ended::Dropped, _) => {}
                (Ended::Answered, used) => tokens.settle(estimate - used as f64),
                (Ended::Failed | Ended::Refused, _) => tokens.settle(estimate),
            }
        }
        state.wake();
    }
}

/// True if the provider says that it is asked too much.
fn is_refusal(err: &ProviderError) -> bool {
    use kindlm_types::ProviderErrorKind::{Overloaded, RateLimited};
    matches!(err.kind, RateLimited | Overloaded) || (err.retryable && err.retry_after.is_some())
}

/// The error of what is not sent because of an earlier one.
fn not_sent(why: &ProviderError) -> ProviderError {
    let because = match why.retry_after {
        Some(_) => "because the provider has asked for a longer wait",
        None if is_refusal(why) => "because the provider refuses everything",
        None => "because an earlier request failed for good",
    };
    ProviderError {
        message: format!("not sent, {because}: {}", why.message),
        retryable: false,
        retry_after: None,
        attempts: 0,
        ..why.clone()
    }
}
