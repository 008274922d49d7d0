//! The budget of a run.
//!
//! Money is reserved before a request is sent, and settled after the answer.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use kindlm_types::{AttemptBudget, ContentPart, Price, Prompt, ProviderError, Usage};
use tokio::sync::Notify;

use crate::aggregate::TOLERANCE;
use crate::gates::dollars;

/// The assumed maximum length of an answer in tokens, for requests without a limit.
pub const LONGEST_ANSWER: u32 = 16_384;

/// The budget of a run, with the money spent and reserved.
///
/// Each request reserves its maximum cost. If the budget does not allow this, the request waits until in-flight
/// requests are settled, because most answers cost less than their reservations. Without in-flight requests, the budget
/// is exhausted, and no further request is sent. A run exceeds its budget only if an answer costs more than its
/// reservation, or if a cost has no reservation (such as the cost of an agent).
#[derive(Debug)]
pub(crate) struct Budget {
    usd: f64,
    state: Mutex<State>,
    /// Notifies waiting requests that a reservation was settled.
    settled: Notify,
    /// A lock that queues the requests that cost money.
    ///
    /// The lock prevents small requests from overtaking a large request forever.
    turn: tokio::sync::Mutex<()>,
    /// The reason why no further request is sent; unset while the budget is not exhausted.
    exhausted: OnceLock<String>,
}

#[derive(Debug, Default)]
struct State {
    spent: f64,
    reserved: f64,
    /// The number of in-flight requests that have a reservation above 0.
    paying: usize,
    /// The number of lost answers, and the part of `spent` for them.
    ///
    /// The provider may charge for these answers.
    lost: (u64, f64),
}

/// The reservations of one call, for all of its attempts.
///
/// The answers of all attempts before the last attempt were lost.
#[derive(Debug)]
#[must_use = "dropped, it counts as spent"]
pub(crate) struct Paid<'a> {
    budget: &'a Budget,
    last: Reservation<'a>,
    /// The reservations of attempts whose answers were lost. The provider may charge for each of these attempts.
    lost: Mutex<Vec<Reservation<'a>>>,
}

/// Money that is reserved for one request. A reservation that is not settled counts as spent.
#[derive(Debug)]
#[must_use = "dropped, it counts as spent"]
pub(crate) struct Reservation<'a> {
    budget: &'a Budget,
    usd: f64,
    spent: f64,
}

impl Budget {
    /// Creates a budget in US dollars.
    pub(crate) fn new(usd: f64) -> Self {
        Self {
            usd,
            state: Mutex::default(),
            settled: Notify::new(),
            turn: tokio::sync::Mutex::new(()),
            exhausted: OnceLock::new(),
        }
    }

    /// Counts a cost that was not reserved.
    ///
    /// Stops further requests if the budget is exceeded.
    pub(crate) fn spend(&self, usd: f64) {
        let mut state = self.state();
        state.spent += usd;
        self.stop_if_exceeded(&state);
    }

    /// Stops further requests if more than the budget is spent.
    fn stop_if_exceeded(&self, state: &State) {
        if state.spent > self.usd + TOLERANCE {
            self.exhausted.get_or_init(|| {
                let (budget, spent) = (dollars(self.usd), dollars(state.spent));
                format!("not sent: the run's budget is exceeded: {spent} > {budget}")
            });
        }
    }

    /// Returns the reason why no further request is sent.
    ///
    /// Returns `None` while the budget is not exhausted.
    pub(crate) fn exhausted(&self) -> Option<&str> {
        self.exhausted.get().map(String::as_str)
    }

