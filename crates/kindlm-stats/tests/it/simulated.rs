//! The intervals contain the true value as often as they promise, and an unchanged judge causes few alarms.
//!
//! `examples/coverage` simulates more rounds.

#[path = "../../examples/coverage/simulation.rs"]
mod simulation;

use fastrand::Rng;

use simulation::{INDEPENDENT, Noise, SETS, YEARS, Year};

/// Returns true for a coverage from 94% to 97%, with 1.5 points more on each side for the noise of 2,000 rounds (three
/// standard errors).
fn is_covered(percent: f64) -> bool {
    (92.5..=98.5).contains(&percent)
}

#[test]
fn intervals_for_few_outputs_contain_the_true_value() {
    let mut random = Rng::with_seed(7);
    let mut textbook_fails = 0;
    for it in INDEPENDENT {
        let found = it.simulate(2_000, &mut random);
        assert!(is_covered(found.kappa.percent()), "{it:?}: {:?}", found.kappa);
        assert!(is_covered(found.rate.percent()), "{it:?}: {:?}", found.rate);
        textbook_fails += u32::from(!is_covered(found.kappa_textbook.percent()));
        textbook_fails += u32::from(!is_covered(found.rate_textbook.percent()));
    }
    // The simulation must find that the textbook intervals are too narrow.
    assert!(textbook_fails >= 8, "the textbook intervals fail in {textbook_fails} of 18 settings");
}

#[test]
fn intervals_of_sets_contain_the_true_value() {
    let mut random = Rng::with_seed(7);
    for it in SETS {
        let found = it.simulate(1_000, &mut random);
        assert!(is_covered(found.jackknife.percent()), "{it:?}: {:?}", found.jackknife);
        assert!(found.as_if_independent.percent() < 92.0, "{it:?}: {:?}", found.as_if_independent);
    }
}

#[test]
fn an_unchanged_judge_alarms_in_few_years() {
    let mut random = Rng::with_seed(7);
    for (canaries, noise) in YEARS {
        let alarms = Year { canaries, change: 0.0, from: 1, noise }.simulate(1_000, &mut random);
        assert!(alarms.percent() <= 2.5, "{canaries} {noise:?}: {}%", alarms.percent());
    }
}

#[test]
fn a_changed_judge_alarms_within_weeks() {
    let mut random = Rng::with_seed(7);
    for (canaries, noise, change, week) in [
        (20, Noise::Known(0.05), 0.10, 3),
        (50, Noise::Known(0.05), 0.10, 2),
        (20, Noise::Known(0.10), 0.10, 5),
        (20, Noise::Measured, 0.20, 2),
        (50, Noise::Verdicts, 0.20, 1),
    ] {
        let alarms = Year { canaries, change, from: 1, noise }.simulate(300, &mut random);
        assert!(alarms.percent() >= 99.0, "{canaries} {noise:?}: {}%", alarms.percent());
        let median = alarms.median_week().unwrap();
        assert!(median.abs_diff(week) <= 1, "{canaries} {noise:?}: week {median}");
    }
}
