//! A series without a change has few change points, and a real change is found.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use fastrand::Rng;
use kindlm_stats::{Tally, change_points};

const ROUNDS: u32 = 2_000;

/// Returns the number of simulated series with a change point, and the number with a change point at `at`.
fn simulate(rates: &[f64], repeats: u64, at: usize) -> (u32, u32) {
    let mut random = Rng::with_seed(7);
    let (mut any, mut right) = (0, 0);
    for _ in 0..ROUNDS {
        let draw = |rate: &f64| {
            let passed = (0..repeats).filter(|_| random.f64() < *rate).count() as u64;
            Tally::new(passed, repeats).unwrap()
        };
        let series: Vec<Tally> = rates.iter().map(draw).collect();
        let found = change_points(&series, 0.05);
        any += u32::from(!found.is_empty());
        right += u32::from(found.iter().any(|it| it.at == at));
    }
    (any, right)
}

#[test]
fn a_constant_rate_has_few_change_points() {
    for (rate, runs, repeats) in [(0.5, 30, 1), (0.8, 30, 5), (0.9, 10, 10), (0.95, 20, 3)] {
        let (any, _) = simulate(&vec![rate; runs], repeats, 0);
        // At most 5% of the series may have a change point. The bound adds three standard errors of 2,000 rounds.
        assert!(f64::from(any) / f64::from(ROUNDS) <= 0.065, "{rate} {runs} × {repeats}: {any}");
    }
}

#[test]
fn a_broken_case_has_its_change_point() {
    for (before, after, repeats, least) in [(0.9, 0.3, 5, 0.95), (0.95, 0.05, 1, 0.9)] {
        let rates: Vec<f64> = (0..20).map(|at| if at < 12 { before } else { after }).collect();
        let (any, right) = simulate(&rates, repeats, 12);
        assert!(f64::from(any) / f64::from(ROUNDS) >= least, "{before} → {after}: {any}");
        assert!(f64::from(right) / f64::from(ROUNDS) >= 0.55, "{before} → {after}: {right}");
    }
}
