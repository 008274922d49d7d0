//! The true pass rates of cases, estimated from the repeats of a past run.

use std::collections::BTreeMap;

use oorandom::Rand64;

use crate::{Tally, Undefined, float};

/// The number of steps of the grid of possible pass rates from 0 to 1.
const STEPS: u32 = 100;

/// The number of iterations of the estimate. More iterations hardly change the mean and the variance of the rates.
const ITERATIONS: u32 = 500;

/// The result of one case in the past run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PilotCase<'a> {
    /// The key of the cluster; see [`Difference::cluster`](crate::Difference::cluster).
    pub cluster: &'a str,
    /// The passes and the total of the judged repeats.
    pub passed: Tally,
}

impl<'a> PilotCase<'a> {
    /// Creates the result of a case. `cluster` is the key of its cluster.
    pub fn new(cluster: &'a str, passed: Tally) -> Self {
        Self { cluster, passed }
    }
}

/// The cases of a past run, with an estimate of their true pass rates.
///
/// The observed rates of few repeats vary more than the true rates, so a plan cannot use the observed rates. The
/// distribution of the true rates over the cases is estimated by maximum likelihood (Laird 1978, *J. Am. Stat. Assoc.*
/// 73:805). The estimate includes one additional case with an unknown rate (Jeffreys' prior). The possible rates of a
/// case follow from this distribution and from the repeats of the case (empirical Bayes; Efron 2014, *Stat. Sci.*
/// 29:285).
///
/// One repeat of each case does not show how the rates differ. The estimate is then one rate for all cases. One rate is
/// a cautious estimate, because a plan needs the most cases if the rates are equal.
#[derive(Clone, Debug)]
pub struct Pilot {
    /// For each cluster, the kinds of its cases, as indices into `kinds`.
    clusters: Vec<Vec<usize>>,
    /// The possible rates of each kind of case. Cases with equal passes and repeats are of one kind.
    kinds: Vec<Rates>,
    /// The number of cases of each kind.
    counts: Vec<f64>,
    is_single: bool,
}

/// The possible pass rates of a case.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    /// Each possible rate, with the probability that the true rate is at most this rate.
    cumulative: Vec<(f64, f64)>,
}

impl Rates {
    /// Draws a rate from 0 to 1.
    pub(crate) fn draw(&self, random: &mut Rand64) -> f64 {
        let at = random.rand_float();
        let index = self.cumulative.partition_point(|(_, probability)| *probability <= at);
        self.cumulative.get(index).or(self.cumulative.last()).map_or(0.0, |(rate, _)| *rate)
    }

    /// Creates the rates from weights, which need not add up to 1.
    fn weighted(weights: &[(f64, f64)]) -> Self {
        let all: f64 = weights.iter().map(|(_, weight)| weight).sum();
        let mut sum = 0.0;
        let cumulative = weights.iter().map(|(rate, weight)| {
            sum += weight / all;
            (*rate, sum)
        });
        Self { cumulative: cumulative.collect() }
    }

    fn mean(&self, of: &impl Fn(f64) -> f64) -> f64 {
        let mut last = 0.0;
        let parts = self.cumulative.iter().map(|(rate, probability)| {
            let weight = probability - last;
            last = *probability;
            weight * of(*rate)
        });
        parts.sum()
    }
}

