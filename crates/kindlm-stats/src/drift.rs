//! Evidence over time that a judge has changed.

use crate::{Tally, Undefined, float};

/// The assumed increases of the share of different answers if the judge has changed.
const INCREASES: [f64; 4] = [0.05, 0.1, 0.2, 0.4];

/// The evidence that a judge has changed since its calibration, as an e-process.
///
/// Every watch asks the judge about outputs of the calibration again, and counts the different answers. For a change
/// before a given watch, the evidence is a likelihood ratio: an increased share of different answers against the
/// judge's own noise. This ratio is the product over the given watch and all later watches, averaged over four
/// increases. The whole evidence is the weighted mean over all watches before which the judge may have changed. The
/// weight of watch `t` is `1 / (t (t + 1))`; the weights sum to 1, and a watch in the future has the evidence 1. So
/// watches without a difference do not hide a later change, as they would in one product over all watches.
///
/// Without a change, the evidence ever reaches 20 with a probability of at most 1 in 20, however often the judge is
/// watched (Ville's inequality; Ramdas et al. (2023), *Stat. Sci.* 38:576). So the evidence may be checked after each watch.
/// The bound also holds if some outputs are noisier than others, if the noise is right on average. The weighted mean is
/// an e-process, because each of its terms is an e-process (Shin, Ramdas, Rinaldo (2023), *New England J. Stat. Data
/// Sci.* 2:229).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    noise: f64,
    /// The number of watches.
    watches: f64,
    /// The weighted sum of the likelihood ratios over all watches before which the judge may have changed, for each
    /// increase.
    sums: [f64; INCREASES.len()],
}

impl Drift {
    /// The evidence from which a judge counts as changed.
    pub const ALARM: f64 = 20.0;

    /// Creates a process without evidence.
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
