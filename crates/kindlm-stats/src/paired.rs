//! The paired comparison of the same cases before and after a change.
//!
//! Sources: Miller (2024), *Adding Error Bars to Evals*, arXiv 2411.00640, sections 2.2, 3 and 4 (clustered and paired
//! standard errors, power); Bowyer et al. (2025), arXiv 2503.01747 (few cases); Pesarin and Salmaso (2010),
//! *Permutation Tests for Complex Data* (the sign-flip test).

use std::collections::BTreeMap;

use oorandom::Rand32;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::{Confidence, Interval, Tally, Undefined, float};

/// The maximum number of changed clusters for which all sign flips are enumerated: at most 2^14 flips.
const EXACT: usize = 14;

/// The number of random sign flips if more than [`EXACT`] clusters changed.
const FLIPS: u32 = 9_999;

/// The negative logarithm of the probability that one check by [`is_far`] is wrong: 1 in 24 million.
const FAR: f64 = 17.0;

/// The tolerance for equal sums of differences.
const TOLERANCE: f64 = 1e-9;

/// The minimum number of clusters for the formula of [`Paired::detectable`].
///
/// With 5 clusters of 20 repeats, the formula gives a fall of 13 points, which is detected in 48 of 100 comparisons.
const FEW: f64 = 20.0;

/// The probability with which a run detects a fall of [`Paired::detectable`].
pub const POWER: f64 = 0.8;

/// The difference of one case between two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference<'a> {
    /// The key of the cluster. Cases of a cluster depend on each other, such as questions about one document.
    pub cluster: &'a str,
    /// The passes and the total of the judged repeats in the first run.
    pub before: Tally,
    /// The passes and the total of the judged repeats in the second run.
    pub after: Tally,
}

impl<'a> Difference<'a> {
    /// Creates the difference of a case. `cluster` is the key of its cluster.
    pub fn new(cluster: &'a str, before: Tally, after: Tally) -> Self {
        Self { cluster, before, after }
    }
}

/// The settings of a paired comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
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
    /// The mean difference over the cases: the rate after minus the rate before, from -1 to 1.
    pub mean: f64,
    /// The t interval of the mean with clustered standard errors, from -1 to 1.
    ///
    /// If the mean differences of all clusters are equal, their standard error is 0. The half width is then the upper
    /// end of a Clopper-Pearson interval: 0 passes, and one observation for each cluster. For a single cluster, the
    /// interval is from -1 to 1.
    pub interval: Interval,
    /// The one-sided p value of the mean in its direction; 1 if the differences of each cluster add up to 0.
    pub p_value: f64,
    /// The smallest fall of the pass rate, from 0 to 1, that runs of this size detect with probability [`POWER`].
    ///
    /// `None` for fewer than 20 clusters, because the formula is then too inexact. Also `None` if the formula gives no
    /// fall below 1.
    pub detectable: Option<f64>,
}

