//! Quantiles of many measurements in constant memory.

use hdrhistogram::Histogram;

/// The significant decimal digits of a quantile.
const DIGITS: u8 = 3;

/// The factor that converts a measurement to a whole number for the histogram.
///
/// The factor keeps small values distinct: the cost of one request in dollars has up to six decimals.
const STEPS: f64 = 1e9;

/// The distribution of non-negative measurements, with quantiles to three significant digits.
///
/// The measurements may be added in any order. The memory does not depend on their number.
///
/// ```
/// let mut latencies = kindlm_stats::Quantiles::default();
/// [120.0, 80.0, 95.0, 2_400.0].into_iter().for_each(|it| latencies.add(it));
/// assert_eq!(latencies.quantile(0.5), Some(95.0));
/// assert_eq!(latencies.quantile(0.95), Some(2_400.0));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Quantiles {
    counts: Option<Histogram<u32>>,
}

impl Quantiles {
    /// Adds a measurement. Negative numbers and NaN are ignored.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` limits a number to the range of u64, and negative numbers are excluded"
    )]
    pub fn add(&mut self, value: f64) {
        if value.is_nan() || value < 0.0 {
            return;
        }
        if self.counts.is_none() {
            self.counts = Histogram::new(DIGITS).ok();
        }
        if let Some(counts) = &mut self.counts {
            // An error would mean that there is no memory for a larger range. Then the value counts as the largest
            // value of the current range.
            let value = (value * STEPS).round() as u64;
            if counts.record(value).is_err() {
                counts.saturating_record(value);
            }
        }
    }

    /// Returns the number of measurements.
    pub fn len(&self) -> u64 {
        self.counts.as_ref().map_or(0, Histogram::len)
    }

    /// Returns true if there are no measurements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the quantile at `share` (0 to 1) by the nearest-rank method, to three significant digits.
    ///
    /// Returns `None` without measurements.
    #[expect(clippy::cast_precision_loss, reason = "only three digits are shown")]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let counts = self.counts.as_ref().filter(|it| !it.is_empty())?;
        let value = counts.value_at_quantile(share.clamp(0.0, 1.0));
        Some(rounded(value as f64 / STEPS))
    }

    /// Returns the counts of a histogram: `number` bins of equal width from 0 to `end`, which is above 0. The last bin
    /// also has all larger measurements.
    ///
    /// ```
    /// let mut latencies = kindlm_stats::Quantiles::default();
    /// [10.0, 30.0, 40.0, 99.0, 500.0].into_iter().for_each(|it| latencies.add(it));
    /// assert_eq!(latencies.bins(100.0, 4), [1, 2, 0, 2]);
    /// ```
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "`as` limits a number to the range of usize, and numbers of ranges are small"
    )]
    pub fn bins(&self, end: f64, number: usize) -> Vec<u64> {
        let mut bins = vec![0; number];
        for it in self.counts.iter().flat_map(Histogram::iter_recorded) {
            let value = it.value_iterated_to() as f64 / STEPS;
            let at = (value / end * number as f64) as usize;
            if let Some(bin) = bins.get_mut(at.min(number.saturating_sub(1))) {
                *bin += u64::from(it.count_at_value());
            }
        }
        bins
    }
}

/// Rounds a number to [`DIGITS`] significant digits.
fn rounded(value: f64) -> f64 {
    let text = format!("{value:.*e}", usize::from(DIGITS) - 1);
    text.parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantiles_are_near_the_sorted_values(
            values in proptest::collection::vec(0.0..1e6_f64, 1..200),
            share in 0.0..=1.0_f64,
        ) {
            let mut quantiles = Quantiles::default();
            for it in &values {
                quantiles.add(*it);
            }
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "a rank is a small positive number"
            )]
            let rank = ((share * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
            let expected = sorted[rank - 1];
            let found = quantiles.quantile(share).unwrap();
            prop_assert!((found - expected).abs() <= expected * 0.01 + 1e-8, "{found} {expected}");
        }
    }

    #[test]
    fn small_amounts_and_odd_numbers() {
        let mut costs = Quantiles::default();
        for it in [0.000_012, f64::NAN, -1.0, 0.0] {
            costs.add(it);
        }
        assert_eq!(costs.len(), 2);
        assert_eq!((costs.quantile(0.5), costs.quantile(1.0)), (Some(0.0), Some(0.000_012)));
        assert_eq!(Quantiles::default().quantile(0.5), None);
    }
}
