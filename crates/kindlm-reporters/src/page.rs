//! A text page of limited width, with wrapping, hanging indents and colors.

use std::fmt;
use std::ops::Range;

use anstyle::{AnsiColor, Effects};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr;

use crate::Style;

/// The look of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Warning,
    Trouble,
    Code,
}

impl Ink {
    fn style(self) -> anstyle::Style {
        let color = |color: AnsiColor| color.on_default();
        match self {
            Self::Plain => anstyle::Style::new(),
            Self::Strong => anstyle::Style::new().bold(),
            Self::Faint => anstyle::Style::new().effects(Effects::DIMMED),
            Self::Good => color(AnsiColor::Green),
            Self::Bad => color(AnsiColor::Red),
            Self::Warning => color(AnsiColor::Yellow),
            Self::Trouble => color(AnsiColor::Magenta),
            Self::Code => color(AnsiColor::Cyan),
        }
    }
}

/// The number of spaces between the cells of a row.
pub(crate) const GAP: usize = 2;

/// A space at which no line breaks. The page writes it as a plain space.
pub(crate) const NO_BREAK: &str = "\u{a0}";

/// A piece of text with its look.
pub(crate) type Span<'a> = (Ink, &'a str);

/// A writer of lines that are not wider than the page.
pub(crate) struct Page<'a> {
    out: &'a mut dyn fmt::Write,
    color: bool,
    width: usize,
}

impl<'a> Page<'a> {
    /// Creates a page with a width from 40 to 120 columns.
    ///
    /// Some terminals report the width 0, and very long lines are hard to read.
    pub(crate) fn new(out: &'a mut dyn fmt::Write, style: &Style) -> Self {
        Self { out, color: style.color, width: style.width.clamp(40, 120) }
    }

    /// Returns the number of columns.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Returns true if the page has colours.
    pub(crate) fn has_color(&self) -> bool {
        self.color
    }

    pub(crate) fn blank(&mut self) -> fmt::Result {
        self.out.write_char('\n')
    }

    /// Writes a paragraph in which all text has the same look.
    pub(crate) fn text(&mut self, indent: usize, ink: Ink, text: &str) -> fmt::Result {
        self.spans(indent, 0, &[(ink, text)])
    }

