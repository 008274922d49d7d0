//! Simulated pilots, the plans that they give, and the power of these plans.
#![expect(clippy::expect_used, reason = "a panic is how a simulation fails")]

use kindlm_stats::{
    Confidence, Difference, Goal, PairedTest, Pilot, PilotCase, Shape, Size, Tally,
};
use oorandom::Rand64;

/// The true pass rates of the cases.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Population {
    /// Each case has the rate 0.8.
    Equal,
    /// The rates have the distribution Beta(2, 1/2), with the mean 0.8.
    Beta,
    /// Three quarters of the cases always pass; the others have a rate from 0.1 to 0.9.
    MostlyStable,
    /// Five cases share a document, and have the same rate, from 0.6 to 1.
    Documents,
}

/// The true pass rates of a simulation, and the goal of the plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) population: Population,
    pub(crate) repeats: u32,
    pub(crate) effect: f64,
    pub(crate) power: f64,
    pub(crate) alpha: f64,
    pub(crate) shape: Shape,
}

/// The rows of the table in `docs/plan.md`.
pub(crate) const ROWS: [Row; 11] = [
    row("all 0.8", Population::Equal, 1),
    row("all 0.8", Population::Equal, 5),
    row("Beta(2, 1/2)", Population::Beta, 1),
    row("Beta(2, 1/2)", Population::Beta, 5),
    row("three quarters stable", Population::MostlyStable, 1),
    row("three quarters stable", Population::MostlyStable, 5),
    Row { effect: 0.05, ..row("three quarters stable, −5 pp", Population::MostlyStable, 3) },
    Row { power: 0.9, ..row("Beta(2, 1/2), power 90%", Population::Beta, 3) },
    Row { alpha: 0.01, ..row("Beta(2, 1/2), alpha 1%", Population::Beta, 3) },
    Row {
        shape: Shape::Break,
        ..row("three quarters stable, some break", Population::MostlyStable, 3)
    },
    Row { shape: Shape::Break, ..row("5 cases a document, some break", Population::Documents, 3) },
];

const fn row(name: &'static str, population: Population, repeats: u32) -> Row {
    Row { name, population, repeats, effect: 0.1, power: 0.8, alpha: 0.05, shape: Shape::Spread }
}

impl Row {
    /// Returns the size that is planned from a simulated pilot with this number of clusters and repeats.
    pub(crate) fn plan(self, (clusters, repeats): (u64, u32), seed: u128) -> Size {
        let mut random = Rand64::new(seed);
        let names: Vec<String> = (0..clusters).map(|it| it.to_string()).collect();
        let mut cases = Vec::new();
        for cluster in &names {
            let rates = self.population.cluster(&mut random);
            let passed = rates.into_iter().map(|rate| run(rate, repeats, &mut random));
            cases.extend(passed.map(|passed| PilotCase::new(cluster, passed)));
        }
        let goal = Goal::new(self.effect, self.power, self.alpha, self.shape);
        let pilot = Pilot::new(&cases).expect("there are cases");
        pilot.size(goal.expect("the goal is valid"), self.repeats).expect("the goal is possible")
    }

    /// Simulates `rounds` comparisons of runs with this number of clusters. Returns the share that shows the fall.
    pub(crate) fn measure(self, clusters: u64, rounds: u32, seed: u128) -> f64 {
        let mut random = Rand64::new(seed);
        let names: Vec<String> = (0..clusters).map(|it| it.to_string()).collect();
        // If this share of the clusters breaks, the mean rate falls by the effect.
        let broken = self.effect / self.population.mean();
        let mut shown = 0;
        for round in 0..rounds {
            let mut differences = Vec::new();
            for cluster in &names {
                let breaks = self.shape == Shape::Break && random.rand_float() < broken;
                for before in self.population.cluster(&mut random) {
                    let after = match self.shape {
                        Shape::Spread => (before - self.effect).max(0.0),
                        Shape::Break if breaks => 0.0,
                        Shape::Break => before,
                    };
                    let before = run(before, self.repeats, &mut random);
                    let after = run(after, self.repeats, &mut random);
                    differences.push(Difference::new(cluster, before, after));
                }
            }
            let test = PairedTest::new(self.alpha, Confidence::P95, u64::from(round));
            shown += u32::from(test.shows_fall(&differences).expect("there are cases"));
        }
        f64::from(shown) / f64::from(rounds)
    }
}

impl Population {
    fn mean(self) -> f64 {
        match self {
            Self::Equal | Self::Beta | Self::Documents => 0.8,
            Self::MostlyStable => 0.875,
        }
    }

    /// Draws the true rates of the cases of a cluster.
    fn cluster(self, random: &mut Rand64) -> Vec<f64> {
        // The number is never 0, because 0 has no logarithm.
        let mut uniform = || 1.0 - random.rand_float();
        match self {
            Self::Equal => vec![0.8],
            Self::Beta => {
                // A beta variable is the share of one gamma variable in the sum of two. The gamma variable with the
                // shape 1/2 is half of a squared normal variable.
                let two = -(uniform() * uniform()).ln();
                let half = -uniform().ln() * (std::f64::consts::TAU * uniform()).cos().powi(2);
                vec![two / (two + half)]
            }
            Self::MostlyStable if uniform() < 0.75 => vec![1.0],
            Self::MostlyStable => vec![0.1 + 0.8 * uniform()],
            Self::Documents => vec![0.6 + 0.4 * uniform(); 5],
        }
    }
}

fn run(rate: f64, repeats: u32, random: &mut Rand64) -> Tally {
    let passed = (0..repeats).map(|_| u64::from(random.rand_float() < rate)).sum();
    Tally::new(passed, repeats.into()).expect("there are repeats")
}
