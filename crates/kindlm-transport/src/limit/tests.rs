//! Tests of rate limiters, with a paused clock. The clock advances only while all tasks wait.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::task::Poll;
use std::time::Duration;

use kindlm_types::{AttemptBudget, ProviderError, ProviderErrorKind as Kind};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep};

use super::{Limits, QueuedCall, RateLimiter, RateLimiters};
use crate::{BackOff, Notice, RetryPolicy, WaitReason, Waits, Way, with_retries};

fn limits(rpm: u32, tpm: u32, concurrency: u32) -> Limits {
    Limits {
        rpm: NonZeroU32::new(rpm),
        tpm: NonZeroU32::new(tpm),
        concurrency: NonZeroU32::new(concurrency),
    }
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn refusal(retry_after: Option<Duration>) -> ProviderError {
    let err = ProviderError::new(Kind::RateLimited, "p", "slow down").with_status(429).retryable();
    ProviderError { retry_after, ..err }
}

fn hopeless(kind: Kind, status: u16) -> ProviderError {
    ProviderError::new(kind, "p", "go away").with_status(status)
}

/// Returns the conditions of attempts, without a global concurrency limit.
fn way<'a>(retry: &'a RetryPolicy, waits: &'a Waits) -> Way<'a> {
    Way { retry, waits, slots: None }
}

fn policy() -> RetryPolicy {
    RetryPolicy { min_delay: ms(100), base_delay: ms(100), ..RetryPolicy::default() }
}

/// Starts calls in order, and returns the times of sending, in milliseconds.
async fn times(
    limiter: &RateLimiter,
    calls: u64,
    estimate: u64,
    takes: Duration,
    used: u64,
) -> Vec<u128> {
    let start = Instant::now();
    let sent = RefCell::new(vec![0; usize::try_from(calls).unwrap()]);
    let calls = (0..calls).map(|call| {
        let (queued, sent) = (limiter.enqueue(estimate), &sent);
        async move {
            let permit = queued.enter(0).await.unwrap();
            sent.borrow_mut()[usize::try_from(call).unwrap()] = start.elapsed().as_millis();
            sleep(takes).await;
            queued.used(used);
            permit.answered();
        }
    });
    all(calls).await;
    sent.into_inner()
}

/// Runs futures concurrently, polls them in order, and returns their outputs.
async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|ctx| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(ctx)
            {
                *output = Some(value);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

#[tokio::test(start_paused = true)]
async fn requests_are_spread_in_the_order_of_their_calls() {
    for (limits, estimate, used, takes, expected) in [
        (limits(0, 0, 0), 0, 0, 10, [0, 0, 0, 0]),
        (limits(0, 0, 2), 0, 0, 10, [0, 0, 10, 10]),
        (limits(0, 0, 1), 0, 0, 10, [0, 10, 20, 30]),
        (limits(60, 0, 0), 0, 0, 10, [0, 1_000, 2_000, 3_000]),
        (limits(120, 0, 0), 0, 0, 10, [0, 0, 500, 1_000]),
        (limits(60, 0, 1), 0, 0, 1_500, [0, 1_500, 3_000, 4_500]),
        // The use equals the estimate.
        (limits(0, 600, 0), 10, 10, 10, [0, 1_000, 2_000, 3_000]),
        // The answer reports no token count.
        (limits(0, 600, 0), 10, 0, 10, [0, 1_000, 2_000, 3_000]),
        // The used tokens are half of the estimate. They are known after 10 ms, in which 0.1 tokens are refilled.
        (limits(0, 600, 0), 10, 5, 10, [0, 500, 1_000, 1_500]),
        // The used tokens are twice the estimate, so the next request waits longer.
        (limits(0, 600, 0), 10, 20, 10, [0, 2_000, 4_000, 6_000]),
        // The amount is much larger than the bucket.
        (limits(0, 60, 0), 30, 30, 10, [0, 30_000, 60_000, 90_000]),
        (limits(60, 600, 0), 5, 5, 10, [0, 1_000, 2_000, 3_000]),
    ] {
        let limiter = RateLimiter::new(limits);
        let found = times(&limiter, 4, estimate, ms(takes), used).await;
        // The timer is accurate to one millisecond.
        let near = found.iter().zip(expected).all(|(it, expected)| it.abs_diff(expected) <= 3);
        assert!(near, "{limits:?} {estimate} {used}: {found:?}, expected {expected:?}");
    }
}

/// The same waits result if the used tokens are recorded before or after the end of the request.
#[tokio::test(start_paused = true)]
async fn tokens_can_be_corrected_after_the_request_has_ended() {
    let mut found = Vec::new();
    for is_late in [false, true] {
        let limiter = RateLimiter::new(limits(0, 600, 0));
        let start = Instant::now();
        let mut times = Vec::new();
        for _ in 0..4 {
            let queued = limiter.enqueue(300);
            let permit = queued.enter(0).await.unwrap();
            times.push(start.elapsed().as_millis());
            if is_late {
                permit.answered();
                queued.used_after_all(30);
            } else {
                queued.used(30);
                permit.answered();
            }
        }
        found.push(times);
    }
    assert_eq!(found[0], found[1]);
    assert_eq!(found[1], [0, 3_000, 6_000, 9_000], "30 tokens are refilled in 3 s");
}

#[tokio::test(start_paused = true)]
async fn polls_take_no_tokens() {
    let limiter = RateLimiter::new(limits(0, 600, 0));
    let start = Instant::now();
    let queued = limiter.enqueue(600);
    queued.enter(0).await.unwrap().answered();
    for _ in 0..3 {
        let poll = queued.poll();
        poll.enter(0).await.unwrap().answered();
    }
    assert_eq!(start.elapsed(), ms(0));
    queued.used_after_all(300);
    limiter.enqueue(300).enter(0).await.unwrap().answered();
    assert_eq!(start.elapsed(), ms(30_000), "300 tokens are refilled in 30 s");
}

#[tokio::test(start_paused = true)]
async fn a_retry_keeps_its_queue_position() {
    let limiter = RateLimiter::new(limits(0, 0, 1));
    let order = RefCell::new(Vec::new());
    let calls = (0..4).map(|call| {
        let (queued, order) = (limiter.enqueue(0), &order);
        async move {
            let sent = Cell::new(0);
            let attempt = || async {
                order.borrow_mut().push(call);
                sent.set(sent.get() + 1);
                sleep(ms(60)).await;
                // This error is not a refusal, so it causes no back-off.
                let broken = ProviderError::new(Kind::Server, "p", "oops").retryable();
                if call == 0 && sent.get() < 3 { Err(broken) } else { Ok(()) }
            };
            with_retries(way(&policy(), &Waits::default()), &queued, attempt).await.unwrap()
        }
    });
    let attempts: Vec<u32> = all(calls).await.into_iter().map(|((), it)| it).collect();
    assert_eq!(attempts, [3, 1, 1, 1]);
    // While call 0 waits for 100 ms, two other calls take 120 ms. Then call 0 is the first in the queue again.
    assert_eq!(*order.borrow(), [0, 1, 2, 0, 3, 0]);
}

#[tokio::test(start_paused = true)]
async fn retry_after_delays_the_request_that_it_came_with() {
    let limiter = RateLimiter::new(limits(0, 0, 4));
    let start = Instant::now();
    let calls = (0..8).map(|call| {
        let (queued, was_refused) = (limiter.enqueue(0), Cell::new(false));
        async move {
            let attempt = || {
                let refuse = call == 0 && !was_refused.replace(true);
                async move {
                    sleep(ms(if refuse { 1 } else { 100 })).await;
                    if refuse { Err(refusal(Some(ms(10_000)))) } else { Ok(()) }
                }
            };
            with_retries(way(&policy(), &Waits::default()), &queued, attempt).await.unwrap();
            start.elapsed().as_millis()
        }
    });
    let ended = all(calls).await;
    // The first request is retried at the requested time, with a little jitter.
    assert!((10_100..10_400).contains(&ended[0]), "{ended:?}");
    // The other requests continue, two at a time instead of four, until the window has widened again.
    assert!(ended[1..4].iter().all(|it| (100..110).contains(it)), "{ended:?}");
    assert!(ended[4..].iter().all(|it| (200..410).contains(it)), "{ended:?}");
    assert!(ended[7] > 210, "the rate is lower than before: {ended:?}");
}

#[tokio::test(start_paused = true)]
async fn refusals_of_single_requests_extend_the_back_off() {
    let limiter = RateLimiter::default();
    let start = Instant::now();
    let mut sent = Vec::new();
    for _ in 0..4 {
        let queued = limiter.enqueue(0);
        let permit = queued.enter(0).await.unwrap();
        sent.push(start.elapsed().as_millis());
        permit.failed(&refusal(None), |refusals| ms(100 << refusals));
    }
    assert_eq!(sent, [0, 100, 300, 700]);
    // An answer resets the back-off: later requests do not wait, and the next refusal causes the shortest wait.
    for _ in 0..3 {
        let queued = limiter.enqueue(0);
        queued.enter(0).await.unwrap().answered();
        sent.push(start.elapsed().as_millis());
    }
    assert_eq!(sent[4..], [1_500; 3]);
    let queued = limiter.enqueue(0);
    queued.enter(0).await.unwrap().failed(&refusal(None), |refusals| ms(100 << refusals));
    limiter.enqueue(0).enter(0).await.unwrap().answered();
    assert_eq!(start.elapsed().as_millis(), 1_600);
}

#[tokio::test(start_paused = true)]
async fn only_overload_narrows_the_window() {
    let server = ProviderError::new(Kind::Server, "p", "oops").with_status(500).retryable();
    for (err, narrows) in [
        (refusal(None), true),
        (ProviderError::new(Kind::Overloaded, "p", "busy").with_status(529).retryable(), true),
        (ProviderError { retry_after: Some(ms(1)), ..server.clone() }, true),
        (server, false),
        (ProviderError::new(Kind::Timeout, "p", "late").retryable(), false),
        (ProviderError::new(Kind::Connection, "p", "broken").retryable(), false),
        (hopeless(Kind::InvalidRequest, 400), false),
    ] {
        let limiter = RateLimiter::new(limits(0, 0, 4));
        let calls: Vec<QueuedCall<'_>> = (0..5).map(|_| limiter.enqueue(0)).collect();
        let mut permits = Vec::new();
        for queued in &calls[..4] {
            permits.push(queued.enter(0).await.unwrap());
        }
        permits.pop().unwrap().failed(&err, |_| ms(0));
        let mut fifth = pin!(calls[4].enter(0));
        let enters = std::future::poll_fn(|ctx| Poll::Ready(fifth.as_mut().poll(ctx).is_ready()));
        assert_eq!(!enters.await, narrows, "{err:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn account_errors_open_the_circuit_of_the_provider() {
    for (err, this_model, other_model) in [
        (hopeless(Kind::Auth, 401), true, true),
        (hopeless(Kind::QuotaExhausted, 429), true, true),
        (hopeless(Kind::Auth, 403), true, false),
        (hopeless(Kind::RateLimited, 429), false, false),
        (hopeless(Kind::ModelNotFound, 404), false, false),
        // The key variable was not set, so nothing was sent.
        (ProviderError { attempts: 0, ..hopeless(Kind::Auth, 401) }, false, false),
    ] {
        let limiters = RateLimiters::default();
        let (this, before) = (limiters.to("this"), limiters.to("before"));
        limiters.record_failure(&this, &err);
        for (limiter, is_open) in
            [(this, this_model), (before, other_model), (limiters.to("after"), other_model)]
        {
            let queued = limiter.enqueue(0);
            let refused = queued.enter(0).await.err();
            assert_eq!(refused.is_some(), is_open, "{err:?}");
            if let Some(refused) = refused {
                assert_eq!((refused.kind, refused.status), (err.kind, err.status));
                assert_eq!((refused.attempts, refused.retryable), (0, false));
                assert_eq!(
                    refused.message,
                    "not sent, because an earlier request failed permanently: go away"
                );
            }
        }
    }
}

/// Checks that a short restart of the server does not end a run.
#[tokio::test(start_paused = true)]
async fn a_short_outage_does_not_open_the_circuit() {
    let unreached = || ProviderError::new(Kind::Connection, "p", "refused").retryable();
    let status = || ProviderError::new(Kind::Server, "p", "oops").with_status(500).retryable();
    // Each step: the seconds that pass, and the result of the next call.
    for (steps, opens) in [
        (vec![(0, Err(unreached())); 2], false),
        (vec![(0, Err(unreached())); 3], true),
        (
            vec![(0, Ok(())), (1, Err(unreached())), (1, Err(unreached())), (1, Err(unreached()))],
            false,
        ),
        ([vec![(0, Ok(()))], vec![(60, Err(unreached())); 3]].concat(), false),
        ([vec![(0, Ok(()))], vec![(60, Err(unreached())); 4]].concat(), true),
        (
            [
                vec![(0, Ok(()))],
                vec![(60, Err(unreached())); 3],
                vec![(60, Ok(())), (60, Err(unreached()))],
            ]
            .concat(),
            false,
        ),
        (
            [
                vec![(0, Ok(()))],
                vec![(60, Err(unreached())); 3],
                vec![(60, Err(status())), (60, Err(unreached()))],
            ]
            .concat(),
            false,
        ),
        (vec![(0, Ok(())), (0, Err(unreached())), (600, Err(unreached()))], false),
    ] {
        let limiters = RateLimiters::default();
        let limiter = limiters.to("m");
        for (seconds, result) in &steps {
            tokio::time::advance(Duration::from_secs(*seconds)).await;
            match result {
                Ok(()) => limiters.answered(&limiter),
                Err(err) => limiters.record_failure(&limiter, err),
            }
        }
        assert_eq!(limiter.enqueue(0).enter(0).await.is_err(), opens, "{steps:?}");
    }
}

/// Returns true if a request to the model would be sent.
async fn is_sent(limiters: &RateLimiters) -> bool {
    limiters.to("m").enqueue(0).enter(0).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_circuit_closes_after_its_time() {
    let mut limiters = RateLimiters::new("p", HashMap::new());
    for status in [401, 403] {
        let failure = ProviderError { attempts: 1, ..hopeless(Kind::Auth, status) };
        limiters.record_failure(&limiters.to("m"), &failure);
        assert!(!is_sent(&limiters).await, "{status}");
        sleep(ms(3_600_000)).await;
        assert!(!is_sent(&limiters).await, "{status}: without a time, the circuit stays open");
        limiters.close_circuits_after(ms(60_000));
        assert!(is_sent(&limiters).await, "{status}");
        // The next failure opens the circuit for the same time.
        limiters.record_failure(&limiters.to("m"), &failure);
        sleep(ms(59_999)).await;
        assert!(!is_sent(&limiters).await, "{status}");
        sleep(ms(1)).await;
        assert!(is_sent(&limiters).await, "{status}");
        limiters = RateLimiters::new("p", HashMap::new());
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_fail_when_the_circuit_opens() {
    let limiters = RateLimiters::new("p", [("m".to_owned(), limits(1, 0, 0))].into());
    let limiter = limiters.to("m");
    let start = Instant::now();
    let calls = (0..5).map(|call| {
        let (queued, limiter, limiters) = (limiter.enqueue(0), &limiter, &limiters);
        async move {
            let attempt = || async {
                sleep(ms(10)).await;
                Err::<(), _>(hopeless(Kind::Auth, 401))
            };
            let err = with_retries(way(&policy(), &Waits::default()), &queued, attempt)
                .await
                .unwrap_err();
            limiters.record_failure(limiter, &err);
            (call, err.attempts, err.message.starts_with("not sent"))
        }
    });
    let ended = all(calls).await;
    assert_eq!(
        ended,
        [(0, 1, false), (1, 0, true), (2, 0, true), (3, 0, true), (4, 0, true)],
        "one was sent"
    );
    assert!(start.elapsed() < ms(20));
}

#[tokio::test(start_paused = true)]
async fn requests_that_are_not_sent_are_not_charged() {
    let limiters = RateLimiters::new("p", HashMap::new());
    let limiter = limiters.to("m");
    for _ in 0..3 {
        let lost = ProviderError::new(Kind::Connection, "p", "the answer broke off").lost();
        limiters.record_failure(&limiter, &lost);
    }
    let err = limiter.enqueue(0).enter(0).await.unwrap_err();
    assert_eq!(err.attempts, 0);
    assert!(!err.may_be_charged(), "{err:?}");
}

/// A budget without a limit. It counts the reservations that are not released.
#[derive(Default)]
struct CountedBudget(AtomicI32);

impl AttemptBudget for CountedBudget {
    fn reserve(&self) -> Result<(), String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn release(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_retry_keeps_the_error_that_may_be_charged() {
    let not_sent = || ProviderError { attempts: 0, ..hopeless(Kind::Auth, 401) };
    for (opens_circuit, why) in
        [(true, "because an earlier request failed permanently: go away"), (false, "go away")]
    {
        let limiters = RateLimiters::new("p", HashMap::new());
        let (limiter, budget) = (limiters.to("m"), CountedBudget::default());
        let queued = limiter.enqueue(0).paid_by(&budget);
        let sent = Cell::new(0);
        let attempt = || async {
            if sent.replace(1) == 1 {
                return Err::<(), _>(not_sent());
            }
            if opens_circuit {
                limiters.record_failure(&limiter, &hopeless(Kind::Auth, 401));
            }
            Err(ProviderError::new(Kind::Timeout, "p", "no answer").retryable())
        };
        let err =
            with_retries(way(&policy(), &Waits::default()), &queued, attempt).await.unwrap_err();
        assert_eq!((err.kind, err.attempts, err.retryable), (Kind::Timeout, 1, false));
        assert_eq!(err.message, format!("no answer; not sent again: {why}"));
        assert_eq!(budget.0.load(Ordering::Relaxed), 0, "the budget for the retry is released");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_retry_after_a_free_attempt_is_not_charged() {
    let timeout = || ProviderError::new(Kind::Timeout, "p", "no answer").retryable();
    let overloaded = || hopeless(Kind::Overloaded, 503).retryable();
    // The first attempt of the second case may be charged, so its reservation stays.
    for (failures, reservations) in [(vec![overloaded()], 0), (vec![timeout(), overloaded()], 1)] {
        let limiters = RateLimiters::new("p", HashMap::new());
        let (limiter, budget) = (limiters.to("m"), CountedBudget::default());
        let queued = limiter.enqueue(0).paid_by(&budget);
        let sent = Cell::new(0);
        let attempt = || async {
            let at = sent.replace(sent.get() + 1);
            if at + 1 == failures.len() {
                // The circuit opens with the timeouts of other requests.
                for _ in 0..10 {
                    limiters.record_failure(&limiter, &timeout());
                }
            }
            Err::<(), _>(failures[at].clone())
        };
        let err =
            with_retries(way(&policy(), &Waits::default()), &queued, attempt).await.unwrap_err();
        assert_eq!(sent.get(), failures.len());
        assert_eq!((err.kind, err.attempts as usize), (Kind::Timeout, failures.len()));
        assert!(!err.may_be_charged(), "{err:?}");
        // A call that was sent again with a newer credential adds the attempts before it.
        assert!(!ProviderError { attempts: err.attempts + 1, ..err }.may_be_charged());
        assert_eq!(budget.0.load(Ordering::Relaxed), reservations);
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_calls_do_not_block_later_calls() {
    let limiter = RateLimiter::new(limits(60, 600, 1));
    let calls: Vec<QueuedCall<'_>> = (0..5).map(|_| limiter.enqueue(10)).collect();
    let first = calls[0].enter(0).await.unwrap();
    let mut waiting: Vec<_> = calls[1..].iter().map(|it| Box::pin(it.enter(0))).collect();
    for it in &mut waiting {
        assert!(tokio::time::timeout(ms(1), it).await.is_err());
    }
    // Drops the first waiting request and the request in flight.
    drop(waiting.remove(0));
    drop(first);
    let second = tokio::time::timeout(ms(2_000), &mut waiting[0]).await.unwrap().unwrap();
    drop(waiting.remove(1));
    second.answered();
    tokio::time::timeout(ms(2_000), &mut waiting[1]).await.unwrap().unwrap().answered();
    assert!(format!("{limiter:?}").contains("in_flight: 0"), "{limiter:?}");
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_are_not_polled() {
    let limiter = RateLimiter::new(limits(1, 0, 0));
    limiter.enqueue(0).enter(0).await.unwrap().answered();
    let polls = Cell::new(0);
    let calls = (0..10).map(|_| {
        let (queued, polls) = (limiter.enqueue(0), &polls);
        async move {
            let mut entering = pin!(queued.enter(0));
            let entered = std::future::poll_fn(|ctx| {
                polls.set(polls.get() + 1);
                entering.as_mut().poll(ctx)
            });
            entered.await.unwrap().answered();
        }
    });
    let set = LocalSet::new();
    let start = Instant::now();
    set.run_until(all(calls)).await;
    assert!(start.elapsed() >= Duration::from_mins(9));
    // All ten calls are one task here, so each wake-up polls all calls.
    assert!(polls.get() < 400, "{} polls", polls.get());
}

/// Simulates a provider that accepts `most` requests at once. It answers after 20 ms, and refuses after 1 ms.
async fn provider(taken: &Cell<u32>, most: u32) -> Result<(), ProviderError> {
    if taken.get() >= most {
        sleep(ms(1)).await;
        return Err(refusal(None));
    }
    taken.set(taken.get() + 1);
    sleep(ms(20)).await;
    taken.set(taken.get() - 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_limiter_learns_the_capacity_of_a_provider() {
    for most in [1, 3, 8, 40] {
        let limiter = RateLimiter::new(limits(0, 0, 64));
        let (taken, refused, refused_late) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let start = Instant::now();
        let calls = (0..1_000).map(|call| {
            let (queued, taken) = (limiter.enqueue(0), &taken);
            let (refused, refused_late) = (&refused, &refused_late);
            async move {
                let attempt = || async {
                    let result = provider(taken, most).await;
                    if result.is_err() {
                        refused.set(refused.get() + 1);
                        refused_late.set(refused_late.get() + u32::from(call >= 200));
                    }
                    result
                };
                with_retries(way(&RetryPolicy::default(), &Waits::default()), &queued, attempt)
                    .await
            }
        });
        let failed = all(calls).await.iter().filter(|it| it.is_err()).count();
        assert_eq!(failed, 0, "{most}");
        assert!(refused.get() <= 64 + 3 * most + 60, "{most}: {} refused", refused.get());
        let in_the_end = refused_late.get();
        assert!(in_the_end <= 60, "{most}: {in_the_end} of 800 refused after the warm-up");
        let ideal = ms(20) * 1_000 / most;
        assert!(start.elapsed() < ideal * 2 + ms(2_000), "{most}: {:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn limits_are_positive_integers_with_known_keys() {
    let read = serde_json::from_str::<Limits>;
    assert_eq!(
        read(r#"{"rpm": 60, "tpm": 1000, "concurrency": 8}"#).unwrap(),
        limits(60, 1_000, 8)
    );
    assert_eq!(read("{}").unwrap(), Limits::default());
    for wrong in [r#"{"rpm": 0}"#, r#"{"rpm": -1}"#, r#"{"rmp": 60}"#, r#"{"tpm": 1.5}"#] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    let _: Arc<RateLimiter> = RateLimiters::default().to("any");
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_only_waiting_requests() {
    let refused = || ProviderError {
        retry_after: Some(Duration::from_mins(1)),
        ..ProviderError::new(Kind::RateLimited, "p", "too much").retryable()
    };
    let limiter = RateLimiter::new(limits(0, 0, 1));
    let (policy, stop) = (policy(), Waits::default());
    let start = Instant::now();
    let call = |takes: u64, result: Result<(), ProviderError>| {
        let (queued, policy, stop) = (limiter.enqueue(0), &policy, &stop);
        async move {
            let attempt = || async {
                sleep(ms(takes)).await;
                result.clone()
            };
            let done = with_retries(way(policy, stop), &queued, attempt).await;
            (done.map_err(|err| (err.message, err.attempts)), start.elapsed())
        }
    };
    let (under_way, waiting, ()) = tokio::join!(call(500, Ok(())), call(1, Ok(())), async {
        sleep(ms(100)).await;
        stop.stop();
    });
    assert_eq!(under_way, (Ok(((), 1)), ms(500)), "a call in flight finishes");
    let (waiting, waited) = waiting;
    assert_eq!(
        waiting.unwrap_err(),
        ("not sent: stopped while waiting for a permit".to_owned(), 0)
    );
    assert!(waited < ms(500));

    let (retried, _) = call(1, Err(refused())).await;
    assert_eq!(retried.unwrap_err(), ("too much; stopped while waiting to retry".to_owned(), 1));
    assert!(start.elapsed() < Duration::from_secs(5));

    let limiter = RateLimiter::new(limits(0, 0, 1));
    let queued = limiter.enqueue(0);
    let attempt = || std::future::ready(Ok(()));
    let done = with_retries(way(&policy, &stop), &queued, attempt).await;
    assert_eq!(done.unwrap(), ((), 1), "there was nothing to wait for");
}

/// Simulates a provider that refuses requests until a given time. A refusal requests the remaining wait. Later requests
/// are answered after 11 ms.
async fn closed_until(until: Instant, sent: &Cell<u32>) -> Result<(), ProviderError> {
    sent.set(sent.get() + 1);
    sleep(ms(1)).await;
    let left = until.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        return Err(refusal(Some(left)));
    }
    sleep(ms(10)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn requested_waits_are_shared() {
    for (calls, concurrency) in [(8, 4), (8, 8), (100, 4), (3, 1)] {
        let limiter = RateLimiter::new(limits(0, 0, concurrency)).named("p:m".to_owned());
        let (start, sent, waits) = (Instant::now(), Cell::new(0), Waits::default());
        let (policy, until) = (RetryPolicy::default(), start + ms(3_000));
        let calls =
            (0..calls).map(|_| {
                let (queued, sent, waits, policy) = (limiter.enqueue(0), &sent, &waits, &policy);
                async move {
                    with_retries(way(policy, waits), &queued, || closed_until(until, sent)).await
                }
            });
        let calls: Vec<_> = calls.collect();
        let wanted = u32::try_from(calls.len()).unwrap();
        let ended = all(calls).await;
        assert!(ended.iter().all(Result::is_ok), "{ended:?}");
        // Only the requests in flight at the first refusal are sent twice.
        assert_eq!(sent.get(), wanted + concurrency.min(wanted), "{concurrency}");
        // All requests share one wait of three seconds, because the clock advances only while all tasks wait.
        assert!(start.elapsed() < ms(3_400 + 11 * u64::from(wanted)), "{:?}", start.elapsed());
        let Notice::Wait(back_off) = waits.next().await else { panic!() };
        assert_eq!((back_off.target.as_str(), back_off.why), ("p:m", WaitReason::Requested));
        assert_eq!(back_off.in_words().split(": ").last(), Some("requests to it wait"));
        let again = tokio::time::timeout(ms(1), waits.next()).await;
        assert!(again.is_err(), "the wait is reported once");
    }
}

#[tokio::test(start_paused = true)]
async fn too_long_waits_fail_all_requests_immediately() {
    let limiter = RateLimiter::new(limits(0, 0, 1)).named("p:m".to_owned());
    let (start, sent, waits) = (Instant::now(), Cell::new(0), Waits::default());
    let (policy, until) = (RetryPolicy::default(), start + Duration::from_mins(10));
    let calls = (0..5).map(|_| {
        let (queued, sent, waits, policy) = (limiter.enqueue(0), &sent, &waits, &policy);
        async move { with_retries(way(policy, waits), &queued, || closed_until(until, sent)).await }
    });
    let ended: Vec<ProviderError> = all(calls).await.into_iter().map(Result::unwrap_err).collect();
    assert_eq!(sent.get(), 1);
    assert!(start.elapsed() < ms(100), "{:?}", start.elapsed());
    assert_eq!(
        (ended[0].kind, ended[0].attempts, ended[0].retryable),
        (Kind::RateLimited, 1, false)
    );
    assert_eq!(
        ended[0].message,
        "slow down; the provider asks to wait 600 s, longer than the limit of 60 s: try again later, `kindlm test \
         --resume` sends the missing requests"
    );
    for err in &ended[1..] {
        assert_eq!((err.kind, err.attempts, err.retryable), (Kind::RateLimited, 0, false));
        assert!(
            err.message.starts_with("not sent, because the provider has asked for a longer wait: ")
        );
    }
    let Notice::Wait(BackOff { target, wait, why }) = waits.next().await else { panic!() };
    assert_eq!((target.as_str(), why), ("p:m", WaitReason::TooLong));
    assert!(wait > Duration::from_secs(599));

    // After the wait, requests are sent again.
    sleep(Duration::from_mins(10)).await;
    let queued = limiter.enqueue(0);
    let done = with_retries(way(&policy, &waits), &queued, || closed_until(until, &sent)).await;
    assert_eq!(done.unwrap(), ((), 1));
    assert_eq!(sent.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn constant_refusals_fail_all_requests() {
    let limiter = RateLimiter::new(limits(0, 0, 4)).named("p:m".to_owned());
    let (start, sent, waits) = (Instant::now(), Cell::new(0_u32), Waits::default());
    let policy = RetryPolicy::default();
    let calls = (0..1_000).map(|_| {
        let (queued, sent, waits, policy) = (limiter.enqueue(0), &sent, &waits, &policy);
        let refuse = move || async move {
            sent.set(sent.get() + 1);
            sleep(ms(10)).await;
            Err::<(), _>(refusal(None))
        };
        async move { with_retries(way(policy, waits), &queued, refuse).await }
    });
    let ended: Vec<ProviderError> = all(calls).await.into_iter().map(Result::unwrap_err).collect();
    let took = start.elapsed();
    assert!(
        took > policy.max_silence && took < policy.max_silence + policy.max_delay * 2,
        "{took:?}"
    );
    assert!(sent.get() < 100, "{} requests", sent.get());
    let last = ended.last().unwrap();
    assert_eq!((last.attempts, last.retryable), (0, false));
    assert!(last.message.starts_with("not sent, because the provider refuses everything: slow down; the provider has refused every request to this model for "), "{}", last.message);
    let mut reasons = Vec::new();
    while let Some(Notice::Wait(it)) = waits.try_next() {
        reasons.push(it.why);
    }
    assert!(reasons.contains(&WaitReason::Refused), "{reasons:?}");
    assert_eq!(reasons.last(), Some(&WaitReason::GivenUp));
}

#[tokio::test(start_paused = true)]
async fn pauses_and_other_failures_end_a_series_of_refusals() {
    let policy = RetryPolicy::default();
    let broken = || hopeless(Kind::Server, 500);
    for (pause, between) in [(Duration::from_mins(4), None), (ms(100_000), Some(broken()))] {
        let (limiter, waits) =
            (RateLimiter::new(limits(0, 0, 1)).named("p:m".to_owned()), Waits::default());
        let ask = |answers: Vec<Result<(), ProviderError>>, policy| {
            let (queued, waits) = (limiter.enqueue(0), &waits);
            async move {
                let answers = RefCell::new(answers.into_iter());
                let next = || {
                    let answer = answers.borrow_mut().next().unwrap();
                    async move { answer }
                };
                with_retries(way(&policy, waits), &queued, next).await
            }
        };
        ask(vec![Err(refusal(None))], RetryPolicy::never()).await.unwrap_err();
        if let Some(err) = between {
            sleep(pause).await;
            ask(vec![Err(err)], RetryPolicy::never()).await.unwrap_err();
        }
        sleep(pause).await;
        let again = ask(vec![Err(refusal(None)), Ok(())], policy).await;
        assert_eq!(again.unwrap(), ((), 2), "given up after one refusal");
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_with_accepted_waits_are_given_up() {
    let limiter = RateLimiter::new(limits(0, 0, 1)).named("p:m".to_owned());
    let (waits, policy) = (Waits::default(), RetryPolicy { max_retries: 9, ..policy() });
    let ask = || {
        let queued = limiter.enqueue(0);
        let (waits, policy) = (&waits, &policy);
        async move {
            let refuse = || async { Err::<(), _>(refusal(Some(Duration::from_secs(50)))) };
            with_retries(way(policy, waits), &queued, refuse).await.unwrap_err()
        }
    };
    let given_up = ask().await;
    assert_eq!(given_up.retry_after, None, "{given_up:?}");
    let next = ask().await.message;
    assert!(next.starts_with("not sent, because the provider refuses everything: "), "{next}");
}
