//! Rules that end the repeats of a case early.

use kindlm_stats::{Decision, Sprt, Tally};
use kindlm_types::{CaseResult, EarlyEnd, FailureCode, Outcome, RateTest};

use crate::aggregate::TOLERANCE;

/// The rule that ends the repeats of a case before their maximum number.
///
/// Only judged repeats count. An errored repeat makes the case errored, as with a fixed number of repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Until {
    /// The repeats end when no further repeat can change the verdict.
    Settled,
    /// The repeats end when this sequential test has decided. Without a decision at the maximum number of repeats, the
    /// case is undecided and does not pass.
    Decided(Sprt),
}

/// The rule of a case, with the numbers that it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    until: Until,
    /// The maximum number of repeats.
    max: usize,
    /// The minimum share of repeats that must pass, from 0 to 1.
    pass_rate_min: f64,
}

/// The numbers of repeats so far.
#[derive(Clone, Copy, Debug)]
struct Counts {
    held: u64,
    failed: u64,
    /// The number of repeats that may follow.
    left: u64,
}

impl Ending {
    /// Creates the rule of a case with at most `max` repeats. `pass_rate_min` is the share of repeats that must pass.
    pub(crate) fn new(until: Until, max: usize, pass_rate_min: f64) -> Self {
        Self { until, max, pass_rate_min }
    }

    /// Returns the number of repeats to carry out next, at most `most`; 0 if the repeats have ended.
    ///
    /// All of these repeats are needed, whatever their outcomes are. So `most` does not change the total number of
    /// repeats.
    pub(crate) fn next(&self, outcomes: &[Outcome], most: usize) -> usize {
        let Counts { held, failed, left } = self.counts(outcomes);
        if left == 0 || self.decision(outcomes).is_some() {
            return 0;
        }
        let ends = |more: u64| {
            let left = left - more;
            self.decide(Counts { held: held + more, failed, left }).is_some()
                || self.decide(Counts { held, failed: failed + more, left }).is_some()
        };
        let most = left.min(most.max(1) as u64);
        let next = (1..most).find(|more| ends(*more)).unwrap_or(most);
        usize::try_from(next).unwrap_or(usize::MAX)
    }

    /// Returns the decision of these repeats, in their order; `None` if there is no decision yet.
    fn decision(&self, outcomes: &[Outcome]) -> Option<Decision> {
        if self.until == Until::Settled {
            return self.decide(self.counts(outcomes));
        }
        // The first decision is final, even if more repeats were already carried out.
        let mut counts = self.counts(&[]);
        outcomes.iter().find_map(|it| {
            counts.held += u64::from(it.held());
            counts.failed += u64::from(*it == Outcome::Failed);
            self.decide(counts)
        })
    }

    fn counts(&self, outcomes: &[Outcome]) -> Counts {
        Counts {
            held: outcomes.iter().filter(|it| it.held()).count() as u64,
            failed: outcomes.iter().filter(|it| **it == Outcome::Failed).count() as u64,
            left: self.max.saturating_sub(outcomes.len()) as u64,
        }
    }

    fn decide(&self, Counts { held, failed, left }: Counts) -> Option<Decision> {
        // Without a judged repeat, the case is skipped or errored.
        let now = Tally::new(held, held + failed).ok()?;
        match self.until {
            Until::Decided(test) => test.decide(held, failed),
            Until::Settled => {
                let all = now.total() + left;
                let holds = |held| {
                    Tally::new(held, all)
                        .is_ok_and(|it| it.rate() + TOLERANCE >= self.pass_rate_min)
                };
                // The rate is lowest if all further repeats fail, and highest if all of them pass.
                match (holds(held), holds(held + left)) {
                    (true, _) => Some(Decision::Pass),
                    (false, true) => None,
                    (false, false) => Some(Decision::Fail),
                }
            }
        }
    }

