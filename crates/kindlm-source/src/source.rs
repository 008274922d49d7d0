//! The text of a file, with lines and columns.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Serialize;

/// A range of a source, as byte offsets into its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The offset of the first byte.
    pub start: u32,
    /// The offset after the last byte.
    pub end: u32,
}

impl Span {
    /// Creates a span. Offsets above `u32::MAX` become `u32::MAX`; files are limited to 64 MiB.
    pub fn new(start: usize, end: usize) -> Self {
        let cut = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        Self { start: cut(start), end: cut(end) }
    }

    /// Returns true if the span contains no bytes.
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }
}

/// A line and column in a text, counted from 1. Columns count Unicode scalar values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
}

/// The name and text of a file.
pub struct Source {
    name: String,
    text: Arc<str>,
    lines: OnceLock<Vec<u32>>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Source {
    /// Creates a source from a name and a text.
    pub fn new(name: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), text: text.into(), lines: OnceLock::new() }
    }

    /// Creates a source for a file in the folder of this source.
    ///
    /// `path` is relative to that folder. The new source's name is this folder and `path`, for error messages.
    #[must_use]
    pub fn beside(&self, path: &str, text: impl Into<Arc<str>>) -> Self {
        let path = path.trim_start_matches("./");
        let name = match self.name.rsplit_once('/') {
            Some((folder, _)) => format!("{folder}/{path}"),
            None => path.to_owned(),
        };
        Self::new(name, text)
    }

    /// Returns the name for messages: the path as the user wrote it, or as [`beside`](Self::beside) built it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text of a span. The result is empty if the span is not a valid range of the text.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or_default()
    }

    /// Returns the line and column of a byte offset.
    ///
    /// If the offset is inside of a character, returns the position after the character.
    pub fn position(&self, offset: u32) -> Position {
        let (line, start) = self.line_of(offset);
        let end = (offset as usize).min(self.text.len());
        let bytes = self.text.as_bytes().get(start as usize..end).unwrap_or_default();
        let column = bytes.iter().filter(|&&it| (it & 0xC0) != 0x80).count();
        Position { line, column: column + 1 }
    }

    /// Returns the line of an offset, from 1, and the offset of the line's start.
    pub(crate) fn line_of(&self, offset: u32) -> (usize, u32) {
        let starts = self.line_starts();
        let line = starts.partition_point(|it| *it <= offset).max(1);
        (line, starts.get(line - 1).copied().unwrap_or_default())
    }

    /// Returns the offset of the end of a line, without its line break. Lines are counted from 1.
    pub(crate) fn end_of_line(&self, line: usize) -> usize {
        let end = self.line_starts().get(line).map_or(self.text.len(), |it| *it as usize);
        let start = self.line_starts().get(line - 1).map_or(0, |it| *it as usize);
        start + self.text.get(start..end).unwrap_or_default().trim_end_matches(['\n', '\r']).len()
    }

    /// Returns the offset of the start of a line, or the length of the text for a missing line.
    ///
    /// Lines are counted from 1.
    pub(crate) fn start_of_line(&self, line: usize) -> usize {
        self.line_starts().get(line - 1).map_or(self.text.len(), |it| *it as usize)
    }

    /// Returns the span of the first line of a span, without white space at its end.
    pub fn first_line(&self, span: Span) -> Span {
        let text = self.slice(span);
        let line = text.split('\n').next().unwrap_or_default().trim_end();
        Span::new(span.start as usize, span.start as usize + line.len())
    }

    fn line_starts(&self) -> &[u32] {
        self.lines.get_or_init(|| {
            let breaks = self.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
            std::iter::once(0).chain(breaks.map(|(at, _)| Span::new(at + 1, 0).start)).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_are_counted_from_one_in_characters() {
        let source = Source::new("a", "é🐎x\r\n\nend");
        for (offset, line, column) in
            [(0, 1, 1), (2, 1, 2), (6, 1, 3), (9, 2, 1), (10, 3, 1), (13, 3, 4), (99, 3, 4)]
        {
            assert_eq!(source.position(offset), Position { line, column }, "{offset}");
        }
        assert_eq!(source.slice(Span::new(6, source.end_of_line(1))), "x");
    }
}