/// Returns the mean difference of the same cases and its interval: [`Paired::mean`] and [`Paired::interval`].
///
/// The function computes no p value, so it is fast for many cases.
///
/// # Errors
///
/// Fails without differences.
pub fn mean_difference(
    differences: &[Difference<'_>],
    confidence: Confidence,
) -> Result<(f64, Interval), Undefined> {
    let Clusters { sums, cases, mean, .. } = Clusters::from_differences(differences)?;
    Ok((mean, Spread::from_clusters(&sums, mean, cases).interval(mean, confidence)))
}

impl PairedTest {
    /// Creates the settings. `alpha` is the rate of false alarms, above 0 and below 1.
    pub fn new(alpha: f64, confidence: Confidence, seed: u64) -> Self {
        Self { alpha, confidence, seed }
    }

    /// Compares the rates of the same cases before and after.
    ///
    /// The p value comes from a sign-flip test: without an effect, the difference of each cluster is as probable as its
    /// opposite. A cluster has changed if its differences do not add up to 0. For up to 14 changed clusters, all flips
    /// are enumerated. For more changed clusters, 9,999 random flips are drawn. If each case has one repeat in both
    /// runs, the mid-p value is used, because only few sums are possible.
    ///
    /// Fails without differences.
    pub fn compare(&self, differences: &[Difference<'_>]) -> Result<Paired, Undefined> {
        let Clusters { sums: clusters, cases, mean, repeats, is_single } =
            Clusters::from_differences(differences)?;
        let direction = if mean < 0.0 { -1.0 } else { 1.0 };
        let sums: Vec<f64> = clusters.iter().map(|it| it.0 * direction).collect();
        let spread = Spread::from_clusters(&clusters, mean, cases);
        Ok(Paired {
            clusters: clusters.len(),
            mean,
            interval: spread.interval(mean, self.confidence),
            p_value: sign_flip(&sums, is_single, self.seed, |_, _| false),
            detectable: self.detectable(spread, repeats),
        })
    }

    /// Returns true if the comparison shows a fall: the mean is below 0, and the p value is at most `alpha`.
    ///
    /// The decision is that of [`compare`](Self::compare), except with a probability below 1 in 100,000. This function
    /// is faster for many clusters, because the random flips end as soon as further flips hardly change the decision.
    ///
    /// Fails without differences.
    pub fn shows_fall(&self, differences: &[Difference<'_>]) -> Result<bool, Undefined> {
        let Clusters { sums: clusters, mean, is_single, .. } =
            Clusters::from_differences(differences)?;
        let sums: Vec<f64> = clusters.iter().map(|it| -it.0).collect();
        let is_settled = |weight: f64, flips: u32| is_far(weight, flips, self.alpha);
        Ok(mean < 0.0 && sign_flip(&sums, is_single, self.seed, is_settled) <= self.alpha)
    }

    /// Returns the smallest detectable fall; `None` for fewer than [`FEW`] clusters, or if the fall is not below 1.
    ///
    /// The fall δ solves `δ² = (t₁₋α + t_power)² (SE² + δ(1 − δ)/R)` (Miller, section 5). SE is the clustered
    /// standard error, and R is the number of judged repeats. The term `δ(1 − δ)/R` is the variance that a case
    /// without failures gets when its rate falls by δ. Without this term, the power is too low.
    fn detectable(&self, spread: Spread, repeats: f64) -> Option<f64> {
        if spread.clusters < FEW {
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

/// The differences by cluster.
struct Clusters {
    /// The sum of the differences and the number of cases of each cluster.
    sums: Vec<(f64, f64)>,
    /// The number of cases.
    cases: f64,
    /// The mean difference of the cases.
    mean: f64,
    /// The number of judged repeats of all cases. For each case, the run with fewer repeats counts.
    repeats: f64,
    /// True if each case has one repeat in both runs.
    is_single: bool,
}

impl Clusters {
    fn from_differences(differences: &[Difference<'_>]) -> Result<Self, Undefined> {
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
        Ok(Self {
            mean: clusters.iter().map(|it| it.0).sum::<f64>() / cases,
            is_single: differences.iter().all(|it| it.before.total() == 1 && it.after.total() == 1),
            repeats: float(repeats),
            sums: clusters,
            cases,
        })
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
    fn from_clusters(clusters: &[(f64, f64)], mean: f64, cases: f64) -> Self {
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

/// Returns the share of sign flips whose sum is at least the observed sum.
///
/// The mid-p value counts equal sums half. `is_settled` gets the total weight and the number of random flips so far. If
/// `is_settled` returns true, no further flips are drawn.
fn sign_flip(sums: &[f64], is_mid: bool, seed: u64, is_settled: impl Fn(f64, u32) -> bool) -> f64 {
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
    let sizes = sizes(&changed);
    let mut bits = Bits::new(seed);
    let (mut drawn, mut flips) = (0.0, 0);
    while flips < FLIPS && !is_settled(drawn, flips) {
        drawn += weight(sizes.iter().map(|(size, count)| bits.sum(*size, *count)).sum());
        flips += 1;
    }
    // The observed signs are one of the flips.
    (drawn + weight(observed)) / f64::from(flips + 1)
}

/// Returns true if the p value of the flips so far is so far from `alpha` that more flips hardly change the decision.
///
/// If the true p value were on the other side of `alpha`, such flips would have a probability below `exp(−flips × KL)`
/// (Chernoff 1952; Hoeffding 1963, theorem 1). `KL` is the Kullback-Leibler divergence of the p value of the flips so
/// far from `alpha`.
fn is_far(weight: f64, flips: u32, alpha: f64) -> bool {
    // Each check can be wrong, so check only every 64 flips: at most 156 times.
    if flips == 0 || !flips.is_multiple_of(64) {
        return false;
    }
    let share = weight / f64::from(flips);
    let part = |share: f64, of: f64| if share > 0.0 { share * (share / of).ln() } else { 0.0 };
    f64::from(flips) * (part(share, alpha) + part(1.0 - share, 1.0 - alpha)) > FAR
}

/// Returns the mean weight of all sign flips.
///
/// The flips follow a Gray code, in which neighbours differ in one sign. So each sum needs one addition.
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

/// Returns the distinct sizes of differences, each with the number of clusters that have it.
///
/// The sign of a difference does not matter, because each sign is random.
fn sizes(changed: &[f64]) -> Vec<(f64, u32)> {
    let mut sorted: Vec<f64> = changed.iter().map(|it| it.abs()).collect();
    sorted.sort_by(f64::total_cmp);
    let mut sizes: Vec<(f64, u32)> = Vec::new();
    for it in sorted {
        match sizes.last_mut() {
            Some((size, count)) if it - *size < TOLERANCE => *count += 1,
            _ => sizes.push((it, 1)),
        }
    }
    sizes
}

/// A source of random signs. Each random bit is a sign.
struct Bits {
    random: Rand32,
    unused: u32,
    left: u32,
}

impl Bits {
    fn new(seed: u64) -> Self {
        Self { random: Rand32::new(seed), unused: 0, left: 0 }
    }

    /// Returns the sum of `count` equal sizes with random signs.
    fn sum(&mut self, size: f64, count: u32) -> f64 {
        let mut missing = count;
        let mut negative = 0;
        while missing > 0 {
            if self.left == 0 {
                (self.unused, self.left) = (self.random.rand_u32(), u32::BITS);
            }
            let taken = missing.min(self.left);
            negative += (self.unused & (u32::MAX >> (u32::BITS - taken))).count_ones();
            self.unused = self.unused.checked_shr(taken).unwrap_or(0);
            self.left -= taken;
            missing -= taken;
        }
        size * (f64::from(count) - 2.0 * f64::from(negative))
    }
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

    fn all_flips(sums: &[f64], is_mid: bool, seed: u64) -> f64 {
        sign_flip(sums, is_mid, seed, |_, _| false)
    }

    #[test]
    fn an_early_end_of_the_flips_keeps_the_decision() {
        let mut random = oorandom::Rand64::new(3);
        let mut counts = [0; 2];
        for seed in 0..400 {
            let pairs: Vec<(String, u64, u64)> = (0..60)
                .map(|case| (case.to_string(), random.rand_range(2..6), random.rand_range(1..6)))
                .collect();
            let tally = |passed| Tally::new(passed, 5).unwrap();
            let differences: Vec<_> = pairs
                .iter()
                .map(|(cluster, before, after)| Difference {
                    cluster,
                    before: tally(*before),
                    after: tally(*after),
                })
                .collect();
            let test = PairedTest { seed, ..test() };
            let paired = test.compare(&differences).unwrap();
            let shows = test.shows_fall(&differences).unwrap();
            assert_eq!(shows, paired.mean < 0.0 && paired.p_value <= 0.05, "{paired:?}");
            counts[usize::from(shows)] += 1;
        }
        assert!(counts.iter().all(|it| *it > 50), "both decisions are frequent: {counts:?}");
    }

    #[test]
    fn random_sums_have_the_distribution_of_the_exact_ones() {
        // All flips of 14 unequal sizes are counted, and compared with random flips of the same sizes.
        let sums: Vec<f64> =
            (1..=14_u32).map(|it| f64::from(it) * [1.0, -0.5][usize::from(it % 2 == 0)]).collect();
        let observed: f64 = sums.iter().sum();
        let exact = all_flips(&sums, false, 1);
        let mut bits = Bits::new(1);
        let flip = |bits: &mut Bits| -> f64 {
            sizes(&sums).iter().map(|(size, count)| bits.sum(*size, *count)).sum()
        };
        let hits = (0..40_000).filter(|_| flip(&mut bits) >= observed - TOLERANCE).count();
        let drawn = float(hits as u64) / 40_000.0;
        assert!((drawn - exact).abs() < 0.01, "{drawn} {exact}");
        // The sum of 100 signs has the variance 100. 100 signs need three words of 32 bits and a part of a fourth.
        let signs: Vec<f64> = (0..40_000).map(|_| bits.sum(1.0, 100)).collect();
        let mean = signs.iter().sum::<f64>() / 40_000.0;
        let variance = signs.iter().map(|it| it * it).sum::<f64>() / 40_000.0;
        assert!(mean.abs() < 0.2 && (variance - 100.0).abs() < 3.0, "{mean} {variance}");
        assert!(signs.iter().all(|it| it.abs() <= 100.0 && it.rem_euclid(2.0) == 0.0));
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
        near(Spread::from_clusters(&clusters, 0.5, 12.0).standard_error, 0.215_166);
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
            near(all_flips(&sums, is_mid, 1), expected);
        }
    }

    #[test]
    fn random_flips_are_near_the_exact_value() {
        // 15 of 20 changes are falls. The binomial tail P(X >= 15) is 0.020695.
        let sums = [vec![1.0; 15], vec![-1.0; 5]].concat();
        let drawn = all_flips(&sums, false, 7);
        assert!((drawn - 0.020_695).abs() < 0.005, "{drawn}");
        assert!((drawn - all_flips(&sums, false, 7)).abs() < f64::EPSILON);
        assert!((drawn - all_flips(&sums, false, 8)).abs() > 0.0);
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
        let of = |clusters: f64, variance: f64, repeats: f64| {
            let standard_error = (variance / clusters).sqrt();
            test()
                .detectable(Spread { clusters, standard_error }, clusters * repeats)
                .map(|it| (it * 100.0).round() / 100.0)
        };
        // Variance of the difference of two runs of cases with the rate 0.8: 2 × 0.16 / repeats.
        assert_eq!(of(20.0, 0.32, 1.0), Some(0.44));
        assert_eq!(of(20.0, 0.064, 5.0), Some(0.18));
        assert_eq!(of(100.0, 0.32, 1.0), Some(0.17));
        assert_eq!(of(19.0, 0.1, 5.0), None);
    }

    #[test]
    fn refuses_nothing() {
        assert_eq!(test().compare(&[]), Err(Undefined::Empty));
    }
}
