//! An XML writer that drops characters that XML does not allow.

use std::fmt;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

use crate::RenderError;
use crate::bytes::Bytes;

/// An XML document that is being written.
pub(super) struct Xml<'a>(Writer<Bytes<'a>>);

impl<'a> Xml<'a> {
    pub(super) fn new(out: &'a mut dyn fmt::Write) -> Result<Self, RenderError> {
        let mut writer = Writer::new_with_indent(Bytes::new(out), b' ', 2);
        put(&mut writer, Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        Ok(Self(writer))
    }

    pub(super) fn open(
        &mut self,
        name: &str,
        attributes: &[(&str, &str)],
    ) -> Result<(), RenderError> {
        put(&mut self.0, Event::Start(start(name, attributes)))
    }

    pub(super) fn close(&mut self, name: &str) -> Result<(), RenderError> {
        put(&mut self.0, Event::End(BytesEnd::new(name)))
    }

    pub(super) fn empty(
        &mut self,
        name: &str,
        attributes: &[(&str, &str)],
    ) -> Result<(), RenderError> {
        put(&mut self.0, Event::Empty(start(name, attributes)))
    }

    pub(super) fn text(
        &mut self,
        name: &str,
        attributes: &[(&str, &str)],
        text: &str,
    ) -> Result<(), RenderError> {
        self.open(name, attributes)?;
        // Escaping also changes `]]>`, which is not allowed in text.
        put(&mut self.0, Event::Text(BytesText::new(&allowed(text))))?;
        self.close(name)
    }

    /// Ends the document with a line break. Fails if the text cannot be written.
    pub(super) fn finish(self) -> Result<(), RenderError> {
        self.0.into_inner().finish().map_err(|_| RenderError::Write(fmt::Error))
    }
}

fn start(name: &str, attributes: &[(&str, &str)]) -> BytesStart<'static> {
    let mut start = BytesStart::new(name.to_owned());
    for (key, value) in attributes {
        start.push_attribute((*key, allowed(value).as_str()));
    }
    start
}

fn put(writer: &mut Writer<Bytes<'_>>, event: Event<'_>) -> Result<(), RenderError> {
    writer
        .write_event(event)
        .map_err(|err| RenderError::Format { format: "junit", message: err.to_string() })
}

/// Returns a text without the characters that XML 1.0 forbids even if escaped.
///
/// Windows line breaks become `\n`.
pub(super) fn allowed(text: &str) -> String {
    text.replace("\r\n", "\n").chars().filter(|c| is_allowed(*c)).collect()
}

/// Returns true if XML 1.0 allows the character (`Char` in its grammar).
fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}
