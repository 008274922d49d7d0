//! Simulated labels of people, verdicts of judges, and weekly watches of a judge.
//!
//! A watch asks the judge again about outputs of its calibration, and counts the different answers.
#![expect(clippy::expect_used, reason = "simulated counts are valid, and a test panics to fail")]

use fastrand::Rng;
use kindlm_stats::{
    Confidence, Confusion, Drift, Interval, Labelled, Tally, Tuning, kappa_interval_of_sets,
    prediction_powered, prediction_powered_rate,
};

const P95: Confidence = Confidence::P95;

/// Independent outputs. A judge labels all outputs, and people label only some of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Independent {
    pub(crate) labels: u64,
    pub(crate) unlabelled: u64,
    pub(crate) base_rate: f64,
    pub(crate) sensitivity: f64,
    pub(crate) specificity: f64,
}

/// The settings of the simulation. In most of them, the textbook intervals are too narrow.
pub(crate) const INDEPENDENT: [Independent; 9] = [
    independent(100, 500, 0.80, 0.90, 0.70),
    independent(30, 300, 0.90, 0.95, 0.60),
    independent(20, 200, 0.50, 0.80, 0.80),
    independent(200, 2000, 0.95, 0.97, 0.50),
    independent(50, 500, 0.70, 0.85, 0.85),
    independent(100, 1000, 0.95, 0.98, 0.60),
    independent(100, 1000, 0.80, 0.55, 0.55),
    independent(200, 2000, 0.80, 0.95, 0.90),
    independent(100, 1000, 0.90, 0.95, 0.80),
];

const fn independent(
    labels: u64,
    unlabelled: u64,
    base_rate: f64,
    sensitivity: f64,
    specificity: f64,
) -> Independent {
    Independent { labels, unlabelled, base_rate, sensitivity, specificity }
}

/// The share of intervals that contain the true value. Undefined intervals do not count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Coverage {
    hits: u32,
    intervals: u32,
}

impl Coverage {
    fn add(&mut self, interval: Option<Interval>, truth: f64) {
        let Some(interval) = interval else { return };
        self.intervals += 1;
        self.hits += u32::from(interval.low <= truth && truth <= interval.high);
    }

    /// Returns the share of the intervals that contain the true value, in percent; 0 without intervals.
    pub(crate) fn percent(self) -> f64 {
        100.0 * f64::from(self.hits) / f64::from(self.intervals.max(1))
    }
}

/// The coverage of the textbook intervals and of the intervals for few outputs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfIndependent {
    pub(crate) kappa_textbook: Coverage,
    pub(crate) kappa: Coverage,
    pub(crate) rate_textbook: Coverage,
    pub(crate) rate: Coverage,
}

impl Independent {
    fn judge(&self, random: &mut Rng) -> (bool, bool) {
        let human = random.f64() < self.base_rate;
        let right = if human { self.sensitivity } else { self.specificity };
        (human, human == (random.f64() < right))
    }

    /// Returns the true kappa, computed from the rates.
    pub(crate) fn kappa(&self) -> f64 {
        let Self { base_rate, sensitivity, specificity, .. } = *self;
        let judge = base_rate * sensitivity + (1.0 - base_rate) * (1.0 - specificity);
        let agreement = base_rate * sensitivity + (1.0 - base_rate) * specificity;
        let chance = base_rate * judge + (1.0 - base_rate) * (1.0 - judge);
        (agreement - chance) / (1.0 - chance)
    }

