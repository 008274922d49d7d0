//! Registers a custom reporter, and finds it by its id like a built-in reporter.
//!
//! `cargo run -p kindlm-reporters --example own_reporter`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use std::fmt;

use kindlm_reporters::{Meta, Registration, RenderError, Style, built_in};
use kindlm_types::{AnyReport, Report};

/// A reporter that writes one line per test case.
pub(crate) static LINES: Registration = Registration::new(
    Meta {
        id: "lines",
        summary: "One line for each test case.",
        since: "1.0",
        extension: "txt",
        docs: "",
    },
    render,
);

fn render(
    report: &AnyReport<'_>,
    _style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    for case in report.each() {
        let case = case?;
        writeln!(out, "{:?} {} on {}", case.outcome, case.case, case.model)?;
    }
    Ok(())
}

/// Renders the report with the custom reporter, which it finds by its id.
pub(crate) fn rendered(report: &AnyReport<'_>) -> Result<String, Box<dyn std::error::Error>> {
    let registry = built_in().with([&LINES])?;
    let reporter = registry.find("lines").ok_or("it was added")?;
    let mut text = String::new();
    (reporter.render)(report, &Style::default(), &mut text)?;
    Ok(text)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", rendered(&Report::<Vec<kindlm_types::CaseResult>>::default())?);
    Ok(())
}
