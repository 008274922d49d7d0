//! A proportion with its confidence interval.

use crate::{Confidence, Interval, Undefined, float};

/// The number of passed outputs, and the number of all outputs, which is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    passed: u64,
    total: u64,
}

impl Tally {
    /// Creates a tally of `passed` among `total` outputs. Fails if `total` is 0, or less than `passed`.
    pub fn new(passed: u64, total: u64) -> Result<Self, Undefined> {
        match (passed, total) {
            (_, 0) => Err(Undefined::Empty),
            (passed, total) if passed > total => Err(Undefined::MoreThanAll),
            (passed, total) => Ok(Self { passed, total }),
        }
    }

    /// Returns the number of passed outputs.
    pub fn passed(self) -> u64 {
        self.passed
    }

    /// Returns the number of all outputs.
    pub fn total(self) -> u64 {
        self.total
    }

    /// Returns the share, from 0 to 1.
    pub fn rate(self) -> f64 {
        float(self.passed) / float(self.total)
    }

    /// Returns Wilson's score interval (1927), *J. Am. Stat. Assoc.* 22:209; method 3 of Newcombe (1998), *Stat. Med.*
    /// 17:857.
    ///
    /// Unlike the textbook interval (Wald's), Wilson's is reliable for small counts and for shares near 0 and 1.
    pub fn wilson(self, confidence: Confidence) -> Interval {
        wilson(self.rate(), float(self.total), confidence)
    }

    /// Returns the lowest number of outputs with which the lower end of [`wilson`](Self::wilson) reaches `low`, if all
    /// outputs pass.
    ///
    /// Returns `None` if `low` is not below 1, or if more than 2⁵³ outputs are needed.
    pub fn needed_passes(low: f64, confidence: Confidence) -> Option<u64> {
        // If all of n outputs pass, the lower end is n / (n + z²).
        let square = confidence.z() * confidence.z();
        let needed = (low * square / (1.0 - low) - 1e-6).ceil().max(1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the number is from 1 to 2^53"
        )]
        (low < 1.0 && needed <= 9_007_199_254_740_992.0).then_some(needed as u64)
    }
}

/// Returns Wilson's interval of the share `p` (0 to 1) of `n` outputs. `n` need not be a whole number.
pub(crate) fn wilson(p: f64, n: f64, confidence: Confidence) -> Interval {
    let z = confidence.z();
    let square = z * z;
    let middle = p + square / (2.0 * n);
    let half = z * (p * (1.0 - p) / n + square / (4.0 * n * n)).sqrt();
    let scale = 1.0 + square / n;
    // Return exactly 0 and 1 at the ends, where rounding would give slightly different values.
    Interval {
        low: if p <= 0.0 { 0.0 } else { ((middle - half) / scale).max(0.0) },
        high: if p >= 1.0 { 1.0 } else { ((middle + half) / scale).min(1.0) },
    }
}