impl Pilot {
    /// Estimates the true pass rates of the cases.
    ///
    /// Fails without cases.
    pub fn new(cases: &[PilotCase<'_>]) -> Result<Self, Undefined> {
        if cases.is_empty() {
            return Err(Undefined::Empty);
        }
        let mut kinds: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        let mut tallies: Vec<(Tally, f64)> = Vec::new();
        let mut clusters: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for PilotCase { cluster, passed } in cases {
            let kind = *kinds.entry((passed.passed(), passed.total())).or_insert_with(|| {
                tallies.push((*passed, 0.0));
                tallies.len() - 1
            });
            if let Some((_, count)) = tallies.get_mut(kind) {
                *count += 1.0;
            }
            clusters.entry(cluster).or_default().push(kind);
        }
        let is_single = cases.iter().all(|it| it.passed.total() == 1);
        let counts = tallies.iter().map(|(_, count)| *count).collect();
        let kinds = if is_single { same_rate(&tallies) } else { estimate(&tallies) };
        Ok(Self { clusters: clusters.into_values().collect(), kinds, counts, is_single })
    }

    /// Returns the number of clusters.
    pub fn clusters(&self) -> u64 {
        self.clusters.len() as u64
    }

    /// Returns the number of cases.
    pub fn cases(&self) -> u64 {
        self.clusters.iter().map(|it| it.len() as u64).sum()
    }

    /// Returns true if each case has only one judged repeat, so that the differences between the cases are unknown.
    pub fn is_single(&self) -> bool {
        self.is_single
    }

    /// Returns the estimated pass rate, from 0 to 1.
    ///
    /// The estimate is a little nearer to one half than the observed rate.
    pub fn rate(&self) -> f64 {
        self.mean(|rate| rate)
    }

    /// Returns the mean of a function of the true rate over all cases.
    pub(crate) fn mean(&self, of: impl Fn(f64) -> f64) -> f64 {
        let sums = self.kinds.iter().zip(&self.counts).map(|(kind, count)| count * kind.mean(&of));
        sums.sum::<f64>() / float(self.cases())
    }

    /// Returns the number of cases in this number of clusters of the mean size, rounded to a whole number.
    pub(crate) fn cases_in(&self, clusters: u64) -> u64 {
        let all = clusters * self.cases();
        (all + self.clusters() / 2) / self.clusters()
    }

    /// Draws a cluster, and returns the rates of its cases.
    pub(crate) fn cluster(&self, random: &mut Rand64) -> impl Iterator<Item = &Rates> + use<'_> {
        let at = random.rand_range(0..self.clusters());
        let cluster = usize::try_from(at).ok().and_then(|it| self.clusters.get(it));
        cluster.into_iter().flatten().filter_map(|kind| self.kinds.get(*kind))
    }
}

/// Returns one rate for all kinds: the pooled rate, with half a pass and half a failure more (Jeffreys' prior).
fn same_rate(tallies: &[(Tally, f64)]) -> Vec<Rates> {
    let passed: f64 = tallies.iter().map(|(tally, count)| tally.rate() * count).sum();
    let cases: f64 = tallies.iter().map(|(_, count)| count).sum();
    let rate = (passed + 0.5) / (cases + 1.0);
    tallies.iter().map(|_| Rates::weighted(&[(rate, 1.0)])).collect()
}

/// Returns the posterior distribution of the rate for each kind of case.
///
/// The prior is the distribution of the rates over all cases. It is estimated by expectation maximization on a grid.
fn estimate(tallies: &[(Tally, f64)]) -> Vec<Rates> {
    let grid: Vec<f64> = (0..=STEPS).map(|it| f64::from(it) / f64::from(STEPS)).collect();
    // Jeffreys' prior, Beta(1/2, 1/2), has the distribution function 2/π × asin(√p).
    let below = |rate: f64| rate.clamp(0.0, 1.0).sqrt().asin() * std::f64::consts::FRAC_2_PI;
    let half = 0.5 / f64::from(STEPS);
    let jeffreys: Vec<f64> = grid.iter().map(|it| below(it + half) - below(it - half)).collect();
    let likelihoods: Vec<Vec<f64>> = tallies
        .iter()
        .map(|(tally, _)| grid.iter().map(|it| likelihood(*tally, *it)).collect())
        .collect();
    let cases: f64 = tallies.iter().map(|(_, count)| count).sum();
    let posterior = |prior: &[f64], likelihood: &[f64]| -> Vec<f64> {
        let joint: Vec<f64> =
            prior.iter().zip(likelihood).map(|(one, other)| one * other).collect();
        let all: f64 = joint.iter().sum();
        joint.into_iter().map(|it| it / all).collect()
    };
    let mut prior = jeffreys.clone();
    for _ in 0..ITERATIONS {
        let mut sums = jeffreys.clone();
        for ((_, count), likelihood) in tallies.iter().zip(&likelihoods) {
            for (sum, it) in sums.iter_mut().zip(posterior(&prior, likelihood)) {
                *sum += count * it;
            }
        }
        prior = sums.into_iter().map(|it| it / (cases + 1.0)).collect();
    }
    likelihoods
        .iter()
        .map(|it| {
            let weights: Vec<(f64, f64)> =
                grid.iter().copied().zip(posterior(&prior, it)).collect();
            Rates::weighted(&weights)
        })
        .collect()
}

