//! The rows of CSV files, with their places.
//!
//! A row of a wrong length is an error. If the reader cut or padded the row, the row would be a different test.

use std::sync::Arc;

use csv::StringRecord;

use crate::diagnostic::{Code, Diagnostic};
use crate::source::{Source, Span};

/// The common separators, to detect a file that uses another separator.
const SEPARATORS: [char; 4] = [',', ';', '\t', '|'];

/// A row of a table.
#[derive(Clone, Debug)]
pub struct Row {
    /// The place of the row: its first line.
    pub span: Span,
    cells: StringRecord,
}

impl Row {
    /// Returns the cells in order.
    pub fn cells(&self) -> impl Iterator<Item = &str> {
        self.cells.iter()
    }
}

/// Reads the rows of a table, including its header. `separator` is the byte between cells, such as a comma in CSV.
pub fn rows(source: &Arc<Source>, separator: u8) -> Rows<'_> {
    let records = reader(source.text(), separator).into_records();
    Rows { source, separator, records, width: None, is_done: false }
}

fn reader(text: &str, separator: u8) -> csv::Reader<&[u8]> {
    let mut builder = csv::ReaderBuilder::new();
    builder.flexible(true).has_headers(false).delimiter(separator).from_reader(text.as_bytes())
}

/// An iterator over the rows of a table and their errors. It ends after an error that makes the later rows unreadable.
pub struct Rows<'s> {
    source: &'s Arc<Source>,
    separator: u8,
    records: csv::StringRecordsIntoIter<&'s [u8]>,
    /// The number of cells in the header; `None` before the header.
    width: Option<usize>,
    is_done: bool,
}

impl Rows<'_> {
    fn error(&self, span: Span, message: impl Into<String>, help: Option<&str>) -> Box<Diagnostic> {
        let mut diagnostic = Diagnostic::error(Code::SYNTAX, message, self.source, span);
        diagnostic.help = help.map(str::to_owned);
        Box::new(diagnostic)
    }

    /// Returns the first line of the record that starts at or after a position. `None` is the start of the text.
    fn span(&self, position: Option<&csv::Position>) -> Span {
        let text = self.source.text();
        let at = position.map_or(0, |it| usize::try_from(it.byte()).unwrap_or(0));
        let rest = text.get(at..).unwrap_or_default();
        let start = at + (rest.len() - rest.trim_start_matches(['\n', '\r']).len());
        self.source.first_line(Span::new(start, text.len()))
    }

    fn is_at_end(&self) -> bool {
        let at = self.records.reader().position().byte();
        usize::try_from(at).is_ok_and(|it| it >= self.source.text().len())
    }

    /// Returns true if the quote of a cell is not closed at the end of the file.
    ///
    /// To find out, the function appends a row to the text. If the quote is open, this row becomes a part of the cell.
    fn is_open(&self, record: &StringRecord) -> bool {
        const MARK: &str = "kindlm";
        let text = self.source.text();
        let start = record.position().and_then(|it| usize::try_from(it.byte()).ok()).unwrap_or(0);
        let last = text.get(start..).unwrap_or_default();
        if !last.contains('"') {
            return false;
        }
        let probe = format!("{last}\n{MARK}");
        let end = reader(&probe, self.separator).records().last().and_then(Result::ok);
        end.is_none_or(|it| it.len() != 1 || it.get(0) != Some(MARK))
    }

    fn checked(&mut self, record: StringRecord) -> Result<Row, Box<Diagnostic>> {
        let span = self.span(record.position());
        if self.is_at_end() && self.is_open(&record) {
            self.is_done = true;
            let message = "a quote that begins in this row is not closed: the rest of the file is in one cell";
            let help = "close the quote; write a quote inside quotes as `\"\"`";
            return Err(self.error(span, message, Some(help)));
        }
        let Some(width) = self.width else {
            self.width = Some(record.len());
            let only = record.get(0).filter(|_| record.len() == 1).unwrap_or_default();
            let mut others = SEPARATORS.iter().filter(|it| **it != char::from(self.separator));
            if let Some(other) = others.find(|it| only.contains(**it)) {
                self.is_done = true;
                let message = format!("the header has one column only: {only:?}");
                let meant = if self.separator == b'\t' { "tabs" } else { "commas" };
                let help = format!("separate the cells with {meant}, not with {other:?}");
                return Err(self.error(span, message, Some(&help)));
            }
            return Ok(Row { span, cells: record });
        };
        if record.len() == width {
            return Ok(Row { span, cells: record });
        }
        let cells = if record.len() == 1 { "cell" } else { "cells" };
        let message = format!("the row has {} {cells}, the header has {width}", record.len());
        let help = "put cells that contain commas or line breaks in quotes";
        Err(self.error(span, message, Some(help)))
    }
}

impl std::fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("source", &self.source.name()).finish_non_exhaustive()
    }
}

impl Iterator for Rows<'_> {
    type Item = Result<Row, Box<Diagnostic>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        Some(match self.records.next()? {
            Ok(record) => self.checked(record),
            Err(err) => {
                self.is_done = true;
                let span = self.span(err.position());
                Err(self.error(span, format!("the row cannot be read: {err}"), None))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_rows(text: &str) -> Vec<String> {
        let source = Arc::new(Source::new("t.csv", text));
        let line = |it: Result<Row, Box<Diagnostic>>| match it {
            Ok(row) => {
                let cells: Vec<&str> = row.cells().collect();
                format!("{} {}", source.position(row.span.start).line, cells.join("·"))
            }
            Err(it) => format!("{} ! {}", source.position(it.span.start).line, it.message),
        };
        rows(&source, b',').map(line).collect()
    }

    #[test]
    fn rows_are_whole_or_an_error() {
        let open =
            "a quote that begins in this row is not closed: the rest of the file is in one cell";
        for (text, expected) in [
            ("a,b\n1,2\n", vec!["1 a·b", "2 1·2"]),
            ("\n\na,b\r\n\r\n1,\"x, \"\"y\"\"\nz\"", vec!["3 a·b", "5 1·x, \"y\"\nz"]),
            (
                "a,b\n1,2,3\n1\n4,5",
                vec![
                    "1 a·b",
                    "2 ! the row has 3 cells, the header has 2",
                    "3 ! the row has 1 cell, the header has 2",
                    "4 4·5",
                ],
            ),
            ("a,b\n\"1,2\n3,4\n", vec!["1 a·b", &format!("2 ! {open}")]),
            ("a,b\n1,\"2\n3,4\n", vec!["1 a·b", &format!("2 ! {open}")]),
            ("a,b\n1,5\" pipe\n", vec!["1 a·b", "2 1·5\" pipe"]),
            ("a,b\n1,\"\"\n", vec!["1 a·b", "2 1·"]),
            ("a;b\n1;2\n", vec!["1 ! the header has one column only: \"a;b\""]),
            ("a\n1;2\n", vec!["1 a", "2 1;2"]),
            ("", vec![]),
        ] {
            assert_eq!(read_rows(text), expected, "{text:?}");
        }
    }
}
