//! A mean of scores that come in groups, with its interval.

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
        let of = float(size);
        if !(0.0..=of + 1e-9).contains(&sum) {
            return Err(Undefined::OutOfRange);
        }
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
    /// The variance is multiplied by C / (C − 1) for C clusters, because few clusters underestimate it. Returns `None`
    /// with fewer than two clusters.
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
    /// The effective number is `m (1 − m) / SE²` for the mean `m` and the [standard error](Self::standard_error) `SE`:
    /// the number of independent passes and failures with the same standard error. It is limited to the range from the
    /// number of clusters to the number of scores.
    ///
    /// - At a mean of 0 or 1, it is the number of clusters, because nothing shows that repeats add information.
    /// - At any other mean, if all clusters have the same mean, it is the number of scores.
    /// - A single cluster has no standard error, so all its scores count. The interval is about this cluster only.
    ///
    /// If each cluster has one score that is 0 or 1, this is exactly [`Tally::wilson`](crate::Tally::wilson). For
    /// scores between 0 and 1 the interval is wider than necessary. Fails without scores.
    pub fn interval(&self, confidence: Confidence) -> Result<Interval, Undefined> {
        let mean = self.mean()?;
        let (clusters, scores) = (float(self.clusters), float(self.scores));
        let effective = match self.standard_error() {
            None => scores,
            Some(_) if mean <= 0.0 || mean >= 1.0 => clusters,
            Some(error) => (mean * (1.0 - mean) / (error * error)).clamp(clusters, scores),
        };
        Ok(wilson(mean.clamp(0.0, 1.0), effective, confidence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tally;

    fn of(clusters: &[(f64, u64)]) -> Clustered {
        let mut all = Clustered::default();
        clusters.iter().try_for_each(|(sum, size)| all.add(*sum, *size)).unwrap();
        all
    }

    #[test]
    fn the_standard_error_equals_published_examples() {
        // Clusters [1,1,1], [0,0,1], [1,0,1], [0,0,0]. The published error is .186339; ours is √(4/3) times as large.
        let error = of(&[(3.0, 3), (1.0, 3), (2.0, 3), (0.0, 3)]).standard_error().unwrap();
        assert!((error - 0.215_166).abs() < 1e-6, "{error}");
        assert!((error / (4.0_f64 / 3.0).sqrt() - 0.186_339).abs() < 1e-6, "{error}");
    }

    #[test]
    fn single_scores_have_the_interval_of_wilson() {
        for (passed, total) in [(35_u64, 35_u64), (49, 50), (95, 100), (279, 300), (0, 20), (1, 1)]
        {
            let clusters: Vec<(f64, u64)> =
                (0..total).map(|it| (if it < passed { 1.0 } else { 0.0 }, 1)).collect();
            let found = of(&clusters).interval(Confidence::P95).unwrap();
            let expected = Tally::new(passed, total).unwrap().wilson(Confidence::P95);
            assert!((found.low - expected.low).abs() < 1e-9, "{passed} {found:?} {expected:?}");
            assert!((found.high - expected.high).abs() < 1e-9, "{passed} {found:?} {expected:?}");
        }
    }

    #[test]
    fn repeats_that_always_agree_count_once() {
        let tally = |passed, total| Tally::new(passed, total).unwrap().wilson(Confidence::P95);
        let all_pass = of(&[(10.0, 10); 35]).interval(Confidence::P95).unwrap();
        assert_eq!(all_pass, tally(35, 35));
        let agree = of(&[(10.0, 10), (0.0, 10), (10.0, 10), (0.0, 10)]);
        assert_eq!(agree.interval(Confidence::P95).unwrap(), tally(2, 4));
        // Repeats that differ as much as independent scores count in full.
        let differ = of(&[(5.0, 10); 4]).interval(Confidence::P95).unwrap();
        assert_eq!(differ, tally(20, 40));
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
