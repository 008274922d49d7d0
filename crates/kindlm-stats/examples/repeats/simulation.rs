//! A simulated case whose repeats end early.
#![expect(clippy::expect_used, reason = "a panic is how a simulation fails")]

use kindlm_stats::{Decision, Sprt, Tally};
use oorandom::Rand64;

/// Returns the decision of one case, and the counts of its repeats.
pub(crate) fn case(
    test: &Sprt,
    rate: f64,
    max: u64,
    random: &mut Rand64,
) -> (Option<Decision>, Tally) {
    let (mut passed, mut failed) = (0, 0);
    loop {
        if random.rand_float() < rate {
            passed += 1;
        } else {
            failed += 1;
        }
        let decision = test.decide(passed, failed);
        if decision.is_some() || passed + failed == max {
            let tally = Tally::new(passed, passed + failed).expect("there is a repeat");
            return (decision, tally);
        }
    }
}
