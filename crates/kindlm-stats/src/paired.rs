//! The paired comparison of the same cases before and after a change.
//!
//! Sources: Miller (2024), *Adding Error Bars to Evals*, arXiv 2411.00640, sections 2.2, 3 and 4 (clustered and paired
//! standard errors, power); Bowyer et al. (2025), arXiv 2503.01747 (few cases); Pesarin and Salmaso (2010),
//! *Permutation Tests for Complex Data* (the sign-flip test).

use std::collections::BTreeMap;

use oorandom::Rand32;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::{Confidence, Interval, Tally, Undefined, float};

/// The number of clusters with a change up to which all sign flips are enumerated: at most 2^14 flips.
const EXACT: usize = 14;

/// The number of random sign flips for more clusters.
const FLIPS: u32 = 9_999;

/// The tolerance for equal sums of differences.
const TOLERANCE: f64 = 1e-9;

/// The probability with which [`Paired::detectable`] is detected.
pub const POWER: f64 = 0.8;

/// The difference of one case between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference<'a> {
    /// The key of the cluster. Cases of a cluster depend on each other, such as questions about one document.
    pub cluster: &'a str,
    /// The repeats that passed before, of those that were judged.
    pub before: Tally,
    /// The repeats that passed after, of those that were judged.
    pub after: Tally,
}

/// The settings of a paired comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedTest {
    /// The rate of false alarms, above 0 and below 1.
    pub alpha: f64,
    /// The confidence level of the interval.
    pub confidence: Confidence,
    /// The seed of random sign flips. The same seed gives the same p value.
    pub seed: u64,
}

/// The result of a paired comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Paired {
    /// The number of clusters.
    pub clusters: usize,
    /// The mean over the cases of the rate after minus the rate before, from -1 to 1.
    pub mean: f64,
    /// The t interval of the mean with clustered standard errors, from -1 to 1.
    ///
    /// Equal differences in all clusters have no spread. Their interval is then as wide as that of a share of which 0
    /// of all clusters is observed (Clopper-Pearson).
    pub interval: Interval,
    /// The one-sided p value of the mean in its direction; 1 if no case changed.
    pub p_value: f64,
    /// The smallest fall that such runs detect with probability [`POWER`]; `None` if they cannot detect any.
    pub detectable: Option<f64>,
}

impl PairedTest {
    /// Compares the rates of the same cases before and after.
    ///
    /// The p value is that of a sign-flip test: without an effect, the difference of each cluster is as probable as its
    /// opposite. Up to 14 changed clusters, all flips are enumerated; for more, 9,999 random flips are drawn. For cases
    /// with one repeat, it is the mid-p value, because only few sums are possible.
    ///
    /// Fails without differences.
    pub fn compare(&self, differences: &[Difference<'_>]) -> Result<Paired, Undefined> {
        if differences.is_empty() {
            return Err(Undefined::Empty);
        }
        let mut clusters: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        let mut repeats = 0;
        for it in differences {
            let cluster = clusters.entry(it.cluster).or_default();
            cluster.0 += it.after.rate() - it.before.rate();
            cluster.1 += 1.0;
            repeats += it.before.total().min(it.after.total());
        }
        let clusters: Vec<(f64, f64)> = clusters.into_values().collect();
        let cases = float(differences.len() as u64);
        let mean = clusters.iter().map(|it| it.0).sum::<f64>() / cases;
        let is_single =
            differences.iter().all(|it| it.before.total() == 1 && it.after.total() == 1);
        let direction = if mean < 0.0 { -1.0 } else { 1.0 };
        let sums: Vec<f64> = clusters.iter().map(|it| it.0 * direction).collect();
        let spread = Spread::of(&clusters, mean, cases);
        Ok(Paired {
            clusters: clusters.len(),
            mean,
            interval: spread.interval(mean, self.confidence),
            p_value: sign_flip(&sums, is_single, self.seed),
            detectable: self.detectable(spread, float(repeats), is_single),
        })
    }

    /// Returns the smallest detectable fall.
    ///
    /// It solves `δ² = (t₁₋α + t_power)² (SE² + δ(1 − δ)/R)` with R judged repeats (Miller, section 5). The second term is
    /// the variance that a case without failures gets when its rate falls by δ. Without it, the power is too low.
    fn detectable(&self, spread: Spread, repeats: f64, is_single: bool) -> Option<f64> {
        let smallest_p = 0.5_f64.powf(spread.clusters + if is_single { 1.0 } else { 0.0 });
        if smallest_p > self.alpha {
            return None;
        }
        let quantile = |share: f64| spread.quantile(share);
        let factor = (quantile(1.0 - self.alpha)? + quantile(POWER)?).powi(2);
        let binomial = factor / repeats;
        let root = (binomial.powi(2)
            + 4.0 * (1.0 + binomial) * factor * spread.standard_error.powi(2))
        .sqrt();
        let smallest = (binomial + root) / (2.0 * (1.0 + binomial));
        (smallest < 1.0).then_some(smallest)
    }
}

/// The spread of differences between clusters.
#[derive(Clone, Copy)]
struct Spread {
    /// The number of clusters, at least 1.
    clusters: f64,
    /// The clustered standard error of the mean; 0 if all clusters differ equally.
    standard_error: f64,
}

impl Spread {
    /// Returns the clustered standard error (Miller, appendix A) with the factor C/(C − 1) for C clusters.
    fn of(clusters: &[(f64, f64)], mean: f64, cases: f64) -> Self {
        let count = float(clusters.len() as u64);
        let squares: f64 = clusters.iter().map(|(sum, size)| (sum - size * mean).powi(2)).sum();
        let standard_error =
            if count > 1.0 { (squares * count / (count - 1.0)).sqrt() / cases } else { 0.0 };
        Self { clusters: count, standard_error }
    }

