//! The reporter `jsonl`: one JSON line per case, for programs that read large runs in a stream.

use std::fmt;

use kindlm_types::AnyReport;
use kindlm_wire::v1;

use crate::{Meta, Registration, RenderError, Style};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "jsonl",
        summary: "One JSON line for each case, for programs that read large runs in a stream.",
        since: "0.1.0",
        extension: "jsonl",
        docs: include_str!("docs.md"),
    },
    render,
};

fn render(
    report: &AnyReport<'_>,
    _style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    for position in 0..report.cases.len() {
        let line = if let Some(line) = report.cases.written(position)? {
            line
        } else {
            let case = v1::Case::from(report.cases.read_case(position)?.into_owned());
            serde_json::to_string(&case)
                .map_err(|err| RenderError::Format { format: "jsonl", message: err.to_string() })?
        };
        writeln!(out, "{line}")?;
    }
    Ok(())
}
