//! The power of planned runs, by simulation with a fixed seed. `examples/plan_power` simulates more rounds.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../examples/plan_power/simulation.rs"]
mod simulation;

use kindlm_stats::{Goal, MOST_CLUSTERS, Pilot, PilotCase, PlanError, Shape, Tally};

use simulation::ROWS;

#[test]
fn a_pilot_that_shows_the_true_rates_gives_the_power() {
    for (row, seed) in ROWS.into_iter().zip(1..) {
        let size = row.plan((1_000, 20), seed);
        let power = row.measure(size.clusters, 2_000, seed + 100);
        // The tolerance is 2 points for the plan, plus two standard errors of 2,000 rounds.
        assert!(
            (power - row.power).abs() <= 0.038,
            "{} × {}: {size:?}: {power}",
            row.name,
            row.repeats
        );
    }
}

#[test]
fn small_pilots_give_the_power_on_average() {
    for row in [ROWS[0], ROWS[3], ROWS[5]] {
        let powers = (0..12).map(|seed| {
            let size = row.plan((30, 3), 2 * seed);
            row.measure(size.clusters, 100, 2 * seed + 1)
        });
        let mean = powers.sum::<f64>() / 12.0;
        assert!((mean - 0.8).abs() <= 0.08, "{} × {}: {mean}", row.name, row.repeats);
    }
}

fn pilot(passed: u64, repeats: u64, cases: u64) -> Pilot {
    let names: Vec<String> = (0..cases).map(|it| it.to_string()).collect();
    let passed = Tally::new(passed, repeats).unwrap();
    let cases: Vec<_> = names.iter().map(|cluster| PilotCase::new(cluster, passed)).collect();
    Pilot::new(&cases).unwrap()
}

fn goal(effect: f64) -> Goal {
    Goal::new(effect, 0.8, 0.05, Shape::Spread).unwrap()
}

#[test]
fn the_same_pilot_gives_the_same_plan() {
    let size = || pilot(4, 5, 30).size(goal(0.1), 3).unwrap();
    assert_eq!(size(), size());
    let more = pilot(4, 5, 30).size(goal(0.05), 3).unwrap();
    assert!(more.clusters > 3 * size().clusters, "{more:?}");
}

#[test]
fn the_detectable_fall_has_the_power() {
    let pilot = pilot(4, 5, 40);
    for repeats in [1, 5] {
        let fall = pilot.detectable(goal(0.1), repeats).unwrap().unwrap();
        let power = pilot.power(goal(fall), repeats).unwrap();
        assert!((power - 0.8).abs() < 0.04, "{repeats}: {fall} {power}");
    }
    // Three cases have 8 sign flips, so p is at least 1/8.
    assert_eq!(self::pilot(4, 5, 3).detectable(goal(0.1), 5), Ok(None));
}

#[test]
fn impossible_goals_are_refused() {
    for (effect, power, alpha, expected) in [
        (0.0, 0.8, 0.05, PlanError::Effect),
        (1.1, 0.8, 0.05, PlanError::Effect),
        (f64::NAN, 0.8, 0.05, PlanError::Effect),
        (0.1, 0.4, 0.05, PlanError::Power),
        (0.1, 1.0, 0.05, PlanError::Power),
        (0.1, 0.8, 0.0, PlanError::Alpha),
        (0.1, 0.8, 0.3, PlanError::Alpha),
    ] {
        assert_eq!(Goal::new(effect, power, alpha, Shape::Spread), Err(expected));
    }
    let half = pilot(1, 2, 20);
    assert!(matches!(half.size(goal(0.6), 1), Err(PlanError::AboveRate { .. })));
    assert_eq!(half.size(goal(0.1), 0), Err(PlanError::NoRepeats));
    assert_eq!(half.size(goal(0.001), 1), Err(PlanError::TooManyCases));
    assert!(half.size(goal(0.5), 5).unwrap().clusters < MOST_CLUSTERS);
}
