//! A sequential test of a pass rate.

use crate::{Undefined, float};

/// The tolerance for comparing the evidence with a bound.
const TOLERANCE: f64 = 1e-9;

/// Wald's sequential probability ratio test of a pass rate (1945), *Ann. Math. Stat.* 16:117.
///
/// After each repeat, the test compares two hypotheses: the true pass rate is `pass`, or it is `fail`. The test ends as
/// soon as the evidence suffices. The evidence is the sum of the logarithms of the likelihood ratios of all repeats.
///
/// ```
/// use kindlm_stats::{Decision, Sprt};
///
/// let test = Sprt::new(0.80, 0.95, 0.05, 0.05)?;
/// assert_eq!(test.decide(18, 0), Some(Decision::Pass));
/// assert_eq!(test.decide(0, 3), Some(Decision::Fail));
/// assert_eq!(test.decide(17, 0), None);
/// # Ok::<(), kindlm_stats::Undefined>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sprt {
    fail: f64,
    pass: f64,
    alpha: f64,
    beta: f64,
    /// The evidence of one pass; above 0.
    up: f64,
    /// The evidence of one failure; below 0.
    down: f64,
    accept: f64,
    reject: f64,
}

/// The decision of a sequential test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The pass rate is high enough.
    Pass,
    /// The pass rate is too low.
    Fail,
}

/// The exact probability of each decision of a sequential test with a maximum number of repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Characteristics {
    /// The probability of [`Decision::Pass`].
    pub pass: f64,
    /// The probability of [`Decision::Fail`].
    pub fail: f64,
    /// The probability of no decision.
    pub undecided: f64,
    /// The expected number of repeats until the decision or the maximum.
    pub mean_repeats: f64,
}

impl Sprt {
    /// Creates a test of a pass rate of at most `fail` against a pass rate of at least `pass`.
    ///
    /// `alpha` is the nominal probability of a wrong pass at the rate `fail`. `beta` is the nominal probability of a
    /// wrong failure at the rate `pass`. The thresholds are Wald's approximations. So the true probabilities are at
    /// most `alpha / (1 - beta)` and `beta / (1 - alpha)`: 5.3% with 0.05 for both (Wald 1945, *Ann. Math. Stat.*
    /// 16:117, section 3.2).
    ///
    /// Fails unless `0 < fail < pass < 1`, and both probabilities are above 0 and below 0.5.
    pub fn new(fail: f64, pass: f64, alpha: f64, beta: f64) -> Result<Self, Undefined> {
        let is_limit = |it: f64| it > 0.0 && it < 0.5;
        if !(fail > 0.0 && fail < pass && pass < 1.0 && is_limit(alpha) && is_limit(beta)) {
            return Err(Undefined::OutOfRange);
        }
        Ok(Self {
            fail,
            pass,
            alpha,
            beta,
            up: (pass / fail).ln(),
            down: ((1.0 - pass) / (1.0 - fail)).ln(),
            accept: ((1.0 - beta) / alpha).ln(),
            reject: (beta / (1.0 - alpha)).ln(),
        })
    }

    /// Returns the pass rate that counts as too low.
    pub fn fail(&self) -> f64 {
        self.fail
    }

    /// Returns the pass rate that counts as high enough.
    pub fn pass(&self) -> f64 {
        self.pass
    }

    /// Returns the nominal probability of a wrong pass.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Returns the nominal probability of a wrong failure.
    pub fn beta(&self) -> f64 {
        self.beta
    }

    /// Returns the decision after these repeats; `None` if the evidence does not suffice yet.
    pub fn decide(&self, passed: u64, failed: u64) -> Option<Decision> {
        let evidence = float(passed) * self.up + float(failed) * self.down;
        if evidence >= self.accept - TOLERANCE {
            Some(Decision::Pass)
        } else if evidence <= self.reject + TOLERANCE {
            Some(Decision::Fail)
        } else {
            None
        }
    }

    /// Returns the exact probabilities of the decisions at a true pass rate (0 to 1) with at most `max` repeats.
    pub fn characteristics(&self, rate: f64, max: u32) -> Characteristics {
        let mut walk = Walk::new(self, rate);
        (0..max).for_each(|_| walk.step());
        walk.found()
    }

    /// Returns the smallest maximum number of repeats with which at most the share `undecided` (0 to 1) of the cases
    /// stays undecided.
    ///
    /// The maximum is sufficient for both true pass rates, `fail` and `pass`. Returns `None` if more than `limit`
    /// repeats are necessary.
    pub fn smallest_max(&self, undecided: f64, limit: u32) -> Option<u32> {
        let (mut low, mut high) = (Walk::new(self, self.fail), Walk::new(self, self.pass));
        (1..=limit).find(|_| {
            low.step();
            high.step();
            low.undecided() <= undecided && high.undecided() <= undecided
        })
    }

    /// Returns the smallest fixed number of repeats with at most the error rates `alpha` and `beta`, and the required
    /// number of passes.
    ///
    /// Returns `None` if more than `limit` repeats are necessary.
    pub fn fixed_design(&self, limit: u32) -> Option<(u32, u32)> {
        (1..=limit).find_map(|repeats| {
            let tails = |rate: f64| upper_tails(repeats, rate);
            let least = tails(self.fail).iter().position(|it| *it <= self.alpha)?;
            let power = tails(self.pass).get(least).copied()?;
            (1.0 - power <= self.beta).then(|| Some((repeats, u32::try_from(least).ok()?)))?
        })
    }
}

