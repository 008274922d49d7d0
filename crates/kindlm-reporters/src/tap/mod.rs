//! The reporter `tap`: the Test Anything Protocol, version 14.

use std::fmt;

use kindlm_types::{AnyReport, CaseResult, GateOutcome, GateResult, Outcome};

use crate::amount::plural;
use crate::issue::{issues, name_of, place_of_case};
use crate::plain::{head, one_line};
use crate::repeated;
use crate::{Meta, Registration, RenderError, Style, verdict};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "tap",
        summary: "The Test Anything Protocol, version 14, with YAML diagnostics.",
        since: "0.1.0",
        extension: "tap",
        docs: include_str!("docs.md"),
    },
    render,
};

/// The maximum number of bytes of a message.
const MESSAGE: usize = 4_000;
/// The maximum number of issues of a test point.
const ISSUES: usize = 20;
/// The maximum number of causes in the comments at the end.
const CAUSES: usize = 20;

fn render(
    report: &AnyReport<'_>,
    _style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    // The gates apply to the whole run, so the report of a shard does not have them.
    let gates = if report.shard.is_some() { &[][..] } else { &report.gates };
    let tests = report.cases.len() + report.skipped.len() + gates.len();
    writeln!(out, "TAP version 14\n1..{tests}")?;
    let mut number = 0;
    for case in report.each() {
        number += 1;
        case_point(out, report, number, &*case?)?;
    }
    for it in &report.skipped {
        number += 1;
        point(out, true, number, &it.case, Some(&it.reason))?;
    }
    for gate in gates {
        number += 1;
        gate_point(out, number, gate)?;
    }
    let summary = report.summary();
    let clauses = verdict::clauses(report, &summary).join("; ");
    writeln!(out, "# {}: {clauses}", verdict::word(report, &summary))?;
    writeln!(out, "# held {}", summary.totals.held())?;
    for it in summary.causes.iter().take(CAUSES) {
        let code = it.code.as_ref().map_or_else(String::new, |it| format!("{it} "));
        writeln!(out, "# {}: {code}{}", plural(it.cases, "case"), one_line(&it.title))?;
    }
    Ok(())
}

/// Writes a test point: `ok 1 - name # SKIP reason`.
fn point(
    out: &mut dyn fmt::Write,
    ok: bool,
    number: usize,
    name: &str,
    skipped: Option<&str>,
) -> Result<(), RenderError> {
    let mark = if ok { "ok" } else { "not ok" };
    write!(out, "{mark} {number} - {}", escaped(name).trim())?;
    if let Some(reason) = skipped {
        write!(out, " # SKIP {}", escaped(reason).trim())?;
    }
    writeln!(out)?;
    Ok(())
}

fn case_point(
    out: &mut dyn fmt::Write,
    report: &AnyReport<'_>,
    number: usize,
    case: &CaseResult,
) -> Result<(), RenderError> {
    let name = name_of(case);
    if case.outcome == Outcome::Skipped {
        return point(out, true, number, &name, Some(&case.why_skipped()));
    }
    point(out, case.passed(), number, &name, None)?;
    let issues = issues(case);
    if issues.is_empty() && case.passed() {
        return Ok(());
    }
    let mut about = Diagnostics::begin(out)?;
    about.text("outcome", &case.outcome.to_string())?;
    if let Some(place) = place_of_case(report, case) {
        about.text("file", &place.file)?;
        about.number("line", place.line.into())?;
    }
    if let Some(held) = repeated::held(case) {
        about.text("repeats", &held)?;
    }
    if let Some(end) = repeated::end(case) {
        about.text("end", &end)?;
    }
    about.begin_list("findings")?;
    for it in issues.iter().take(ISSUES) {
        about.item("code", &it.code)?;
        about.entry("message", &it.message)?;
        if !it.repeats.is_empty() {
            about.entry("repeats", &it.repeats)?;
        }
    }
    let more = issues.len().saturating_sub(ISSUES) as u64;
    if more > 0 {
        about.item("message", &plural(more, "more finding"))?;
    }
    about.end()
}

fn gate_point(
    out: &mut dyn fmt::Write,
    number: usize,
    gate: &GateResult,
) -> Result<(), RenderError> {
    let name = format!("gate {}", gate.gate);
    if gate.outcome == GateOutcome::NothingToMeasure {
        return point(out, true, number, &name, Some(&gate.message));
    }
    point(out, gate.passed(), number, &name, None)?;
    if gate.passed() {
        return Ok(());
    }
    let mut about = Diagnostics::begin(out)?;
    about.text("message", &gate.message)?;
    about.end()
}

/// A YAML block after a test point. All texts are JSON strings, which YAML accepts.
struct Diagnostics<'a>(&'a mut dyn fmt::Write);

impl<'a> Diagnostics<'a> {
    fn begin(out: &'a mut dyn fmt::Write) -> Result<Self, RenderError> {
        writeln!(out, "  ---")?;
        Ok(Self(out))
    }

    fn text(&mut self, key: &str, value: &str) -> Result<(), RenderError> {
        Ok(writeln!(self.0, "  {key}: {}", quoted(value))?)
    }

    fn number(&mut self, key: &str, value: u64) -> Result<(), RenderError> {
        Ok(writeln!(self.0, "  {key}: {value}")?)
    }

    fn begin_list(&mut self, key: &str) -> Result<(), RenderError> {
        Ok(writeln!(self.0, "  {key}:")?)
    }

    /// Begins an item of the list with its first entry.
    fn item(&mut self, key: &str, value: &str) -> Result<(), RenderError> {
        Ok(writeln!(self.0, "    - {key}: {}", quoted(value))?)
    }

    fn entry(&mut self, key: &str, value: &str) -> Result<(), RenderError> {
        Ok(writeln!(self.0, "      {key}: {}", quoted(value))?)
    }

    fn end(self) -> Result<(), RenderError> {
        Ok(writeln!(self.0, "  ...")?)
    }
}

fn quoted(text: &str) -> String {
    let line = one_line(text);
    serde_json::Value::from(head(&line, MESSAGE)).to_string()
}

/// Returns a description as one line without a directive.
fn escaped(text: &str) -> String {
    one_line(text).replace('\\', "\\\\").replace('#', "\\#")
}
