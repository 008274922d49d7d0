//! Evidence that a pass rate has fallen.

use statrs::distribution::{Beta, ContinuousCDF as _};

use crate::{Tally, Undefined, float};

/// The assumed pass rates after a fall, as shares of the limit. The smallest change is first.
const FALLS: [f64; 4] = [0.97, 0.9, 0.75, 0.5];

/// The confidence level of the one-sided lower bound of the reference's pass rate.
const LEVEL: f64 = 0.95;

/// Detects that a pass rate has fallen below the pass rate of a reference. The first results are the reference.
///
/// The limit is the one-sided 95% Clopper–Pearson lower bound of the reference. A fall to a rate above the limit is not
/// detected. A larger reference has a limit closer to its pass rate, so it detects smaller falls.
///
/// The evidence is the e-detector of Shiryaev–Roberts form (Shin, Ramdas, Rinaldo (2023), *New England J. Stat. Data
/// Sci.* 2:229). For each of four lower pass rates, a result changes `M` to `L · (M + 1)`. `L` is the likelihood ratio
/// of the result: the lower rate against the limit. The evidence is the mean of the four values `M`. While the true
/// pass rate is at or above the limit, the expected evidence grows by at most 1 per result. So an alarm at the evidence
/// `n` comes after at least `n` results on average, if nothing has changed.
///
/// ```
/// use kindlm_stats::Detector;
///
/// let mut detector = Detector::new(100);
/// (0..100).for_each(|it| detector.add(it % 10 != 0));
/// assert_eq!(detector.limit().map(|it| format!("{it:.3}")), Some("0.836".to_owned()));
/// // Every third output fails now.
/// let count = (1..).find(|it| {
///     detector.add(it % 3 != 0);
///     detector.is_alarm(1_000.0)
/// });
/// assert_eq!(count, Some(63));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detector {
    state: DetectorState,
    /// The limit; `None` until the reference is complete.
    limit: Option<f64>,
}

/// The state of a [`Detector`], to store it.
///
/// Every field must be stored. The struct is exhaustive, so that stores can take it apart without `..`, and a new field
/// is a compile error there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DetectorState {
    /// The number of results of a complete reference.
    pub size: u64,
    /// The number of passed results in the reference.
    pub passed: u64,
    /// The number of results in the reference so far.
    pub total: u64,
    /// The value of `M` (see [`Detector`]) for each assumed pass rate.
    pub values: [f64; FALLS.len()],
}

impl Detector {
    /// Creates a detector whose first `size` results are the reference. A `size` of 0 counts as 1.
    pub fn new(size: u64) -> Self {
        let values = [0.0; FALLS.len()];
        Self {
            state: DetectorState { size: size.max(1), passed: 0, total: 0, values },
            limit: None,
        }
    }

    /// Creates a detector from a stored state.
    ///
    /// Fails if `size` is 0, if the counts contradict each other, or if a value is negative or not finite.
    pub fn from_state(state: DetectorState) -> Result<Self, Undefined> {
        let DetectorState { size, passed, total, values } = state;
        if size == 0 {
            return Err(Undefined::Empty);
        }
        if passed > total || total > size {
            return Err(Undefined::MoreThanAll);
        }
        if !values.iter().all(|it| it.is_finite() && *it >= 0.0) {
            return Err(Undefined::OutOfRange);
        }
        Ok(Self { state, limit: limit(&state) })
    }

    /// Returns the state, to store it.
    pub fn state(&self) -> DetectorState {
        self.state
    }

    /// Returns the counts of the reference; `None` while it is empty.
    pub fn reference(&self) -> Option<Tally> {
        Tally::new(self.state.passed, self.state.total).ok()
    }

    /// Returns the limit: a lower pass rate counts as a fall. Returns `None` until the reference is complete.
    pub fn limit(&self) -> Option<f64> {
        self.limit
    }

    /// Adds a result. Until the reference is complete, the result becomes a part of the reference.
    pub fn add(&mut self, passed: bool) {
        let Some(limit) = self.limit else {
            self.state.passed += u64::from(passed);
            self.state.total += 1;
            self.limit = self::limit(&self.state);
            return;
        };
        // No pass rate is below 0, so no result is evidence of a fall.
        if limit <= 0.0 {
            return;
        }
        for (value, fall) in self.state.values.iter_mut().zip(FALLS) {
            *value = (likelihood_ratio(limit, fall, passed) * (*value + 1.0)).min(f64::MAX);
        }
    }

    /// Returns the evidence of a fall: 0 at first, and at most the largest floating-point number.
    pub fn evidence(&self) -> f64 {
        let count = float(FALLS.len() as u64);
        self.state.values.iter().map(|it| it / count).sum::<f64>().min(f64::MAX)
    }

    /// Returns true if the evidence is at least `mean`, the mean number of results until a false alarm.
    pub fn is_alarm(&self, mean: f64) -> bool {
        self.evidence() >= mean
    }

    /// Removes the evidence, and keeps the reference.
    pub fn restart(&mut self) {
        self.state.values = [0.0; FALLS.len()];
    }

    /// Returns the number of results that most likely came after the fall. The newest result is last in `results`.
    ///
    /// The number is the maximum likelihood estimate of the change point. Returns 0 without results, or if the
    /// reference is not complete. Also returns 0 if the limit is 0, because no pass rate is below 0.
    pub fn results_after_fall(&self, results: &[bool]) -> usize {
        let Some(limit) = self.limit.filter(|it| *it > 0.0) else { return 0 };
        let (mut sums, mut best) = ([0.0_f64; FALLS.len()], (f64::NEG_INFINITY, 0));
        for (count, passed) in (1..).zip(results.iter().rev()) {
            for (sum, fall) in sums.iter_mut().zip(FALLS) {
                *sum += likelihood_ratio(limit, fall, *passed).ln();
            }
            let most = sums.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if most > best.0 {
                best = (most, count);
            }
        }
        best.1
    }
}

