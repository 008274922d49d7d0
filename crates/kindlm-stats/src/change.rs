//! Change points: the places in a series of pass rates at which the true rate changed.

use statrs::function::factorial::ln_binomial;

use crate::{Tally, fisher_exact, float};

/// Logarithms of probabilities that differ by at most this much count as equal.
const TOLERANCE: f64 = 1e-9;

/// The largest number of steps of [`p_value_of_least`]. Longer series get Bonferroni's larger p value instead.
const STEPS: u64 = 20_000_000;

/// A place in a series at which the pass rate changed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChangePoint {
    /// The index of the first tally with the new rate, from 1.
    pub at: usize,
    /// The sum of the tallies from the previous change, or the start, to this change.
    pub before: Tally,
    /// The sum of the tallies from this change to the next change, or the end.
    pub after: Tally,
    /// The p value of the change, adjusted for the number of possible places; at most the `alpha` of
    /// [`change_points`].
    pub p_value: f64,
}

/// Returns the change points of a series of pass rates, in the order of the series.
///
/// The method is binary segmentation (Scott and Knott 1974, *Biometrics* 30:507). The place with the smallest p value
/// of [`fisher_exact`] divides the series if its adjusted p value is at most `alpha`. Each part is then divided in
/// the same way.
///
/// The adjusted p value is the probability that any place has such a small p value if the rate is constant. It is
/// exact, because all orders of the outputs are then equally probable. Very long series get Bonferroni's larger p
/// value instead.
///
/// A series with a constant rate has a change point with probability `alpha` (0 to 1) at most.
///
/// ```
/// use kindlm_stats::{Tally, change_points};
///
/// let series = [(5, 5), (5, 5), (4, 5), (1, 5), (0, 5)];
/// let series = series.map(|(passed, total)| Tally::new(passed, total).unwrap());
/// let found = change_points(&series, 0.05);
/// assert_eq!(found.iter().map(|it| it.at).collect::<Vec<_>>(), [3]);
/// assert_eq!((found[0].before.passed(), found[0].after.passed()), (14, 1));
/// ```
pub fn change_points(series: &[Tally], alpha: f64) -> Vec<ChangePoint> {
    let mut found = Vec::new();
    let mut open = vec![(0, series.len())];
    while let Some((start, end)) = open.pop() {
        let part = series.get(start..end).unwrap_or_default();
        if let Some((at, p_value)) = division(part).filter(|(_, p_value)| *p_value <= alpha) {
            found.push((start + at, p_value));
            open.extend([(start, start + at), (start + at, end)]);
        }
    }
    found.sort_by_key(|(at, _)| *at);
    let ends = found.iter().skip(1).map(|(at, _)| *at).chain([series.len()]);
    let starts = [0].into_iter().chain(found.iter().map(|(at, _)| *at));
    let points = found.iter().zip(starts.zip(ends)).filter_map(|(&(at, p_value), (start, end))| {
        let before = sum(series.get(start..at)?)?;
        Some(ChangePoint { at, before, after: sum(series.get(at..end)?)?, p_value })
    });
    points.collect()
}

/// Returns the sum of tallies; `None` without a tally.
fn sum(tallies: &[Tally]) -> Option<Tally> {
    let count = |count: fn(Tally) -> u64| tallies.iter().map(|it| count(*it)).sum();
    Tally::new(count(Tally::passed), count(Tally::total)).ok()
}

/// Returns the place with the smallest p value, and its adjusted p value; `None` for fewer than two tallies.
fn division(part: &[Tally]) -> Option<(usize, f64)> {
    let places = (1..part.len()).filter_map(|at| {
        let (before, after) = part.split_at_checked(at)?;
        let (before, after) = (sum(before)?, sum(after)?);
        Some((at, fisher_exact(before, after), log_likelihood(before) + log_likelihood(after)))
    });
    // Very small p values are rounded to 0, so the likelihood decides between equal p values.
    let (at, least, _) =
        places.min_by(|one, other| one.1.total_cmp(&other.1).then(other.2.total_cmp(&one.2)))?;
    let all = sum(part)?;
    let largest = part.iter().map(|it| it.total()).max().unwrap_or(0);
    let steps = (all.passed() + 1) * (largest + 1) * part.len() as u64;
    let p_value = if steps <= STEPS {
        p_value_of_least(part, all, least)
    } else {
        least * float(part.len() as u64 - 1)
    };
    Some((at, p_value.min(1.0)))
}

/// Returns the logarithm of the likelihood of a tally at its own rate.
fn log_likelihood(tally: Tally) -> f64 {
    let part = |count: u64| match count {
        0 => 0.0,
        count => float(count) * (float(count) / float(tally.total())).ln(),
    };
    part(tally.passed()) + part(tally.total() - tally.passed())
}

