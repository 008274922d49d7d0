//! How measured values are held against thresholds, the same way for every gate.

use kindlm_types::{CaseResult, GateOutcome, GateResult, Outcome, ecma};

use crate::aggregate::TOLERANCE;

/// Holds if `actual` is at least `threshold`, with a tolerance of 1e-9.
pub fn at_least(gate: &str, actual: f64, threshold: f64, message: String) -> GateResult {
    compared(gate, actual + TOLERANCE >= threshold, actual, threshold, message)
}

/// Holds if `actual` is at most `threshold`, with a tolerance of 1e-9.
pub fn at_most(gate: &str, actual: f64, threshold: f64, message: String) -> GateResult {
    compared(gate, actual <= threshold + TOLERANCE, actual, threshold, message)
}

/// Holds, as there was nothing to measure, and says so.
pub fn nothing_to_measure(gate: &str, threshold: f64, message: String) -> GateResult {
    GateResult {
        gate: gate.to_owned(),
        outcome: GateOutcome::NothingToMeasure,
        actual: None,
        threshold,
        message,
    }
}

/// A share in percent, with one digit, as the original prints it.
pub fn percent(rate: f64) -> String {
    format!("{}%", ecma::to_fixed(rate * 100.0, 1))
}

/// Money with four digits after the point, and with six below a cent.
pub fn dollars(usd: f64) -> String {
    let digits = if usd > 0.0 && usd < 0.01 { 6 } else { 4 };
    format!("${}", ecma::to_fixed(usd, digits))
}

fn compared(gate: &str, held: bool, actual: f64, threshold: f64, message: String) -> GateResult {
    GateResult {
        gate: gate.to_owned(),
        outcome: if held { GateOutcome::Held } else { GateOutcome::Broken },
        actual: Some(actual),
        threshold,
        message,
    }
}

/// The cases that were run.
pub(super) fn run(cases: &[CaseResult]) -> impl Iterator<Item = &CaseResult> {
    cases.iter().filter(|case| case.outcome != Outcome::Skipped)
}

/// Counts something over the cases that were run.
#[expect(clippy::cast_precision_loss, reason = "counts of results stay far below 2^52")]
pub(super) fn count(cases: &[CaseResult], of: impl Fn(&CaseResult) -> usize) -> f64 {
    run(cases).map(of).sum::<usize>() as f64
}

/// The mean, or `None` of nothing.
#[expect(clippy::cast_precision_loss, reason = "counts of results stay far below 2^52")]
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_usize), |(sum, count), it| (sum + it, count + 1));
    (count > 0).then(|| sum / count as f64)
}
