//! Conversion of scalars to values, and checks of tags.

use granit_parser::{ScalarStyle, Tag};

use super::read::Reader;
use super::scalar::{self, NotFinite};
use super::{Kind, Node};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

impl Reader<'_> {
    pub(super) fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        span: Span,
    ) -> Node {
        let read = match tag.map(|it| (it, it.core_suffix())) {
            None if style == ScalarStyle::Plain => scalar::plain(text),
            None | Some((_, Some("str"))) => Ok(Kind::Text(text.into())),
            Some((_, Some(wanted @ ("null" | "bool" | "int" | "float")))) => {
                self.tagged(text, wanted, span)
            }
            Some((tag, _)) => {
                // The tag `!` without a name makes any value a text.
                if tag.original() != "!" {
                    self.unknown_tag(tag, span);
                }
                Ok(Kind::Text(text.into()))
            }
        };
        let kind = read.unwrap_or_else(|NotFinite| {
            let diagnostic = Diagnostic::error(
                Code::INVALID_VALUE,
                format!("`{text}` is not a finite number"),
                self.source,
                span,
            )
            .with_help("put it in quotes if a text is meant");
            self.report(diagnostic);
            Kind::Null
        });
        Node { span, used_at: None, kind }
    }

    fn tagged(&mut self, text: &str, wanted: &str, span: Span) -> Result<Kind, NotFinite> {
        let kind = scalar::plain(text)?;
        let fits = match &kind {
            Kind::Null => wanted == "null",
            Kind::Bool(_) => wanted == "bool",
            Kind::Number(number) => wanted == "float" || (wanted == "int" && !number.is_f64()),
            _ => false,
        };
        if !fits {
            let diagnostic = self.stop(format!("`{text}` is not a value of `!!{wanted}`"), span);
            self.report(diagnostic);
        }
        Ok(kind)
    }

    pub(super) fn expect_tag(&mut self, tag: Option<&Tag>, wanted: &str, span: Span) {
        if let Some(tag) = tag
            && tag.core_suffix() != Some(wanted)
            && tag.original() != "!"
        {
            self.unknown_tag(tag, span);
        }
    }

    fn unknown_tag(&mut self, tag: &Tag, span: Span) {
        let name = tag.original();
        // Mark the tag, which is shortly before its value.
        let before = self.source.text().get(..span.start as usize).unwrap_or_default();
        let span = match before.rfind(&name) {
            Some(at) if before.len() - at < 200 => Span::new(at, at + name.len()),
            _ => span,
        };
        let diagnostic = self
            .stop(format!("unknown tag `{name}`"), span)
            .with_help("remove the tag; put a text that starts with `!` in quotes");
        self.report(diagnostic);
    }
}
