//! The confidence sequence of a proportion: intervals that stay valid if the data decides when to stop.

use crate::{Confidence, Interval, Tally, float};

/// The number of bisection steps for a bound. This number reaches the precision of an `f64`.
const HALVINGS: u32 = 60;

impl Tally {
    /// Returns an interval of the share that is valid for every stopping rule.
    ///
    /// For example, the count may end as soon as the interval is narrow enough. Each output gives a new interval. The
    /// probability that all these intervals contain the true rate is at least the confidence level. Other intervals are
    /// too narrow if the outputs decide when to stop.
    ///
    /// The interval is the confidence sequence of the beta-binomial mixture with a = b = 1/2. For k passes in n outputs
    /// and the level 1 − α, the interval contains the rates `p` with `B(a + k, b + n − k) / (B(a, b) pᵏ (1 − p)ⁿ⁻ᵏ) <
    /// 1 / α` (Robbins 1970, *Ann. Math. Stat.* 41:1397; Howard et al. 2021, *Ann. Stat.* 49:1055).
    pub fn anytime(self, confidence: Confidence) -> Interval {
        let (passed, failed) = (self.passed(), self.total() - self.passed());
        let limit = -(1.0 - confidence.level()).ln();
        let mixture = mixture(passed, failed);
        let is_excluded = |rate: f64| {
            let of =
                |count: u64, share: f64| if count == 0 { 0.0 } else { float(count) * share.ln() };
            mixture - of(passed, rate) - of(failed, 1.0 - rate) >= limit
        };
        Interval {
            low: if passed == 0 { 0.0 } else { bound(0.0, self.rate(), is_excluded) },
            high: if failed == 0 { 1.0 } else { bound(1.0, self.rate(), is_excluded) },
        }
    }
}

/// Returns the logarithm of `B(1/2 + k, 1/2 + m) / B(1/2, 1/2)`.
fn mixture(passed: u64, failed: u64) -> f64 {
    let steps = |count: u64| (0..count).map(|it| (float(it) + 0.5).ln()).sum::<f64>();
    let all = (1..=passed + failed).map(|it| float(it).ln()).sum::<f64>();
    steps(passed) + steps(failed) - all
}

/// Finds the rate at which `is_excluded` changes, by bisection between an excluded and an included rate.
fn bound(excluded: f64, included: f64, is_excluded: impl Fn(f64) -> bool) -> f64 {
    let (mut excluded, mut included) = (excluded, included);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(excluded, included);
        if is_excluded(middle) {
            excluded = middle;
        } else {
            included = middle;
        }
    }
    included
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn intervals_equal_the_published_vectors() {
        for (passed, total, low, high) in [
            (8, 10, 0.342_479, 0.990_606),
            (80, 100, 0.648_358, 0.908_978),
            (10, 10, 0.623_013, 1.0),
            (95, 100, 0.844_206, 0.992_851),
        ] {
            let found = Tally::new(passed, total).unwrap().anytime(Confidence::P95);
            assert!((found.low - low).abs() < 1e-6, "{found:?}");
            assert!((found.high - high).abs() < 1e-6, "{found:?}");
        }
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_share_and_is_wider_than_wilson(
            total in 1_u64..400,
            share in 0.0..=1.0_f64,
        ) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of a small total"
            )]
            let passed = (share * float(total)) as u64;
            let tally = Tally::new(passed, total).unwrap();
            let (found, narrow) = (tally.anytime(Confidence::P95), tally.wilson(Confidence::P95));
            prop_assert!(found.low <= tally.rate() && tally.rate() <= found.high, "{found:?}");
            prop_assert!(found.high - found.low + 1e-9 >= narrow.high - narrow.low, "{found:?}");
        }
    }
}
