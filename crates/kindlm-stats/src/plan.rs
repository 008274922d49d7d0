//! Plans the size of two runs, so that their comparison shows a fall of the pass rate with a given probability.
//!
//! A past run is the pilot. The first size is from the formula of Miller (2024), *Adding Error Bars to Evals*, arXiv
//! 2411.00640, section 5. Then [`PairedTest::shows_fall`] is applied to simulated pairs of runs. The size is changed
//! until the share of pairs that show the fall is near the power. The formula alone has too little power: a case that
//! always passed has no variance in the pilot, but has variance when its rate falls.

use oorandom::Rand64;
use statrs::distribution::{ContinuousCDF as _, Normal};

use crate::pilot::Pilot;
use crate::{Confidence, Difference, PairedTest, Tally, float};

/// The number of simulated pairs of runs for a first estimate of the power.
///
/// At a power of 80%, the standard error of the first estimate is 1.3 percentage points.
const FIRST_ROUNDS: u32 = 1_000;

/// The number of simulated pairs of runs if the first estimate is near the wanted power.
///
/// At a power of 80%, the standard error is then 0.6 percentage points.
const ROUNDS: u32 = 4_000;

/// The largest distance between the first estimate and the wanted power at which [`ROUNDS`] pairs are simulated.
const NEAR: f64 = 0.05;

/// The accepted distance of the simulated power below and above the wanted power.
///
/// The size from the formula often has a little less than the wanted power. Equal distances would accept this size.
const ACCEPTED: (f64, f64) = (0.005, 0.015);

/// The largest number of clusters of a plan. A goal that needs more is an error.
pub const MOST_CLUSTERS: u64 = 10_000;

/// The seed of the simulation. The same pilot and goal give the same size.
const SEED: u128 = 20_240_411;

/// The way in which the pass rates of the cases fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Shape {
    /// The rates of all cases fall by the same amount, but not below 0.
    #[default]
    Spread,
    /// All cases of some clusters always fail, and the other clusters do not change.
    Break,
}

/// The fall to detect, and the accepted rates of wrong results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    effect: f64,
    power: f64,
    alpha: f64,
    shape: Shape,
}

impl Goal {
    /// Creates a goal.
    ///
    /// `effect` is the fall of the pass rate, above 0 and at most 1. `power` is the probability of detecting the fall,
    /// from 0.5 to 0.99. `alpha` is the rate of false alarms, from 0.001 to 0.2. Fails with the error of the first
    /// value that is out of its range.
    pub fn new(effect: f64, power: f64, alpha: f64, shape: Shape) -> Result<Self, PlanError> {
        if !(effect > 0.0 && effect <= 1.0) {
            return Err(PlanError::Effect);
        }
        if !(0.5..=0.99).contains(&power) {
            return Err(PlanError::Power);
        }
        if !(0.001..=0.2).contains(&alpha) {
            return Err(PlanError::Alpha);
        }
        Ok(Self { effect, power, alpha, shape })
    }

    /// Returns the fall of the pass rate, above 0 and at most 1.
    pub fn effect(self) -> f64 {
        self.effect
    }

    /// Returns the probability of detecting the fall, from 0.5 to 0.99.
    pub fn power(self) -> f64 {
        self.power
    }

    /// Returns the rate of false alarms, from 0.001 to 0.2.
    pub fn alpha(self) -> f64 {
        self.alpha
    }

    fn accepts(self, power: f64) -> bool {
        (-ACCEPTED.0..=ACCEPTED.1).contains(&(power - self.power))
    }

    /// Returns the factor for the standardized effect, from 0.5 to 2. The current effect has the power `power`; the
    /// effect times this factor has about the wanted power.
    ///
    /// The standardized effect is proportional to the effect, and to the square root of the size.
    fn ratio(self, power: f64) -> f64 {
        let reached = quantile(1.0 - self.alpha) + quantile(power.clamp(0.001, 0.999));
        let wanted = quantile(1.0 - self.alpha) + quantile(self.power);
        if reached <= 0.0 { 2.0 } else { (wanted / reached).clamp(0.5, 2.0) }
    }
}

/// The planned size of a run, with the power that simulations of this size have.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Size {
    /// The number of clusters.
    pub clusters: u64,
    /// The number of cases: clusters × the mean size of the pilot's clusters, rounded.
    pub cases: u64,
    /// The number of repeats of each case.
    pub repeats: u32,
    /// The share of simulated comparisons that show the fall, from 0 to 1.
    ///
    /// The power is from 0.5 percentage points below the wanted power to 1.5 above. The power is higher if no number
    /// of clusters has a power in this range.
    pub power: f64,
}

