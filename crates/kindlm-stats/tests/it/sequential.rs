//! Simulated cases whose repeats end early. The seed is fixed, so that the results are always the same.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use kindlm_stats::{Confidence, Decision, Sprt, Tally};

/// The simulated cases of each row.
const CASES: u32 = 8_000;

/// A small generator of random numbers: `SplitMix64` (Steele et al. 2014).
struct Random(u64);

impl Random {
    /// Returns a number from 0 to 1, without 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        f64::from(u32::try_from((bits ^ (bits >> 31)) >> 32).unwrap()) / 4_294_967_296.0
    }
}

/// Returns the decision of one case, and its repeats.
fn case(test: &Sprt, rate: f64, max: u64, random: &mut Random) -> (Option<Decision>, Tally) {
    let (mut passed, mut failed) = (0, 0);
    loop {
        if random.next() < rate {
            passed += 1;
        } else {
            failed += 1;
        }
        let decision = test.decide(passed, failed);
        if decision.is_some() || passed + failed == max {
            return (decision, Tally::new(passed, passed + failed).unwrap());
        }
    }
}

#[test]
fn errors_stay_below_their_limits() {
    let mut random = Random(5);
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