    /// Returns a quantile of the t distribution with C − 1 degrees of freedom; `None` for a single cluster.
    fn quantile(self, share: f64) -> Option<f64> {
        let degrees = self.clusters - 1.0;
        Some(StudentsT::new(0.0, 1.0, degrees).ok()?.inverse_cdf(share))
    }

    fn interval(self, mean: f64, confidence: Confidence) -> Interval {
        let tail = (1.0 - confidence.level()) / 2.0;
        let half = match self.quantile(1.0 - tail) {
            None => 2.0,
            Some(_) if self.standard_error < TOLERANCE => 1.0 - tail.powf(1.0 / self.clusters),
            Some(t) => t * self.standard_error,
        };
        Interval::around(mean, half, 1.0, -1.0, 1.0)
    }
}

/// Returns the share of sign flips whose sum is at least the sum as observed.
///
/// The mid-p value counts equal sums half.
fn sign_flip(sums: &[f64], is_mid: bool, seed: u64) -> f64 {
    let changed: Vec<f64> = sums.iter().copied().filter(|it| it.abs() > TOLERANCE).collect();
    if changed.is_empty() {
        return 1.0;
    }
    let observed: f64 = changed.iter().sum();
    let weight = |sum: f64| match sum - observed {
        more if more > TOLERANCE => 1.0,
        more if more < -TOLERANCE => 0.0,
        _ if is_mid => 0.5,
        _ => 1.0,
    };
    if changed.len() <= EXACT {
        return enumerate(&changed, weight);
    }
    let mut random = Rand32::new(seed);
    let drawn: f64 = (0..FLIPS).map(|_| weight(flipped(&changed, &mut random))).sum();
    // The observed signs are one of the flips.
    (drawn + weight(observed)) / f64::from(FLIPS + 1)
}

/// Returns the mean weight of all sign flips.
///
/// Neighbours in the order of Gray differ in one sign, so each sum needs one addition.
fn enumerate(changed: &[f64], weight: impl Fn(f64) -> f64) -> f64 {
    let flips = 1_u32 << changed.len();
    let mut signed = changed.to_vec();
    let mut sum: f64 = signed.iter().sum();
    let mut total = weight(sum);
    for flip in 1..flips {
        if let Some(it) = signed.get_mut(flip.trailing_zeros() as usize) {
            sum -= 2.0 * *it;
            *it = -*it;
        }
        total += weight(sum);
    }
    total / f64::from(flips)
}

/// Returns the sum with random signs.
fn flipped(changed: &[f64], random: &mut Rand32) -> f64 {
    let mut sum = 0.0;
    for few in changed.chunks(32) {
        let mut signs = random.rand_u32();
        for it in few {
            sum += if signs & 1 == 0 { *it } else { -*it };
            signs >>= 1;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test() -> PairedTest {
        PairedTest { alpha: 0.05, confidence: Confidence::P95, seed: 1 }
    }

    fn cases(before: &str, after: &str) -> Paired {
        let names: Vec<String> = (0..before.len()).map(|it| it.to_string()).collect();
        let passed = |text: &str| {
            text.bytes().map(|it| Tally::new(u64::from(it - b'0'), 1).unwrap()).collect::<Vec<_>>()
        };
        let pairs = passed(before).into_iter().zip(passed(after)).zip(&names);
        let differences: Vec<_> =
            pairs.map(|((before, after), cluster)| Difference { cluster, before, after }).collect();
        test().compare(&differences).unwrap()
    }

    fn near(actual: f64, expected: f64) {
        assert!((actual - expected).abs() < 5e-7, "{actual} is not {expected}");
    }

    #[test]
    fn the_interval_is_that_of_the_paired_t_test() {
        // scipy.stats.ttest_rel: difference 0.3, interval (-0.045550, 0.645550).
        let paired = cases("1001001100", "1101101110");
        near(paired.mean, 0.3);
        near(paired.interval.low, -0.045_550);
        near(paired.interval.high, 0.645_550);
    }

    #[test]
    fn standard_errors_are_clustered() {
        // The differences [1,1,1], [0,0,1], [1,0,1] and [0,0,0]: 0.215166 with the factor C/(C-1).
        let clusters = [(3.0, 3.0), (1.0, 3.0), (2.0, 3.0), (0.0, 3.0)];
        near(Spread::of(&clusters, 0.5, 12.0).standard_error, 0.215_166);
    }

    #[test]
    fn the_sign_flip_test_is_exact_for_few_changes() {
        for (sums, is_mid, expected) in [
            // Of ten falls and two rises, McNemar's exact one-sided p is 0.019287, and mid-p is half of 0.022461.
            ([vec![1.0; 10], vec![-1.0; 2]].concat(), false, 0.019_287),
            ([vec![1.0; 10], vec![-1.0; 2]].concat(), true, 0.011_230),
            (vec![1.0; 4], false, 1.0 / 16.0),
            (vec![1.0; 4], true, 1.0 / 32.0),
            (vec![0.2, 0.4, -0.2], false, 3.0 / 8.0),
            (vec![0.0; 9], false, 1.0),
        ] {
            near(sign_flip(&sums, is_mid, 1), expected);
        }
    }

    #[test]
    fn random_flips_are_near_the_exact_value() {
        // Of 20 changes 15 falls: binomial tail P(X >= 15) = 0.020695.
        let sums = [vec![1.0; 15], vec![-1.0; 5]].concat();
        let drawn = sign_flip(&sums, false, 7);
        assert!((drawn - 0.020_695).abs() < 0.005, "{drawn}");
        assert!((drawn - sign_flip(&sums, false, 7)).abs() < f64::EPSILON);
        assert!((drawn - sign_flip(&sums, false, 8)).abs() > 0.0);
    }

    #[test]
    fn equal_differences_are_not_certain() {
        let same = cases("11111111111111111111", "11111111111111111111");
        near(same.p_value, 1.0);
        // Clopper-Pearson of 0/20: 0.168433.
        near(same.interval.high, 0.168_433);
        near(same.interval.low, -0.168_433);
        let one = cases("1", "0");
        assert_eq!((one.interval.low, one.interval.high, one.detectable), (-1.0, 1.0, None));
    }

    #[test]
    fn the_detectable_fall_depends_on_size() {
        let of = |clusters: f64, variance: f64, repeats: f64, is_single| {
            let standard_error = (variance / clusters).sqrt();
            test()
                .detectable(Spread { clusters, standard_error }, clusters * repeats, is_single)
                .map(|it| (it * 100.0).round() / 100.0)
        };
        // Variance of the difference of two runs of cases with the rate 0.8: 2 × 0.16 / repeats.
        assert_eq!(of(20.0, 0.32, 1.0, true), Some(0.44));
        assert_eq!(of(20.0, 0.064, 5.0, false), Some(0.18));
        assert_eq!(of(100.0, 0.32, 1.0, true), Some(0.17));
        assert_eq!(of(3.0, 0.1, 5.0, false), None);
    }

    #[test]
    fn refuses_nothing() {
        assert_eq!(test().compare(&[]), Err(Undefined::Empty));
    }
}
