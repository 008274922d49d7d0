//! When to send a request again, and how long to wait before.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

use kindlm_types::{ProviderError, ProviderErrorKind};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Asked, WaitReason, Waits};
use crate::HttpResponse;
use crate::limit::{Permit, Ticket};

/// When to send a request again.
///
/// The wait before retry `n` (from 0) is random between [`min_delay`](Self::min_delay) and
/// `base_delay × 2ⁿ`, at most [`max_delay`](Self::max_delay): exponential backoff with full jitter. If the
/// provider says how long to wait, that is waited instead; if that is longer than [`max_retry_after`](Self::max_retry_after),
/// nothing is sent until then, and what would be sent fails at once. So does what would be sent to a model that has refused
/// everything for [`max_silence`](Self::max_silence).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a failed request is sent again, at most.
    pub max_retries: u32,
    /// The shortest wait.
    pub min_delay: Duration,
    /// The upper end of the first wait.
    pub base_delay: Duration,
    /// The longest wait that is not the provider's wish.
    pub max_delay: Duration,
    /// The longest wait that is the provider's wish.
    pub max_retry_after: Duration,
    /// How long a model may refuse every request (429, 503, 529) before the others are given up.
    pub max_silence: Duration,
}

impl Default for RetryPolicy {
    /// Two retries, after 250 ms to 30 s; a provider may ask for a minute, and a model refuse everything for three.
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
    /// Nothing is sent twice.
    pub fn never() -> Self {
        Self { max_retries: 0, ..Self::default() }
    }

    /// The error of a provider that asks for a longer wait than there is patience.
    fn too_long(&self, err: ProviderError, wait: Duration) -> ProviderError {
        let message = format!(
            "{}; it asks to wait {} s, and at most {} s are waited: try again later, `kindlm test --resume` sends what is missing",
            err.message,
            wait.as_secs_f64().ceil(),
            self.max_retry_after.as_secs_f64(),
        );
        ProviderError { message, retryable: false, ..err }
    }

    /// The error of a model that has refused everything for so long.
    fn given_up(err: ProviderError, silence: Duration) -> ProviderError {
        let message = format!(
            "{}; it has refused every request for {} s: try again later, `kindlm test --resume` sends what is missing",
            err.message,
            silence.as_secs(),
        );
        // The refusals of long are the reason, and not what the last one asks for.
        ProviderError { message, retryable: false, retry_after: None, ..err }
    }

    /// How far refusals may be apart that follow each other: nobody waits longer than half of it before asking again.
    fn apart(&self) -> Duration {
        self.max_retry_after.max(self.max_delay).saturating_mul(2)
    }

    /// The wait before a retry; `chance` is from 0 to 1.
    fn delay(&self, retry: u32, retry_after: Option<Duration>, chance: f64) -> Duration {
        if let Some(asked) = retry_after {
            // A little later than asked, so that requests that were refused together come back one by one.
            return asked + (asked / 10).min(self.min_delay).mul_f64(chance);
        }
        let factor = 2_u32.saturating_pow(retry);
        let ceiling = self.base_delay.saturating_mul(factor).min(self.max_delay);
        ceiling.mul_f64(chance).max(self.min_delay).min(self.max_delay)
    }
}

/// What attempts have to wait for, besides their turn in the lane.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    /// When to send again.
    pub retry: &'a RetryPolicy,
    /// Ends the waits, and hears of long ones.
    pub waits: &'a Waits,
    /// How many requests of all lanes may be on their way at once.
    pub slots: Option<&'a Semaphore>,
}

impl Way<'_> {
    /// Waits for a place on the way, which is free again when the permits are dropped; after `attempts` that failed.
    ///
    /// A stop ends the wait in the lane, which may be long. Where there is no such wait the request is sent all the
    /// same: whoever has begun shall finish.
    pub(crate) async fn begin<'a>(
        &'a self,
        ticket: &'a Ticket<'_>,
        attempts: u32,
    ) -> Result<(Permit<'a>, Option<SemaphorePermit<'a>>), NotBegun> {
        // First the lane, so that those who have to wait there keep no place from others.
        let permit = tokio::select! {
            biased;
            permit = ticket.enter(attempts) => {
                permit.map_err(|err| NotBegun::Refused(ProviderError { attempts, ..err }))?
            }
            () = self.waits.stopped() => return Err(NotBegun::Stopped),
        };
        let slot = match self.slots {
            // It is never closed; if it were, there would be no bound.
            Some(slots) => slots.acquire().await.ok(),
            None => None,
        };
        Ok((permit, slot))
    }
}

/// Why a request was not begun.
pub(crate) enum NotBegun {
    /// The waits were ended.
    Stopped,
    /// The lane is shut.
    Refused(ProviderError),
}

