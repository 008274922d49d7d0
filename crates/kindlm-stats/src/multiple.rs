//! The correction of many tests for their number, and Fisher's exact test of one case.

use statrs::function::factorial::ln_binomial;

use crate::{Tally, float};

/// Returns the p values of many tests, adjusted for their number, in the same order.
///
/// Among the tests with an adjusted p value of at most α, the expected share of false alarms is at most α. Source:
/// Benjamini and Hochberg (1995), *J. R. Stat. Soc. B* 57:289.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = p_values.iter().copied().enumerate().collect();
    order.sort_by(|one, other| other.1.total_cmp(&one.1));
    let count = order.len() as u64;
    let mut adjusted = vec![1.0; p_values.len()];
    let mut least: f64 = 1.0;
    for ((position, p), rank) in order.into_iter().zip((1..=count).rev()) {
        least = least.min(p * float(count) / float(rank));
        if let Some(it) = adjusted.get_mut(position) {
            *it = least;
        }
    }
    adjusted
}

/// Returns the two-sided p value of Fisher's exact test for two pass rates.
///
/// The p value is the probability of all tables with the same totals that are at most as probable as this table.
/// Source: Fisher (1935), *The Design of Experiments*, chapter 2.
pub fn fisher_exact(one: Tally, other: Tally) -> f64 {
    let passed = one.passed() + other.passed();
    let log = |of_one: u64| {
        ln_binomial(one.total(), of_one) + ln_binomial(other.total(), passed - of_one)
    };
    let all = ln_binomial(one.total() + other.total(), passed);
    let observed = log(one.passed());
    let least = passed.saturating_sub(other.total());
    let most = passed.min(one.total());
    // Rounding makes equal probabilities differ a little.
    let tables = (least..=most).map(log).filter(|it| *it <= observed + 1e-9);
    tables.map(|it| (it - all).exp()).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjusts_the_example_of_benjamini_and_hochberg() {
        let p_values = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0,
        ];
        let adjusted = benjamini_hochberg(&p_values);
        assert!((adjusted[3] - 0.035_625).abs() < 1e-12);
        assert_eq!(adjusted.iter().filter(|it| **it <= 0.05).count(), 4);
        let mut reversed = p_values;
        reversed.reverse();
        let mut backwards = benjamini_hochberg(&reversed);
        backwards.reverse();
        assert_eq!(backwards, adjusted);
        assert_eq!(benjamini_hochberg(&[]), [0.0; 0]);
    }

    #[test]
    fn fisher_is_exact_for_few_repeats() {
        for (one, other, expected) in [
            ((3, 4), (1, 4), 0.485_714),
            ((3, 3), (0, 3), 0.1),
            ((5, 5), (1, 5), 0.047_619),
            ((10, 10), (6, 10), 0.086_687),
            ((1, 1), (0, 1), 1.0),
            ((5, 5), (5, 5), 1.0),
        ] {
            let tally = |(passed, total)| Tally::new(passed, total).unwrap();
            let p = fisher_exact(tally(one), tally(other));
            assert!((p - expected).abs() < 5e-7, "{one:?} {other:?}: {p}");
        }
    }
}
