//! Evidence over time that a judge has changed.

use crate::{Tally, Undefined, float};

/// The assumed increases of the share of different answers if the judge has changed.
const INCREASES: [f64; 4] = [0.05, 0.1, 0.2, 0.4];

/// The evidence that a judge has changed since its calibration, as an e-process.
///
/// Every watch asks the judge again about outputs of the calibration, and counts the different answers. The judge may
/// have changed before any watch, so the evidence is a weighted mean over all watches `t`:
///
/// - The evidence for a change before watch `t` is a likelihood ratio over watch `t` and all later watches. The ratio
///   compares an increased share of different answers with the judge's own noise. It is averaged over four increases.
/// - The evidence for a change before a future watch is 1.
/// - The weight of watch `t` is `1 / (t (t + 1))`. The weights sum to 1.
///
/// So watches without a difference do not hide a later change, as they would in one product over all watches.
///
/// Without a change, the probability that the evidence ever reaches 20 is at most 1 in 20, for any number of watches
/// (Ville's inequality; Ramdas et al. (2023), *Stat. Sci.* 38:576). So the evidence may be checked after each watch.
/// The bound also holds if some outputs are noisier than others, as long as the noise is right on average. The weighted
/// mean is an e-process, because each of its terms is an e-process (Shin, Ramdas, Rinaldo (2023), *New England J. Stat.
/// Data Sci.* 2:229).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    noise: f64,
    /// The number of watches.
    watches: f64,
    /// For each increase, the sum over all watches `t` so far: the weight of `t` times the likelihood ratio for a
    /// change before `t`.
    sums: [f64; INCREASES.len()],
}

impl Drift {
    /// The lowest evidence at which a judge counts as changed.
    pub const ALARM: f64 = 20.0;

    /// Creates a process without watches.
    ///
    /// `noise` is the share of outputs on which an unchanged judge answers differently if it is asked again. Fails
    /// unless `noise` is above 0 and below 1. For a share that was measured, pass the upper end of its interval.
    pub fn new(noise: f64) -> Result<Self, Undefined> {
        if noise > 0.0 && noise < 1.0 {
            Ok(Self { noise, watches: 0.0, sums: [0.0; INCREASES.len()] })
        } else {
            Err(Undefined::OutOfRange)
        }
    }

    /// Adds a watch: the number of different answers, and the number of outputs asked about.
    pub fn add(&mut self, different: Tally) {
        let (changed, total) = (float(different.passed()), float(different.total()));
        self.watches += 1.0;
        let weight = 1.0 / (self.watches * (self.watches + 1.0));
        for (sum, increase) in self.sums.iter_mut().zip(INCREASES) {
            let share = (self.noise + increase).min(f64::midpoint(self.noise, 1.0).max(0.95));
            let ratio = changed * (share / self.noise).ln()
                + (total - changed) * ((1.0 - share) / (1.0 - self.noise)).ln();
            *sum = (ratio.exp() * (*sum + weight)).min(f64::MAX);
        }
    }

    /// Returns the evidence: 1 at first, and at most the largest floating-point number.
    pub fn evidence(&self) -> f64 {
        let count = float(INCREASES.len() as u64);
        let past: f64 = self.sums.iter().map(|it| it / count).sum();
        let future = 1.0 / (self.watches + 1.0);
        (past + future).min(f64::MAX)
    }

    /// Returns true if the evidence reaches [`ALARM`](Self::ALARM).
    pub fn is_alarm(&self) -> bool {
        self.evidence() >= Self::ALARM
    }
}
