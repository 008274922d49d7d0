//! Formats diagnostics in the style of the Rust compiler.

use std::sync::Arc;

use annotate_snippets::{
    Annotation, AnnotationKind, Element, Group, Level as Title, Origin, Renderer, Snippet,
    normalize_untrusted_str,
};

use kindlm_redact::mask_keys;

use super::{Diagnostic, Level};
use crate::source::{Source, Span};

/// The maximum number of lines between a snippet and another mark that is added to the snippet.
const NEAR: usize = 40;

/// The longest line that is shown in full, in bytes.
const LONG: usize = 1_000;

/// The number of characters that an excerpt shows before its mark, and after its mark.
const EXCERPT: usize = 40;

/// The width of the output, in columns.
const WIDTH: usize = 120;

/// Formats a diagnostic as text.
///
/// The text has the message, the file and position, the marked source lines, and the help. The text ends with a line
/// break. `color` adds ANSI colours; without colours, the text is the same on every terminal.
pub fn render(diagnostic: &Diagnostic, color: bool) -> String {
    let title = match diagnostic.level {
        Level::Error => Title::ERROR,
        Level::Warning => Title::WARNING,
    };
    let title = title.primary_title(mask_keys(&diagnostic.message)).id(diagnostic.code.as_str());
    let mut elements: Vec<Element<'_>> = Vec::new();
    for piece in pieces(diagnostic) {
        piece.elements(&mut elements);
    }
    if let Some(help) = &diagnostic.help {
        elements.push(Title::HELP.message(harmless(help)).into());
    }
    let group: Group<'_> = title.elements(elements);
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut text = renderer.term_width(WIDTH).render(&[group]);
    text.push('\n');
    text
}

/// Returns a text with its keys masked, and with symbols in place of control characters.
///
/// The renderer replaces control characters itself only in the message of a diagnostic and in the source lines.
fn harmless(text: &str) -> String {
    normalize_untrusted_str(&mask_keys(text))
}

/// A marked place in a source.
struct Mark<'a> {
    span: Span,
    label: &'a str,
    is_primary: bool,
}

/// Marks in one file that are near each other. `first` and `last` are line numbers, from 1.
struct PieceOfSource<'a> {
    source: &'a Arc<Source>,
    first: usize,
    last: usize,
    marks: Vec<Mark<'a>>,
}

fn pieces(diagnostic: &Diagnostic) -> Vec<PieceOfSource<'_>> {
    let primary = Mark { span: diagnostic.span, label: &diagnostic.label, is_primary: true };
    let line = diagnostic.source.line_of(diagnostic.span.start).0;
    let mut pieces = vec![PieceOfSource {
        source: &diagnostic.source,
        first: line,
        last: line,
        marks: vec![primary],
    }];
    for related in &diagnostic.related {
        let mark = Mark { span: related.span, label: &related.label, is_primary: false };
        let line = related.source.line_of(related.span.start).0;
        let near = pieces.iter_mut().find(|it| {
            Arc::ptr_eq(it.source, &related.source)
                && line + NEAR >= it.first
                && line <= it.last + NEAR
        });
        match near {
            Some(piece) => {
                piece.first = piece.first.min(line);
                piece.last = piece.last.max(line);
                piece.marks.push(mark);
            }
            None => pieces.push(PieceOfSource {
                source: &related.source,
                first: line,
                last: line,
                marks: vec![mark],
            }),
        }
    }
    pieces
}

impl<'a> PieceOfSource<'a> {
    fn elements(self, out: &mut Vec<Element<'a>>) {
        if self.source.text().is_empty() {
            out.push(Origin::path(normalize_untrusted_str(self.source.name())).into());
            return;
        }
        let marked: Vec<usize> =
            self.marks.iter().map(|it| self.source.line_of(it.span.start).0).collect();
        let is_long = marked
            .iter()
            .any(|line| self.source.end_of_line(*line) - self.source.start_of_line(*line) > LONG);
        if is_long {
            for mark in &self.marks {
                self.excerpt(mark, out);
            }
        } else {
            out.push(self.snippet().into());
        }
    }

    /// Returns the source lines from the first mark to the last mark, with all marks.
    fn snippet(&self) -> Snippet<'a, Annotation<'a>> {
        let start = self.source.start_of_line(self.first);
        let end = self.source.end_of_line(self.last);
        let text = mask_keys(self.source.text().get(start..end).unwrap_or_default());
        let length = text.len();
        let annotations = self.marks.iter().map(|mark| {
            let kind =
                if mark.is_primary { AnnotationKind::Primary } else { AnnotationKind::Context };
            let clip = |at: u32| (at as usize).saturating_sub(start).min(length);
            let annotation = kind.span(clip(mark.span.start)..clip(mark.span.end));
            if mark.label.is_empty() { annotation } else { annotation.label(harmless(mark.label)) }
        });
        Snippet::source(text)
            .path(normalize_untrusted_str(self.source.name()))
            .line_start(self.first)
            .annotations(annotations)
    }

    /// Adds the position of a mark and the text around it. Replaces the snippet if a marked line is too long.
    fn excerpt(&self, mark: &Mark<'a>, out: &mut Vec<Element<'a>>) {
        let place = self.source.position(mark.span.start);
        let path = normalize_untrusted_str(self.source.name());
        out.push(Origin::path(path).line(place.line).char_column(place.column).into());
        let line = self.source.start_of_line(place.line)..self.source.end_of_line(place.line);
        let at = (mark.span.start as usize).saturating_sub(line.start);
        let text = mask_keys(self.source.text().get(line).unwrap_or_default());
        let before = text.get(..at).unwrap_or_default();
        let after = text.get(at..).unwrap_or_default();
        let skip = before.chars().count().saturating_sub(EXCERPT);
        let start: String = before.chars().skip(skip).collect();
        let end: String = after.chars().take(EXCERPT).collect();
        let dots = |is_cut: bool| if is_cut { "…" } else { "" };
        let label = if mark.label.is_empty() { "here" } else { mark.label };
        out.push(
            Title::NOTE
                .message(harmless(&format!(
                    "{label}: `{}{start}▸{end}{}`",
                    dots(skip > 0),
                    dots(end.len() < after.len())
                )))
                .into(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Code;

    #[test]
    fn control_characters_are_shown_as_symbols() {
        let long = format!("a: \u{1b}[2J{}", "x".repeat(LONG));
        for text in ["a: \u{1b}[2J", &long] {
            let source = Arc::new(Source::new("a\u{1b}[2J.yaml", text));
            let diagnostic = Diagnostic::error(Code::FILE, "m\u{1b}[2J", &source, Span::new(3, 7))
                .with_label("l\u{1b}[2J")
                .with_help("h\u{1b}[2J");
            let shown = render(&diagnostic, false);
            assert!(!shown.contains('\u{1b}'), "{shown:?}");
            assert!(shown.contains("l␛[2J") && shown.contains("h␛[2J"), "{shown:?}");
        }
    }
}