    /// Simulates `rounds` sets of labels.
    pub(crate) fn simulate(&self, rounds: u32, random: &mut Rng) -> OfIndependent {
        let mut found = OfIndependent::default();
        let truth = self.kappa();
        for _ in 0..rounds {
            let labelled = Confusion::from_pairs((0..self.labels).map(|_| self.judge(random)));
            let passed = (0..self.unlabelled).filter(|_| self.judge(random).1).count() as u64;
            let observed = Tally::new(passed, self.unlabelled).expect("some are unlabelled");
            let textbook = labelled.kappa(P95).ok().and_then(|it| it.interval.interval());
            found.kappa_textbook.add(textbook, truth);
            found.kappa.add(labelled.kappa_interval(P95).ok(), truth);
            let pairs = Labelled::of_answers(&labelled).expect("some are labelled");
            let tuning = Tuning::Power;
            let textbook = prediction_powered(&pairs, &observed.into(), tuning, P95);
            found.rate_textbook.add(textbook.ok().map(|it| it.interval), self.base_rate);
            let rate = prediction_powered_rate(&labelled, observed, P95);
            found.rate.add(rate.ok().map(|it| it.interval), self.base_rate);
        }
        found
    }
}

/// Outputs that are judged by several rules. The verdicts on one output depend on each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sets {
    pub(crate) outputs: usize,
    pub(crate) rules: usize,
    /// The correlation of verdicts on the same output, from 0 to 1.
    pub(crate) correlation: f64,
}

/// The settings of the simulation of sets.
pub(crate) const SETS: [Sets; 6] = [
    sets(10, 4, 0.2),
    sets(25, 4, 0.2),
    sets(25, 8, 0.2),
    sets(25, 8, 0.4),
    sets(50, 4, 0.4),
    sets(50, 8, 0.4),
];

const fn sets(outputs: usize, rules: usize, correlation: f64) -> Sets {
    Sets { outputs, rules, correlation }
}

/// The coverage of two intervals for the kappa over all verdicts of all outputs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfSets {
    pub(crate) as_if_independent: Coverage,
    pub(crate) jackknife: Coverage,
}

impl Sets {
    /// Draws outputs. On average, an output passes 70% of the rules, and the judge errs in 15% of its verdicts. Both
    /// shares differ between outputs.
    fn draw(&self, outputs: usize, random: &mut Rng) -> Vec<Confusion> {
        let scale = (1.0 - self.correlation) / self.correlation;
        let output = |_| {
            let quality = beta(0.70 * scale, 0.30 * scale, random);
            let error = beta(0.15 * scale, 0.85 * scale, random);
            Confusion::from_pairs((0..self.rules).map(|_| {
                let human = random.f64() < quality;
                (human, human != (random.f64() < error))
            }))
        };
        (0..outputs).map(output).collect()
    }

    /// Simulates `rounds` calibrations.
    pub(crate) fn simulate(&self, rounds: u32, random: &mut Rng) -> OfSets {
        let sum =
            |all: &[Confusion]| all.iter().fold(Confusion::default(), |sum, it| sum.plus(*it));
        let truth = sum(&self.draw(200_000, random)).kappa(P95).expect("both answers occur").value;
        let mut found = OfSets::default();
        for _ in 0..rounds {
            let outputs = self.draw(self.outputs, random);
            found.as_if_independent.add(sum(&outputs).kappa_interval(P95).ok(), truth);
            found.jackknife.add(kappa_interval_of_sets(&outputs, P95).ok(), truth);
        }
        found
    }
}

/// Draws from a beta distribution (Jöhnk 1964).
fn beta(a: f64, b: f64, random: &mut Rng) -> f64 {
    loop {
        let (x, y) = (random.f64().powf(1.0 / a), random.f64().powf(1.0 / b));
        if x + y > 0.0 && x + y <= 1.0 {
            return x / (x + y);
        }
    }
}

/// Weekly watches of a judge over one year. A watch asks the judge again about outputs of its calibration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Year {
    /// The number of outputs that each watch asks about.
    pub(crate) canaries: usize,
    /// The increase of the share of different answers after the judge has changed.
    pub(crate) change: f64,
    /// The first week with this increase, from 1.
    pub(crate) from: u32,
    pub(crate) noise: Noise,
}

