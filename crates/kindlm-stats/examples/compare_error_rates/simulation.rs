//! Simulated pairs of runs, and the false and true alarms of four rules.
#![expect(clippy::expect_used, reason = "a panic is how a simulation fails")]

use kindlm_stats::{Confidence, Difference, PairedTest, Tally};
use oorandom::Rand64;

/// The nominal rate of false alarms.
pub(crate) const ALPHA: f64 = 0.05;

/// The true pass rates of the cases.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Population {
    /// Each case has the rate 0.8.
    Equal,
    /// Three quarters of the cases always pass; the others have a rate from 0.1 to 0.9.
    MostlyStable,
    /// Five cases share a document. In each run, all cases of a document have the same random rate, from 0.6 to 1.
    Documents,
    /// The rates of [`Self::Documents`], but each case is its own cluster.
    DocumentsWithoutCluster,
}

/// The change from the first run to the second.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// No change.
    None,
    /// The rate of each case falls by this amount, but not below 0.
    Fall(f64),
    /// With this probability, all repeats of a case fail in the second run.
    Break(f64),
}

/// A row of the table: the population, cases and repeats of the simulated runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) population: Population,
    pub(crate) cases: usize,
    pub(crate) repeats: u64,
}

/// The rows of the table in `docs/compare.md`.
pub(crate) const ROWS: [Row; 7] = [
    row("all 0.8, 20 × 1", Population::Equal, 20, 1),
    row("all 0.8, 20 × 5", Population::Equal, 20, 5),
    row("all 0.8, 100 × 1", Population::Equal, 100, 1),
    row("all 0.8, 100 × 5", Population::Equal, 100, 5),
    row("three quarters stable, 100 × 1", Population::MostlyStable, 100, 1),
    row("three quarters stable, 100 × 5", Population::MostlyStable, 100, 5),
    row("5 cases a document, 100 × 5", Population::Documents, 100, 5),
];

/// A further row: the cases of a document depend on each other, but each case counts as its own cluster.
pub(crate) const WITHOUT_CLUSTER: Row =
    row("the same without `cluster`", Population::DocumentsWithoutCluster, 100, 5);

const fn row(name: &'static str, population: Population, cases: usize, repeats: u64) -> Row {
    Row { name, population, cases, repeats }
}

/// The alarm rate of each rule: the share of pairs of runs in which the rule reports a regression.
///
/// The last two fields are measures of the comparison itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alarms {
    /// Rule: the rate of any case fell.
    pub(crate) any_fall: f64,
    /// Rule: the pass rate fell by more than 5 percentage points.
    pub(crate) five_points: f64,
    /// Rule: the sign test of the numbers of falls and rises.
    pub(crate) sign: f64,
    /// Rule of KindLM: the sign-flip test.
    pub(crate) sign_flip: f64,
    /// The share of pairs whose 95% interval contains the true difference.
    pub(crate) covered: f64,
    /// The mean of the detectable fall, over the pairs that have a detectable fall.
    pub(crate) detectable: f64,
}

