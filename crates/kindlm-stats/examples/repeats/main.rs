//! Simulates the sequential test of repeats, and prints measured numbers beside exact ones.
//!
//! `cargo run -p kindlm-stats --example repeats`
#![expect(clippy::print_stdout, reason = "an example that prints a table")]

mod simulation;

use std::error::Error;

use kindlm_stats::{Decision, Sprt};
use oorandom::Rand64;

use simulation::case;

/// The number of simulated cases of each row.
const CASES: u32 = 40_000;

fn row(test: &Sprt, rate: f64, max: u32, fixed: u32, random: &mut Rand64) -> String {
    let (mut pass, mut fail, mut open, mut repeats) = (0, 0, 0, 0);
    for _ in 0..CASES {
        let (decision, used) = case(test, rate, max.into(), random);
        match decision {
            Some(Decision::Pass) => pass += 1,
            Some(Decision::Fail) => fail += 1,
            None => open += 1,
        }
        repeats += used.total();
    }
    let exact = test.characteristics(rate, max);
    let of = |count: u32, exact: f64| {
        format!("{:.1}% ({:.1}%)", 100.0 * f64::from(count) / f64::from(CASES), 100.0 * exact.abs())
    };
    #[expect(clippy::cast_precision_loss, reason = "a few million repeats")]
    let mean = repeats as f64 / f64::from(CASES);
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
    let mut random = Rand64::new(5);
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
