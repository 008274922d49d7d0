//! The error rates of the comparison of two runs, by simulation with a fixed seed.

#[path = "../../examples/compare_error_rates/simulation.rs"]
mod simulation;

use simulation::{ALPHA, Effect, ROWS, WITHOUT_CLUSTER, simulate};

/// The number of rounds. For a rate of 5%, this number gives a standard error of about 1 percentage point.
const ROUNDS: u32 = 500;

#[test]
fn unchanged_runs_raise_few_alarms() {
    for (row, seed) in ROWS.into_iter().zip(1..) {
        let alarms = simulate(row, Effect::None, ROUNDS, seed);
        assert!(alarms.sign_flip <= ALPHA + 0.01, "{}: {alarms:?}", row.name);
        // The rule `any_fall` reports a regression in nearly every unchanged run.
        assert!(alarms.any_fall > 0.9, "{}: {alarms:?}", row.name);
    }
}

#[test]
fn a_real_fall_is_found() {
    let of = |name: &str| *ROWS.iter().find(|it| it.name == name).unwrap();
    for (row, effect, least) in [
        (of("all 0.8, 100 × 5"), Effect::Fall(0.1), 0.95),
        (of("three quarters stable, 100 × 1"), Effect::Fall(0.1), 0.70),
        (of("three quarters stable, 100 × 5"), Effect::Break(0.1), 0.88),
    ] {
        let alarms = simulate(row, effect, 200, 7);
        assert!(alarms.sign_flip >= least, "{}: {alarms:?}", row.name);
    }
}

#[test]
fn the_detectable_fall_is_found_in_about_80_percent() {
    for name in ["all 0.8, 20 × 1", "all 0.8, 20 × 5", "all 0.8, 100 × 1"] {
        let row = *ROWS.iter().find(|it| it.name == name).unwrap();
        let fall = simulate(row, Effect::None, 100, 3).detectable;
        let power = simulate(row, Effect::Fall(fall), 300, 4).sign_flip;
        assert!((0.70..=0.92).contains(&power), "{name}: {fall} is found in {power}");
    }
}

#[test]
fn cases_of_one_document_need_a_cluster() {
    assert!(simulate(WITHOUT_CLUSTER, Effect::None, 200, 5).sign_flip > 0.1);
}