    /// Writes a paragraph. The lines after the first are indented by `hang` more columns.
    pub(crate) fn spans(&mut self, indent: usize, hang: usize, spans: &[Span<'_>]) -> fmt::Result {
        let plain: String = spans.iter().map(|(_, text)| *text).collect();
        let room = self.width.saturating_sub(indent + reserve(&plain)).max(10);
        let hang = hang.min(room / 2);
        for (i, range) in wrap(&plain, room, room - hang).iter().enumerate() {
            let indent = if i == 0 { indent } else { indent + hang };
            self.line(indent, &plain, range, spans)?;
        }
        Ok(())
    }

    /// Writes a paragraph, with `right` at the right edge of its first line.
    ///
    /// If the space is too small, `right` gets a separate line.
    pub(crate) fn between(
        &mut self,
        indent: usize,
        hang: usize,
        left: &[Span<'_>],
        right: &str,
    ) -> fmt::Result {
        let plain: String = left.iter().map(|(_, text)| *text).collect();
        let room = self.width.saturating_sub(indent + columns(right) + 2 + reserve(&plain));
        if room < 24 {
            let hang = hang.min(self.width.saturating_sub(indent) / 2);
            self.spans(indent, hang, left)?;
            return self.spans(indent + hang, 0, &[(Ink::Faint, right)]);
        }
        let hang = hang.min(room / 2);
        for (i, range) in wrap(&plain, room, room - hang).iter().enumerate() {
            if i > 0 {
                self.line(indent + hang, &plain, range, left)?;
                continue;
            }
            self.indent(indent, plain.get(range.clone()).unwrap_or_default())?;
            self.painted(range, left)?;
            if !right.is_empty() {
                let used = columns(plain.get(range.clone()).unwrap_or_default());
                self.indent(room.saturating_sub(used) + 2, "")?;
                self.paint(Ink::Faint, right)?;
            }
            self.out.write_char('\n')?;
        }
        Ok(())
    }

    /// Writes cells side by side, each wrapped to its number of columns, with two spaces between them.
    pub(crate) fn row(&mut self, indent: usize, cells: &[(usize, Vec<Span<'_>>)]) -> fmt::Result {
        let wrapped: Vec<(String, Vec<Range<usize>>)> = cells
            .iter()
            .map(|(width, spans)| {
                let plain: String = spans.iter().map(|(_, text)| *text).collect();
                let lines = wrap(&plain, *width, *width);
                (plain, lines)
            })
            .collect();
        let height = wrapped.iter().map(|(_, lines)| lines.len()).max().unwrap_or_default();
        for at in 0..height {
            // Spaces are written before the next text only, so that no line ends with spaces.
            let mut pending = indent;
            for ((width, spans), (plain, lines)) in cells.iter().zip(&wrapped) {
                let range = lines.get(at).cloned().unwrap_or_default();
                let used = columns(plain.get(range.clone()).unwrap_or_default());
                if used > 0 {
                    write!(self.out, "{:pending$}", "")?;
                    self.painted(&range, spans)?;
                    pending = 0;
                }
                pending += width.saturating_sub(used) + GAP;
            }
            self.out.write_char('\n')?;
        }
        Ok(())
    }

    /// Writes untrusted text after a name and a bar. Wrapped lines have a bar too.
    pub(crate) fn barred(&mut self, indent: usize, name: &str, text: &str) -> fmt::Result {
        let room = self.width.saturating_sub(indent + columns(name) + 2).max(10);
        for (i, range) in wrap(text, room, room).into_iter().enumerate() {
            write!(self.out, "{:indent$}", "")?;
            if i == 0 {
                self.paint(Ink::Faint, name)?;
            } else {
                write!(self.out, "{:1$}", "", columns(name))?;
            }
            let part = text.get(range).unwrap_or_default();
            self.paint(Ink::Faint, if part.is_empty() { "│" } else { "│ " })?;
            self.out.write_str(part)?;
            self.out.write_char('\n')?;
        }
        Ok(())
    }

    fn line(
        &mut self,
        indent: usize,
        plain: &str,
        range: &Range<usize>,
        spans: &[Span<'_>],
    ) -> fmt::Result {
        self.indent(indent, plain.get(range.clone()).unwrap_or_default())?;
        self.painted(range, spans)?;
        self.out.write_char('\n')
    }

    /// Writes spaces, and a backslash if `text` would be a CI command.
    fn indent(&mut self, columns: usize, text: &str) -> fmt::Result {
        write!(self.out, "{:columns$}", "")?;
        if text.trim_start().starts_with("::") { self.out.write_char('\\') } else { Ok(()) }
    }

    /// Writes the part of the spans that lies in this range.
    fn painted(&mut self, range: &Range<usize>, spans: &[Span<'_>]) -> fmt::Result {
        let mut start = 0;
        for (ink, text) in spans {
            let end = start + text.len();
            let from = range.start.clamp(start, end) - start;
            let to = range.end.clamp(start, end) - start;
            if let Some(part) = text.get(from..to).filter(|it| !it.is_empty()) {
                self.paint(*ink, part)?;
            }
            start = end;
        }
        Ok(())
    }

    fn paint(&mut self, ink: Ink, text: &str) -> fmt::Result {
        let text = &text.replace(NO_BREAK, " ");
        if self.color && ink != Ink::Plain {
            let style = ink.style();
            write!(self.out, "{style}{text}{style:#}")
        } else {
            self.out.write_str(text)
        }
    }
}

/// Returns the number of columns to reserve for the backslash that [`Page::indent`] may write: 0 or 1.
fn reserve(text: &str) -> usize {
    usize::from(text.contains("::"))
}

/// Returns the number of columns of a text without colours, measured like the lines of [`wrap`].
pub(crate) fn columns(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// Returns the ranges of a text's lines, without the spaces between the lines.
///
/// Lines break at spaces, and before most wide characters, because Chinese and Japanese have no spaces. A word that is
/// longer than a line is split between characters.
fn wrap(text: &str, first: usize, rest: usize) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut start = 0;
    loop {
        let room = if lines.is_empty() { first } else { rest };
        let left = text.get(start..).unwrap_or_default();
        let (end, next) = line_end(left, room);
        lines.push(start..start + left.get(..end).unwrap_or_default().trim_end().len());
        start += next;
        if next == 0 || start >= text.len() {
            return lines;
        }
    }
}

/// Returns the end of the first line and the start of the next line, as offsets.
fn line_end(text: &str, room: usize) -> (usize, usize) {
    let mut used = 0;
    let mut last = None;
    let mut indented = true;
    let mut is_escape = false;
    // The width of an emoji depends on all of its code points, so measure whole graphemes.
    for (at, shown) in text.grapheme_indices(true) {
        is_escape |= shown == "\u{1b}";
        if is_escape {
            // A color sequence takes no columns, and ends with `m`. A combining mark may follow in the same grapheme.
            is_escape = !shown.starts_with('m');
            continue;
        }
        let width = shown.width();
        if shown == " " {
            // A break inside the indentation would produce an empty line.
            last = if indented { None } else { Some((at, at + 1)) };
        } else {
            // Chinese and Japanese have no spaces: a line may break before any wide character except these.
            if width == 2 && !indented && !"、。，．」』）】！？：；ー".contains(shown)
            {
                last = Some((at, at));
            }
            indented = false;
            if used + width > room && at > 0 {
                return last.unwrap_or((at, at));
            }
        }
        used += width;
    }
    (text.len(), text.len())
}

/// Wraps the lines of a text. Continuation lines are indented by two columns.
///
/// Colours take no columns.
///
/// ```
/// assert_eq!(kindlm_reporters::wrapped("a long line\nshort", 8), "a long\n  line\nshort");
/// ```
pub fn wrapped(text: &str, width: usize) -> String {
    let lines = text.split('\n').map(|line| {
        let ranges = wrap(line, width, width.saturating_sub(2).max(1));
        let parts = ranges.into_iter().map(|it| line.get(it).unwrap_or_default());
        parts.collect::<Vec<_>>().join("\n  ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, first: usize, rest: usize) -> Vec<&str> {
        wrap(text, first, rest).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn words_are_split_only_if_they_are_too_long() {
        for (text, expected) in [
            ("", vec![""]),
            ("one two", vec!["one two"]),
            ("one two three", vec!["one two", "three"]),
            ("abcdefghijklmnop", vec!["abcdefgh", "ijklmnop"]),
            ("a abcdefghijkl", vec!["a", "abcdefgh", "ijkl"]),
            ("注文は発送済み", vec!["注文は発", "送済み"]),
            // A first word that does not fit after the indentation is split, not moved to the next line.
            ("  indented text", vec!["  indent", "ed text"]),
            ("trailing   ", vec!["trailing"]),
            ("\u{1b}[31m\u{301}one two three", vec!["\u{1b}[31m\u{301}one two", "three"]),
            // Each emoji has two columns: in the first text a sign with a selector, in the second two joined signs.
            ("⚠️⚠️⚠️⚠️⚠️", vec!["⚠️⚠️⚠️⚠️", "⚠️"]),
            (
                "👩\u{200d}🚀👩\u{200d}🚀👩\u{200d}🚀👩\u{200d}🚀👩\u{200d}🚀",
                vec!["👩\u{200d}🚀👩\u{200d}🚀👩\u{200d}🚀👩\u{200d}🚀", "👩\u{200d}🚀"],
            ),
        ] {
            assert_eq!(parts(text, 8, 8), expected, "{text:?}");
        }
    }

    #[test]
    fn later_lines_may_be_narrower() {
        assert_eq!(parts("one two three four", 10, 5), ["one two", "three", "four"]);
        assert_eq!(parts("one abcdefghijkl", 10, 5), ["one", "abcde", "fghij", "kl"]);
    }

    #[test]
    fn wide_characters_break_anywhere_but_before_punctuation() {
        assert_eq!(
            parts("✗ 返品の方法を説明し、返金", 12, 12),
            ["✗ 返品の方法", "を説明し、返", "金"]
        );
        assert_eq!(parts("説明し、返金", 6, 8), ["説明", "し、返金"]);
        assert_eq!(
            parts("\u{1b}[31mred\u{1b}[0m and on", 8, 8),
            ["\u{1b}[31mred\u{1b}[0m and", "on"]
        );
    }
}
