//! Tests of all reporters.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

mod agreement;
mod compliance;
mod hostile;
mod html;
mod json;
mod junit;
mod markdown;
mod pretty;
mod registry;
mod streaming;

use kindlm_reporters::{Style, Verbosity, find};
use kindlm_types::Report;

/// Renders a report with the reporter with this id.
fn render(id: &str, report: &Report, style: &Style) -> String {
    let mut out = String::new();
    (find(id).expect(id).render)(report, style, &mut out).unwrap();
    out
}

fn style(verbosity: Verbosity, color: bool, width: usize) -> Style {
    Style { color, width, verbosity }
}

/// Returns styles with all combinations of options.
fn styles() -> Vec<Style> {
    let mut styles = Vec::new();
    for verbosity in [Verbosity::Quiet, Verbosity::Normal, Verbosity::Verbose] {
        for color in [false, true] {
            for width in [0, 40, 60, 80, 120, 1_000] {
                styles.push(style(verbosity, color, width));
            }
        }
    }
    styles
}