/// Returns the probability of the passes at a rate, relative to their probability at the observed rate.
fn likelihood(tally: Tally, rate: f64) -> f64 {
    let part = |count: u64, share: f64, observed: f64| {
        if count == 0 { 0.0 } else { float(count) * (share / observed).ln() }
    };
    let (passed, failed) = (tally.passed(), tally.total() - tally.passed());
    let observed = tally.rate();
    (part(passed, rate, observed) + part(failed, 1.0 - rate, 1.0 - observed)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pilot(kinds: &[(u64, u64, usize)]) -> Pilot {
        let tallies: Vec<Tally> = kinds
            .iter()
            .flat_map(|(passed, total, count)| {
                std::iter::repeat_n(Tally::new(*passed, *total).unwrap(), *count)
            })
            .collect();
        let names: Vec<String> = (0..tallies.len()).map(|it| it.to_string()).collect();
        let cases: Vec<_> = names
            .iter()
            .zip(tallies)
            .map(|(cluster, passed)| PilotCase { cluster, passed })
            .collect();
        Pilot::new(&cases).unwrap()
    }

    #[test]
    fn the_moments_are_those_of_the_true_rates() {
        let within = |rate: f64| rate * (1.0 - rate);
        for (kinds, rate, variance) in [
            // The binomial shares of 3 repeats with the rate 0.8 for all 1,000 cases.
            (vec![(0, 3, 8), (1, 3, 96), (2, 3, 384), (3, 3, 512)], 0.8, 0.16),
            // Half of the cases always pass, the others never.
            (vec![(0, 3, 500), (3, 3, 500)], 0.5, 0.0),
            // Half of the cases always pass, the others in half of the repeats.
            (vec![(0, 2, 125), (1, 2, 250), (2, 2, 625)], 0.75, 0.125),
        ] {
            let pilot = pilot(&kinds);
            assert!((pilot.rate() - rate).abs() < 0.002, "{kinds:?}: {}", pilot.rate());
            let found = pilot.mean(within);
            assert!((found - variance).abs() < 0.006, "{kinds:?}: {found}");
        }
    }

    #[test]
    fn one_repeat_gives_all_cases_the_same_rate() {
        let pilot = pilot(&[(1, 1, 8), (0, 1, 2)]);
        assert!(pilot.is_single());
        let rate = 8.5 / 11.0;
        assert!((pilot.rate() - rate).abs() < 1e-12);
        assert!((pilot.mean(|it| it * (1.0 - it)) - rate * (1.0 - rate)).abs() < 1e-12);
    }

    #[test]
    fn cases_that_always_passed_are_not_certain() {
        let pilot = pilot(&[(3, 3, 30)]);
        let rate = pilot.rate();
        assert!(rate > 0.97 && rate < 0.9999, "{rate}");
    }

    #[test]
    fn clusters_keep_their_cases() {
        let passed = Tally::new(1, 2).unwrap();
        let case = |cluster| PilotCase { cluster, passed };
        let pilot = Pilot::new(&[case("a"), case("a"), case("b"), case("a"), case("a")]).unwrap();
        assert_eq!((pilot.clusters(), pilot.cases(), pilot.cases_in(10)), (2, 5, 25));
        let mut random = Rand64::new(1);
        let sizes: Vec<usize> = (0..20).map(|_| pilot.cluster(&mut random).count()).collect();
        assert!(sizes.contains(&4) && sizes.contains(&1), "{sizes:?}");
        assert!(Pilot::new(&[]).is_err());
    }
}
