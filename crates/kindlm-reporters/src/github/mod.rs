//! The reporter `github`: annotations of GitHub Actions at the lines of the failing tests.

use std::fmt;

use kindlm_types::{AnyReport, CaseMark, CaseResult, Outcome};

use crate::amount::plural;
use crate::interval::held;
use crate::issue::{Place, issues, name_of, place_of_case};
use crate::plain::{head, one_line};
use crate::{Meta, Registration, RenderError, Style, verdict};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "github",
        summary: "Annotations of GitHub Actions at the lines of the failing tests.",
        since: "0.1.0",
        extension: "txt",
        docs: include_str!("docs.md"),
    },
    render,
};

/// The number of annotations of each kind that GitHub shows for a step.
const SHOWN: usize = 10;
/// The maximum number of issues in an annotation.
const ISSUES: usize = 5;
/// The maximum number of bytes of an issue, and of a title.
const MESSAGE: usize = 1_000;
const TITLE: usize = 200;

fn render(
    report: &AnyReport<'_>,
    style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    let summary = report.summary();
    let is_failed = |it: CaseMark<'_>| it.outcome == Outcome::Failed;
    let is_doubtful = |it: CaseMark<'_>| matches!(it.outcome, Outcome::Errored | Outcome::Scored);
    for case in report.each_where(is_failed).take(SHOWN) {
        annotate(out, report, style, ("error", &*case?))?;
    }
    for case in report.each_where(is_doubtful).take(SHOWN) {
        annotate(out, report, style, ("warning", &*case?))?;
    }
    let totals = &summary.totals;
    let mut lines = vec![
        format!("{}: {}", verdict::word(report, &summary), held(totals.held())),
        verdict::clauses(report, &summary).join("; "),
    ];
    // The gates apply to the whole run, so the report of a shard does not have them.
    let gates = report.violated_gates().filter(|_| report.shard.is_none());
    lines.extend(gates.take(SHOWN).map(|it| format!("violated: {}", one_line(&it.message))));
    let more = |total: u64| total.saturating_sub(SHOWN as u64);
    let (errors, warnings) = (more(totals.failed), more(totals.errored + totals.scored));
    if errors + warnings > 0 {
        let errors = plural(errors, "more error");
        let warnings = plural(warnings, "more warning");
        lines.push(format!("{errors} and {warnings} are not shown as annotations"));
    }
    let title = format!("KindLM: {}", title_of(report));
    write(out, "notice", None, &title, &lines.join("\n"))
}

fn title_of(report: &AnyReport<'_>) -> String {
    let name = head(&report.suite.name, TITLE);
    if name.is_empty() { "report".to_owned() } else { one_line(name) }
}

fn annotate(
    out: &mut dyn fmt::Write,
    report: &AnyReport<'_>,
    style: &Style,
    (kind, case): (&str, &CaseResult),
) -> Result<(), RenderError> {
    let place = place_of_case(report, case).map(|it| it.in_repository(&style.folder));
    let issues = issues(case);
    let mut lines: Vec<String> = Vec::new();
    for it in issues.iter().take(ISSUES) {
        let repeats =
            if it.repeats.is_empty() { String::new() } else { format!(", {}", it.repeats) };
        lines.push(format!("{} ({}{repeats})", head(&it.message, MESSAGE), it.code));
    }
    let more = issues.len().saturating_sub(ISSUES) as u64;
    if more > 0 {
        lines.push(plural(more, "more finding"));
    }
    if lines.is_empty() {
        lines.push(case.outcome.to_string());
    }
    write(out, kind, place.as_ref(), &name_of(case), &lines.join("\n"))
}

/// Writes a workflow command: `::error file=…,line=…,title=…::message`.
fn write(
    out: &mut dyn fmt::Write,
    kind: &str,
    place: Option<&Place>,
    title: &str,
    message: &str,
) -> Result<(), RenderError> {
    write!(out, "::{kind} ")?;
    if let Some(Place { file, line, column }) = place {
        write!(out, "file={},line={line},col={column},", property(file))?;
    }
    writeln!(out, "title={}::{}", property(head(title, TITLE)), data(message))?;
    Ok(())
}

/// Escapes a message of a workflow command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_escaped_as_github_reads_them() {
        let place = Place { file: "a,b:c.yaml".to_owned(), line: 3, column: 5 };
        let mut out = String::new();
        write(&mut out, "error", Some(&place), "100 %: a, b", "7 %\r\n::error::x, y: z").unwrap();
        write(&mut out, "notice", None, "t", "m").unwrap();
        assert_eq!(
            out,
            "::error file=a%2Cb%3Ac.yaml,line=3,col=5,title=100 %25%3A a%2C b::7 %25%0D%0A::error::x, y: z\n\
             ::notice title=t::m\n"
        );
    }
}
