//! Renders the report of a run.
//!
//! Each reporter is a module with a separate folder, listed in [`REGISTRY`]. A reporter is a pure function from a
//! [`Report`](kindlm_types::Report) to text: it does not count, sort, decide or open files.
//!
//! Reporters read the cases one at a time, so that reports of any size can be rendered. A reporter may read a case
//! several times.
//!
//! ```
//! use kindlm_reporters::{Style, find};
//! use kindlm_types::{GateOutcome, GateResult, Report};
//!
//! let message = "Pass rate: 50.0% (min: 95.0%)";
//! let gate =
//!     GateResult::new("passRateMin", GateOutcome::Violated, 0.95, message).with_actual(0.5);
//! let report = Report { gates: vec![gate], ..Report::default() };
//!
//! let mut text = String::new();
//! let pretty = find("pretty").expect("a reporter of this crate");
//! (pretty.render)(&report, &Style { width: 60, ..Style::default() }, &mut text)?;
//! assert!(text.contains("FAILED") && text.ends_with("the gate is violated; exit code 1\n"), "{text}");
//! # Ok::<(), kindlm_reporters::RenderError>(())
//! ```
#![deny(clippy::disallowed_methods)]

mod amount;
mod bisect;
mod bytes;
mod changes;
mod comparison;
mod compliance_document;
mod diff;
mod evidence;
mod history;
mod interval;
mod issue;
mod manual;
mod message;
mod page;
mod panel;
mod percent;
mod plain;
mod repeated;
mod report_json;
mod rerun;
mod score;
mod verdict;

use std::fmt;

pub use amount::{clock, count, duration, usd};
pub use bisect::{bisect_candidate, bisect_step, bisect_text};
pub use comparison::comparison_text;
pub use compliance_document::{ComplianceDocument, is_sha256};
pub use history::history_text;
pub use html::{
    HtmlShell, ServeOptions, ServedRun, case_difference, html_shell, html_style, html_without_runs,
    serve_run, serve_run_with, write_html,
};
use kindlm_types::{AnyReport, CaseError, Registered, Registry};
pub use manual::write_manual;
pub use page::wrapped;
pub use plain::{one_line, visible};

/// The level of detail of a report for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// The verdict, the gates, the failures and the warnings.
    Quiet,
    /// All cases, with details of the failures.
    #[default]
    Normal,
    /// All checks, with outputs.
    Verbose,
}

/// The output style of reports for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    /// True to write ANSI colors.
    pub color: bool,
    /// The maximum number of columns. Numbers below 40 count as 40, and numbers above 120 as 120.
    pub width: usize,
    /// The level of detail.
    pub verbosity: Verbosity,
    /// The maximum size of the page of `html` in bytes. In a larger page, texts are cut, those of passed cases first.
    pub html_limit: usize,
    /// The URL of the full report, for the link in `markdown`.
    pub report_url: Option<String>,
    /// The working folder relative to the root of the repository, such as `agents/support`; empty if it is the root, or
    /// unknown. `github`, `gitlab` and `sarif` write paths relative to the root.
    pub folder: String,
    /// The name of the file that the report is written to, if it is known. `compliance` prints it in a command.
    pub file: Option<String>,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            color: false,
            width: 80,
            verbosity: Verbosity::Normal,
            html_limit: 32_000_000,
            report_url: None,
            folder: String::new(),
            file: None,
        }
    }
}

/// The error of rendering a report.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The writer returned an error.
    #[error("cannot write the report")]
    Write(#[from] fmt::Error),
    /// A case of the report could not be read. The text written before is incomplete.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// The data could not be converted to the format.
    #[error("cannot render the report as {format}: {message}")]
    Format {
        /// The reporter's id.
        format: &'static str,
        /// The description of the problem.
        message: String,
    },
}

/// The static description of a reporter.
///
/// There is no `Default` and no constructor: an entry states all of these facts in a literal. A further fact changes
/// every entry, also those of other crates.
#[derive(Debug)]
pub struct Meta {
    /// The id of the reporter, such as `json` in `--reporter json=path`.
    pub id: &'static str,
    /// The purpose of the reporter, in one sentence.
    pub summary: &'static str,
    /// The version that introduced the reporter.
    pub since: &'static str,
    /// The usual extension of the report files, such as `json`.
    pub extension: &'static str,
    /// The documentation page.
    pub docs: &'static str,
}

/// A registry entry of a reporter.
#[derive(Debug)]
#[non_exhaustive]
pub struct Registration {
    /// The static description.
    pub meta: Meta,
    /// The function that writes the report.
    pub render: fn(&AnyReport<'_>, &Style, &mut dyn fmt::Write) -> Result<(), RenderError>,
}

// A new reporter needs a folder, a `mod` line below, and an entry in `REGISTRY`.
mod compliance;
mod compliance_html;
mod compliance_pdf;
mod csv;
mod github;
mod gitlab;
mod html;
mod json;
mod jsonl;
mod judges;
mod junit;
mod markdown;
pub mod mutation;
mod pretty;
mod sarif;
mod tap;

/// All reporters of this crate, sorted by id.
pub static REGISTRY: &[&Registration] = &[
    &compliance::REGISTRATION,
    &compliance_html::REGISTRATION,
    &compliance_pdf::REGISTRATION,
    &csv::REGISTRATION,
    &github::REGISTRATION,
    &gitlab::REGISTRATION,
    &html::REGISTRATION,
    &json::REGISTRATION,
    &jsonl::REGISTRATION,
    &junit::REGISTRATION,
    &markdown::REGISTRATION,
    &pretty::REGISTRATION,
    &sarif::REGISTRATION,
    &tap::REGISTRATION,
];

impl Registration {
    /// Creates an entry from the function that writes the report.
    pub const fn new(
        meta: Meta,
        render: fn(&AnyReport<'_>, &Style, &mut dyn fmt::Write) -> Result<(), RenderError>,
    ) -> Self {
        Self { meta, render }
    }

    /// Returns true if this is the reporter `html`, whose page can show a mutation result ([`write_html`]).
    pub fn is_html(&self) -> bool {
        std::ptr::eq(self, &raw const html::REGISTRATION)
    }

    /// Returns true if the text is the source of a PDF.
    ///
    /// A caller that writes files passes this text to `kindlm_pdf::pdf`, which returns the PDF.
    pub fn is_pdf_source(&self) -> bool {
        std::ptr::eq(self, &raw const compliance_pdf::REGISTRATION)
    }
}

impl Registered for Registration {
    fn id(&self) -> &'static str {
        self.meta.id
    }
}

/// Returns the reporters of this crate.
///
/// [`Registry::with`] adds other reporters; see `examples/own_reporter.rs`.
pub fn built_in() -> Registry<Registration> {
    Registry::new(REGISTRY)
}

/// Returns the reporter of this crate with this id, if there is one.
pub fn find(id: &str) -> Option<&'static Registration> {
    REGISTRY.iter().copied().find(|it| it.meta.id == id)
}
