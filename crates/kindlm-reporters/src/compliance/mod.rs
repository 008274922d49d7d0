//! `compliance`: evidence of testing for the technical documentation of an AI system, in Markdown.

mod content;
mod markdown;

use std::fmt;

use askama::Template;
use kindlm_types::{ExitStatus, Report, ecma};
use sha2::{Digest as _, Sha256};

use crate::amount::{cost, count, duration};
use crate::{Meta, Registration, RenderError, Style};
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

/// The first and the last line of what is hashed. No text of a user or a model can look like them, because
/// `<` is escaped in all of it.
const BEGIN: &str = "<!-- kindlm:content:begin -->";
const END: &str = "<!-- kindlm:content:end -->";

/// What stands after the content, and speaks about it.
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

fn render(report: &Report, _style: &Style, out: &mut dyn fmt::Write) -> Result<(), RenderError> {
    let eu = is_eu_ai_act(report);
    let body = Content::new(report, eu).render().map_err(failed)?;
    let audit = Audit {
        eu,
        config: report.suite.config_sha256.as_deref().unwrap_or("not known"),
        content: sha256(hashed(&body)),
        json: sha256(&crate::json::text(report)?),
        measured: report.model_ids().into_iter().map(|id| measured(report, id)).collect(),
        warnings: &report.warnings,
    };
    write!(out, "{body}\n{}\n", audit.render().map_err(failed)?.trim_end())?;
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn failed(err: askama::Error) -> RenderError {
    RenderError::Format { format: "compliance", message: err.to_string() }
}

fn is_eu_ai_act(report: &Report) -> bool {
    report.compliance.as_ref().is_none_or(|it| it.framework != "custom")
}

/// The lines from the begin marker to the end marker, both included, each with its line break.
fn hashed(body: &str) -> &str {
    let begin = body.find(BEGIN).unwrap_or(0);
    let end = body.rfind(END).map_or(body.len(), |at| (at + END.len() + 1).min(body.len()));
    body.get(begin..end).unwrap_or_default()
}

fn sha256(text: &str) -> String {
    use fmt::Write as _;
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn measured<'a>(report: &'a Report, model: &'a str) -> Measured<'a> {
    let totals = report.totals_of(model);
    Measured {
        model,
        executions: count(totals.executions),
        latency: report.latency_avg_ms(model).map_or_else(|| "not measured".to_owned(), duration),
        tokens: count(totals.tokens),
        cost: cost(totals.cost),
    }
}

/// The result of the run in one sentence.
fn verdict(report: &Report) -> String {
    let broken = report.broken_gates().count();
    let gates = match (broken, report.gates.len()) {
        (_, 0) => "the suite has no gates".to_owned(),
        (0, all) => format!("all {all} quality gates held"),
        (broken, all) => format!("{broken} of {all} quality gates broken"),
    };
    let word = match report.exit_status() {
        ExitStatus::Success => "passed",
        ExitStatus::GatesFailed => "failed",
        ExitStatus::Interrupted => "incomplete, the run was interrupted",
        ExitStatus::ProviderError => "incomplete, a model provider did not answer",
        ExitStatus::Internal | ExitStatus::InvalidInput => "incomplete, the test tool failed",
    };
    format!("{word}; {gates}")
}

fn number(value: f64) -> String {
    // Four decimals are enough to read; the JSON report has all of them.
    let shown = ecma::to_fixed(value, 4);
    if shown.contains('.') {
        shown.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        shown
    }
}
