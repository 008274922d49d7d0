//! The reporter `compliance-html`: the document of `compliance` as an HTML page for printing.
//!
//! The page loads nothing and runs no script.

use std::fmt;

use data_encoding::BASE64;
use kindlm_types::AnyReport;
use sha2::{Digest as _, Sha256};

use crate::compliance_document::{self, Block, Cell, Format};
use crate::{Meta, Registration, RenderError, Style, plain};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "compliance-html",
        summary: "The document of `compliance` as an HTML page for reading and printing.",
        since: "0.1.0",
        extension: "html",
        docs: include_str!("docs.md"),
    },
    render,
};

const STYLE: &str = include_str!("style.css");

fn render(
    report: &AnyReport<'_>,
    style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    compliance_document::write(report, &Html, style, out)
}

/// The document as HTML.
struct Html;

impl Format for Html {
    fn extension(&self) -> &'static str {
        "html"
    }

    fn begin(&self, title: &str, out: &mut dyn fmt::Write) -> fmt::Result {
        let style_hash = BASE64.encode(&Sha256::digest(STYLE));
        let title = escaped(title);
        write!(
            out,
            r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-{style_hash}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="KindLM">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>{title}</h1>
"#
        )
    }

    fn block(&self, block: Block<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        match block {
            Block::Heading(level, text) => writeln!(out, "<h{level}>{}</h{level}>", escaped(text)),
            Block::Paragraph(text) => writeln!(out, "<p>{}</p>", escaped(text)),
            Block::Strong(text) => writeln!(out, "<p><strong>{}</strong></p>", escaped(text)),
            Block::Law(text) => writeln!(out, "<p class=\"law\">{}</p>", escaped(text)),
            Block::Alert(text) => {
                writeln!(
                    out,
                    "<p class=\"alert\"><strong>Attention:</strong> {}</p>",
                    escaped(text)
                )
            }
            Block::Quote(text) => {
                writeln!(out, "<blockquote dir=\"auto\">{}</blockquote>", escaped(text))
            }
            // A browser ignores a line break after `<pre>`, so each line of the text can be a whole line of the file.
            Block::Code(text) => {
                let lines: Vec<String> = text.trim_end().lines().map(escaped).collect();
                writeln!(out, "<pre>\n{}\n</pre>", lines.join("\n"))
            }
            Block::TableBegin(columns) => {
                out.write_str("<table>\n<thead><tr>")?;
                for it in columns {
                    write!(out, "<th scope=\"col\">{}</th>", escaped(it))?;
                }
                out.write_str("</tr></thead>\n<tbody>\n")
            }
            Block::Row(cells) => {
                out.write_str("<tr>")?;
                for (at, cell) in cells.iter().enumerate() {
                    let (begin, end) = match at {
                        0 => ("<th scope=\"row\">", "</th>"),
                        _ => ("<td>", "</td>"),
                    };
                    match cell {
                        Cell::Text(text) => write!(out, "{begin}{}{end}", escaped(text))?,
                        Cell::Code(text) => {
                            write!(out, "{begin}<code>{}</code>{end}", escaped(text))?;
                        }
                    }
                }
                out.write_str("</tr>\n")
            }
            Block::TableEnd => out.write_str("</tbody>\n</table>\n"),
            Block::ListBegin => out.write_str("<ul>\n"),
            Block::Item("", text) => {
                writeln!(out, "<li>{}</li>", escaped(text))
            }
            Block::Item(strong, text) => {
                writeln!(out, "<li><strong>{}</strong> {}</li>", escaped(strong), escaped(text))
            }
            Block::ListEnd => out.write_str("</ul>\n"),
        }
    }

    fn end(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("</main>\n</body>\n</html>\n")
    }
}

/// Returns a text as one line of HTML, with `<br>` for line breaks.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for (at, line) in plain::lines(text).iter().enumerate() {
        if at > 0 {
            out.push_str("<br>");
        }
        for c in line.chars() {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&quot;"),
                '\'' => out.push_str("&#39;"),
                c => out.push(c),
            }
        }
    }
    out
}
