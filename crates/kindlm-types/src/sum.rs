//! Sums that do not depend on the order of their terms.

/// An exact sum of numbers, which is rounded once at the end.
///
/// The cases of a run finish in any order, but no digit of their total cost may depend on the order. A plain sum of
/// doubles depends on the order: 0.1 + 0.2 + 0.3 differs from 0.3 + 0.2 + 0.1.
///
/// The sum is stored as several non-overlapping numbers, rarely more than four: the rounded sum, and the rounding
/// errors of the additions. The algorithm is "grow expansion" from J. R. Shewchuk, *Adaptive Precision Floating-Point
/// Arithmetic and Fast Robust Geometric Predicates*, 1997.
///
/// ```
/// use kindlm_types::ExactSum;
///
/// let there: ExactSum = [0.1, 0.2, 0.3].into_iter().collect();
/// let back: ExactSum = [0.3, 0.2, 0.1].into_iter().collect();
/// assert_eq!(there.value(), back.value());
/// ```
#[derive(Clone, Debug, Default)]
pub struct ExactSum {
    /// The non-overlapping parts of the sum, from small to large.
    parts: Vec<f64>,
    /// The sum of infinite and NaN terms, and of sums that overflowed; else 0.
    special: f64,
}

impl ExactSum {
    /// Adds one number.
    pub fn add(&mut self, value: f64) {
        let mut value = value;
        let mut kept = 0;
        for at in 0..self.parts.len() {
            let Some(&part) = self.parts.get(at) else { break };
            let (large, small) =
                if value.abs() < part.abs() { (part, value) } else { (value, part) };
            let sum = large + small;
            let lost = small - (sum - large);
            if lost != 0.0
                && let Some(slot) = self.parts.get_mut(kept)
            {
                *slot = lost;
                kept += 1;
            }
            value = sum;
        }
        self.parts.truncate(kept);
        if value.is_finite() {
            if value != 0.0 {
                self.parts.push(value);
            }
        } else {
            self.special += value;
            self.parts.clear();
        }
    }

    /// Returns the sum, rounded to the nearest double; 0 without terms.
    pub fn value(&self) -> f64 {
        if self.special != 0.0 {
            return self.special;
        }
        let mut rest = self.parts.iter().rev().copied();
        let Some(mut sum) = rest.next() else { return 0.0 };
        while let Some(part) = rest.next() {
            let before = sum;
            sum = before + part;
            let lost = part - (sum - before);
            if lost == 0.0 {
                continue;
            }
            // If the sum is halfway between two doubles, the next part determines the direction of rounding.
            if rest.next().is_some_and(|next| (lost < 0.0) == (next < 0.0)) {
                let twice = lost * 2.0;
                let up = sum + twice;
                #[expect(clippy::float_cmp, reason = "asks whether the addition was exact")]
                if up - sum == twice {
                    sum = up;
                }
            }
            break;
        }
        sum
    }
}

impl FromIterator<f64> for ExactSum {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut sum = Self::default();
        values.into_iter().for_each(|it| sum.add(it));
        sum
    }
}

/// An exact mean of numbers.
#[derive(Clone, Debug, Default)]
pub struct Mean {
    sum: ExactSum,
    count: u64,
}

impl Mean {
    /// Adds one number.
    pub fn add(&mut self, value: f64) {
        self.sum.add(value);
        self.count += 1;
    }

    /// Returns the mean; `None` without numbers.
    #[expect(clippy::cast_precision_loss, reason = "counts of results stay far below 2^52")]
    pub fn value(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum.value() / self.count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(values: &[f64]) -> f64 {
        values.iter().copied().collect::<ExactSum>().value()
    }

    #[test]
    fn nothing_is_lost() {
        for (values, expected) in [
            (&[][..], 0.0),
            (&[0.1; 10], 1.0),
            (&[1e100, 1.0, -1e100], 1.0),
            (&[1e16, 1.0, 1e-16], 1e16 + 2.0),
            (&[f64::INFINITY, 1.0], f64::INFINITY),
        ] {
            assert_eq!(sum(values).to_bits(), f64::to_bits(expected), "{values:?}");
        }
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
    }

    #[test]
    fn the_order_does_not_matter() {
        // Prices of different magnitudes, as models have them.
        let prices: Vec<f64> =
            (1_u32..=400).map(|it| f64::from(it % 17) * 1e-7 + 1.0 / f64::from(it)).collect();
        let expected = sum(&prices);
        for step in [7, 11, 101] {
            let shuffled: Vec<f64> =
                (0..prices.len()).map(|at| prices[at * step % prices.len()]).collect();
            assert_eq!(sum(&shuffled).to_bits(), expected.to_bits());
        }
    }
}
