//! The error message for a text that is not XML, as promptfoo's parser gives it.

use std::fmt::Write as _;

use roxmltree::{Error, TextPos};

/// Returns `line:column: message.`; the column belongs to the last character that was read.
pub(super) fn describe(text: &str, error: &Error) -> String {
    let end = |pos: &TextPos, until: char| end(text, *pos, until);
    let (pos, message) = match error {
        Error::DuplicatedAttribute(name, pos) => {
            (end(pos, '>'), format!("duplicate attribute: {name}"))
        }
        Error::UnknownNamespace(prefix, pos) => {
            (end(pos, '>'), format!("unbound namespace prefix: \"{prefix}\""))
        }
        Error::UnknownEntityReference(_, pos) => (end(pos, ';'), "undefined entity".to_owned()),
        Error::UnexpectedCloseTag(_, found, pos) => {
            (end(pos, '>'), format!("unexpected close tag: {found}"))
        }
        Error::NoRootNode => (last(text), "document must contain a root element".to_owned()),
        Error::UnclosedRootNode | Error::UnexpectedEndOfStream => {
            (last(text), "unclosed tag".to_owned())
        }
        Error::UnknownToken(pos) => outside(text, *pos),
        other => (other.pos(), message_of(other)),
    };
    let mut said = String::new();
    let _ = write!(said, "{}:{}: {message}.", pos.row, pos.col);
    said
}

/// Describes text or a tag outside the root element.
fn outside(text: &str, pos: TextPos) -> (TextPos, String) {
    if rest(text, pos).starts_with('<') {
        (end(text, pos, '>'), "documents may contain only one root".to_owned())
    } else {
        (end(text, pos, '<'), "text data outside of root node".to_owned())
    }
}

/// Returns the parser's message without the position at its end.
fn message_of(error: &Error) -> String {
    let said = error.to_string();
    match said.rsplit_once(" at ") {
        Some((words, place)) if place.contains(':') => words.to_owned(),
        _ => said,
    }
}

/// Returns the part of a text that starts at `pos`.
fn rest(text: &str, pos: TextPos) -> &str {
    let line_start = match pos.row {
        0 | 1 => 0,
        row => text.match_indices('\n').nth(row as usize - 2).map_or(text.len(), |(at, _)| at + 1),
    };
    let line = text.get(line_start..).unwrap_or_default();
    let column = (pos.col as usize).saturating_sub(1);
    let start = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
    &line[start..]
}

/// Returns the position of the first `until` at or after `pos`. Without an `until`, returns the position of the last
/// character.
fn end(text: &str, pos: TextPos, until: char) -> TextPos {
    let rest = rest(text, pos);
    let length = rest.find(until).map_or(rest.len(), |at| at + until.len_utf8());
    last(&text[..text.len() - rest.len() + length])
}

/// Returns the position of the last character of a text.
fn last(text: &str) -> TextPos {
    let line = text.rsplit('\n').next().unwrap_or_default();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    TextPos::new(count(text.matches('\n').count() + 1), count(line.chars().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_a_place_and_a_reason() {
        let mut seen = String::new();
        for text in [
            "text",
            "",
            "<a>",
            "<a>1</a><b>2</b>",
            "<a>\n  &nbsp;</a>",
            "<a x=\"1\" x=\"2\"/>",
            "<x:a/>",
            "<a></b>",
            "<a>\u{1}</a>",
            "<a b></a>",
            "<a><!-- -- --></a>",
            "<1/>",
        ] {
            let error = crate::format::xml::parse(text).unwrap().unwrap_err();
            let _ = writeln!(seen, "{text:?}  {}", describe(text, &error));
        }
        insta::assert_snapshot!(seen);
    }
}
