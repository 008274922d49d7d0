//! Measures the power of plans of `kindlm plan` in simulations with known pass rates.
//!
//! Run `cargo run --release -p kindlm-stats --example plan_power [PILOTS]`. `docs/plan.md` has the table.
#![expect(clippy::expect_used, clippy::print_stdout, reason = "an example prints, and may panic")]

mod simulation;

use simulation::{ROWS, Row};

/// The clusters and repeats of a pilot that is large enough to show the true rates.
const LARGE: (u64, u32) = (2_000, 40);

/// The clusters and repeats of pilots of the usual sizes.
const PILOTS: [(u64, u32); 2] = [(30, 3), (100, 5)];

fn main() {
    let pilots = std::env::args().nth(1).map_or(100, |it| it.parse().expect("a number of pilots"));
    println!(
        "| true pass rates, repeats of the plan | power promised | large pilot: cases | power measured | pilot 30 × 3: cases (10–90 %) | power measured (10–90 %) | pilot 100 × 5: cases (10–90 %) | power measured (10–90 %) |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for (row, seed) in ROWS.into_iter().zip(1..) {
        let needed = row.plan(LARGE, seed);
        let power = row.measure(needed.clusters, 10_000, seed + 100);
        let small = PILOTS.map(|pilot| small(row, pilot, pilots, seed * 1_000));
        println!(
            "| {} × {} | {:.0} | {} | **{:.1}** | {} | {} |",
            row.name,
            row.repeats,
            100.0 * row.power,
            needed.cases,
            100.0 * power,
            small[0],
            small[1]
        );
    }
}

/// Returns the table cells for `pilots` simulated pilots of one size.
fn small(row: Row, pilot: (u64, u32), pilots: u32, seed: u128) -> String {
    let mut cases = Vec::new();
    let mut powers = Vec::new();
    for it in 0..pilots {
        let seed = seed + 2 * u128::from(it);
        let size = row.plan(pilot, seed);
        #[expect(clippy::cast_precision_loss, reason = "a few thousand cases")]
        cases.push(size.cases as f64);
        powers.push(100.0 * row.measure(size.clusters, 400, seed + 1));
    }
    let mean = powers.iter().sum::<f64>() / f64::from(pilots);
    let [low, middle, high] = [0.1, 0.5, 0.9].map(|share| at(&mut cases, share));
    let [least, _, most] = [0.1, 0.5, 0.9].map(|share| at(&mut powers, share));
    format!("{middle:.0} ({low:.0}–{high:.0}) | **{mean:.1}** ({least:.0}–{most:.0})")
}

fn at(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index of a short list"
    )]
    let index = (share * (values.len() - 1) as f64).round() as usize;
    values[index]
}
