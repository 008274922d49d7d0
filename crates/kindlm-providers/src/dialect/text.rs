//! Excerpts and texts of answers.

use serde_json::Value;

/// The maximum length of an excerpt, in characters.
const SHOWN: usize = 200;

/// Returns the first 200 characters of a text, on one line and without backticks. An ellipsis marks a cut.
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

/// Returns the text of a value; `None` if the value is not a text, or is empty.
pub(crate) fn non_empty(value: &Value) -> Option<&str> {
    value.as_str().filter(|it| !it.is_empty())
}
