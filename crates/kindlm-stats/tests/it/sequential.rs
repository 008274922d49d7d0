//! Simulated cases whose repeats end early. The seed is fixed, so that the results are always the same.

#[path = "../../examples/repeats/simulation.rs"]
mod simulation;

use kindlm_stats::{Confidence, Decision, Sprt};
use oorandom::Rand64;

use simulation::case;

/// The number of simulated cases of each row.
const CASES: u32 = 8_000;

#[test]
fn errors_stay_below_their_limits() {
    let mut random = Rand64::new(5);
    for (fail, pass, alpha, beta, max) in [
        (0.80, 0.95, 0.05, 0.05, 60),
        (0.80, 0.95, 0.05, 0.05, 20),
        (0.50, 0.90, 0.05, 0.05, 20),
        (0.70, 0.95, 0.05, 0.05, 20),
        (0.90, 0.99, 0.05, 0.05, 60),
        (0.80, 0.95, 0.10, 0.10, 40),
        (0.80, 0.95, 0.05, 0.20, 20),
    ] {
        let test = Sprt::new(fail, pass, alpha, beta).unwrap();
        for (rate, wrong, limit) in [(fail, Decision::Pass, alpha), (pass, Decision::Fail, beta)] {
            let mut errors = 0;
            let mut covered = 0;
            for _ in 0..CASES {
                let (decision, tally) = case(&test, rate, max, &mut random);
                errors += u32::from(decision == Some(wrong));
                let interval = tally.anytime(Confidence::P95);
                covered += u32::from(interval.low <= rate && rate <= interval.high);
            }
            let share = |count: u32| f64::from(count) / f64::from(CASES);
            let exact = test.characteristics(rate, u32::try_from(max).unwrap());
            let exact = if wrong == Decision::Pass { exact.pass } else { exact.fail };
            let named = format!("fail {fail}, pass {pass}, max {max}, rate {rate}");
            assert!(share(errors) <= limit + 0.005, "{named}: {}", share(errors));
            assert!((share(errors) - exact).abs() < 0.01, "{named}: {} {exact}", share(errors));
            assert!(share(covered) >= 0.95, "{named}: the interval covers {}", share(covered));
        }
    }
}
