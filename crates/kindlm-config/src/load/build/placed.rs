//! Templates with their place and their purpose.

use std::ops::Range;
use std::sync::Arc;

use kindlm_source::{Source, Span};

use crate::template::{Template, place_of};

/// A template and its place in a file.
#[derive(Clone, Copy)]
pub(super) struct Written<'a> {
    pub(super) template: &'a Template,
    pub(super) source: &'a Arc<Source>,
    pub(super) span: Span,
}

impl Written<'_> {
    /// Returns the place of a placeholder in its file.
    ///
    /// YAML escape sequences can change a placeholder, so that it is not found. In this case, the place is the first
    /// line of the text.
    pub(super) fn place(&self, range: &Range<usize>) -> Span {
        place_of(self.template.text(), range, self.source, self.span)
            .unwrap_or_else(|| self.source.first_line(self.span))
    }
}

/// The purpose of a text with variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextUse {
    Prompt,
    Turn,
    Command,
}
