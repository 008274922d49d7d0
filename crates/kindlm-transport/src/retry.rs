//! Retries of requests, and the waits before them.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

use kindlm_types::{ProviderError, ProviderErrorKind};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{BackOff, WaitReason, Waits};
use crate::HttpResponse;
use crate::limit::{Permit, QueuedCall};

/// The rules for retries.
///
/// Retries use exponential back-off with full jitter. The wait before retry `n` (from 0) is random. It is between
/// [`min_delay`](Self::min_delay) and `base_delay × 2ⁿ`, and at most [`max_delay`](Self::max_delay).
///
/// A wait that the provider requests takes precedence. If that wait is longer than
/// [`max_retry_after`](Self::max_retry_after), no request is sent during the wait, and calls fail immediately. Calls
/// also fail immediately for a while if the model has refused every request for [`max_silence`](Self::max_silence).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The maximum number of retries of a request.
    pub max_retries: u32,
    /// The shortest wait before a retry.
    pub min_delay: Duration,
    /// The upper limit of the wait before the first retry. Each further retry doubles this limit.
    pub base_delay: Duration,
    /// The longest back-off. It does not limit waits that the provider requests.
    pub max_delay: Duration,
    /// The longest wait that a provider may request. A longer wait makes calls fail.
    pub max_retry_after: Duration,
    /// The longest time in which a model may refuse every request before calls fail. A refusal is a rate limit, an
    /// overload, or another retryable error with a requested wait.
    pub max_silence: Duration,
}

impl Default for RetryPolicy {
    /// Allows two retries, after waits of 250 ms to 1 s. Accepts requested waits of up to 1 minute, and refusals for up
    /// to 3 minutes.
    fn default() -> Self {
        Self {
            max_retries: 2,
            min_delay: Duration::from_millis(250),
            base_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
            max_retry_after: Duration::from_mins(1),
            max_silence: Duration::from_mins(3),
        }
    }
}

impl RetryPolicy {
    /// Returns a policy without retries.
    pub fn never() -> Self {
        Self { max_retries: 0, ..Self::default() }
    }

    /// Returns the error for a requested wait that exceeds the accepted maximum.
    fn too_long(&self, err: ProviderError, wait: Duration) -> ProviderError {
        let message = format!(
            "{}; the provider asks to wait {} s, longer than the limit of {} s: try again later, `kindlm test \
             --resume` sends the missing requests",
            err.message,
            wait.as_secs_f64().ceil(),
            self.max_retry_after.as_secs_f64(),
        );
        ProviderError { message, retryable: false, ..err }
    }

    /// Returns the error for a model that has refused every request for too long.
    fn given_up(err: ProviderError, silence: Duration) -> ProviderError {
        let message = format!(
            "{}; the provider has refused every request to this model for {} s: try again later, `kindlm test \
             --resume` sends the missing requests",
            err.message,
            silence.as_secs(),
        );
        // The long series of refusals is the reason for this error, not the last requested wait.
        ProviderError { message, retryable: false, retry_after: None, ..err }
    }

    /// Returns the longest time between two refusals of one series. A refused request waits at most about half of this
    /// time.
    fn apart(&self) -> Duration {
        self.max_retry_after.max(self.max_delay).saturating_mul(2)
    }

    /// Returns the wait before a retry. A requested wait takes precedence, with a little jitter; otherwise the back-off
    /// is exponential. `chance` is a random number from 0 to 1.
    fn delay(&self, retry: u32, retry_after: Option<Duration>, chance: f64) -> Duration {
        if let Some(requested) = retry_after {
            // The jitter spreads requests that were refused together.
            return requested + (requested / 10).min(self.min_delay).mul_f64(chance);
        }
        let factor = 2_u32.saturating_pow(retry);
        let ceiling = self.base_delay.saturating_mul(factor).min(self.max_delay);
        ceiling.mul_f64(chance).max(self.min_delay).min(self.max_delay)
    }
}

/// The conditions of an attempt, in addition to its rate limiter.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Way<'a> {
    /// The retry policy.
    pub retry: &'a RetryPolicy,
    /// The handle that ends waits, and reports long waits.
    pub waits: &'a Waits,
    /// The concurrency limit over all rate limiters; `None` for no limit.
    pub slots: Option<&'a Semaphore>,
}

