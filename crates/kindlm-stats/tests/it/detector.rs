//! The alarms of the detector, by simulation with a fixed seed.

#[path = "../../examples/detector/simulation.rs"]
mod simulation;

use fastrand::Rng;

use simulation::{MEAN, Reference, simulate};

#[test]
fn false_alarms_are_as_rare_as_promised() {
    let mut random = Rng::with_seed(3);
    for rate in [0.5, 0.95, 0.99] {
        let lengths = simulate(Reference::Exact, (rate, rate), (60, 40_000), &mut random);
        // Streams that end without an alarm count with their length, so the true mean is higher.
        assert!(lengths.mean() >= MEAN, "{rate}: {}", lengths.mean());
        let lengths = simulate(Reference::Drawn(100), (rate, rate), (60, 40_000), &mut random);
        assert!(lengths.mean() >= MEAN, "{rate}: {}", lengths.mean());
    }
}

#[test]
fn clear_falls_are_found_soon() {
    let mut random = Rng::with_seed(3);
    for (reference, before, after, most) in [
        (Reference::Drawn(100), 0.95, 0.75, 150.0),
        (Reference::Drawn(100), 0.99, 0.79, 80.0),
        (Reference::Drawn(1_000), 0.95, 0.90, 900.0),
        (Reference::Drawn(1_000), 0.99, 0.94, 350.0),
    ] {
        let lengths = simulate(reference, (before, after), (100, 10_000), &mut random);
        assert!(lengths.share() >= 0.98, "{before} → {after}: {}", lengths.share());
        assert!(lengths.mean() <= most, "{before} → {after}: {}", lengths.mean());
    }
}