/// Returns the likelihood ratio of a result: the pass rate `fall · limit` against the pass rate `limit`.
fn likelihood_ratio(limit: f64, fall: f64, passed: bool) -> f64 {
    if passed { fall } else { (1.0 - fall * limit) / (1.0 - limit) }
}

/// Returns the limit: 0 if no result passed, and always below 1. Returns `None` until the reference is complete.
fn limit(state: &DetectorState) -> Option<f64> {
    let DetectorState { size, passed, total, .. } = *state;
    if total < size {
        return None;
    }
    // `Beta::new` fails for 0 passes. The bound is then 0.
    let bound = Beta::new(float(passed), float(total - passed) + 1.0);
    Some(bound.map_or(0.0, |it| it.inverse_cdf(1.0 - LEVEL)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn complete(passed: u64, total: u64) -> Detector {
        let values = [0.0; FALLS.len()];
        Detector::from_state(DetectorState { size: total, passed, total, values }).unwrap()
    }

    /// Returns the probability of at least `passed` passes in `total` results.
    fn tail(passed: u64, total: u64, rate: f64) -> f64 {
        let term = |it: u64| {
            statrs::function::factorial::ln_binomial(total, it)
                + float(it) * rate.ln()
                + float(total - it) * (1.0 - rate).ln()
        };
        (passed..=total).map(|it| term(it).exp()).sum()
    }

    #[test]
    fn limit_is_the_exact_bound() {
        for (passed, total) in [(1, 100), (50, 100), (95, 100), (99, 100), (980, 1000), (1, 1)] {
            let limit = complete(passed, total).limit().unwrap();
            assert!((tail(passed, total, limit) - 0.05).abs() < 1e-6, "{passed}/{total}: {limit}");
        }
        // Without a failure, the bound is the 100th root of 0.05.
        assert!((complete(100, 100).limit().unwrap() - 0.05_f64.powf(0.01)).abs() < 1e-9);
        assert_eq!(complete(0, 100).limit(), Some(0.0));
        assert_eq!(Detector::new(100).limit(), None);
    }

    #[test]
    fn evidence_is_that_of_the_published_recursion() {
        let mut detector = complete(95, 100);
        let limit = detector.limit().unwrap();
        let results = [true, false, true, false, false];
        for it in results {
            detector.add(it);
        }
        // The expected evidence is the sum over all possible starts of a fall, without the recursion.
        let mean = FALLS.iter().map(|fall| {
            let rate = fall * limit;
            let ratio = |it: &bool| {
                if *it { rate / limit } else { (1.0 - rate) / (1.0 - limit) }
            };
            let starts =
                (0..results.len()).map(|it| results[it..].iter().map(ratio).product::<f64>());
            starts.sum::<f64>() / 4.0
        });
        let expected: f64 = mean.sum();
        assert!((detector.evidence() - expected).abs() < 1e-9 * expected);
        detector.restart();
        assert_eq!((detector.evidence(), detector.limit()), (0.0, Some(limit)));
    }

    #[test]
    fn rate_of_zero_cannot_fall() {
        let mut detector = complete(0, 50);
        for _ in 0..20_000 {
            detector.add(false);
        }
        assert!(!detector.is_alarm(10_000.0), "{}", detector.evidence());
        assert_eq!(detector.results_after_fall(&[false, false]), 0);
    }

    #[test]
    fn start_of_a_clear_fall_is_found() {
        let detector = complete(99, 100);
        let results: Vec<bool> = (0..60).map(|it| it < 40).collect();
        assert_eq!(detector.results_after_fall(&results), 20);
        assert_eq!(detector.results_after_fall(&[]), 0);
        assert_eq!(Detector::new(100).results_after_fall(&results), 0);
    }

    #[test]
    fn states_of_no_detector_are_refused() {
        let state = complete(90, 100).state();
        for (state, expected) in [
            (DetectorState { size: 0, ..state }, Undefined::Empty),
            (DetectorState { passed: 101, ..state }, Undefined::MoreThanAll),
            (DetectorState { total: 101, ..state }, Undefined::MoreThanAll),
            (DetectorState { values: [f64::NAN; 4], ..state }, Undefined::OutOfRange),
            (DetectorState { values: [-1.0; 4], ..state }, Undefined::OutOfRange),
        ] {
            assert_eq!(Detector::from_state(state), Err(expected), "{state:?}");
        }
    }

    proptest! {
        #[test]
        fn evidence_is_a_number_and_failures_at_the_end_count_more(
            results in prop::collection::vec(any::<bool>(), 0..400),
            passed in 0_u64..=60,
        ) {
            let mut detector = complete(passed, 60);
            for it in &results {
                detector.add(*it);
                prop_assert!(detector.evidence().is_finite() && detector.evidence() >= 0.0);
            }
            prop_assert_eq!(Detector::from_state(detector.state()), Ok(detector));
            prop_assert!(detector.results_after_fall(&results) <= results.len());
            let after = |pair: [bool; 2]| {
                let mut it = detector;
                for passed in pair {
                    it.add(passed);
                }
                it.evidence()
            };
            let (late, early) = (after([true, false]), after([false, true]));
            prop_assert!(late >= early * (1.0 - 1e-12), "{late} {early}");
            prop_assert!(after([false, false]) >= late * (1.0 - 1e-12));
            prop_assert!(early >= after([true, true]) * (1.0 - 1e-12));
        }
    }
}
