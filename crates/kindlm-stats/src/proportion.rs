//! A share of a whole, with its interval.

use crate::{Confidence, Interval, Undefined, float};

/// A count and its total, which is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    passed: u64,
    total: u64,
}

impl Tally {
    /// So many of so many.
    pub fn new(passed: u64, total: u64) -> Result<Self, Undefined> {
        match (passed, total) {
            (_, 0) => Err(Undefined::Empty),
            (passed, total) if passed > total => Err(Undefined::MoreThanAll),
            (passed, total) => Ok(Self { passed, total }),
        }
    }

    /// The number that passed.
    pub fn passed(self) -> u64 {
        self.passed
    }

    /// Of how many.
    pub fn total(self) -> u64 {
        self.total
    }

    /// The share, from 0 to 1.
    pub fn rate(self) -> f64 {
        float(self.passed) / float(self.total)
    }

    /// The score interval of Wilson (1927), *J. Am. Stat. Assoc.* 22:209; method 3 of Newcombe (1998), *Stat. Med.*
    /// 17:857. It is honest for small counts and shares near 0 and 1, where the textbook's interval is not.
    pub fn wilson(self, confidence: Confidence) -> Interval {
        let (p, n, z) = (self.rate(), float(self.total), confidence.z());
        let square = z * z;
        let middle = p + square / (2.0 * n);
        let half = z * (p * (1.0 - p) / n + square / (4.0 * n * n)).sqrt();
        let scale = 1.0 + square / n;
        // Rounding would leave 0 of n at 1e-18, and n of n below 1.
        Interval {
            low: if self.passed == 0 { 0.0 } else { ((middle - half) / scale).max(0.0) },
            high: if self.passed == self.total { 1.0 } else { ((middle + half) / scale).min(1.0) },
        }
    }
}
