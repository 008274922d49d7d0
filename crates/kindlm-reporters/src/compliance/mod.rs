//! The reporter `compliance`: a Markdown document with evidence of testing, for an AI system's technical documentation.

mod content;
mod markdown;

use std::fmt::{self, Write as _};

use askama::Template;
use data_encoding::HEXLOWER;
use kindlm_types::{AnyReport, ExitStatus, ModelTotals, Summary, ecma};
use sha2::{Digest as _, Sha256};

use crate::amount::{cost, count, duration, tokens};
use crate::{Meta, Registration, RenderError, Style, verdict as common};
use content::Content;
pub(crate) use markdown::Markdown;

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "compliance",
        summary: "Evidence of testing in Markdown, along Annex IV of the EU AI Act, with digests.",
        since: "0.1.0",
        extension: "md",
        docs: include_str!("docs.md"),
    },
    render,
};

/// The first and the last line of the hashed content.
///
/// Text of users and models cannot contain these lines, because `<` is escaped in it.
const BEGIN: &str = "<!-- kindlm:content:begin -->";
const END: &str = "<!-- kindlm:content:end -->";

/// The section after the content, with the digests and the measured values.
#[derive(Template)]
#[template(path = "compliance/audit.md")]
struct Audit<'a> {
    eu: bool,
    config: &'a str,
    content: String,
    json: String,
    measured: Vec<Measured<'a>>,
    warnings: &'a [String],
}

struct Measured<'a> {
    model: &'a str,
    executions: String,
    latency: String,
    tokens: String,
    cost: String,
}

fn render(
    report: &AnyReport<'_>,
    _style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    let eu = is_eu_ai_act(report);
    let summary = report.summary();
    let mut body = Hashed { out, digest: Sha256::new(), line: String::new(), inside: false };
    Content::new(report, &summary, eu)?.render_into(&mut body).map_err(failed)?;
    body.write_char('\n')?;
    let content = HEXLOWER.encode(&body.digest.finalize());
    let mut json = Hash(Sha256::new());
    crate::json::write(report, &mut json)?;
    let audit = Audit {
        eu,
        config: report.suite.config_sha256.as_deref().unwrap_or("not known"),
        content,
        json: HEXLOWER.encode(&json.0.finalize()),
        measured: summary.models.iter().map(measured).collect(),
        warnings: &report.warnings,
    };
    writeln!(out, "{}", audit.render().map_err(failed)?.trim_end())?;
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn failed(err: askama::Error) -> RenderError {
    RenderError::Format { format: "compliance", message: err.to_string() }
}

fn is_eu_ai_act(report: &AnyReport<'_>) -> bool {
    report.compliance.as_ref().is_none_or(|it| it.framework != "custom")
}

/// A writer that forwards text, and hashes its lines.
///
/// The hash covers the text from the begin marker to the end marker, both markers and all line breaks included.
struct Hashed<'a> {
    out: &'a mut dyn fmt::Write,
    digest: Sha256,
    /// The part of the current line that was written so far.
    line: String,
    inside: bool,
}

impl fmt::Write for Hashed<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_str(text)?;
        for part in text.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') {
                let line = self.line.trim_end_matches('\n');
                self.inside |= line == BEGIN;
                if self.inside {
                    self.digest.update(&self.line);
                }
                self.inside &= line != END;
                self.line.clear();
            }
        }
        Ok(())
    }
}

/// A writer that hashes all text, and forwards nothing.
struct Hash(Sha256);

impl fmt::Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}

fn measured(of: &ModelTotals) -> Measured<'_> {
    let totals = &of.totals;
    Measured {
        model: &of.model,
        executions: count(totals.executions),
        latency: of.latency_avg_ms.map_or_else(|| "not measured".to_owned(), duration),
        tokens: tokens(totals),
        cost: cost(totals.cost),
    }
}

/// Returns the result of the run and of its gates in one sentence.
fn verdict(report: &AnyReport<'_>, summary: &Summary) -> String {
    let broken = report.broken_gates().count();
    let gates = match (broken, report.gates.len()) {
        (_, 0) => "the suite has no gates".to_owned(),
        (0, _) => quality(report),
        (broken, all) => format!("{broken} of {all} quality gates violated"),
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
/// It is only called if no gate was violated.
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
