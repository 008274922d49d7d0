//! Replaces API keys in the text of a config, so that no error message shows them.

use std::sync::Arc;

use kindlm_redact::is_secret_setting;
use kindlm_source::{Kind, Node, Source};

/// Returns the source with secret values replaced by asterisks. The length stays the same, so all spans stay valid.
pub fn covered(source: &Arc<Source>, root: &Node) -> Arc<Source> {
    let mut bytes = source.text().as_bytes().to_vec();
    if !cover(root, &mut bytes) {
        return Arc::clone(source);
    }
    // Only whole values are replaced, so the text stays valid UTF-8.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Arc::new(Source::new(source.name(), text))
}

fn cover(node: &Node, bytes: &mut [u8]) -> bool {
    let mut found = false;
    for (key, value) in node.entries() {
        if is_secret_setting(&key.name) {
            for value in std::iter::once(value).chain(value.items()) {
                found |= cover_text(value, bytes);
            }
        }
        if &*key.name == "tests" {
            for value in std::iter::once(value).chain(value.items()) {
                found |= cover_address(value, bytes);
            }
        }
        found |= cover(value, bytes);
    }
    if let Kind::List(items) = &node.kind {
        for item in items.iter() {
            found |= cover(item, bytes);
        }
    }
    found
}

/// Masks the whole address of a test file if the address contains `?` or `@`. Returns false for other values.
fn cover_address(value: &Node, bytes: &mut [u8]) -> bool {
    let is_secret = |text: &str| text.contains("://") && text.contains(['?', '@']);
    value.text().is_some_and(is_secret) && cover_text(value, bytes)
}

/// Replaces the text of a value by asterisks. Returns false for a template, which stays, and for other values.
fn cover_text(value: &Node, bytes: &mut [u8]) -> bool {
    if value.text().is_none_or(|it| it.contains("{{")) {
        return false;
    }
    let range = value.span.start as usize..value.span.end as usize;
    let part = bytes.get_mut(range).into_iter().flatten();
    part.filter(|it| !it.is_ascii_whitespace()).for_each(|it| *it = b'*');
    true
}