/// Returns the probabilities of at least 0, 1, 2, … passes in this number of repeats.
fn upper_tails(repeats: u32, rate: f64) -> Vec<f64> {
    let mut exact = vec![0.0; repeats as usize + 1];
    exact[0] = 1.0;
    for _ in 0..repeats {
        for at in (0..exact.len()).rev() {
            let before = if at == 0 { 0.0 } else { exact[at - 1] };
            exact[at] = exact[at] * (1.0 - rate) + before * rate;
        }
    }
    let mut sum = 0.0;
    for it in exact.iter_mut().rev() {
        sum += *it;
        *it = sum;
    }
    exact
}

/// The probabilities of all states of a test after some repeats.
struct Walk<'a> {
    test: &'a Sprt,
    rate: f64,
    repeats: u64,
    /// The number of passes in the first state of `open`, which has the fewest passes.
    first: u64,
    /// The probabilities of the states without a decision, by the number of passes.
    open: Vec<f64>,
    pass: f64,
    fail: f64,
    mean_repeats: f64,
}

impl<'a> Walk<'a> {
    fn new(test: &'a Sprt, rate: f64) -> Self {
        let (pass, fail, mean_repeats) = (0.0, 0.0, 0.0);
        Self { test, rate, repeats: 0, first: 0, open: vec![1.0], pass, fail, mean_repeats }
    }

    fn undecided(&self) -> f64 {
        self.open.iter().sum()
    }

    /// Adds one repeat.
    fn step(&mut self) {
        self.mean_repeats += self.undecided();
        self.repeats += 1;
        self.open.push(0.0);
        for at in (0..self.open.len()).rev() {
            let before = if at == 0 { 0.0 } else { self.open[at - 1] };
            self.open[at] = self.open[at] * (1.0 - self.rate) + before * self.rate;
        }
        for (passed, share) in (self.first..).zip(&mut self.open) {
            // Every state has at most one pass for each repeat.
            let failed = self.repeats.saturating_sub(passed);
            let decided = match self.test.decide(passed, failed) {
                Some(Decision::Pass) => &mut self.pass,
                Some(Decision::Fail) => &mut self.fail,
                None => continue,
            };
            *decided += std::mem::take(share);
        }
        while self.open.last() == Some(&0.0) {
            self.open.pop();
        }
        let ended = self.open.iter().take_while(|it| **it == 0.0).count();
        self.open.drain(..ended);
        self.first += ended as u64;
    }

    fn found(&self) -> Characteristics {
        Characteristics {
            pass: self.pass,
            fail: self.fail,
            undecided: self.undecided(),
            mean_repeats: self.mean_repeats,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(fail: f64, pass: f64) -> Sprt {
        Sprt::new(fail, pass, 0.05, 0.05).unwrap()
    }

    #[test]
    fn the_bounds_are_those_of_wald() {
        let test = test(0.8, 0.95);
        for (found, expected) in [
            (test.accept, 2.944_439),
            (test.reject, -2.944_439),
            (test.up, 0.171_850),
            (test.down, -1.386_294),
        ] {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn invalid_rates_are_errors() {
        for (fail, pass, alpha, beta) in [
            (0.95, 0.8, 0.05, 0.05),
            (0.8, 0.8, 0.05, 0.05),
            (0.0, 0.8, 0.05, 0.05),
            (0.8, 1.0, 0.05, 0.05),
            (0.8, 0.95, 0.0, 0.05),
            (0.8, 0.95, 0.05, 0.5),
            (f64::NAN, 0.95, 0.05, 0.05),
        ] {
            assert_eq!(Sprt::new(fail, pass, alpha, beta), Err(Undefined::OutOfRange));
        }
    }

    #[test]
    fn exact_probabilities() {
        // The expected values come from an independent program.
        for (fail, pass, rate, max, undecided, mean) in [
            (0.8, 0.95, 0.95, 20, 0.583, None),
            (0.8, 0.95, 0.95, 60, 0.069_190, Some(29.452_18)),
            (0.8, 0.95, 0.80, 60, 0.044_498, Some(21.825_26)),
            (0.8, 0.95, 0.50, 60, 0.0, Some(6.113_447)),
            (0.5, 0.90, 0.90, 20, 0.016, None),
            (0.7, 0.95, 0.95, 20, 0.155_461, None),
        ] {
            let found = test(fail, pass).characteristics(rate, max);
            assert!((found.undecided - undecided).abs() < 6e-4, "{found:?}");
            assert!((found.pass + found.fail + found.undecided - 1.0).abs() < 1e-9, "{found:?}");
            if let Some(mean) = mean {
                assert!((found.mean_repeats - mean).abs() < 1e-4, "{found:?}");
            }
        }
        let wrong = test(0.8, 0.95).characteristics(0.8, 60).pass;
        assert!((wrong - 0.041_312).abs() < 1e-6, "{wrong}");
        let wrong = test(0.8, 0.95).characteristics(0.95, 60).fail;
        assert!((wrong - 0.030_873).abs() < 1e-6, "{wrong}");
    }

    #[test]
    fn maximum_and_fixed_design() {
        let found = |fail, pass| {
            let test = test(fail, pass);
            (test.smallest_max(0.1, 1_000), test.fixed_design(1_000).map(|it| it.0))
        };
        assert_eq!(found(0.8, 0.95), (Some(54), Some(50)));
        assert_eq!(found(0.7, 0.95).0, Some(24));
        assert_eq!(found(0.5, 0.90).0, Some(13));
        assert_eq!(test(0.8, 0.95).smallest_max(0.1, 53), None);
    }
}