    /// Waits until the budget allows an amount, and reserves the amount.
    ///
    /// Fails with the reason if the budget is exhausted.
    pub(crate) async fn reserve(&self, usd: f64) -> Result<Reservation<'_>, String> {
        let _turn = if usd > 0.0 { Some(self.turn.lock().await) } else { None };
        loop {
            // Register before checking, so that no notification is missed.
            let mut settled = std::pin::pin!(self.settled.notified());
            settled.as_mut().enable();
            if let Some(result) = self.try_reserve(usd) {
                return result;
            }
            settled.await;
        }
    }

    /// Waits until the budget allows the first attempt of a call, and reserves the maximum cost of one attempt.
    ///
    /// Fails with the reason if the budget is exhausted.
    pub(crate) async fn pay(&self, usd: f64) -> Result<Paid<'_>, String> {
        let last = self.reserve(usd).await?;
        Ok(Paid { budget: self, last, lost: Mutex::default() })
    }

    /// Reserves money for another attempt of an in-flight call, or fails at once.
    ///
    /// Waiting could last forever, because the call would wait until its own first reservation is settled.
    fn reserve_more(&self, usd: f64) -> Result<Reservation<'_>, String> {
        let mut state = self.state();
        if state.spent + state.reserved + usd <= self.usd + TOLERANCE {
            return Ok(self.set_aside(&mut state, usd));
        }
        let left = (self.usd - state.spent - state.reserved).max(0.0);
        Err(format!(
            "of the run's budget of {}, {} is left, and another attempt may cost up to {}",
            dollars(self.usd),
            dollars(left),
            dollars(usd)
        ))
    }

    fn set_aside(&self, state: &mut State, usd: f64) -> Reservation<'_> {
        state.reserved += usd;
        state.paying += usize::from(usd > 0.0);
        Reservation { budget: self, usd, spent: usd }
    }

    /// Returns the number of lost answers and the cost counted for them.
    ///
    /// Returns `None` without lost answers.
    pub(crate) fn lost(&self) -> Option<(u64, f64)> {
        Some(self.state().lost).filter(|it| it.0 > 0)
    }

    /// Reserves money if the budget allows it; `None` if the caller must wait for in-flight requests.
    ///
    /// Returns an error if the budget is exhausted. If no in-flight request can free money, the budget becomes
    /// exhausted.
    fn try_reserve(&self, usd: f64) -> Option<Result<Reservation<'_>, String>> {
        if let Some(reason) = self.exhausted() {
            return Some(Err(reason.to_owned()));
        }
        let mut state = self.state();
        if state.spent + state.reserved + usd <= self.usd + TOLERANCE {
            return Some(Ok(self.set_aside(&mut state, usd)));
        }
        if state.paying > 0 {
            return None;
        }
        let (budget, spent) = (dollars(self.usd), dollars(state.spent));
        let lost = match state.lost {
            (0, _) => String::new(),
            (1, usd) => {
                format!(" ({} of it counted for an attempt whose answer was lost)", dollars(usd))
            }
            (all, usd) => {
                format!(
                    " ({} of it counted for {all} attempts whose answers were lost)",
                    dollars(usd)
                )
            }
        };
        let reason = format!(
            "not sent: of the run's budget of {budget}, {spent} is spent{lost}, and the next request may cost up to {}",
            dollars(usd)
        );
        Some(Err(self.exhausted.get_or_init(|| reason).clone()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation<'_> {
    /// Settles the reservation with the actual cost, or with the reserved amount if `usd` is `None`.
    pub(crate) fn settle(mut self, usd: Option<f64>) {
        self.spent = usd.unwrap_or(self.usd);
    }

    /// Settles the reservation of a lost answer that the provider may charge for.
    ///
    /// The reserved money counts as spent.
    fn lose(self) {
        let usd = self.usd;
        if usd > 0.0 {
            let mut state = self.budget.state();
            state.lost = (state.lost.0 + 1, state.lost.1 + usd);
        }
        self.settle(Some(usd));
    }
}

impl Paid<'_> {
    /// Settles the last attempt with its actual cost, and all earlier attempts with the reserved amount.
    ///
    /// The last attempt costs the reserved amount if `usd` is `None`.
    pub(crate) fn settle(self, usd: Option<f64>) {
        self.end(|last| last.settle(usd));
    }

    /// Settles a call without an answer. Attempts that the provider may charge for count as spent.
    pub(crate) fn failed(self, err: &ProviderError) {
        self.end(|last| if err.may_be_charged() { last.lose() } else { last.settle(Some(0.0)) });
    }

    fn end(self, settle: impl FnOnce(Reservation<'_>)) {
        let lost = self.lost.into_inner().unwrap_or_else(PoisonError::into_inner);
        lost.into_iter().for_each(Reservation::lose);
        settle(self.last);
    }
}

impl AttemptBudget for Paid<'_> {
    fn reserve(&self) -> Result<(), String> {
        let more = self.budget.reserve_more(self.last.usd)?;
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).push(more);
        Ok(())
    }

    fn release(&self) {
        // All reservations of a call are equal, so any of them can be released.
        let more = self.lost.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(more) = more {
            more.settle(Some(0.0));
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.state();
        state.spent += self.spent;
        state.paying = state.paying.saturating_sub(usize::from(self.usd > 0.0));
        // Reset accumulated rounding errors: without in-flight requests, nothing is reserved.
        state.reserved = if state.paying == 0 { 0.0 } else { state.reserved - self.usd };
        self.budget.stop_if_exceeded(&state);
        drop(state);
        self.budget.settled.notify_waiters();
    }
}

