//! The reporter `json`: the whole report for programs, in the versioned format [`kindlm_wire::v1`].

use std::fmt;

use kindlm_types::AnyReport;

use crate::report_json::write_json;
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
    write_json(report, out)
}
