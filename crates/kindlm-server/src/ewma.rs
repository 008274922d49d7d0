//! Exponentially weighted pass rates: [`WeightedRate`].

use kindlm_stats::WeightedTally;

/// The passed and decided (passed or failed) results so far. Older results count less.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeightedRate {
    /// The half-life of the weight of a result, in milliseconds.
    half_life: f64,
    passed: f64,
    decided: f64,
    /// The start of the last period, in milliseconds since 1970.
    last: i64,
}

impl WeightedRate {
    /// Creates the rate of no results. `half_life` is in milliseconds.
    pub(crate) fn new(half_life: f64) -> Self {
        Self { half_life, passed: 0.0, decided: 0.0, last: i64::MIN }
    }

    /// Adds the results of a period, and returns the new rate. `start` is the start of the period, in milliseconds
    /// since 1970. Periods must be added in the order of their starts.
    ///
    /// Returns `None` while no result was decided.
    #[expect(clippy::cast_precision_loss, reason = "durations are far below 2^52")]
    pub(crate) fn add(&mut self, start: i64, results: WeightedTally) -> Option<f64> {
        let age = start.saturating_sub(self.last).max(0) as f64;
        let weight = 0.5_f64.powf(age / self.half_life);
        self.passed = self.passed * weight + results.passed();
        self.decided = self.decided * weight + results.total();
        self.last = start;
        (self.decided > 0.0).then(|| self.passed / self.decided)
    }
}

/// Returns the half-life for periods of this width. Both values are in milliseconds.
pub(crate) fn half_life(period: i64) -> f64 {
    const HOUR: i64 = 60 * 60 * 1000;
    let hours = match period {
        ..=HOUR => 12,
        it if it <= 24 * HOUR => 7 * 24,
        _ => 4 * 7 * 24,
    };
    f64::from(hours) * 3_600_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64) -> WeightedTally {
        let mut results = WeightedTally::default();
        results.add(passed, failed, 1.0);
        results
    }

    #[test]
    fn results_of_one_half_life_ago_count_half() {
        let mut rate = WeightedRate::new(10.0);
        for (start, counts, expected) in [
            (0, counts(0, 0), None),
            (5, counts(8, 0), Some(1.0)),
            // The earlier 8 of 8 count half: 4 of 4. With the new 0 of 4, the sum is 4 of 8.
            (15, counts(0, 4), Some(0.5)),
            // Without new results, the rate stays.
            (25, counts(0, 0), Some(0.5)),
            // Of the 4 of 8, half is left: 2 of 4. With the new 4 of 4, the sum is 6 of 8.
            (25, counts(4, 0), Some(6.0 / 8.0)),
        ] {
            let found = rate.add(start, counts);
            assert_eq!(found.is_some(), expected.is_some(), "{start}");
            let difference = found.unwrap_or(0.0) - expected.unwrap_or(0.0);
            assert!(difference.abs() < 1e-12, "{start}: {found:?}");
        }
    }

    #[test]
    fn half_life_grows_with_the_period() {
        const HOUR: i64 = 60 * 60 * 1000;
        let hours = [HOUR, 24 * HOUR, 7 * 24 * HOUR].map(|it| half_life(it) / 3_600_000.0);
        assert!(
            hours
                .iter()
                .zip([12.0, 168.0, 672.0])
                .all(|(it, expected)| (it - expected).abs() < 1e-9)
        );
    }
}