/// Simulates pairs of runs.
pub(crate) fn simulate(row: Row, effect: Effect, rounds: u32, seed: u128) -> Alarms {
    let mut random = Rand64::new(seed);
    let mut alarms = Alarms::default();
    let keys: Vec<String> = (0..row.cases).map(|case| key(row.population, case)).collect();
    let mut detectable = (0.0, 0.0);
    for round in 0..rounds {
        let (pairs, expected) = pairs(row, effect, &mut random);
        let differences: Vec<Difference<'_>> = pairs
            .iter()
            .zip(&keys)
            .map(|(&(before, after), cluster)| {
                let before = Tally::new(before, row.repeats).expect("the passes are repeats");
                let after = Tally::new(after, row.repeats).expect("the passes are repeats");
                Difference::new(cluster, before, after)
            })
            .collect();
        let test = PairedTest::new(ALPHA, Confidence::P95, u64::from(round));
        let paired = test.compare(&differences).expect("the pairs are valid");
        let falls = pairs.iter().filter(|it| it.1 < it.0).count();
        let rises = pairs.iter().filter(|it| it.1 > it.0).count();
        let is_sign = sign_test(falls, rises, row.repeats == 1) <= ALPHA;
        let is_flip = paired.mean < 0.0 && paired.p_value <= ALPHA;
        let is_covered = (paired.interval.low..=paired.interval.high).contains(&expected);
        alarms.any_fall += f64::from(u8::from(falls > 0));
        alarms.five_points += f64::from(u8::from(paired.mean < -0.05 - 1e-9));
        alarms.sign += f64::from(u8::from(is_sign));
        alarms.sign_flip += f64::from(u8::from(is_flip));
        alarms.covered += f64::from(u8::from(is_covered));
        if let Some(it) = paired.detectable {
            detectable = (detectable.0 + it, detectable.1 + 1.0);
        }
    }
    let share = |it: f64| it / f64::from(rounds);
    Alarms {
        any_fall: share(alarms.any_fall),
        five_points: share(alarms.five_points),
        sign: share(alarms.sign),
        sign_flip: share(alarms.sign_flip),
        covered: share(alarms.covered),
        detectable: detectable.0 / detectable.1,
    }
}

fn key(population: Population, case: usize) -> String {
    match population {
        Population::Documents => (case / 5).to_string(),
        _ => case.to_string(),
    }
}

/// Returns the passes of each case in both runs, and the mean of the true differences.
fn pairs(row: Row, effect: Effect, random: &mut Rand64) -> (Vec<(u64, u64)>, f64) {
    let mut document = (0.0, 0.0);
    let mut expected = 0.0;
    let mut pairs = Vec::with_capacity(row.cases);
    for case in 0..row.cases {
        let (before, after) = match row.population {
            Population::Equal => (0.8, 0.8),
            Population::MostlyStable if random.rand_float() < 0.75 => (1.0, 1.0),
            Population::MostlyStable => {
                let rate = 0.1 + 0.8 * random.rand_float();
                (rate, rate)
            }
            Population::Documents | Population::DocumentsWithoutCluster => {
                if case % 5 == 0 {
                    document = (0.6 + 0.4 * random.rand_float(), 0.6 + 0.4 * random.rand_float());
                }
                document
            }
        };
        let after: f64 = match effect {
            Effect::Fall(fall) => f64::max(after - fall, 0.0),
            Effect::Break(share) if random.rand_float() < share => 0.0,
            Effect::None | Effect::Break(_) => after,
        };
        // The rates of a document in both runs have the same distribution, so without an effect the true difference is
        // 0. With an effect, the true difference is not used.
        if matches!(row.population, Population::Equal | Population::MostlyStable) {
            expected += after - before;
        }
        let mut draw =
            |rate: f64| (0..row.repeats).map(|_| u64::from(random.rand_float() < rate)).sum();
        pairs.push((draw(before), draw(after)));
    }
    #[expect(clippy::cast_precision_loss, reason = "a few cases")]
    let cases = row.cases as f64;
    (pairs, expected / cases)
}

/// Returns the one-sided p value of the sign test (`McNemar`); mid-p for single repeats.
fn sign_test(falls: usize, rises: usize, is_mid: bool) -> f64 {
    let all = falls + rises;
    let mut probability = 0.5_f64.powi(i32::try_from(all).expect("a few cases"));
    let mut tail = 0.0;
    // Add the probabilities from `all` falls down to the observed number. Each probability is the previous one times a
    // ratio.
    for fallen in (falls..=all).rev() {
        let is_observed = fallen == falls;
        tail += if is_mid && is_observed { probability / 2.0 } else { probability };
        #[expect(clippy::cast_precision_loss, reason = "a few cases")]
        let ratio = fallen as f64 / (all - fallen + 1) as f64;
        probability *= ratio;
    }
    tail
}
