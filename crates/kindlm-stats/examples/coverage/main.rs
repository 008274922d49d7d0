//! Measures how many of the 95% intervals contain the true value, and how often an alarm about a judge occurs in a year.
//!
//! `cargo run --release -p kindlm-stats --example coverage [rounds] [years]`; 20,000 rounds and 2,000 years by default.
#![expect(clippy::print_stdout, clippy::expect_used, reason = "an example that prints a table")]

mod simulation;

use fastrand::Rng;

use simulation::{INDEPENDENT, SETS, YEARS, Year};

fn main() {
    let mut numbers = std::env::args().skip(1).map(|it| it.parse::<u32>().expect("a number"));
    let rounds = numbers.next().unwrap_or(20_000);
    let years = numbers.next().unwrap_or(2_000);
    let mut random = Rng::with_seed(7);

    println!(
        "| labels, base rate, sensitivity, specificity (κ) | κ textbook | κ | PPI textbook | PPI |"
    );
    println!("|---|--:|--:|--:|--:|");
    for it in INDEPENDENT {
        let found = it.simulate(rounds, &mut random);
        println!(
            "| {}, {}, {}, {} ({:.2}) | {:.1} | {:.1} | {:.1} | {:.1} |",
            it.labels,
            it.base_rate,
            it.sensitivity,
            it.specificity,
            it.kappa(),
            found.kappa_textbook.percent(),
            found.kappa.percent(),
            found.rate_textbook.percent(),
            found.rate.percent(),
        );
    }

    println!("\n| outputs × rules, correlation | as if independent | jackknife |\n|---|--:|--:|");
    for it in SETS {
        let found = it.simulate(rounds, &mut random);
        let (independent, jackknife) =
            (found.as_if_independent.percent(), found.jackknife.percent());
        println!(
            "| {} × {}, {} | {independent:.1} | {jackknife:.1} |",
            it.outputs, it.rules, it.correlation
        );
    }

    println!(
        "\n| canaries a week, noise | no change | +5 points | +10 | +20 | +10 from week 27 |\n|---|--:|--:|--:|--:|--:|"
    );
    for (canaries, noise) in YEARS {
        let changes = [(0.0, 1), (0.05, 1), (0.10, 1), (0.20, 1), (0.10, 27)];
        let cells = changes.map(|(change, from)| {
            let alarms = Year { canaries, change, from, noise }.simulate(years, &mut random);
            let week = alarms.median_week().map(|it| format!(", week {it}")).unwrap_or_default();
            format!("{:.1}%{week}", alarms.percent())
        });
        println!("| {canaries}, {noise:?} | {} |", cells.join(" | "));
    }
}
