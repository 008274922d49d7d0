//! The reporter `compliance-pdf`: the document of `compliance` as the source of a PDF.
//!
//! The text is one JSON document with all blocks. `kindlm-pdf` makes the pages of the PDF in memory, so the size of the
//! source is limited. Rows, list items, lines and long texts above a limit are left out, and the document says so.

use std::cell::Cell as Counter;
use std::fmt;

use kindlm_types::{AnyReport, RunInfo};
use serde_json::{Value, json};

use crate::amount::count;
use crate::compliance_document::{self, Block, Cell, Format};
use crate::plain::{self, head};
use crate::{Meta, Registration, RenderError, Style};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "compliance-pdf",
        summary: "The document of `compliance` as a tagged PDF/A for archives; needs a build with `pdf`.",
        since: "0.1.0",
        extension: "pdf",
        docs: include_str!("docs.md"),
    },
    render,
};

/// The maximum number of rows of a table, of items of a list, and of lines of code.
const MAX_ROWS: usize = 300;
/// The maximum number of cases with findings.
const MAX_FINDINGS: usize = 100;
/// The maximum number of bytes of the run's id at the foot of each page.
const MAX_RUN: usize = 60;
/// The maximum number of bytes of a text.
const MAX_TEXT: usize = 4_000;

fn render(
    report: &AnyReport<'_>,
    style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    let digest = compliance_document::markdown_digest(report)?;
    let source = Source {
        run: &report.run,
        digest,
        is_first: Counter::new(true),
        in_group: Counter::new(0),
    };
    compliance_document::write(report, &source, style, out)
}

/// The document as the source of a PDF.
struct Source<'a> {
    run: &'a RunInfo,
    /// The digest of the content of the Markdown document.
    digest: String,
    /// True before the first block.
    is_first: Counter<bool>,
    /// The number of rows or items of the current table or list, including those that were left out.
    in_group: Counter<usize>,
}

impl Format for Source<'_> {
    fn extension(&self) -> &'static str {
        REGISTRATION.meta.extension
    }

    fn digest_elsewhere(&self) -> Option<&str> {
        Some(&self.digest)
    }

    fn max_findings(&self) -> Option<usize> {
        Some(MAX_FINDINGS)
    }

    fn begin(&self, title: &str, out: &mut dyn fmt::Write) -> fmt::Result {
        let (title, run) = (json!(shown(title)), json!(shown(head(&self.run.id, MAX_RUN))));
        let (started, version) =
            (json!(self.run.started_at), json!(format!("KindLM {}", shown(&self.run.version))));
        write!(
            out,
            "{{\"title\":{title},\"run\":{run},\"started\":{started},\"creator\":{version},\"blocks\":["
        )
    }

    fn block(&self, block: Block<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        match block {
            Block::Heading(level, text) => {
                self.put(&json!({"is": "heading", "level": level, "text": shown(text)}), out)
            }
            Block::Paragraph(text) => self.text("paragraph", text, out),
            Block::Strong(text) => self.text("strong", text, out),
            Block::Law(text) => self.text("law", text, out),
            Block::Alert(text) => self.text("alert", text, out),
            Block::Quote(text) => self.text("quote", text, out),
            Block::Code(text) => {
                let all = text.trim_end().lines().count();
                let lines: Vec<String> =
                    text.trim_end().lines().take(MAX_ROWS).map(shown).collect();
                self.put(&json!({"is": "code", "lines": lines}), out)?;
                self.left_out("lines", all, out)
            }
            Block::TableBegin(columns) => {
                let columns: Vec<String> = columns.iter().map(|it| shown(it)).collect();
                self.open(out)?;
                write!(out, r#"{{"is":"table","columns":{},"rows":["#, json!(columns))
            }
            Block::Row(cells) => {
                let cells: Vec<Value> = cells.iter().map(cell).collect();
                self.member(&json!(cells), out)
            }
            Block::ListBegin => {
                self.open(out)?;
                out.write_str(r#"{"is":"list","items":["#)
            }
            Block::Item(strong, text) => {
                self.member(&json!({"strong": shown(strong), "text": shown(text)}), out)
            }
            Block::TableEnd => {
                out.write_str("\n]}")?;
                self.left_out("rows", self.in_group.get(), out)
            }
            Block::ListEnd => {
                out.write_str("\n]}")?;
                self.left_out("items", self.in_group.get(), out)
            }
        }
    }

    fn end(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("\n],\"is_complete\":true}\n")
    }
}

impl Source<'_> {
    fn text(&self, is: &str, text: &str, out: &mut dyn fmt::Write) -> fmt::Result {
        self.put(&json!({"is": is, "text": shown(text)}), out)
    }

    fn put(&self, block: &Value, out: &mut dyn fmt::Write) -> fmt::Result {
        self.open(out)?;
        write!(out, "{block}")
    }

    /// Writes the separator before a block, and begins to count its rows or items.
    fn open(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        self.in_group.set(0);
        out.write_str(if self.is_first.replace(false) { "\n" } else { ",\n" })
    }

    /// Writes a table row or a list item. After [`MAX_ROWS`] rows or items, writes nothing.
    fn member(&self, value: &Value, out: &mut dyn fmt::Write) -> fmt::Result {
        let before = self.in_group.get();
        self.in_group.set(before + 1);
        match before {
            0 => write!(out, "\n{value}"),
            MAX_ROWS.. => Ok(()),
            _ => write!(out, ",\n{value}"),
        }
    }

    /// States how many rows, items or lines were left out.
    fn left_out(&self, what: &str, all: usize, out: &mut dyn fmt::Write) -> fmt::Result {
        let more = all.saturating_sub(MAX_ROWS) as u64;
        if more == 0 {
            return Ok(());
        }
        let note = format!(
            "{} more {what} are left out here. The Markdown document and the HTML page of the run have them.",
            count(more)
        );
        self.text("strong", &note, out)
    }
}

fn cell(cell: &Cell<'_>) -> Value {
    match cell {
        Cell::Text(text) => json!({"text": shown(text)}),
        Cell::Code(text) => json!({"code": shown(text)}),
    }
}

/// Returns the first [`MAX_TEXT`] bytes of a text. Characters that hide or reorder text are escaped.
fn shown(text: &str) -> String {
    let beginning = head(text, MAX_TEXT);
    let lines = plain::lines(beginning).join("\n");
    match text.len() - beginning.len() {
        0 => lines,
        more => format!("{lines}… ({} more bytes)", count(more as u64)),
    }
}
