//! A pass rate of outputs that were drawn with different probabilities.

use crate::proportion::wilson;
use crate::{Confidence, Interval, float};

/// The passed and failed outputs of samples, with their sampling weights.
///
/// The sampling weight is the inverse of the probability with which an output was drawn. If 1 of 10 outputs was drawn,
/// the weight is 10. The weighted rate estimates the rate of all outputs (Hájek's estimate).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WeightedTally {
    passed: f64,
    total: f64,
    /// The sum of the squares of the weights.
    squares: f64,
}

impl WeightedTally {
    /// Adds outputs with the same weight, which must be above 0 and finite. With any other weight, no output is added.
    pub fn add(&mut self, passed: u64, failed: u64, weight: f64) {
        if !(weight.is_finite() && weight > 0.0) {
            return;
        }
        let total = float(passed) + float(failed);
        self.passed += float(passed) * weight;
        self.total += total * weight;
        self.squares += total * weight * weight;
    }

    /// Adds the outputs of another tally.
    pub fn add_all(&mut self, other: Self) {
        self.passed += other.passed;
        self.total += other.total;
        self.squares += other.squares;
    }

    /// Returns the sum of the weights of the passed outputs.
    pub fn passed(self) -> f64 {
        self.passed
    }

    /// Returns the sum of all weights.
    pub fn total(self) -> f64 {
        self.total
    }

    /// Returns the share of passed outputs, from 0 to 1; `None` without outputs.
    pub fn rate(self) -> Option<f64> {
        (self.total > 0.0).then(|| (self.passed / self.total).clamp(0.0, 1.0))
    }

    /// Returns Wilson's interval of the rate; `None` without outputs.
    ///
    /// The formula uses Kish's effective sample size (1965), *Survey Sampling*: the number of outputs if all weights
    /// are equal, otherwise a smaller number.
    pub fn wilson(self, confidence: Confidence) -> Option<Interval> {
        let size = self.total * self.total / self.squares;
        self.rate().map(|rate| wilson(rate, size, confidence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tally;

    #[test]
    fn equal_weights_give_the_plain_interval() {
        for weight in [1.0, 10.0, 1.0 / 3.0] {
            let mut weighted = WeightedTally::default();
            weighted.add(3, 1, weight);
            weighted.add(4, 2, weight);
            let plain = Tally::new(7, 10).unwrap().wilson(Confidence::P95);
            let found = weighted.wilson(Confidence::P95).unwrap();
            assert!((found.low - plain.low).abs() < 1e-9 && (found.high - plain.high).abs() < 1e-9);
            assert!((weighted.rate().unwrap() - 0.7).abs() < 1e-12);
        }
    }

    #[test]
    fn rare_strata_count_by_their_weight() {
        // From one stratum, 90 of 900 outputs were drawn. From the other, all 100 outputs were drawn.
        let mut tally = WeightedTally::default();
        tally.add(90, 0, 10.0);
        tally.add(0, 100, 1.0);
        assert!((tally.rate().unwrap() - 0.9).abs() < 1e-12);
        let wide = tally.wilson(Confidence::P95).unwrap();
        let plain = Tally::new(171, 190).unwrap().wilson(Confidence::P95);
        assert!(wide.high - wide.low > plain.high - plain.low);
        assert_eq!(WeightedTally::default().rate(), None);
        let mut nothing = WeightedTally::default();
        nothing.add(1, 1, 0.0);
        nothing.add(1, 1, f64::NAN);
        assert_eq!(nothing.wilson(Confidence::P95), None);
    }
}