/// Returns the maximum cost of a request, in US dollars.
///
/// A token has at least one byte, so the prompt has at most as many tokens as bytes. (English text has about one token
/// for four bytes.) The request limits the tokens of the answer; without a limit, [`LONGEST_ANSWER`] counts.
pub(crate) fn worst_case(prompt: &Prompt, price: &Price) -> f64 {
    let bytes = serde_json::to_vec(prompt).map_or(0, |it| it.len()) as u64;
    let parts = prompt.messages.iter().flat_map(|it| &it.parts);
    let usage = Usage {
        input_tokens: bytes + parts.map(ContentPart::reserved_tokens).sum::<u64>(),
        output_tokens: prompt.params.max_tokens.unwrap_or(LONGEST_ANSWER).into(),
        ..Usage::default()
    };
    price.cost(&usage)
}

/// Returns the maximum cost of an embedding, in US dollars. A token has at least one byte.
pub(crate) fn worst_embedding(text: &str, price: &Price) -> f64 {
    let tokens = text.len() as u64;
    price.cost(&Usage { input_tokens: tokens, ..Usage::default() })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures_util::future::join_all;
    use kindlm_types::ProviderErrorKind;
    use proptest::prelude::*;

    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(future)
    }

    proptest! {
        /// The budget holds for any reservations, costs and durations.
        ///
        /// All requests end, and no request is rejected that would fit.
        #[test]
        fn never_spends_more_than_there_is_and_everything_settles(
            usd in 0.0..10.0_f64,
            requests in prop::collection::vec((0.0..3.0_f64, 0.0..=1.0_f64, 0_u64..20, 0_u64..20), 0..40),
        ) {
            let budget = Budget::new(usd);
            let sent = AtomicUsize::new(0);
            let asked = requests.iter().map(|&(reserved, share, before, takes)| {
                let (budget, sent) = (&budget, &sent);
                async move {
                    tokio::time::sleep(Duration::from_millis(before)).await;
                    let Ok(reservation) = budget.reserve(reserved).await else { return Some(reserved) };
                    {
                        let state = budget.state();
                        assert!(state.spent + state.reserved <= usd + 1e-6);
                    }
                    sent.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(takes)).await;
                    reservation.settle(Some(reserved * share));
                    None
                }
            });
            let refused: Vec<f64> = run(join_all(asked)).into_iter().flatten().collect();
            let state = budget.state();
            prop_assert!(state.spent <= usd + 1e-6, "{} of {usd}", state.spent);
            prop_assert_eq!((state.paying, state.reserved.to_bits()), (0, 0.0_f64.to_bits()));
            prop_assert_eq!(sent.load(Ordering::Relaxed) + refused.len(), requests.len());
            if let Some(most) = refused.iter().copied().reduce(f64::max) {
                prop_assert!(state.spent + most > usd, "one that fitted was refused");
            }
        }
    }

    #[test]
    fn requests_wait_for_released_budget() {
        run(async {
            let budget = Budget::new(1.0);
            let first = budget.reserve(0.8).await.unwrap();
            let second = budget.reserve(0.5);
            tokio::pin!(second);
            let early = tokio::time::timeout(Duration::from_mins(1), second.as_mut()).await;
            assert!(early.is_err(), "it was let in beside the first");
            first.settle(Some(0.1));
            second.await.unwrap().settle(Some(0.5));
            let refused = budget.reserve(0.5).await.unwrap_err();
            assert_eq!(
                refused,
                "not sent: of the run's budget of $1.0000, $0.6000 is spent, and the next request may cost up to $0.5000"
            );
            assert_eq!(budget.reserve(0.1).await.unwrap_err(), refused, "it is over");
        });
    }

    #[test]
    fn requests_do_not_wait_for_others_without_reserve() {
        run(async {
            let budget = Budget::new(1.0);
            let unpriced = budget.reserve(0.0).await.unwrap();
            let answer = tokio::time::timeout(Duration::from_mins(1), budget.reserve(1.5)).await;
            assert!(answer.expect("it waits for what sets nothing free").is_err());
            unpriced.settle(Some(0.0));
        });
    }

    #[test]
    fn nothing_more_is_sent_once_more_is_spent_than_there_is() {
        let budget = Budget::new(1.0);
        budget.spend(1.0);
        assert_eq!(budget.exhausted(), None);
        budget.spend(0.5);
        let said = Some("not sent: the run's budget is exceeded: $1.5000 > $1.0000");
        assert_eq!(budget.exhausted(), said);
        let budget = Budget::new(1.0);
        run(budget.reserve(0.0)).unwrap().settle(Some(1.5));
        assert_eq!(budget.exhausted(), said, "an answer may tell its cost without a price");
    }

    #[test]
    fn each_attempt_is_paid_for() {
        run(async {
            let budget = Budget::new(1.0);
            let paid = budget.pay(0.3).await.unwrap();
            paid.reserve().unwrap();
            paid.reserve().unwrap();
            assert_eq!(
                paid.reserve().unwrap_err(),
                "of the run's budget of $1.0000, $0.1000 is left, and another attempt may cost up to $0.3000"
            );
            // The third attempt was answered.
            paid.settle(Some(0.05));
            assert!((budget.state().spent - 0.65).abs() < 1e-9);
            assert_eq!(budget.lost().map(|it| it.0), Some(2));
            assert_eq!(budget.state().paying, 0);
            let refused = budget.reserve(0.5).await.unwrap_err();
            assert_eq!(
                refused,
                "not sent: of the run's budget of $1.0000, $0.6500 is spent ($0.6000 of it counted for 2 attempts whose \
                 answers were lost), and the next request may cost up to $0.5000"
            );
        });
    }

    #[test]
    fn an_attempt_that_was_not_made_costs_nothing() {
        let budget = Budget::new(1.0);
        let paid = run(budget.pay(0.3)).unwrap();
        paid.reserve().unwrap();
        paid.release();
        let lost = ProviderError::new(ProviderErrorKind::Timeout, "p", "stopped after it was lost");
        paid.failed(&ProviderError { attempts: 1, ..lost });
        assert_eq!(budget.lost(), Some((1, 0.3)));
        let state = budget.state();
        assert_eq!((state.spent.to_bits(), state.paying), (0.3_f64.to_bits(), 0));
    }

    #[test]
    fn possibly_charged_requests_count_as_spent() {
        for (kind, attempts, spent) in [
            (ProviderErrorKind::Timeout, 3, 0.5),
            (ProviderErrorKind::Timeout, 0, 0.0),
            (ProviderErrorKind::MalformedResponse, 1, 0.5),
            (ProviderErrorKind::RateLimited, 3, 0.0),
            (ProviderErrorKind::Connection, 3, 0.0),
        ] {
            let budget = Budget::new(1.0);
            let err = ProviderError { attempts, ..ProviderError::new(kind, "p", "it broke") };
            run(budget.pay(0.5)).unwrap().failed(&err);
            assert_eq!(budget.state().spent.to_bits(), f64::to_bits(spent), "{kind:?}");
            let lost = (spent > 0.0).then_some((1, spent));
            assert_eq!(budget.lost(), lost, "{kind:?}");
        }
        let budget = Budget::new(1.0);
        drop(run(budget.reserve(0.5)).unwrap());
        assert_eq!(budget.state().spent.to_bits(), 0.5_f64.to_bits(), "nobody said what it cost");
    }
}