/// The reason why a run cannot be planned.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// The effect is out of range.
    #[error("the effect is not above 0 and at most 100 percentage points")]
    Effect,
    /// The power is out of range.
    #[error("the power is not from 0.5 to 0.99")]
    Power,
    /// The rate of false alarms is out of range.
    #[error("alpha is not from 0.001 to 0.2")]
    Alpha,
    /// The number of repeats is 0.
    #[error("the number of repeats is 0")]
    NoRepeats,
    /// The pass rate of the pilot is below the effect.
    #[error("the pass rate is {:.1}%, so it cannot fall by {:.1} points", 100.0 * rate, 100.0 * effect)]
    AboveRate {
        /// The estimated pass rate, from 0 to 1.
        rate: f64,
        /// The fall, from 0 to 1.
        effect: f64,
    },
    /// More than [`MOST_CLUSTERS`] clusters are needed.
    #[error("it needs more than {MOST_CLUSTERS} independent cases")]
    TooManyCases,
}

impl Pilot {
    /// Returns a size that reaches about the power of the goal with this number of repeats; see [`Size::power`].
    ///
    /// Fails without repeats, or if the goal is impossible or needs more than [`MOST_CLUSTERS`] clusters.
    pub fn size(&self, goal: Goal, repeats: u32) -> Result<Size, PlanError> {
        let change = self.change(goal)?;
        let first = self.formula(goal, change, repeats)?;
        let (mut short, mut enough) = (0, None);
        let mut clusters = first.clamp(1, MOST_CLUSTERS);
        loop {
            let power = self.simulate(goal, change, repeats, clusters);
            let size = Size { clusters, cases: self.cases_in(clusters), repeats, power };
            if goal.accepts(power) {
                return Ok(size);
            }
            if power > goal.power {
                enough = Some(size);
            } else if clusters == MOST_CLUSTERS {
                return Err(PlanError::TooManyCases);
            } else {
                short = clusters;
            }
            let highest = enough.map_or(MOST_CLUSTERS, |it| it.clusters - 1);
            match enough {
                Some(size) if highest <= short => return Ok(size),
                _ => {}
            }
            let next = rounded(float(clusters) * goal.ratio(power).powi(2));
            clusters = next.clamp(short + 1, highest);
        }
    }

    /// Returns the power of a run with as many clusters as the pilot, from 0 to 1.
    ///
    /// Fails without repeats, or if the goal is impossible.
    pub fn power(&self, goal: Goal, repeats: u32) -> Result<f64, PlanError> {
        let change = self.change(goal)?;
        positive(repeats)?;
        Ok(self.simulate(goal, change, repeats, self.clusters()))
    }

    /// Returns approximately the smallest fall that a run shows with the power of the goal. The run has as many
    /// clusters as the pilot.
    ///
    /// The effect of the goal is only the first guess. Returns `None` if such a run shows no fall with this power.
    /// Fails without repeats.
    pub fn detectable(&self, goal: Goal, repeats: u32) -> Result<Option<f64>, PlanError> {
        positive(repeats)?;
        let power_of = |effect: f64| {
            let goal = Goal { effect, ..goal };
            let change = self.change(goal)?;
            let clusters = self.clusters();
            Ok(self.share(goal, change, (repeats, clusters), FIRST_ROUNDS, 0))
        };
        let (mut short, mut enough) = (0.0, self.rate());
        if power_of(enough)? < goal.power {
            return Ok(None);
        }
        let mut effect = goal.effect.min(enough / 2.0);
        for _ in 0..12 {
            let power = power_of(effect)?;
            let is_near = goal.accepts(power);
            if power < goal.power && !is_near {
                short = effect;
            } else {
                enough = effect;
            }
            if is_near || enough - short < 0.001 {
                break;
            }
            let next = effect * goal.ratio(power);
            let is_between = next > short && next < enough;
            effect = if is_between { next } else { f64::midpoint(short, enough) };
        }
        Ok(Some(enough))
    }

    fn change(&self, goal: Goal) -> Result<Change, PlanError> {
        let (rate, effect) = (self.rate(), goal.effect);
        if effect > rate + 1e-9 {
            return Err(PlanError::AboveRate { rate, effect });
        }
        Ok(match goal.shape {
            Shape::Break => Change::Break((effect / rate).min(1.0)),
            Shape::Spread => {
                // A rate cannot fall below 0, so cases with low rates fall by less. Search for the fall of the other
                // cases that makes the mean fall equal to the effect.
                let (mut low, mut high) = (effect, 1.0);
                for _ in 0..50 {
                    let middle = f64::midpoint(low, high);
                    let fall = self.mean(|rate| rate.min(middle));
                    *(if fall < effect { &mut low } else { &mut high }) = middle;
                }
                Change::Fall(high)
            }
        })
    }

