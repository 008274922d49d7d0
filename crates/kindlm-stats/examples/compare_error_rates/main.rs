//! Measures how often `kindlm compare` reports a regression, in simulated runs with and without a true regression.
//!
//! Run `cargo run --release -p kindlm-stats --example compare_error_rates [ROUNDS]`. `docs/compare.md` has the table.
#![expect(clippy::expect_used, clippy::print_stdout, reason = "an example prints, and may panic")]

mod simulation;

use simulation::{ALPHA, Effect, ROWS, WITHOUT_CLUSTER, simulate};

fn main() {
    let rounds =
        std::env::args().nth(1).map_or(2_000, |it| it.parse().expect("a number of rounds"));
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    println!(
        "| cases × repeats | nominal | any fall | > 5 pp | sign test | KindLM | interval covers | power, −10 pp: sign test | KindLM | 10 % break: sign test | KindLM | detectable | power there |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for (row, seed) in ROWS.into_iter().chain([WITHOUT_CLUSTER]).zip(1..) {
        let none = simulate(row, Effect::None, rounds, seed);
        let fall = simulate(row, Effect::Fall(0.1), rounds, seed + 100);
        let broken = simulate(row, Effect::Break(0.1), rounds, seed + 200);
        let there = simulate(row, Effect::Fall(none.detectable), rounds, seed + 300);
        let cells = [
            ALPHA,
            none.any_fall,
            none.five_points,
            none.sign,
            none.sign_flip,
            none.covered,
            fall.sign,
            fall.sign_flip,
            broken.sign,
            broken.sign_flip,
            none.detectable,
            there.sign_flip,
        ];
        println!("| {} | {} |", row.name, cells.map(percent).join(" | "));
    }
}
