//! A mean of scores that come in groups, with its interval.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::proportion::wilson;
use crate::{Confidence, Interval, Undefined, float};

/// Scores from 0 to 1 that come in clusters, such as the repeats of one case.
///
/// Scores of one cluster resemble each other, so they hold less information than independent scores. The memory does
/// not depend on the number of scores.
///
/// ```
/// use kindlm_stats::{Clustered, Confidence};
///
/// let mut scores = Clustered::default();
/// // 20 cases with 5 repeats each; 19 cases always pass.
/// (0..19).try_for_each(|_| scores.add(5.0, 5))?;
/// scores.add(0.0, 5)?;
/// let interval = scores.interval(Confidence::P95)?;
/// assert_eq!(format!("{:.3} {:.3} {:.3}", scores.mean()?, interval.low, interval.high), "0.950 0.764 0.991");
/// # Ok::<(), kindlm_stats::Undefined>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clustered {
    clusters: u64,
    scores: u64,
    sum: f64,
    /// The sums over the clusters of sum², sum × size and size².
    sum_squared: f64,
    sum_size: f64,
    size_squared: f64,
}

impl Clustered {
    /// Adds a cluster of `size` scores with this sum. An empty cluster is ignored.
    ///
    /// Fails if the sum is not from 0 to `size`.
    pub fn add(&mut self, sum: f64, size: u64) -> Result<(), Undefined> {
        check(sum, size)?;
        let of = float(size);
        if size > 0 {
            self.clusters += 1;
            self.scores += size;
            self.sum += sum;
            self.sum_squared += sum * sum;
            self.sum_size += sum * of;
            self.size_squared += of * of;
        }
        Ok(())
    }

    /// Returns the number of clusters with scores.
    pub fn clusters(&self) -> u64 {
        self.clusters
    }

    /// Returns the number of scores.
    pub fn scores(&self) -> u64 {
        self.scores
    }

    /// Returns the mean of all scores. Fails without scores.
    pub fn mean(&self) -> Result<f64, Undefined> {
        if self.scores == 0 {
            return Err(Undefined::Empty);
        }
        Ok(self.sum / float(self.scores))
    }

    /// Returns the clustered standard error of the mean (Miller 2024, arXiv 2411.00640, appendix A).
    ///
    /// The variance has the factor C / (C − 1) for C clusters. Without the factor, the variance of few clusters is too
    /// small. Returns `None` with fewer than two clusters.
    pub fn standard_error(&self) -> Option<f64> {
        let mean = self.mean().ok()?;
        if self.clusters < 2 {
            return None;
        }
        let squares =
            self.sum_squared - 2.0 * mean * self.sum_size + mean * mean * self.size_squared;
        let clusters = float(self.clusters);
        let variance = squares.max(0.0) * clusters / (clusters - 1.0);
        Some(variance.sqrt() / float(self.scores))
    }

    /// Returns the interval of the mean: Wilson's, with the effective number of scores.
    ///
    /// The effective number is `m (1 − m) / SE²` for the mean `m` and the [standard error](Self::standard_error) `SE`.
    /// This is the number of independent passes and failures that have the same standard error. The effective number is
    /// limited to the range from the number of clusters to the number of scores.
    ///
    /// - At a mean of 0 or 1, the effective number is the number of clusters. Such scores do not show that repeats add
    ///   information.
    /// - At any other mean, if all clusters have the same mean, the effective number is the number of scores.
    /// - A single cluster has no standard error, because one cluster does not show how clusters differ. The cluster
    ///   counts as one score.
    ///
    /// If each cluster has one score that is 0 or 1, this is exactly [`Tally::wilson`](crate::Tally::wilson). For
    /// scores between 0 and 1 the interval is wider than necessary. Fails without scores.
    pub fn interval(&self, confidence: Confidence) -> Result<Interval, Undefined> {
        let mean = self.mean()?;
        let (clusters, scores) = (float(self.clusters), float(self.scores));
        let effective = match self.standard_error() {
            Some(error) if mean > 0.0 && mean < 1.0 => {
                (mean * (1.0 - mean) / (error * error)).clamp(clusters, scores)
            }
            _ => clusters,
        };
        Ok(wilson(mean.clamp(0.0, 1.0), effective, confidence))
    }
}

/// Scores from 0 to 1 whose clusters are added in parts and in any order. An example is a case whose repeats on
/// several models are added one model at a time.
///
/// The memory grows with the number of named clusters.
///
/// ```
/// use kindlm_stats::{Clusters, Confidence};
///
/// let mut scores = Clusters::default();
/// for cluster in ["one document", "one document", "another document"] {
///     scores.add(Some(cluster), 1.0, 1)?;
/// }
/// scores.add(None, 1.0, 1)?;
/// let total = scores.total();
/// assert_eq!((total.scores(), total.clusters()), (4, 3));
/// # Ok::<(), kindlm_stats::Undefined>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    /// The sum and the number of the scores of each cluster, by the hash of the cluster's name. A hash needs less
    /// memory than a name.
    ///
    /// The map is sorted, so that the order of additions does not change the rounding of the total.
    named: BTreeMap<u64, (f64, u64)>,
    alone: Clustered,
}

