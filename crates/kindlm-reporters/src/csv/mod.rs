//! The reporter `csv`: one row per execution, for spreadsheets and data frames.

use std::fmt;

use kindlm_types::{AnyReport, CaseResult, ExecutionResult, ecma};

use crate::amount;
use crate::bytes::Bytes;
use crate::plain::one_line;
use crate::{Meta, Registration, RenderError, Style};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "csv",
        summary: "A table for spreadsheets and data frames: one row for each execution.",
        since: "0.1.0",
        extension: "csv",
        docs: include_str!("docs.md"),
    },
    render,
};

const COLUMNS: [&str; 9] = [
    "case",
    "model",
    "repeat",
    "outcome",
    "score",
    "latency_ms",
    "cost_usd",
    "tokens",
    "failed_checks",
];

fn render(
    report: &AnyReport<'_>,
    _style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    let mut table =
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Bytes::new(out));
    table.write_record(COLUMNS).map_err(|err| failure(&err))?;
    for case in report.each() {
        let case = case?;
        for execution in &case.executions {
            table.write_record(row(&case, execution)).map_err(|err| failure(&err))?;
        }
    }
    let bytes = table.into_inner().map_err(|_| RenderError::Write(fmt::Error))?;
    bytes.close().map_err(|_| RenderError::Write(fmt::Error))
}

fn failure(err: &csv::Error) -> RenderError {
    if err.is_io_error() {
        return RenderError::Write(fmt::Error);
    }
    RenderError::Format { format: "csv", message: err.to_string() }
}

fn row(case: &CaseResult, result: &ExecutionResult) -> [String; COLUMNS.len()] {
    let execution = &result.execution;
    let number = |it: Option<f64>| it.map(amount::number).unwrap_or_default();
    [
        text(&case.case),
        text(&case.model),
        (u64::from(execution.repeat) + 1).to_string(),
        result.outcome.to_string(),
        result.score().map(ecma::number).unwrap_or_default(),
        number(execution.latency_ms),
        number(execution.spent()),
        amount::reported(execution.usage.total_tokens).map(|it| it.to_string()).unwrap_or_default(),
        text(&failed_checks(result)),
    ]
}

/// Lists the checks that failed or are errored, and the error of the execution, each with its code.
fn failed_checks(result: &ExecutionResult) -> String {
    let findings = result.results.iter().flat_map(kindlm_types::AssertionResult::findings);
    let mut failed: Vec<String> = findings
        .map(|it| match it.verdict.code() {
            Some(code) => format!("{code} {}", it.label),
            None => it.label.clone(),
        })
        .collect();
    if let Some(error) = &result.error {
        failed.push(match error.code() {
            Some(code) => format!("{code} {}", error.message()),
            None => format!("not run: {}", error.message()),
        });
    }
    failed.join("; ")
}

/// Returns a text as one line that spreadsheets do not read as a formula.
fn text(text: &str) -> String {
    let line = one_line(text);
    // Some spreadsheets also accept the full-width forms.
    let is_formula = line.starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠']);
    if is_formula { format!("'{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_texts() {
        for (cell, expected) in [
            ("refund", "refund"),
            ("=HYPERLINK(\"http://x\")", "'=HYPERLINK(\"http://x\")"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("＝1", "'＝1"),
            ("\t=1", "    =1"),
            ("\r=1", "\\x0d=1"),
            ("a\n=1", "a\\n=1"),
            ("", ""),
        ] {
            assert_eq!(text(cell), expected);
        }
    }
}
