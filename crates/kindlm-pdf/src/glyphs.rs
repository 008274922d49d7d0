//! Replaces characters that the fonts cannot show. PDF/A forbids text without a glyph.

use std::fmt::Write as _;

use serde_json::Value;
use typst::text::Font;

/// Replaces characters that a font of running text cannot show, and counts them.
pub(crate) struct Glyphs<'a> {
    fonts: &'a [Font],
    /// The number of replaced characters.
    pub(crate) replaced: usize,
}

impl<'a> Glyphs<'a> {
    /// Creates a replacement for these fonts. A character stays if each of the fonts has a glyph for it.
    pub(crate) fn new(fonts: &'a [Font]) -> Self {
        Self { fonts, replaced: 0 }
    }

    /// Replaces characters without a glyph in all texts of a value.
    ///
    /// The names of members stay, because the template and not the user defines them.
    pub(crate) fn check(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.shown(text),
            Value::Array(all) => all.iter_mut().for_each(|it| self.check(it)),
            Value::Object(members) => members.values_mut().for_each(|it| self.check(it)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns the text with `\u{…}` in place of each character without a glyph.
    fn shown(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            if c == '\n' || self.has(c) {
                out.push(c);
            } else {
                self.replaced += 1;
                // Writing to a `String` does not fail, so the result can be ignored.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
        out
    }

    fn has(&self, c: char) -> bool {
        let is_allowed = !c.is_control() && !is_private(c) && !is_byte_order_mark(c);
        is_allowed && self.fonts.iter().all(|it| it.info().coverage.contains(c.into()))
    }
}

/// Returns true for characters of the private use areas. Their meaning is not defined, so PDF/A-2a forbids them.
fn is_private(c: char) -> bool {
    matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..)
}

/// Returns true for the byte order mark in either order, which PDF/A-2 forbids in the text of a glyph.
fn is_byte_order_mark(c: char) -> bool {
    matches!(c, '\u{feff}' | '\u{fffe}')
}
