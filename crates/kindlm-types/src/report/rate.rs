//! Shares over test cases, with their confidence intervals.

use std::fmt;

use kindlm_stats::{Clusters, Confidence, Interval, Tally};

use super::CaseResult;
use crate::ecma;

/// A count out of a total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateCount {
    /// The number of results that count, such as passes; at most `total`.
    pub count: u64,
    /// The number of all results, such as passes and failures.
    pub total: u64,
}

impl RateCount {
    /// Returns count / total, from 0 to 1; `None` if the total is 0.
    #[expect(clippy::cast_precision_loss, reason = "counts of results stay far below 2^52")]
    pub fn rate(self) -> Option<f64> {
        (self.total > 0).then(|| self.count as f64 / self.total as f64)
    }
}

/// A count out of a total, with the confidence interval of the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasuredRate {
    /// The number of results that count, such as passes; at most `total`.
    pub count: u64,
    /// The number of all results, such as passes and failures.
    pub total: u64,
    /// The 95% confidence interval of the rate; `None` if the total is 0.
    pub interval: Option<Interval>,
}

impl MeasuredRate {
    /// Returns the rate of independent results, with Wilson's interval.
    pub fn of_independent(of: RateCount) -> Self {
        let tally = Tally::new(of.count, of.total).ok();
        let interval = tally.map(|it| it.wilson(Confidence::P95));
        Self { count: of.count, total: of.total, interval }
    }

    /// Returns the count and the total without the interval.
    pub fn counts(self) -> RateCount {
        RateCount { count: self.count, total: self.total }
    }

    /// Returns count / total, from 0 to 1; `None` if the total is 0.
    pub fn rate(self) -> Option<f64> {
        self.counts().rate()
    }

    /// Formats the interval as `95% CI 75.0 to 97.8`, in percent; `None` if the total is 0.
    pub fn interval_text(self) -> Option<String> {
        self.interval.map(interval_text)
    }
}

/// Formats the rate as `92.0% (23 of 25; 95% CI 75.0 to 97.8)`, or as `none` if the total is 0.
impl fmt::Display for MeasuredRate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.rate(), self.interval_text()) {
            (Some(rate), Some(interval)) => {
                let (count, total) = (thousands(self.count), thousands(self.total));
                write!(out, "{}% ({count} of {total}; {interval})", percent(rate))
            }
            _ => out.write_str("none"),
        }
    }
}

/// Formats an interval as `95% CI 75.0 to 97.8`, in percent.
pub fn interval_text(interval: Interval) -> String {
    format!("95% CI {} to {}", percent(interval.low), percent(interval.high))
}

/// Formats a share from 0 to 1 in percent, with one decimal and without the sign.
///
/// A share just below 1 is never shown as 100.
pub fn percent(share: f64) -> String {
    let shown = ecma::to_fixed(share * 100.0, 1);
    if shown == "100.0" && share < 1.0 { "99.9".to_owned() } else { shown }
}

/// Formats a number as `1,234,567`.
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns the name of a case's cluster: the cluster that the suite sets, or else the name of the case.
///
/// Without a cluster in the suite, the results of one case on all models are one cluster. Results of one cluster depend
/// on each other, so an interval over several cases counts a cluster as one observation.
pub fn cluster_of<'a>(cluster: Option<&'a str>, case: &'a str) -> &'a str {
    cluster.unwrap_or(case)
}

impl CaseResult {
    /// Returns the name of the case's [cluster](cluster_of).
    pub fn cluster_name(&self) -> &str {
        cluster_of(self.cluster.as_deref(), &self.case)
    }
}

/// A rate that is counted while cases finish. Its interval counts each cluster of cases as one observation.
#[derive(Clone, Debug, Default)]
pub struct RateSum {
    counts: RateCount,
    clusters: Clusters,
}

impl RateSum {
    /// Adds all results of one case.
    ///
    /// `cluster` is the case's [cluster](cluster_of), or `None` if no other case belongs to it.
    pub fn add(&mut self, cluster: Option<&str>, count: u64, total: u64) {
        self.counts.count += count;
        self.counts.total += total;
        // The count is never above the total, so there is no error.
        #[expect(clippy::cast_precision_loss, reason = "counts of results stay far below 2^52")]
        let _ = self.clusters.add(cluster, count as f64, total);
    }

    /// Returns the rate.
    pub fn rate(&self) -> MeasuredRate {
        let RateCount { count, total } = self.counts;
        let interval = self.clusters.total().interval(Confidence::P95).ok();
        MeasuredRate { count, total, interval }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_their_counts_and_interval() {
        for (count, total, expected) in [
            (23, 25, "92.0% (23 of 25; 95% CI 75.0 to 97.8)"),
            (2, 2, "100.0% (2 of 2; 95% CI 34.2 to 100.0)"),
            (0, 1_000, "0.0% (0 of 1,000; 95% CI 0.0 to 0.4)"),
            (9_999, 10_000, "99.9% (9,999 of 10,000; 95% CI 99.9 to 99.9)"),
            (0, 0, "none"),
        ] {
            let rate = MeasuredRate::of_independent(RateCount { count, total });
            assert_eq!(rate.to_string(), expected);
        }
    }

    #[test]
    fn cases_of_a_cluster_widen_the_interval() {
        let rate = |cluster: Option<&str>| {
            let mut sum = RateSum::default();
            (0..25).for_each(|at| sum.add(cluster, u64::from(at < 23), 1));
            sum.rate()
        };
        let (alone, together) = (rate(None), rate(Some("document")));
        assert_eq!(alone, MeasuredRate::of_independent(alone.counts()));
        assert_eq!(alone.counts(), together.counts());
        assert!(together.interval.unwrap().low < alone.interval.unwrap().low);
    }
}