impl Way<'_> {
    /// Waits until the rate limiter and the concurrency limit admit an attempt. Returns their permits.
    ///
    /// `attempts` is the number of earlier, failed attempts. A stop ends the wait for the rate limiter, which may be
    /// long. An attempt that is past the rate limiter is still made, so that calls that have begun can finish.
    pub(crate) async fn begin<'a>(
        &'a self,
        queued: &'a QueuedCall<'_>,
        attempts: u32,
    ) -> Result<(Permit<'a>, Option<SemaphorePermit<'a>>), NotBegun> {
        // The rate limiter comes first, so that waiting requests occupy no slot.
        let permit = tokio::select! {
            biased;
            permit = queued.enter(attempts) => {
                permit.map_err(|err| NotBegun::Refused(ProviderError { attempts, ..err }))?
            }
            () = self.waits.stopped() => return Err(NotBegun::Stopped(Awaited::Permit)),
        };
        let slot = match self.slots {
            // The semaphore is never closed. If it were, attempts would run without a concurrency limit.
            Some(slots) => slots.acquire().await.ok(),
            None => None,
        };
        Ok((permit, slot))
    }
}

/// The reason why a request was not sent.
pub(crate) enum NotBegun {
    /// The waits were stopped.
    Stopped(Awaited),
    /// The request cannot be prepared, the circuit is open, or all requests to the model fail immediately for a while.
    Refused(ProviderError),
}

impl NotBegun {
    /// Returns the error of the request. `last` is the error of the last attempt; `None` before the first attempt.
    ///
    /// If the last attempt may be charged, its error stays, and the budget for the retry is released. Otherwise the
    /// error is the reason, which may have the kind of an earlier request. It is marked as not sent, because the kind
    /// alone can mean that the provider charges.
    fn after(
        self,
        last: Option<ProviderError>,
        attempts: u32,
        queued: &QueuedCall<'_>,
    ) -> ProviderError {
        match (self, last) {
            (Self::Refused(err), Some(last)) if last.may_be_charged() => {
                queued.release();
                let why = err.message.strip_prefix("not sent, ").unwrap_or(&err.message);
                let message = format!("{}; not sent again: {why}", last.message);
                ProviderError { message, retryable: err.retryable, ..last }
            }
            (Self::Refused(err), _) => ProviderError { attempts, not_sent: true, ..err },
            (Self::Stopped(awaited), Some(last)) => stopped_after(last, awaited, queued),
            (Self::Stopped(awaited), None) => stopped_before(awaited),
        }
    }
}

impl From<ProviderError> for NotBegun {
    fn from(err: ProviderError) -> Self {
        Self::Refused(err)
    }
}

#[cfg(feature = "websocket")]
impl From<NotBegun> for ProviderError {
    /// Returns the error of a request without an earlier attempt.
    fn from(why: NotBegun) -> Self {
        match why {
            NotBegun::Refused(err) => err,
            NotBegun::Stopped(awaited) => stopped_before(awaited),
        }
    }
}

/// Calls `attempt` until it succeeds, or the retries end. Returns the value and the number of attempts.
///
/// Each attempt first waits for the rate limiter. The retries end with the last error if:
/// - the error is not `retryable`
/// - the error has 0 `attempts`, because nothing was sent
/// - the retry policy or the budget allows no further retry
/// - the waits are stopped
///
/// A retry that is not sent does not replace an error that may be charged. A stop before the first attempt returns an
/// error with 0 attempts.
pub async fn with_retries<T, F>(
    way: Way<'_>,
    queued: &QueuedCall<'_>,
    attempt: impl Fn() -> F,
) -> Result<(T, u32), ProviderError>
where
    F: Future<Output = Result<T, ProviderError>>,
{
    let prepare = || std::future::ready(Ok(()));
    with_prepared_retries(way, queued, prepare, |()| attempt()).await
}

