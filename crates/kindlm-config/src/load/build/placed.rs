//! Texts with variables: where they are written, and what they are for.

use std::ops::Range;
use std::sync::Arc;

use kindlm_source::{Source, Span};

use crate::template::{Template, place_of};

/// A template with where it is written.
#[derive(Clone, Copy)]
pub(super) struct Written<'a> {
    pub(super) template: &'a Template,
    pub(super) source: &'a Arc<Source>,
    pub(super) span: Span,
}

impl Written<'_> {
    /// Where a placeholder is in its file. Placeholders survive every way of writing a text in YAML but
    /// escapes; if one is not found, the text's first line must do.
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

impl TextUse {
    /// The advice for Jinja in such a text.
    pub(super) fn raw(self) -> &'static str {
        match self {
            Self::Prompt => {
                "`template: jinja` beside the text renders it; there `{% raw %}…{% endraw %}` sends a part as it is"
            }
            Self::Turn => {
                "only prompts are rendered (`template: jinja`); to send it as it is, put it into a variable of `vars`"
            }
            Self::Command => "",
        }
    }
}
