//! A document with evidence of testing, for an AI system's technical documentation.
//!
//! The reporters `compliance`, `compliance-html` and `compliance-pdf` write the document in their formats. The sections
//! write [blocks](blocks::Block), so that every format has the same content.

mod annex;
mod blocks;
mod digest_text;
mod inputs;
mod integrity;
mod markdown;
mod results;
mod specification;
mod verify;

use std::fmt;

use kindlm_types::{AnyReport, ExitStatus, Summary, ecma};

use crate::{RenderError, Style, verdict as common};
pub(crate) use blocks::{Block, Cell, Format};
use blocks::{ContentHash, Document};
pub use digest_text::is_sha256;
pub(crate) use markdown::Markdown;
pub use verify::ComplianceDocument;

/// The first and the last line of the hashed content.
///
/// Text of users and models cannot imitate these lines, because `<` is escaped. Blocks of code are not escaped, but no
/// line of a block begins with such text.
const BEGIN: &str = "<!-- kindlm:content:begin -->";
const END: &str = "<!-- kindlm:content:end -->";

/// The heading of the list of files.
const FILES: &str = "Files of the suite";

/// The names of the table rows that are read to verify a document.
const RUN: &str = "Run";
const SUITE_ROW: &str = "suite";
const CONTENT_ROW: &str = "content";
const JSON_ROW: &str = "JSON report";

/// Writes the document in a format.
pub(crate) fn write(
    report: &AnyReport<'_>,
    format: &dyn Format,
    style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    let law = Law { eu: is_eu_ai_act(report) };
    let summary = &report.summary();
    let name = report.compliance.as_ref().and_then(|it| it.system_name.as_ref());
    let name = name.unwrap_or(&report.suite.name);
    let what = law.only("EU AI Act: evidence of testing").unwrap_or("Evidence of testing");
    let mut doc = Document::begin(&format!("{what}: {name}"), format, out)?;
    introduction(&mut doc, report, summary, law)?;
    specification::metadata(&mut doc, report)?;
    let digest = content(&mut doc, report, summary, law)?;
    integrity::digests(&mut doc, (report, style), &digest, law)?;
    integrity::measured(&mut doc, report, summary)?;
    integrity::signature(&mut doc, law)?;
    doc.end()
}

/// Writes the hashed sections, and returns their digest.
fn content(
    doc: &mut Document<'_>,
    report: &AnyReport<'_>,
    summary: &Summary,
    law: Law,
) -> Result<String, RenderError> {
    doc.begin_content()?;
    let info = report.compliance.clone().unwrap_or_default();
    specification::system(doc, &info, law)?;
    specification::tests(doc, report, law)?;
    results::summary(doc, report, summary, law)?;
    results::cases(doc, report, summary, law)?;
    results::tags(doc, summary)?;
    annex::coverage(doc, report, law)?;
    doc.end_content()
}

/// Returns the content digest of the report's Markdown document.
pub(crate) fn markdown_digest(report: &AnyReport<'_>) -> Result<String, RenderError> {
    let law = Law { eu: is_eu_ai_act(report) };
    let mut nothing = Nothing;
    let mut doc = Document::begin("", &Markdown, &mut nothing)?;
    // This section is not hashed, but the numbers of the next sections depend on it.
    specification::metadata(&mut doc, report)?;
    content(&mut doc, report, &report.summary(), law)
}

/// A writer that drops all text.
struct Nothing;

impl fmt::Write for Nothing {
    fn write_str(&mut self, _text: &str) -> fmt::Result {
        Ok(())
    }
}

/// The law for which the document has evidence.
#[derive(Clone, Copy, Debug)]
struct Law {
    /// True for the EU AI Act. A framework of the user names no law.
    eu: bool,
}

impl Law {
    /// Returns the text if the law is the EU AI Act; `None` for a framework of the user.
    fn only(self, text: &str) -> Option<&str> {
        self.eu.then_some(text)
    }
}

fn is_eu_ai_act(report: &AnyReport<'_>) -> bool {
    report.compliance.as_ref().is_none_or(|it| it.framework != "custom")
}

/// Returns true if the run judged recorded traces of an agent.
fn is_traced(report: &AnyReport<'_>) -> bool {
    report.models.iter().any(|it| it.provider == "trace")
}

fn introduction(
    doc: &mut Document<'_>,
    report: &AnyReport<'_>,
    summary: &Summary,
    law: Law,
) -> Result<(), RenderError> {
    if law.eu {
        doc.put(Block::Paragraph(
            "Evidence for the technical documentation that Article 11 and Annex IV of Regulation (EU) 2024/1689 ask \
             for. Annex IV binds providers of high-risk AI systems; for other systems, this documentation is voluntary.",
        ))?;
    }
    doc.put(Block::Paragraph(
        "This document records what was tested, how, and with which result. It is evidence, not an assessment of \
         conformity.",
    ))?;
    doc.put(Block::Strong(&format!("Result: {}", verdict(report, summary))))
}

/// Returns the result of the run and of its gates in one sentence.
fn verdict(report: &AnyReport<'_>, summary: &Summary) -> String {
    let violated = report.violated_gates().count();
    let gates = match (violated, report.gates.len()) {
        _ if report.shard.is_some() => "a shard has no gates".to_owned(),
        (_, 0) => "the suite has no gates".to_owned(),
        (0, _) => quality(report),
        (violated, all) => format!("{violated} of {all} quality gates violated"),
    };
    let word = match summary.exit_status {
        ExitStatus::Success => "passed",
        ExitStatus::GatesFailed => "failed",
        ExitStatus::Interrupted => "incomplete, the run was interrupted",
        ExitStatus::ProviderError => "incomplete, a model provider did not answer",
        ExitStatus::Internal | ExitStatus::InvalidInput => "incomplete, the test tool failed",
    };
    format!("{word}; {gates}")
}

/// Describes the quality gates that held, and those that had nothing to measure.
///
/// Call this only if no gate was violated.
fn quality(report: &AnyReport<'_>) -> String {
    let all = report.gates.len() as u64;
    match common::idle(report) {
        0 => format!("all {all} quality gates held"),
        idle => {
            format!("{} of {all} quality gates held, {idle} had nothing to measure", all - idle)
        }
    }
}

fn number(value: f64) -> String {
    // Four decimals are easy to read; the JSON report has all decimals.
    let shown = ecma::to_fixed(value, 4);
    if shown.contains('.') {
        shown.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        shown
    }
}

fn or_not(value: Option<&String>) -> String {
    value.filter(|it| !it.trim().is_empty()).cloned().unwrap_or_else(|| "not stated".to_owned())
}