/// The settings of the simulated watches: the number of outputs of a watch, and the judge's noise.
pub(crate) const YEARS: [(usize, Noise); 6] = [
    (20, Noise::Known(0.05)),
    (50, Noise::Known(0.05)),
    (20, Noise::Known(0.10)),
    (20, Noise::Measured),
    (50, Noise::Measured),
    (50, Noise::Verdicts),
];

/// The judge's noise: the share of outputs that an unchanged judge answers differently when asked again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Noise {
    /// A known share of different answers, the same for each output.
    Known(f64),
    /// A mean share of 5% over 100 outputs, with a different share for each output. The noise is measured by asking
    /// about each output twice.
    Measured,
    /// Of 100 outputs, 20 have a random pass rate, and the verdicts on the others are nearly constant. Each watch
    /// compares a new verdict with the first verdict on the output. If the first verdict was a rare one, most watches
    /// find a difference. The noise is measured by asking about each output twice.
    Verdicts,
}

/// Returns the upper end of the one-sided 95% interval of the share `differ / total`.
fn upper(differ: u64, total: u64) -> f64 {
    Tally::new(differ, total).expect("some are asked").wilson(Confidence::P90).high
}

/// Returns the probability that the judge passes an output, and the judge's first verdict on this output.
fn verdict(random: &mut Rng) -> (f64, bool) {
    let pass = match random.u8(0..100) {
        0..20 => random.f64(),
        20..84 => 0.998,
        _ => 0.002,
    };
    (pass, random.f64() < pass)
}

/// The number of simulated years, and the week of the first alarm in each year with an alarm.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alarms {
    years: u32,
    weeks: Vec<u32>,
}

impl Alarms {
    /// Returns the share of years with an alarm, in percent.
    pub(crate) fn percent(&self) -> f64 {
        let weeks = u32::try_from(self.weeks.len()).expect("few years");
        100.0 * f64::from(weeks) / f64::from(self.years)
    }

    /// Returns the median week of the alarms; `None` without alarms.
    pub(crate) fn median_week(&self) -> Option<u32> {
        let mut weeks = self.weeks.clone();
        weeks.sort_unstable();
        weeks.get(weeks.len() / 2).copied()
    }
}

impl Year {
    /// Simulates years of 52 watches each.
    pub(crate) fn simulate(&self, years: u32, random: &mut Rng) -> Alarms {
        let weeks = (0..years).filter_map(|_| self.first_alarm(random)).collect();
        Alarms { years, weeks }
    }

    fn first_alarm(&self, random: &mut Rng) -> Option<u32> {
        let (shares, noise) = match self.noise {
            Noise::Known(share) => (vec![share; self.canaries], share),
            Noise::Measured => {
                let shares: Vec<f64> = (0..100).map(|_| beta(0.2, 3.8, random)).collect();
                let twice = shares.iter().filter(|it| random.f64() < **it).count() as u64;
                (shares, upper(twice, 100))
            }
            Noise::Verdicts => {
                let first: Vec<(f64, bool)> = (0..100).map(|_| verdict(random)).collect();
                let other = |(pass, then): &&(f64, bool)| (random.f64() < *pass) != *then;
                let twice = first.iter().filter(other).count() as u64;
                let differs = |(pass, then): (f64, bool)| if then { 1.0 - pass } else { pass };
                (first.into_iter().map(differs).collect(), upper(twice, 100))
            }
        };
        let mut drift = Drift::new(noise).expect("a share between 0 and 1");
        (1..=52).find(|week| {
            let change = if *week < self.from { 0.0 } else { self.change };
            let mut order: Vec<usize> = (0..shares.len()).collect();
            random.shuffle(&mut order);
            let asked = order.iter().take(self.canaries);
            let total = asked.len() as u64;
            let differs = |at: &&usize| random.f64() < (shares[**at] + change).min(1.0);
            let changed = asked.filter(differs).count() as u64;
            drift.add(Tally::new(changed, total).expect("some are asked"));
            drift.is_alarm()
        })
    }
}
