//! Renders the report of a run.
//!
//! Each reporter is a folder of its own; [`REGISTRY`] lists them. A reporter is a pure function from a
//! [`Report`](kindlm_types::Report) to text: it does not count, sort, decide or open files. It takes the cases of the
//! report one at a time, so that a run of any size can be rendered, and may go through them more than once.
//!
//! ```
//! use kindlm_reporters::{Style, find};
//! use kindlm_types::{GateOutcome, GateResult, Report};
//!
//! let gate = GateResult {
//!     gate: "passRateMin".to_owned(),
//!     outcome: GateOutcome::Broken,
//!     actual: Some(0.5),
//!     threshold: 0.95,
//!     message: "Pass rate: 50.0% (min: 95.0%)".to_owned(),
//! };
//! let report = Report { gates: vec![gate], ..Report::default() };
//!
//! let mut text = String::new();
//! let pretty = find("pretty").expect("a reporter of this crate");
//! (pretty.render)(&report, &Style { width: 60, ..Style::default() }, &mut text)?;
//! assert!(text.contains("FAILED") && text.ends_with("the gate is broken; exit code 1\n"), "{text}");
//! # Ok::<(), kindlm_reporters::RenderError>(())
//! ```
#![deny(clippy::disallowed_methods)]

mod amount;
mod bytes;
mod changes;
mod panel;
mod plain;
mod score;
mod verdict;

use std::fmt;

use kindlm_types::{AnyReport, CaseError, Registered, Registry};
pub use plain::{one_line, visible};

/// The level of detail of a human-readable report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// The verdict, the gates, and the failures.
    Quiet,
    /// Every case, and details of the failures.
    #[default]
    Normal,
    /// Every check, with outputs.
    Verbose,
}

/// The capabilities of the reader's screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// True if ANSI colours are written.
    pub color: bool,
    /// Columns to stay within.
    pub width: usize,
    /// The level of detail.
    pub verbosity: Verbosity,
}

impl Default for Style {
    fn default() -> Self {
        Self { color: false, width: 80, verbosity: Verbosity::Normal }
    }
}

/// Why a report could not be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The writer refused.
    #[error("cannot write the report")]
    Write(#[from] fmt::Error),
    /// A case of the report could not be read. The text written until then is no report.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// The data could not be put into the format.
    #[error("cannot render the report as {format}: {message}")]
    Format {
        /// The reporter's id.
        format: &'static str,
        /// The problem.
        message: String,
    },
}

/// The data about a reporter that is known without running it.
#[derive(Debug)]
pub struct Meta {
    /// The id, as in `--reporter json=path`.
    pub id: &'static str,
    /// Its purpose: one sentence.
    pub summary: &'static str,
    /// The version that brought it.
    pub since: &'static str,
    /// The usual ending of its files, such as `json`.
    pub extension: &'static str,
    /// The page.
    pub docs: &'static str,
}

/// One entry of the registry.
#[derive(Debug)]
pub struct Registration {
    /// The data that is known without running it.
    pub meta: Meta,
    /// Writes the report.
    pub render: fn(&AnyReport<'_>, &Style, &mut dyn fmt::Write) -> Result<(), RenderError>,
}

// Every reporter is one folder, one `mod` line and one line in the slice below.
mod compliance;
mod html;
mod json;
mod junit;
mod markdown;
mod pretty;

/// Every reporter, by id.
pub static REGISTRY: &[&Registration] = &[
    &compliance::REGISTRATION,
    &html::REGISTRATION,
    &json::REGISTRATION,
    &junit::REGISTRATION,
    &markdown::REGISTRATION,
    &pretty::REGISTRATION,
];

impl Registered for Registration {
    fn id(&self) -> &'static str {
        self.meta.id
    }
}

/// The reporters of this crate, to which [`Registry::with`] adds your own; `examples/own_reporter.rs` shows it.
pub fn built_in() -> Registry<Registration> {
    Registry::new(REGISTRY)
}

/// The reporter of this crate with this id.
pub fn find(id: &str) -> Option<&'static Registration> {
    REGISTRY.iter().copied().find(|it| it.meta.id == id)
}