/// Retries `attempt` as [`with_retries`] does. Each attempt gets the value of `prepare`, which runs before the wait for
/// the rate limiter. An error of `prepare` ends the retries.
pub(crate) async fn with_prepared_retries<P, R, T, F>(
    way: Way<'_>,
    queued: &QueuedCall<'_>,
    prepare: impl Fn() -> R,
    attempt: impl Fn(P) -> F,
) -> Result<(T, u32), ProviderError>
where
    R: Future<Output = Result<P, NotBegun>>,
    F: Future<Output = Result<T, ProviderError>>,
{
    let mut attempts = 0;
    let mut last: Option<ProviderError> = None;
    loop {
        let begun = match prepare().await {
            Ok(prepared) => way.begin(queued, attempts).await.map(|it| (prepared, it)),
            Err(why) => Err(why),
        };
        let (prepared, (permit, slot)) =
            begun.map_err(|why| why.after(last.take(), attempts, queued))?;
        let result = attempt(prepared).await;
        drop(slot);
        let mut err = match result {
            Ok(value) => {
                permit.answered();
                return Ok((value, attempts + 1));
            }
            Err(err) => err,
        };
        if err.attempts == 0 {
            return Err(NotBegun::Refused(err).after(last.take(), attempts, queued));
        }
        let policy = way.retry;
        attempts += 1;
        err.attempts = attempts;
        let too_long = err.retry_after.filter(|it| err.retryable && *it > policy.max_retry_after);
        if let Some(wait) = too_long {
            err = policy.too_long(err, wait);
            permit.fail_until(&err, wait);
            way.waits.report_wait(BackOff {
                target: queued.target(),
                wait,
                why: WaitReason::TooLong,
            });
            return Err(err);
        }
        let silence = permit.silence(&err, policy.apart());
        if let Some(silence) = silence.filter(|it| *it >= policy.max_silence) {
            let wait = policy.max_retry_after;
            err = RetryPolicy::given_up(err, silence);
            permit.fail_until(&err, wait);
            way.waits.report_wait(BackOff {
                target: queued.target(),
                wait,
                why: WaitReason::GivenUp,
            });
            return Err(err);
        }
        let pause =
            permit.failed(&err, |refusals| policy.delay(refusals, err.retry_after, chance()));
        if let Some(wait) = pause {
            let is_asked = err.retry_after.is_some_and(|it| !it.is_zero());
            let why = if is_asked { WaitReason::Requested } else { WaitReason::Refused };
            way.waits.report_wait(BackOff { target: queued.target(), wait, why });
        }
        if !err.retryable || attempts > policy.max_retries {
            return Err(err);
        }
        if let Err(why) = if err.may_be_charged() { queued.reserve() } else { Ok(()) } {
            err.message = format!("{}; not sent again: {why}", err.message);
            return Err(err);
        }
        let wait = policy.delay(attempts - 1, err.retry_after, chance());
        tokio::select! {
            () = tokio::time::sleep(wait) => last = Some(err),
            () = way.waits.stopped() => return Err(stopped_after(err, Awaited::Permit, queued)),
        }
    }
}

/// The reason for a wait before a request.
#[derive(Clone, Copy)]
pub(crate) enum Awaited {
    /// The rate limiter, or the pause before a retry.
    Permit,
    /// The command that prints a credential.
    Credential,
}

/// Returns the error for a request that was not sent because of a stop. The error is retryable.
pub(crate) fn stopped_before(awaited: Awaited) -> ProviderError {
    let message = match awaited {
        Awaited::Permit => "not sent: stopped while waiting for a permit",
        Awaited::Credential => "not sent: stopped while waiting for a credential",
    };
    let err = ProviderError::new(ProviderErrorKind::Overloaded, "", message).retryable();
    ProviderError { attempts: 0, ..err }
}

/// Returns the last error, with a note that a stop prevented another request.
pub(crate) fn stopped_instead(err: ProviderError, awaited: Awaited) -> ProviderError {
    let wait = match awaited {
        Awaited::Permit => "to retry",
        Awaited::Credential => "for a newer credential",
    };
    let message = format!("{}; stopped while waiting {wait}", err.message);
    ProviderError { message, ..err }
}

/// Returns the last error, with a note that a stop prevented the retry. Releases the budget of that retry.
fn stopped_after(err: ProviderError, awaited: Awaited, queued: &QueuedCall<'_>) -> ProviderError {
    // The last attempt may still be charged. The budget for the retry must not stay reserved in addition.
    if err.may_be_charged() {
        queued.release();
    }
    stopped_instead(err, awaited)
}

/// Returns true if the same request may succeed later. Some error kinds are never worth a retry. For other kinds, an
/// error status decides, or else the field `retryable`.
pub fn is_worth_it(err: &ProviderError) -> bool {
    let hopeless = matches!(
        err.kind,
        ProviderErrorKind::Auth
            | ProviderErrorKind::QuotaExhausted
            | ProviderErrorKind::Unsupported
    );
    match err.status {
        _ if hopeless => false,
        Some(status) if status >= 300 => matches!(status, 408 | 409 | 429 | 500..=599),
        _ => err.retryable,
    }
}

