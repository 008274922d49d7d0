//! The reporter `json`: the whole report for programs, in the versioned format [`kindlm_wire::v1`].

use std::fmt;

use kindlm_types::AnyReport;
use kindlm_wire::v1;

use crate::bytes::Bytes;
use crate::{Meta, Registration, RenderError, Style};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "json",
        summary: "The complete report for programs; versioned, with a JSON Schema.",
        since: "0.1.0",
        extension: "json",
        docs: include_str!("docs.md"),
    },
    render,
};

fn render(
    report: &AnyReport<'_>,
    _style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    write(report, out)
}

/// Writes the report as indented JSON text with a final line break.
pub(crate) fn write(report: &AnyReport<'_>, out: &mut dyn fmt::Write) -> Result<(), RenderError> {
    let mut bytes = Bytes::new(out);
    serde_json::to_writer_pretty(&mut bytes, &v1::Report::borrowing(report)).map_err(|err| {
        if err.is_io() {
            RenderError::Write(fmt::Error)
        } else {
            RenderError::Format { format: "json", message: err.to_string() }
        }
    })?;
    bytes.finish().map_err(|_| RenderError::Write(fmt::Error))?;
    Ok(())
}