    /// Sets the rule and its decision in a case. [`Until::Decided`] also sets the outcome.
    pub(crate) fn conclude(&self, case: &mut CaseResult) {
        let outcomes: Vec<Outcome> = case.executions.iter().map(|it| it.outcome).collect();
        let decision = self.decision(&outcomes);
        let test = match self.until {
            Until::Settled => None,
            Until::Decided(test) => Some(RateTest {
                pass: test.pass(),
                fail: test.fail(),
                alpha: test.alpha(),
                beta: test.beta(),
            }),
        };
        let max = u32::try_from(self.max).unwrap_or(u32::MAX);
        case.early_end = Some(EarlyEnd { max, test, decision });
        if test.is_none() || matches!(case.outcome, Outcome::Errored | Outcome::Skipped) {
            return;
        }
        case.outcome = match decision {
            Some(Decision::Pass) if case.repeat_counts().scored > 0 => Outcome::Scored,
            Some(Decision::Pass) => Outcome::Passed,
            Some(Decision::Fail) | None => Outcome::Failed,
        };
        if decision.is_none() {
            case.failure_codes.push(FailureCode::UNDECIDED);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ending(until: Until, max: usize, pass_rate_min: f64) -> Ending {
        Ending { until, max, pass_rate_min }
    }

    fn decided() -> Until {
        Until::Decided(Sprt::new(0.8, 0.95, 0.05, 0.05).unwrap())
    }

    /// Returns the outcomes of a text such as `pfe`.
    fn outcomes(text: &str) -> Vec<Outcome> {
        let of = |it| match it {
            'p' => Outcome::Passed,
            's' => Outcome::Scored,
            'f' => Outcome::Failed,
            'e' => Outcome::Errored,
            _ => Outcome::Skipped,
        };
        text.chars().map(of).collect()
    }

    /// Carries out the repeats of `all` in waves; returns the number of repeats and the decision.
    fn carried_out(ending: Ending, all: &[Outcome], most: usize) -> (usize, Option<Decision>) {
        let mut done = 0;
        loop {
            match ending.next(&all[..done], most) {
                0 => return (done, ending.decision(&all[..done])),
                more => done += more,
            }
        }
    }

    #[test]
    fn repeats_end_with_the_decision() {
        let pass = Some(Decision::Pass);
        let fail = Some(Decision::Fail);
        for (until, max, min, text, repeats, decision) in [
            (Until::Settled, 5, 1.0, "pfppp", 2, fail),
            (Until::Settled, 5, 1.0, "ppppp", 5, pass),
            (Until::Settled, 5, 0.6, "ppppp", 3, pass),
            (Until::Settled, 5, 0.6, "ffpff", 4, fail),
            // A rate of 0 holds always, but a case without a judged repeat has no rate.
            (Until::Settled, 5, 0.0, "-fppp", 2, pass),
            // One of the five repeats cannot be judged, so the rate is over four.
            (Until::Settled, 5, 0.75, "-ppfp", 5, pass),
            (Until::Settled, 2, 1.0, "--", 2, None),
            (decided(), 60, 1.0, &"p".repeat(60), 18, pass),
            (decided(), 60, 1.0, &"f".repeat(60), 3, fail),
            (decided(), 60, 1.0, &"eefff".repeat(20), 5, fail),
            (decided(), 10, 1.0, "pppppppppp", 10, None),
        ] {
            let found = carried_out(ending(until, max, min), &outcomes(text), 4);
            assert_eq!(found, (repeats, decision), "{until:?} {text}");
        }
    }

    #[test]
    fn several_repeats_are_sent_at_once_if_all_are_needed() {
        for (until, min, most, text, expected) in [
            (decided(), 1.0, 4, "", 3),
            (decided(), 1.0, 2, "", 2),
            (decided(), 1.0, 0, "", 1),
            (decided(), 1.0, 4, "ffp", 1),
            (Until::Settled, 1.0, 4, "", 1),
            (Until::Settled, 0.5, 4, "", 4),
        ] {
            let found = ending(until, 20, min).next(&outcomes(text), most);
            assert_eq!(found, expected, "{until:?} {text:?} {most}");
        }
    }

    proptest! {
        #[test]
        fn the_concurrency_does_not_change_the_repeats(
            text in "[pppppfse-]{60}",
            most in 2_usize..30,
            min in 0.0..=1.0_f64,
            is_test in any::<bool>(),
        ) {
            let all = outcomes(&text);
            let until = if is_test { decided() } else { Until::Settled };
            let ending = ending(until, all.len(), min);
            prop_assert_eq!(carried_out(ending, &all, most), carried_out(ending, &all, 1));
        }

        #[test]
        fn a_settled_verdict_is_that_of_all_repeats(
            text in "[pppppfs-]{1,40}",
            min in 0.0..=1.0_f64,
        ) {
            let all = outcomes(&text);
            let ending = ending(Until::Settled, all.len(), min);
            let (_, decision) = carried_out(ending, &all, 4);
            prop_assert_eq!(decision, ending.decision(&all));
        }
    }
}