/// Returns a random number from 0 to 1. The seeds of the standard library's hash maps are good enough for jitter.
#[expect(clippy::cast_precision_loss, reason = "53 bits are more than jitter needs")]
fn chance() -> f64 {
    (RandomState::new().hash_one(0_u8) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns the wait that a provider requests; `None` without a valid header. The headers are `retry-after-ms` and
/// `Retry-After`.
pub(crate) fn retry_after(response: &HttpResponse) -> Option<Duration> {
    let ms = response.header("retry-after-ms").and_then(|it| wait(it.trim().parse().ok()?, 1000.0));
    ms.or_else(|| wait_of(response.header("retry-after")?, response.header("date")))
}

/// Parses a `Retry-After` header: seconds, or a date. Returns `None` for any other text.
///
/// A date is compared with the `Date` header of the response, because clocks differ. Without that header, the system
/// clock counts.
pub fn wait_of(value: &str, date: Option<&str>) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return wait(seconds, 1.0);
    }
    let then = httpdate::parse_http_date(value).ok()?;
    let now =
        date.and_then(|it| httpdate::parse_http_date(it).ok()).unwrap_or_else(SystemTime::now);
    Some(then.duration_since(now).unwrap_or(Duration::ZERO))
}

/// Converts `value` to a wait of at most one day. `per_second` is the number of units in a second. Returns `None` for a
/// value that is negative or not finite.
fn wait(value: f64, per_second: f64) -> Option<Duration> {
    let seconds = value / per_second;
    (seconds.is_finite() && seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(86_400.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_form_of_retry_after() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let later = "Sun, 06 Nov 1994 08:49:40 GMT";
        for (headers, expected) in [
            (vec![("retry-after", "2")], Some(2_000)),
            (vec![("retry-after", " 1.5 ")], Some(1_500)),
            (vec![("retry-after", "0")], Some(0)),
            (vec![("retry-after", "1"), ("retry-after-ms", "20")], Some(20)),
            (vec![("retry-after", "1"), ("retry-after-ms", "soon")], Some(1_000)),
            (vec![("retry-after", later), ("date", date)], Some(3_000)),
            (vec![("retry-after", date), ("date", later)], Some(0)),
            (vec![("retry-after", date)], Some(0)),
            (vec![("retry-after", "-1")], None),
            (vec![("retry-after", "NaN")], None),
            (vec![("retry-after", "inf")], None),
            (vec![("retry-after", "1e300")], Some(86_400_000)),
            (vec![("retry-after", "tomorrow")], None),
            (vec![], None),
        ] {
            let headers = headers.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
            let response = HttpResponse { status: 429, headers, ..HttpResponse::default() };
            assert_eq!(
                retry_after(&response),
                expected.map(Duration::from_millis),
                "{:?}",
                response.headers
            );
        }
    }

    #[test]
    fn waits_longer_each_time_within_its_limits() {
        let policy = RetryPolicy::default();
        for (retry, asked, chance, expected) in [
            (0, None, 0.0, 250),
            (0, None, 1.0, 500),
            (1, None, 1.0, 1_000),
            (2, None, 0.5, 1_000),
            (40, None, 1.0, 30_000),
            (u32::MAX, None, 1.0, 30_000),
            (0, Some(0), 1.0, 0),
            (0, Some(1_000), 0.0, 1_000),
            (0, Some(1_000), 1.0, 1_100),
            (0, Some(60_000), 0.0, 60_000),
            (0, Some(60_000), 1.0, 60_250),
        ] {
            let asked = asked.map(Duration::from_millis);
            assert_eq!(
                policy.delay(retry, asked, chance),
                Duration::from_millis(expected),
                "{retry} {asked:?} {chance}"
            );
        }
    }

    #[test]
    fn only_some_failures_are_worth_a_retry() {
        use ProviderErrorKind as Kind;
        let err = |kind, status: Option<u16>, retryable| ProviderError {
            status,
            retryable,
            ..ProviderError::new(kind, "p", "m")
        };
        for (err, expected) in [
            (err(Kind::RateLimited, Some(429), false), true),
            (err(Kind::QuotaExhausted, Some(429), true), false),
            (err(Kind::Auth, Some(401), true), false),
            (err(Kind::Auth, Some(503), true), false),
            (err(Kind::InvalidRequest, Some(400), true), false),
            (err(Kind::Timeout, Some(408), false), true),
            (err(Kind::InvalidRequest, Some(409), false), true),
            (err(Kind::Server, Some(500), false), true),
            (err(Kind::Overloaded, Some(529), false), true),
            (err(Kind::Connection, None, true), true),
            (err(Kind::Timeout, None, true), true),
            (err(Kind::MalformedResponse, Some(200), false), false),
            (err(Kind::Connection, None, false), false),
        ] {
            assert_eq!(is_worth_it(&err), expected, "{err:?}");
        }
    }

    #[test]
    fn chances_differ_and_stay_in_range() {
        let chances: Vec<f64> = (0..100).map(|_| chance()).collect();
        assert!(chances.iter().all(|it| (0.0..=1.0).contains(it)));
        assert!(chances.iter().any(|it| *it < 0.5) && chances.iter().any(|it| *it > 0.5));
    }
}