impl Clusters {
    /// Adds `size` scores with this sum to a cluster; `None` stands for a cluster that no other call adds to.
    ///
    /// Fails if the sum is not from 0 to `size`.
    pub fn add(&mut self, name: Option<&str>, sum: f64, size: u64) -> Result<(), Undefined> {
        let Some(name) = name else { return self.alone.add(sum, size) };
        check(sum, size)?;
        if size > 0 {
            let mut hasher = DefaultHasher::new();
            name.hash(&mut hasher);
            let (sums, sizes) = self.named.entry(hasher.finish()).or_default();
            *sums += sum;
            *sizes += size;
        }
        Ok(())
    }

    /// Returns the scores of all clusters together.
    pub fn total(&self) -> Clustered {
        let mut total = self.alone;
        for &(sum, size) in self.named.values() {
            // The parts were checked, so there is no error.
            let _ = total.add(sum.min(float(size)), size);
        }
        total
    }
}

/// Fails if the sum of `size` scores is not from 0 to `size`.
fn check(sum: f64, size: u64) -> Result<(), Undefined> {
    if (0.0..=float(size) + 1e-9).contains(&sum) { Ok(()) } else { Err(Undefined::OutOfRange) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tally;

    fn clustered(clusters: &[(f64, u64)]) -> Clustered {
        let mut all = Clustered::default();
        clusters.iter().try_for_each(|(sum, size)| all.add(*sum, *size)).unwrap();
        all
    }

    #[test]
    fn the_standard_error_equals_published_examples() {
        // Clusters [1,1,1], [0,0,1], [1,0,1], [0,0,0]. The published error is 0.186339; ours is √(4/3) times as
        // large, by the factor C / (C − 1).
        let error = clustered(&[(3.0, 3), (1.0, 3), (2.0, 3), (0.0, 3)]).standard_error().unwrap();
        assert!((error - 0.215_166).abs() < 1e-6, "{error}");
        assert!((error / (4.0_f64 / 3.0).sqrt() - 0.186_339).abs() < 1e-6, "{error}");
    }

    #[test]
    fn single_scores_have_the_interval_of_wilson() {
        for (passed, total) in [(35_u64, 35_u64), (49, 50), (95, 100), (279, 300), (0, 20), (1, 1)]
        {
            let clusters: Vec<(f64, u64)> =
                (0..total).map(|it| (if it < passed { 1.0 } else { 0.0 }, 1)).collect();
            let found = clustered(&clusters).interval(Confidence::P95).unwrap();
            let expected = Tally::new(passed, total).unwrap().wilson(Confidence::P95);
            assert!((found.low - expected.low).abs() < 1e-9, "{passed} {found:?} {expected:?}");
            assert!((found.high - expected.high).abs() < 1e-9, "{passed} {found:?} {expected:?}");
        }
    }

    #[test]
    fn repeats_that_always_agree_count_once() {
        let tally = |passed, total| Tally::new(passed, total).unwrap().wilson(Confidence::P95);
        let all_pass = clustered(&[(10.0, 10); 35]).interval(Confidence::P95).unwrap();
        assert_eq!(all_pass, tally(35, 35));
        let agree = clustered(&[(10.0, 10), (0.0, 10), (10.0, 10), (0.0, 10)]);
        assert_eq!(agree.interval(Confidence::P95).unwrap(), tally(2, 4));
        // Repeats that differ as much as independent scores count in full.
        let differ = clustered(&[(5.0, 10); 4]).interval(Confidence::P95).unwrap();
        assert_eq!(differ, tally(20, 40));
    }

    #[test]
    fn a_single_cluster_counts_once() {
        let once = Tally::new(1, 1).unwrap().wilson(Confidence::P95);
        assert_eq!(clustered(&[(20.0, 20)]).interval(Confidence::P95).unwrap(), once);
        let half = clustered(&[(10.0, 20)]).interval(Confidence::P95).unwrap();
        assert!(half.low < 0.1 && half.high > 0.9, "{half:?}");
    }

    #[test]
    fn parts_of_a_cluster_are_one_cluster() {
        let parts = [("a", 1.0, 1), ("b", 0.0, 2), ("a", 2.0, 3), ("c", 0.0, 0)];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0]] {
            let mut clusters = Clusters::default();
            for (name, sum, size) in order.map(|at| parts[at]) {
                clusters.add(Some(name), sum, size).unwrap();
            }
            clusters.add(None, 1.0, 1).unwrap();
            assert_eq!(clusters.total(), clustered(&[(1.0, 1), (3.0, 4), (0.0, 2)]));
        }
        let name = Some("a");
        assert_eq!(Clusters::default().add(name, 1.5, 1), Err(Undefined::OutOfRange));
    }

    #[test]
    fn undefined_values_are_errors() {
        assert_eq!(Clustered::default().mean(), Err(Undefined::Empty));
        assert_eq!(Clustered::default().interval(Confidence::P95), Err(Undefined::Empty));
        for sum in [-0.1, 2.1, f64::NAN] {
            assert_eq!(Clustered::default().add(sum, 2), Err(Undefined::OutOfRange));
        }
    }
}
