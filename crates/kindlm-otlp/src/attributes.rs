//! Finds span attributes by several keys, because the conventions use different names.

use serde_json::{Map, Value};

use crate::span::OtlpSpan;

/// The maximum number of parts into which a dotted key is split. The last part keeps the remaining dots.
const MAX_DEPTH: usize = 8;

impl OtlpSpan {
    /// Returns the attribute with this key, if it is a text.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.attributes.get(key).and_then(Value::as_str)
    }

    /// Returns the first non-empty text among these attributes.
    pub(crate) fn first_text(&self, keys: &[&str]) -> Option<&str> {
        keys.iter().filter_map(|it| self.text(it)).find(|it| !it.is_empty())
    }

    /// Returns the first of these attributes that exists.
    pub(crate) fn first(&self, keys: &[&str]) -> Option<&Value> {
        keys.iter().find_map(|it| self.attributes.get(*it))
    }

    /// Returns the first of these attributes that is a number of at least 0, without its fraction.
    ///
    /// A whole number may be written as text.
    pub(crate) fn count(&self, keys: &[&str]) -> Option<u64> {
        keys.iter().find_map(|key| {
            let value = self.attributes.get(*key)?;
            match value {
                Value::String(text) => text.trim().parse().ok(),
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "the cast saturates, and negative numbers are excluded"
                )]
                value => value
                    .as_u64()
                    .or_else(|| value.as_f64().filter(|it| *it >= 0.0).map(|it| it as u64)),
            }
        })
    }

    /// Returns true if the name of an attribute begins with `prefix`.
    pub(crate) fn has_prefix(&self, prefix: &str) -> bool {
        self.attributes.keys().any(|it| it.starts_with(prefix))
    }
}

/// Collects the attributes `<prefix>.<number>.<rest>` as a list in number order.
///
/// Conventions without nested values write lists in this way. An example is `gen_ai.prompt.0.role`.
pub(crate) fn indexed(attributes: &Map<String, Value>, prefix: &str) -> Vec<Value> {
    let mut root = Value::Null;
    for (key, value) in attributes {
        let rest = key.strip_prefix(prefix).and_then(|it| it.strip_prefix('.'));
        let Some(rest) = rest else { continue };
        put(&mut root, rest, value);
    }
    list(root)
}

/// Stores a value at the path of a dotted key. If a parent on the path is not an object, an object replaces the parent.
fn put(root: &mut Value, key: &str, value: &Value) {
    let mut at = root;
    for part in key.splitn(MAX_DEPTH, '.') {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(object) = at else { return };
        at = object.entry(part).or_insert(Value::Null);
    }
    *at = value.clone();
}

/// Returns the items of a list, or the values of an object whose keys are numbers, in order.
///
/// Other keys of an object are left out. Any other value gives an empty list.
pub(crate) fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        Value::Object(items) => {
            let numbered = |(key, value): (String, Value)| Some((key.parse::<u64>().ok()?, value));
            let mut items: Vec<(u64, Value)> = items.into_iter().filter_map(numbered).collect();
            items.sort_by_key(|(index, _)| *index);
            items.into_iter().map(|(_, value)| value).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns a list or an object, parsed from JSON text if necessary.
///
/// Older attributes could not be nested, so they hold JSON text. Returns `None` for any other value.
pub(crate) fn unpacked(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) => {
            let text = text.trim_start();
            text.starts_with(['{', '[']).then(|| serde_json::from_str(text).ok()).flatten()
        }
        Value::Array(_) | Value::Object(_) => Some(value.clone()),
        _ => None,
    }
}
