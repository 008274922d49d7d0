//! `json`: the whole report for programs, in the versioned form of [`kindlm_types::wire::v1`].

use std::fmt;

use kindlm_types::{Report, wire::v1};

use crate::{Meta, Registration, RenderError, Style};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "json",
        summary: "Everything about the run, for programs; versioned, and described by a JSON Schema.",
        since: "0.1.0",
        extension: "json",
        docs: include_str!("docs.md"),
    },
    render,
};

fn render(report: &Report, _style: &Style, out: &mut dyn fmt::Write) -> Result<(), RenderError> {
    out.write_str(&text(report)?)?;
    Ok(())
}

/// The JSON text, with a line break at its end.
pub(crate) fn text(report: &Report) -> Result<String, RenderError> {
    let mut json = serde_json::to_string_pretty(&v1::Report::borrowing(report))
        .map_err(|err| RenderError::Format { format: "json", message: err.to_string() })?;
    json.push('\n');
    Ok(json)
}
