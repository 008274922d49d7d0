//! The building blocks of the document, which each format writes in its own way.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use sha2::{Digest as _, Sha256};

use super::{BEGIN, END};
use crate::RenderError;

/// A cell of a table row.
#[derive(Clone, Debug)]
pub(crate) enum Cell<'a> {
    /// A text, which may come from a user or a model.
    Text(Cow<'a, str>),
    /// A digest, or a name that is shown like code.
    Code(Cow<'a, str>),
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

/// A block of the document. The format escapes the texts, except that Markdown does not escape [`Code`](Self::Code).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Block<'a> {
    /// A heading of level 2 to 4.
    Heading(u8, &'a str),
    /// A paragraph.
    Paragraph(&'a str),
    /// An emphasised paragraph.
    Strong(&'a str),
    /// The articles of a law for which a section has evidence.
    Law(&'a str),
    /// A warning that a reader must not miss.
    Alert(&'a str),
    /// A text of a model or a user, with its line breaks.
    Quote(&'a str),
    /// Lines that are shown unchanged. The lines must not contain text of models.
    Code(&'a str),
    /// The start of a table, with the names of its columns.
    TableBegin(&'a [&'a str]),
    /// A row of a table.
    Row(&'a [Cell<'a>]),
    /// The end of a table.
    TableEnd,
    /// The start of a list.
    ListBegin,
    /// An item of a list: an emphasised word, and a text.
    Item(&'a str, &'a str),
    /// The end of a list.
    ListEnd,
}

/// A format of the document, such as Markdown.
pub(crate) trait Format {
    /// The extension of the file, such as `md`.
    fn extension(&self) -> &'static str;

    /// Returns the content digest of the Markdown document, if a file in this format cannot be verified by itself.
    /// Otherwise returns `None`.
    fn digest_elsewhere(&self) -> Option<&str> {
        None
    }

    /// Returns the maximum number of cases whose findings are written; `None` for all.
    ///
    /// With a maximum, the document also has the causes of the findings, and lists the passed cases last.
    fn max_findings(&self) -> Option<usize> {
        None
    }

    /// Writes the start of the document, with its title.
    fn begin(&self, title: &str, out: &mut dyn fmt::Write) -> fmt::Result;

    /// Writes a block.
    fn block(&self, block: Block<'_>, out: &mut dyn fmt::Write) -> fmt::Result;

    /// Writes the end of the document.
    fn end(&self, out: &mut dyn fmt::Write) -> fmt::Result;
}

/// A document that is being written.
pub(crate) struct Document<'a> {
    out: Hashed<'a>,
    format: &'a dyn Format,
    /// The number of the last numbered section.
    section: u32,
}

impl<'a> Document<'a> {
    pub(crate) fn begin(
        title: &str,
        format: &'a dyn Format,
        out: &'a mut dyn fmt::Write,
    ) -> Result<Self, RenderError> {
        format.begin(title, out)?;
        Ok(Self { out: Hashed::new(out), format, section: 0 })
    }

    pub(crate) fn put(&mut self, block: Block<'_>) -> Result<(), RenderError> {
        Ok(self.format.block(block, &mut self.out)?)
    }

    /// Writes the heading of the next numbered section, and the articles for which the section has evidence.
    pub(crate) fn section(&mut self, title: &str, law: Option<&str>) -> Result<(), RenderError> {
        self.section += 1;
        self.put(Block::Heading(2, &format!("{}. {title}", self.section)))?;
        law.map_or(Ok(()), |it| self.put(Block::Law(it)))
    }

    /// Returns the number of the last section.
    pub(crate) fn last_section(&self) -> u32 {
        self.section
    }

    pub(crate) fn format(&self) -> &'a dyn Format {
        self.format
    }

    /// Writes a table. Without rows, its only row is `none`.
    pub(crate) fn table<'r, Row>(
        &mut self,
        columns: &[&str],
        rows: impl IntoIterator<Item = Result<Row, RenderError>>,
    ) -> Result<(), RenderError>
    where
        Row: AsRef<[Cell<'r>]>,
    {
        self.put(Block::TableBegin(columns))?;
        let mut is_empty = true;
        for row in rows {
            is_empty = false;
            self.put(Block::Row(row?.as_ref()))?;
        }
        if is_empty {
            let mut none = vec![Cell::from(""); columns.len()];
            if let Some(first) = none.first_mut() {
                *first = "none".into();
            }
            self.put(Block::Row(&none))?;
        }
        self.put(Block::TableEnd)
    }

    /// Writes a table of fields and values.
    pub(crate) fn fields<'r>(
        &mut self,
        rows: impl IntoIterator<Item = (&'r str, Cell<'r>)>,
    ) -> Result<(), RenderError> {
        self.table(
            &["Field", "Value"],
            rows.into_iter().map(|(name, value)| Ok([Cell::from(name), value])),
        )
    }

    /// Writes the marker before the hashed content, if the file can be verified by itself.
    pub(crate) fn begin_content(&mut self) -> Result<(), RenderError> {
        if self.format.digest_elsewhere().is_none() {
            write!(self.out, "\n{BEGIN}\n")?;
        }
        Ok(())
    }

    /// Writes the marker after the hashed content, if the file can be verified by itself.
    ///
    /// Returns the digest of the content.
    pub(crate) fn end_content(&mut self) -> Result<String, RenderError> {
        if let Some(digest) = self.format.digest_elsewhere() {
            return Ok(digest.to_owned());
        }
        write!(self.out, "\n{END}\n")?;
        Ok(self.out.digest())
    }

    pub(crate) fn end(mut self) -> Result<(), RenderError> {
        Ok(self.format.end(&mut self.out)?)
    }
}

/// A writer that forwards text, and hashes its lines.
///
/// The hash covers the text from the begin marker to the end marker, both markers and all line breaks included.
pub(crate) struct Hashed<'a> {
    out: &'a mut dyn fmt::Write,
    content: ContentHash,
}

impl<'a> Hashed<'a> {
    fn new(out: &'a mut dyn fmt::Write) -> Self {
        Self { out, content: ContentHash::default() }
    }

    fn digest(&self) -> String {
        self.content.digest()
    }
}

impl fmt::Write for Hashed<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.content.add(text);
        self.out.write_str(text)
    }
}

/// The hash of the lines between the markers.
#[derive(Default)]
pub(crate) struct ContentHash {
    digest: Sha256,
    /// The part of the current line that was added so far.
    line: String,
    inside: bool,
}

impl ContentHash {
    pub(crate) fn add(&mut self, text: &str) {
        for part in text.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') {
                let line = self.line.trim_end_matches('\n');
                self.inside |= line == BEGIN;
                if self.inside {
                    self.digest.update(&self.line);
                }
                self.inside &= line != END;
                self.line.clear();
            }
        }
    }

    pub(crate) fn digest(&self) -> String {
        data_encoding::HEXLOWER.encode(&self.digest.clone().finalize())
    }
}
