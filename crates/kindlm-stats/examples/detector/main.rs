//! Measures how soon the detector finds a fall of a pass rate, and how often it is wrong without a fall.
//!
//! `cargo run --release -p kindlm-stats --example detector [streams]`; 400 streams by default.
#![expect(clippy::print_stdout, clippy::expect_used, reason = "an example that prints a table")]

mod simulation;

use fastrand::Rng;
use kindlm_stats::{Detector, DetectorState};

use simulation::{MEAN, Reference, detector, simulate};

/// The highest number of results of a stream without a fall.
const UNCHANGED: u64 = 100_000;

/// The highest number of results of a stream after a fall.
const FALLEN: u64 = 10_000;

/// Returns the nominal number of results until an alarm: `ln(4 · MEAN)` divided by the mean log-likelihood ratio of a
/// result. Returns `None` if this mean is not above 0.
fn nominal(limit: f64, after: f64) -> Option<f64> {
    let gains = [0.97, 0.9, 0.75, 0.5].map(|fall: f64| {
        let rate = fall * limit;
        after * fall.ln() + (1.0 - after) * ((1.0 - rate) / (1.0 - limit)).ln()
    });
    let most = gains.into_iter().fold(f64::NEG_INFINITY, f64::max);
    (most > 0.0).then(|| (4.0 * MEAN).ln() / most)
}

fn cell(
    reference: Reference,
    (before, after): (f64, f64),
    streams: u32,
    random: &mut Rng,
) -> String {
    // For the nominal delay, the reference has exactly the pass rate `before`.
    let limit = match reference {
        Reference::Drawn(size) => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "a share of a small size"
            )]
            let passed = (before * size as f64).round() as u64;
            let values = [0.0; 4];
            let state = DetectorState { size, passed, total: size, values };
            Detector::from_state(state).expect("the counts are of a reference").limit()
        }
        Reference::Exact => detector(reference, before, random).limit(),
    };
    let expected = nominal(limit.expect("the reference is complete"), after);
    let expected = expected.map_or_else(|| "–".to_owned(), |it| format!("{it:.0}"));
    let found = simulate(reference, (before, after), (streams, FALLEN), random);
    if found.share() >= 0.999 {
        format!("{:.0} ({expected})", found.mean())
    } else {
        format!("{:.0}% in {FALLEN} ({expected})", 100.0 * found.share())
    }
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|it| it.parse::<u32>().expect("a number"));
    let streams = numbers.next().unwrap_or(400);
    let mut random = Rng::with_seed(7);
    println!("nominal mean results until a false alarm: {MEAN}");
    println!("| reference | pass rate | no fall | −3 points | −5 | −10 | −20 |");
    println!("|--:|--:|--:|--:|--:|--:|--:|");
    for (name, reference) in [
        ("100", Reference::Drawn(100)),
        ("1,000", Reference::Drawn(1_000)),
        ("exact", Reference::Exact),
    ] {
        for rate in [0.5, 0.8, 0.95, 0.99] {
            let without = simulate(reference, (rate, rate), (streams, UNCHANGED), &mut random);
            let more = if without.share() < 0.999 { "> " } else { "" };
            let cells = [0.03, 0.05, 0.10, 0.20]
                .map(|fall| cell(reference, (rate, rate - fall), streams, &mut random));
            println!("| {name} | {rate} | {more}{:.0} | {} |", without.mean(), cells.join(" | "));
        }
    }
}
