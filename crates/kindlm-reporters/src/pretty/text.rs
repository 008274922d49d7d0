//! Formats texts of cases and results, and cuts long texts.

use std::fmt;

use kindlm_types::ecma;
use serde_json::Value;

use crate::page::{Ink, Page};
use crate::plain::{head, lines, one_line};

/// The maximum number of bytes shown of a message, argument or metadata value.
pub(super) const MESSAGE_BYTES: usize = 800;
pub(super) const VALUE_BYTES: usize = 300;

pub(super) fn field(page: &mut Page<'_>, indent: usize, name: &str, text: &str) -> fmt::Result {
    let text = one_line(head_of(text, MESSAGE_BYTES).as_str());
    page.spans(indent, name.chars().count(), &[(Ink::Faint, name), (Ink::Plain, &text)])
}

pub(super) fn paragraphs(page: &mut Page<'_>, indent: usize, ink: Ink, text: &str) -> fmt::Result {
    for line in lines(&head_of(text, MESSAGE_BYTES)) {
        page.text(indent, ink, &line)?;
    }
    Ok(())
}

/// Writes a text with all its lines.
pub(super) fn whole_text(page: &mut Page<'_>, indent: usize, text: &str) -> fmt::Result {
    lines(text).iter().try_for_each(|line| page.text(indent, Ink::Plain, line))
}

pub(super) fn compact(value: &Value) -> String {
    match value {
        Value::String(text) => head_of(text, VALUE_BYTES),
        other => head_of(&ecma::stringify(other), VALUE_BYTES),
    }
}

pub(super) fn head_of(text: &str, bytes: usize) -> String {
    let beginning = head(text, bytes);
    if beginning.len() < text.len() { format!("{beginning}…") } else { text.to_owned() }
}
