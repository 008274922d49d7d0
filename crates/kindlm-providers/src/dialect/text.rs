//! Texts out of answers.

use serde_json::Value;

/// How many characters of a body are shown.
const SHOWN: usize = 200;

/// The first 200 characters of a text, on one line.
pub(crate) fn excerpt(text: &str) -> String {
    let mut out: String = text
        .chars()
        .take(SHOWN)
        .map(|it| if it.is_control() || it == '`' { ' ' } else { it })
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        out.push('…');
    }
    out.trim().to_owned()
}

/// A text that is there and not empty.
pub(crate) fn non_empty(value: &Value) -> Option<&str> {
    value.as_str().filter(|it| !it.is_empty())
}