    /// Returns the number of clusters from the formula plus 10%, because the formula gives too little power.
    ///
    /// The formula is `n = (z₁₋α + z_power)² (ω² + σ²_before/K + σ²_after/K) / δ²` for the number of cases `n`, the fall δ and
    /// K repeats. ω² is the variance of the fall between cases, and σ² is the variance within cases. Fails without repeats,
    /// or if the number is above twice [`MOST_CLUSTERS`].
    fn formula(&self, goal: Goal, change: Change, repeats: u32) -> Result<u64, PlanError> {
        positive(repeats)?;
        let within = |rate: f64| rate * (1.0 - rate);
        let (square, within) = match change {
            Change::Fall(by) => (
                self.mean(|rate| rate.min(by).powi(2)),
                self.mean(|rate| within(rate) + within((rate - by).max(0.0))),
            ),
            Change::Break(share) => {
                (share * self.mean(|rate| rate.powi(2)), (2.0 - share) * self.mean(within))
            }
        };
        let factor = (quantile(1.0 - goal.alpha) + quantile(goal.power)) / goal.effect;
        let between = square - goal.effect.powi(2);
        let cases = 1.1 * factor.powi(2) * (between + within / f64::from(repeats));
        let clusters = cases * float(self.clusters()) / float(self.cases());
        if clusters > 2.0 * float(MOST_CLUSTERS) {
            return Err(PlanError::TooManyCases);
        }
        Ok(rounded(clusters))
    }

    /// Returns the share of simulated comparisons that show the fall.
    fn simulate(&self, goal: Goal, change: Change, repeats: u32, clusters: u64) -> f64 {
        let runs = (repeats, clusters);
        let first = self.share(goal, change, runs, FIRST_ROUNDS, 0);
        if (first - goal.power).abs() > NEAR {
            return first;
        }
        let more = ROUNDS - FIRST_ROUNDS;
        let rest = self.share(goal, change, runs, more, 1);
        (first * f64::from(FIRST_ROUNDS) + rest * f64::from(more)) / f64::from(ROUNDS)
    }

    fn share(
        &self,
        goal: Goal,
        change: Change,
        (repeats, clusters): (u32, u64),
        rounds: u32,
        part: u128,
    ) -> f64 {
        let names: Vec<String> = (0..clusters).map(|it| it.to_string()).collect();
        let mut random = Rand64::new(SEED + (u128::from(clusters) << 40) + part);
        let mut differences = Vec::new();
        let mut shown = 0;
        for seed in 0..rounds {
            differences.clear();
            for cluster in &names {
                let is_broken = matches!(change, Change::Break(it) if random.rand_float() < it);
                for rates in self.cluster(&mut random) {
                    let before = rates.draw(&mut random);
                    let after = match change {
                        Change::Fall(by) => (before - by).max(0.0),
                        Change::Break(_) if is_broken => 0.0,
                        Change::Break(_) => before,
                    };
                    let (before, after) =
                        (run(before, repeats, &mut random), run(after, repeats, &mut random));
                    if let (Ok(before), Ok(after)) = (before, after) {
                        differences.push(Difference { cluster, before, after });
                    }
                }
            }
            let confidence = Confidence::P95;
            let test = PairedTest { alpha: goal.alpha, confidence, seed: seed.into() };
            shown += u32::from(test.shows_fall(&differences) == Ok(true));
        }
        f64::from(shown) / f64::from(rounds)
    }
}

/// The change of the pass rates from the first run to the second.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// The rate of each case falls by this amount, but not below 0.
    Fall(f64),
    /// In this share of the clusters, all cases always fail.
    Break(f64),
}

fn positive(repeats: u32) -> Result<(), PlanError> {
    if repeats == 0 { Err(PlanError::NoRepeats) } else { Ok(()) }
}

/// Draws the result of a case with this pass rate. Fails without repeats.
fn run(rate: f64, repeats: u32, random: &mut Rand64) -> Result<Tally, crate::Undefined> {
    let passed = match rate {
        rate if rate <= 0.0 => 0,
        rate if rate >= 1.0 => repeats.into(),
        rate => (0..repeats).map(|_| u64::from(random.rand_float() < rate)).sum(),
    };
    Tally::new(passed, repeats.into())
}

/// Returns a quantile of the standard normal distribution. `share` is above 0 and below 1.
fn quantile(share: f64) -> f64 {
    Normal::standard().inverse_cdf(share)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive size")]
fn rounded(size: f64) -> u64 {
    size.round() as u64
}