/// Makes attempts until one succeeds or no further one is worth it; says how many there were.
///
/// Each attempt waits for its turn in the lane. An error that is not `retryable` ends it; so does one whose
/// `attempts` is 0: nothing was sent. When the waits are ended, the last error stays.
pub async fn with_retries<T, F>(
    way: Way<'_>,
    ticket: &Ticket<'_>,
    attempt: impl Fn() -> F,
) -> Result<(T, u32), ProviderError>
where
    F: Future<Output = Result<T, ProviderError>>,
{
    let mut attempts = 0;
    let mut last: Option<ProviderError> = None;
    loop {
        let (permit, slot) = match (way.begin(ticket, attempts).await, last.take()) {
            (Ok(begun), _) => begun,
            (Err(NotBegun::Refused(err)), _) => return Err(err),
            (Err(NotBegun::Stopped), Some(last)) => return Err(stopped_after(last, ticket)),
            (Err(NotBegun::Stopped), None) => return Err(stopped_before()),
        };
        let result = attempt().await;
        drop(slot);
        let mut err = match result {
            Ok(value) => {
                permit.answered();
                return Ok((value, attempts + 1));
            }
            Err(err) => err,
        };
        if err.attempts == 0 {
            err.attempts = attempts;
            return Err(err);
        }
        let policy = way.retry;
        attempts += 1;
        err.attempts = attempts;
        let too_long = err.retry_after.filter(|it| err.retryable && *it > policy.max_retry_after);
        if let Some(wait) = too_long {
            err = policy.too_long(err, wait);
            permit.put_off(&err, wait);
            way.waits.tell_wait(Asked { whom: ticket.whom(), wait, why: WaitReason::TooLong });
            return Err(err);
        }
        let silence = permit.silence(&err, policy.apart());
        if let Some(silence) = silence.filter(|it| *it >= policy.max_silence) {
            let wait = policy.max_retry_after;
            err = RetryPolicy::given_up(err, silence);
            permit.put_off(&err, wait);
            way.waits.tell_wait(Asked { whom: ticket.whom(), wait, why: WaitReason::GivenUp });
            return Err(err);
        }
        let pause = permit.failed(&err, |strikes| policy.delay(strikes, err.retry_after, chance()));
        if let Some(wait) = pause {
            let is_asked = err.retry_after.is_some_and(|it| !it.is_zero());
            let why = if is_asked { WaitReason::Asked } else { WaitReason::Refused };
            way.waits.tell_wait(Asked { whom: ticket.whom(), wait, why });
        }
        if !err.retryable || attempts > policy.max_retries {
            return Err(err);
        }
        if let Err(why) = if err.may_be_charged() { ticket.another() } else { Ok(()) } {
            err.message = format!("{}; not sent again: {why}", err.message);
            return Err(err);
        }
        let wait = policy.delay(attempts - 1, err.retry_after, chance());
        tokio::select! {
            () = tokio::time::sleep(wait) => last = Some(err),
            () = way.waits.stopped() => return Err(stopped_after(err, ticket)),
        }
    }
}

/// Nothing was sent, and it may be sent later.
pub(crate) fn stopped_before() -> ProviderError {
    let message = "not sent: stopped while waiting for its turn";
    let err = ProviderError::new(ProviderErrorKind::Overloaded, "", message).retryable();
    ProviderError { attempts: 0, ..err }
}

/// The last error, and why there is no later one.
fn stopped_after(err: ProviderError, ticket: &Ticket<'_>) -> ProviderError {
    // What was set aside for the next attempt would count beside what the last one may have cost.
    if err.may_be_charged() {
        ticket.not_made();
    }
    let message = format!("{}; stopped while waiting to retry", err.message);
    ProviderError { message, ..err }
}

/// True if the same request may succeed later. A status decides, where there is one.
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

/// A number from 0 to 1. The standard library seeds its hash maps well enough for jitter.
#[expect(clippy::cast_precision_loss, reason = "53 bits are more than jitter needs")]
fn chance() -> f64 {
    (RandomState::new().hash_one(0_u8) >> 11) as f64 / (1_u64 << 53) as f64
}

/// How long a provider asks to wait, from `retry-after-ms` or `Retry-After`.
pub(crate) fn retry_after(response: &HttpResponse) -> Option<Duration> {
    let ms = response.header("retry-after-ms").and_then(|it| wait(it.trim().parse().ok()?, 1000.0));
    ms.or_else(|| wait_of(response.header("retry-after")?, response.header("date")))
}

/// The meaning of a `Retry-After` header: seconds, or a date.
///
/// A date is compared with the `Date` of the answer, if it has one, because clocks differ.
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

/// A wait, if the number makes sense as one. A day is as good as any longer time.
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
            let response = HttpResponse { status: 429, headers, body: Vec::new() };
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
