//! Comparison of measured values with thresholds, and their formatting.

use kindlm_types::{GateOutcome, GateResult, ecma};

use crate::aggregate::TOLERANCE;

/// Returns a result that holds if `actual` is at least `threshold`, with a tolerance of 1e-9.
pub fn at_least(gate: &str, actual: f64, threshold: f64, message: String) -> GateResult {
    compared(gate, actual + TOLERANCE >= threshold, actual, threshold, message)
}

/// Returns a result that holds if `actual` is at most `threshold`, with a tolerance of 1e-9.
pub fn at_most(gate: &str, actual: f64, threshold: f64, message: String) -> GateResult {
    compared(gate, actual <= threshold + TOLERANCE, actual, threshold, message)
}

/// Returns a result that holds because there was nothing to measure.
pub fn nothing_to_measure(gate: &str, threshold: f64, message: String) -> GateResult {
    GateResult::new(gate, GateOutcome::NothingToMeasure, threshold, message)
}

/// Returns the result of a violated gate whose evidence is missing.
pub fn missing_evidence(gate: &str, threshold: f64, message: String) -> GateResult {
    GateResult::new(gate, GateOutcome::Violated, threshold, message)
}

/// Formats a share from 0 to 1 in percent with one decimal, such as `66.7%`.
pub fn percent(rate: f64) -> String {
    format!("{}%", ecma::to_fixed(rate * 100.0, 1))
}

/// Formats an amount in US dollars with four decimals, or six below one cent.
pub fn dollars(usd: f64) -> String {
    let digits = if usd > 0.0 && usd < 0.01 { 6 } else { 4 };
    format!("${}", ecma::to_fixed(usd, digits))
}

fn compared(gate: &str, held: bool, actual: f64, threshold: f64, message: String) -> GateResult {
    let outcome = if held { GateOutcome::Held } else { GateOutcome::Violated };
    GateResult::new(gate, outcome, threshold, message).with_actual(actual)
}

/// Returns the number of items, at most `u32::MAX`.
pub(super) fn counted<T>(of: impl Iterator<Item = T>) -> u32 {
    u32::try_from(of.count()).unwrap_or(u32::MAX)
}
