//! Writes the document as Markdown, and escapes text of users and models for Markdown.

use std::fmt::{self, Write};

use askama::filters::Escaper;

use super::blocks::{Block, Cell, Format};
use crate::plain;

/// The Markdown format of the document, and an escaper that makes Markdown show a text literally, on one line.
///
/// An escaped text is also safe in a table cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Markdown;

impl Format for Markdown {
    fn extension(&self) -> &'static str {
        "md"
    }

    fn begin(&self, title: &str, out: &mut dyn fmt::Write) -> fmt::Result {
        writeln!(out, "# {}", escaped(title))
    }

    fn block(&self, block: Block<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        match block {
            Block::Heading(level, text) => {
                write!(out, "\n{} ", "#".repeat(usize::from(level)))?;
                // A number at the start of a heading does not begin a list.
                write_lines(out, text, false)?;
                out.write_char('\n')
            }
            Block::Paragraph(text) => writeln!(out, "\n{}", escaped(text)),
            Block::Strong(text) => writeln!(out, "\n**{}**", escaped(text)),
            Block::Law(text) => writeln!(out, "\n*{}*", escaped(text)),
            Block::Alert(text) => writeln!(out, "\n> **Attention: {}**", escaped(text)),
            Block::Quote(text) => writeln!(out, "\n> {}", escaped(text)),
            Block::Code(text) => writeln!(out, "\n```text\n{}\n```", text.trim_end()),
            Block::TableBegin(columns) => {
                let names: Vec<String> = columns.iter().map(|it| escaped(it)).collect();
                writeln!(out, "\n| {} |", names.join(" | "))?;
                writeln!(out, "|{}", "---|".repeat(columns.len()))
            }
            Block::Row(cells) => {
                for cell in cells {
                    out.write_str("| ")?;
                    write_cell(out, cell)?;
                    out.write_char(' ')?;
                }
                out.write_str("|\n")
            }
            Block::ListBegin => out.write_char('\n'),
            Block::Item("", text) => writeln!(out, "- {}", escaped(text)),
            Block::Item(strong, text) => {
                writeln!(out, "- **{}** {}", escaped(strong), escaped(text))
            }
            Block::TableEnd | Block::ListEnd => Ok(()),
        }
    }

    fn end(&self, _out: &mut dyn fmt::Write) -> fmt::Result {
        Ok(())
    }
}

fn write_cell(out: &mut dyn fmt::Write, cell: &Cell<'_>) -> fmt::Result {
    match cell {
        // Code has no escapes, so only a plain word is shown as code.
        Cell::Code(text) if is_word(text) => write!(out, "`{text}`"),
        Cell::Code(text) | Cell::Text(text) => out.write_str(&escaped(text)),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|it| it.is_ascii_alphanumeric() || "-_./:".contains(it))
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    // Writing to a `String` does not fail, so the result can be ignored.
    let _ = Markdown.write_escaped_str(&mut out, text);
    out
}

impl Escaper for Markdown {
    fn write_escaped_str<W: Write>(&self, mut dest: W, text: &str) -> fmt::Result {
        write_lines(&mut dest, text, true)
    }
}

/// Writes the lines of a text. If `may_be_list` is true, a list marker at the start of the first line is escaped.
fn write_lines(dest: &mut (impl Write + ?Sized), text: &str, may_be_list: bool) -> fmt::Result {
    for (i, line) in plain::lines(text).iter().enumerate() {
        if i > 0 {
            dest.write_str("<br>")?;
        }
        write_line(dest, line, i == 0 && may_be_list)?;
    }
    Ok(())
}

fn write_line(dest: &mut (impl Write + ?Sized), line: &str, first: bool) -> fmt::Result {
    let text = line.trim_start_matches(' ');
    // Four spaces at the start would begin a code block, and Markdown would drop one to three spaces.
    (text.len()..line.len()).try_for_each(|_| dest.write_str("&nbsp;"))?;
    let list_mark = if first { list_mark(text) } else { None };
    let mut before = ' ';
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let after = chars.peek().map_or(' ', |(_, c)| *c);
        // An underscore inside a word, such as `TOOL_CALL_MISSING`, does not mark emphasis. Do not escape it, so that
        // the word can be found by a search.
        let inside_word = c == '_' && before.is_alphanumeric() && after.is_alphanumeric();
        if list_mark == Some(at) && !is_special(c) {
            dest.write_char('\\')?;
        }
        if inside_word {
            dest.write_char(c)?;
        } else {
            escape(dest, c)?;
        }
        before = c;
    }
    Ok(())
}

/// Returns the offset of the punctuation of a list marker at the start of a text.
///
/// For `- a` or `+ a` the offset is 0, and for `1. a` it is 1. Returns `None` if there is no list marker.
fn list_mark(text: &str) -> Option<usize> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mut rest = text.get(digits..)?.chars();
    let marks = if digits == 0 { "-+" } else { ".)" };
    (marks.contains(rest.next()?) && rest.next().is_none_or(|it| it == ' ')).then_some(digits)
}

fn is_special(c: char) -> bool {
    matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '#')
}

fn escape(dest: &mut (impl Write + ?Sized), c: char) -> fmt::Result {
    match c {
        '<' => dest.write_str("&lt;"),
        '>' => dest.write_str("&gt;"),
        '&' => dest.write_str("&amp;"),
        // `@name` would notify a user on some platforms.
        '@' => dest.write_str("&#64;"),
        c if is_special(c) => {
            dest.write_char('\\')?;
            dest.write_char(c)
        }
        c => dest.write_char(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_text_as_it_is() {
        for (text, expected) in [
            ("plain text: 1.5 (ok)", "plain text: 1.5 (ok)"),
            ("a | b", "a \\| b"),
            ("two\nlines", "two<br>lines"),
            ("two\r\nlines\n", "two<br>lines"),
            ("<!-- kindlm:content:end -->", "&lt;!-- kindlm:content:end --&gt;"),
            ("**b** `c` [d](e)", "\\*\\*b\\*\\* \\`c\\` \\[d\\](e)"),
            ("back\\slash", "back\\\\slash"),
            ("\u{1b}[0m", "\\\\x1b\\[0m"),
            ("TOOL_CALL_MISSING _x_", "TOOL_CALL_MISSING \\_x\\_"),
            ("    code\n  more", "&nbsp;&nbsp;&nbsp;&nbsp;code<br>&nbsp;&nbsp;more"),
            ("- a\n- b", "\\- a<br>- b"),
            ("12. a 1.5", "12\\. a 1.5"),
            ("@team a@b.c", "&#64;team a&#64;b.c"),
            ("1.5", "1.5"),
            ("-5", "-5"),
            ("-", "\\-"),
            ("", ""),
        ] {
            let mut out = String::new();
            Markdown.write_escaped_str(&mut out, text).unwrap();
            assert_eq!(out, expected);
        }
    }
}
