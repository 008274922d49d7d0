//! Simulates the sequential test of repeats, and prints measured beside exact numbers.
//!
//! `cargo run -p kindlm-stats --example repeats`
#![expect(clippy::print_stdout, reason = "an example that prints a table")]

use std::error::Error;

use kindlm_stats::{Decision, Sprt};

/// The simulated cases of each row.
const CASES: u32 = 40_000;

/// A small generator of random numbers: `SplitMix64` (Steele et al. 2014).
struct Random(u64);

impl Random {
    /// Returns a number from 0 to 1, without 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let high = u32::try_from((bits ^ (bits >> 31)) >> 32).unwrap_or(u32::MAX);
        f64::from(high) / 4_294_967_296.0
    }
}

/// Returns the decision of one case, and its number of repeats.
fn case(test: &Sprt, rate: f64, max: u32, random: &mut Random) -> (Option<Decision>, u32) {
    let (mut passed, mut failed) = (0, 0);
    for repeats in 1..=max {
        if random.next() < rate {
            passed += 1;
        } else {
            failed += 1;
        }
        if let Some(decision) = test.decide(passed, failed) {
            return (Some(decision), repeats);
        }
    }
    (None, max)
}

fn row(test: &Sprt, rate: f64, max: u32, fixed: u32, random: &mut Random) -> String {
    let (mut pass, mut fail, mut open, mut repeats) = (0, 0, 0, 0);
    for _ in 0..CASES {
        let (decision, used) = case(test, rate, max, random);
        match decision {
            Some(Decision::Pass) => pass += 1,
            Some(Decision::Fail) => fail += 1,
            None => open += 1,
        }
        repeats += used;
    }
    let exact = test.characteristics(rate, max);
    let of = |count: u32, exact: f64| {
        format!("{:.1}% ({:.1}%)", 100.0 * f64::from(count) / f64::from(CASES), 100.0 * exact.abs())
    };
    let mean = f64::from(repeats) / f64::from(CASES);
    format!(
        "| {} | {} | {} | {} | {mean:.1} ({:.1}) | {:.0}% |",
        rate,
        of(pass, exact.pass),
        of(fail, exact.fail),
        of(open, exact.undecided),
        exact.mean_repeats,
        100.0 * (1.0 - mean / f64::from(fixed))
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut random = Random(5);
    for (fail, pass, max) in [(0.80, 0.95, 60), (0.80, 0.95, 20), (0.50, 0.90, 20)] {
        let test = Sprt::new(fail, pass, 0.05, 0.05)?;
        let (fixed, _) = test.fixed_design(1_000).ok_or("no fixed design")?;
        println!("fail {fail}, pass {pass}, max {max}; {fixed} fixed repeats have the same errors");
        println!("| true pass rate | passed | failed | undecided | mean repeats | saved |");
        for rate in [0.5, fail, f64::midpoint(fail, pass), pass, 0.99, 1.0] {
            println!("{}", row(&test, rate, max, fixed, &mut random));
        }
    }
    Ok(())
}
