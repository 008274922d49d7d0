//! The reporter `compliance`: the document with evidence of testing as Markdown.

use std::fmt;

use kindlm_types::AnyReport;

use crate::compliance_document::{self, Markdown};
use crate::{Meta, Registration, RenderError, Style};

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

fn render(
    report: &AnyReport<'_>,
    style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    compliance_document::write(report, &Markdown, style, out)
}
