//! Replaces characters that the fonts cannot show. PDF/A forbids text without a glyph.

use std::fmt::Write as _;

use serde_json::Value;
use typst::text::Font;

/// Replaces and counts the characters that PDF/A forbids or that a font lacks.
pub(crate) struct Glyphs<'a> {
    fonts: &'a [Font],
    /// The number of replaced characters.
    pub(crate) replaced: usize,
}

impl<'a> Glyphs<'a> {
    /// Creates the replacer. A character stays if PDF/A permits it and each of these fonts has a glyph for it.
    pub(crate) fn new(fonts: &'a [Font]) -> Self {
        Self { fonts, replaced: 0 }
    }

    /// Replaces characters in all strings of a JSON value.
    ///
    /// The keys of objects stay unchanged, because the template defines the keys, not the user.
    pub(crate) fn check(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.shown(text),
            Value::Array(all) => all.iter_mut().for_each(|it| self.check(it)),
            Value::Object(members) => members.values_mut().for_each(|it| self.check(it)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns the text with a code such as `\u{65e5}` in place of each character that cannot be shown.
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

/// Returns true for the byte order mark, also with swapped bytes. PDF/A-2 forbids both in the text of a glyph.
fn is_byte_order_mark(c: char) -> bool {
    matches!(c, '\u{feff}' | '\u{fffe}')
}