/// Returns the probability that a place has a p value of at most `least`, for the given totals and a constant rate.
///
/// The number of passes so far is a Markov chain with hypergeometric steps. The chain ends at the first place with a p
/// value of at most `least`.
fn p_value_of_least(part: &[Tally], all: Tally, least: f64) -> f64 {
    let passed = all.passed();
    let mut before = 0;
    let mut chain = vec![1.0];
    let mut found = 0.0;
    for (at, tally) in part.iter().enumerate() {
        let left = all.total() - before;
        let mut next = vec![0.0; usize::try_from(passed).unwrap_or(0) + 1];
        for (so_far, probability) in (0_u64..).zip(&chain).filter(|(_, it)| **it > 0.0) {
            let rest = passed - so_far;
            let whole = ln_binomial(left, rest);
            for more in 0..=tally.total().min(rest) {
                let others = left - tally.total();
                let Some(of_others) = (rest - more <= others).then_some(rest - more) else {
                    continue;
                };
                let log = ln_binomial(tally.total(), more) + ln_binomial(others, of_others) - whole;
                let to = usize::try_from(so_far + more).ok().and_then(|it| next.get_mut(it));
                if let Some(it) = to {
                    *it += probability * log.exp();
                }
            }
        }
        before += tally.total();
        if at + 1 < part.len() {
            let small = small(before, all, least);
            for (it, _) in next.iter_mut().zip(small).filter(|(_, is_small)| *is_small) {
                found += std::mem::take(it);
            }
        }
        chain = next;
    }
    found
}

/// Returns an entry for each number of passes in the first `before` outputs. The entry is true if Fisher's exact test of
/// this split has a p value of at most `least`.
fn small(before: u64, all: Tally, least: f64) -> Vec<bool> {
    let passed = all.passed();
    let after = all.total() - before;
    let whole = ln_binomial(all.total(), passed);
    let possible = passed.saturating_sub(after)..=passed.min(before);
    let log = |of_before: u64| {
        ln_binomial(before, of_before) + ln_binomial(after, passed - of_before) - whole
    };
    let mut tables: Vec<(u64, f64)> = possible.map(|it| (it, log(it))).collect();
    tables.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut is_small = vec![false; usize::try_from(passed).unwrap_or(0) + 1];
    let mut sum = 0.0;
    // Tables with equal probabilities have the same p value.
    for equal in tables.chunk_by(|one, other| other.1 - one.1 <= TOLERANCE) {
        sum += equal.iter().map(|(_, log)| log.exp()).sum::<f64>();
        if sum > least * (1.0 + TOLERANCE) {
            break;
        }
        for (of_before, _) in equal {
            if let Some(it) = usize::try_from(*of_before).ok().and_then(|at| is_small.get_mut(at)) {
                *it = true;
            }
        }
    }
    is_small
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(counts: &[(u64, u64)]) -> Vec<Tally> {
        counts.iter().map(|(passed, total)| Tally::new(*passed, *total).unwrap()).collect()
    }

    fn places(counts: &[(u64, u64)]) -> Vec<usize> {
        change_points(&series(counts), 0.05).iter().map(|it| it.at).collect()
    }

    #[test]
    fn finds_the_first_run_of_each_level() {
        let (good, bad) = ((1, 1), (0, 1));
        for (counts, expected) in [
            (&[(5, 5), (5, 5), (0, 5), (0, 5)][..], &[2][..]),
            (&[(5, 5), (5, 5), (0, 5), (0, 5), (5, 5), (5, 5)], &[2, 4]),
            (&[(20, 20), (12, 20)], &[1]),
            (&[(4, 5), (5, 5), (4, 5), (3, 5), (5, 5)], &[]),
            // With one repeat, four runs of each level are necessary.
            (&[good, good, good, bad, bad, bad], &[]),
            (&[good, good, good, good, bad, bad, bad, bad], &[4]),
            // A single failure is no change.
            (&[good, good, good, good, good, good, good, bad], &[]),
            (&[(5, 5), (5, 5)], &[]),
            (&[(5, 5)], &[]),
            (&[], &[]),
        ] {
            assert_eq!(places(counts), expected, "{counts:?}");
        }
    }

    /// Returns all series with these totals and this number of passes, each with its number of orders.
    fn all_series(totals: &[u64], passed: u64) -> Vec<(Vec<(u64, u64)>, f64)> {
        let Some((first, rest)) = totals.split_first() else {
            return if passed == 0 { vec![(Vec::new(), 1.0)] } else { Vec::new() };
        };
        let mut all = Vec::new();
        for of_first in 0..=passed.min(*first) {
            for (mut counts, orders) in all_series(rest, passed - of_first) {
                counts.insert(0, (of_first, *first));
                all.push((counts, orders * ln_binomial(*first, of_first).exp()));
            }
        }
        all
    }

    #[test]
    fn the_p_value_is_that_of_all_orders() {
        for (totals, passed) in [(&[1, 1, 1, 1, 1, 1][..], 3), (&[3, 1, 4, 2], 6), (&[5, 5], 7)] {
            let all = all_series(totals, passed);
            let least = |counts: &[(u64, u64)]| {
                let part = series(counts);
                let p = |at| fisher_exact(sum(&part[..at]).unwrap(), sum(&part[at..]).unwrap());
                (1..part.len()).map(p).fold(1.0, f64::min)
            };
            let orders: f64 = all.iter().map(|it| it.1).sum();
            for (counts, _) in &all {
                let bound = least(counts) * (1.0 + 1e-9);
                let small = all.iter().filter(|(it, _)| least(it) <= bound);
                let expected = small.map(|it| it.1).sum::<f64>() / orders;
                let (_, found) = division(&series(counts)).unwrap();
                assert!((found - expected).abs() < 1e-9, "{counts:?}: {found} {expected}");
            }
        }
    }

    #[test]
    fn a_long_series_has_a_bound() {
        let counts: Vec<(u64, u64)> =
            (0..30).map(|at| if at < 15 { (4_750, 5_000) } else { (4_500, 5_000) }).collect();
        assert_eq!(places(&counts), [15]);
        assert_eq!(places(&[(4_750, 5_000); 30]), [0; 0]);
    }
}
