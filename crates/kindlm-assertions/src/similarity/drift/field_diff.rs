//! The distance between two JSON documents, field by field.

use std::borrow::Cow;

use rapidfuzz::distance::levenshtein;
use serde_json::Value;

use crate::shared::compare::equal;

/// The drift of each field.
#[derive(Debug)]
pub(super) struct Comparison {
    pub(super) fields: Vec<FieldDrift>,
}

/// The drift of one field.
#[derive(Debug)]
pub(super) struct FieldDrift {
    /// The path as written in the check. Without paths, the name is the top-level key, or `(document)` if the documents
    /// are compared as a whole.
    pub(super) name: String,
    /// The drift from 0 (equal) to 1.
    pub(super) drift: f64,
}

impl Comparison {
    /// Returns the mean drift of the fields; 0 for documents without fields.
    pub(super) fn drift(&self) -> f64 {
        if self.fields.is_empty() {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "no document has 2^53 fields")]
        let count = self.fields.len() as f64;
        self.fields.iter().map(|it| it.drift).sum::<f64>() / count
    }

    /// Returns the names of the fields with a drift above 0.
    pub(super) fn mismatched(&self) -> Vec<&str> {
        self.fields.iter().filter(|it| it.drift > 0.0).map(|it| it.name.as_str()).collect()
    }
}

/// Compares the fields at these paths; without paths, all top-level fields.
///
/// Without paths, documents are compared as a whole if one of them is not an object.
///
/// # Errors
///
/// Returns the paths that exist in neither document, because they are probably misspelled.
pub(super) fn compare<'f>(
    output: &Value,
    baseline: &Value,
    fields: &'f [String],
) -> Result<Comparison, Vec<&'f str>> {
    if fields.is_empty() {
        return Ok(compare_top_level(output, baseline));
    }
    let mut drifts = Vec::with_capacity(fields.len());
    let mut unknown = Vec::new();
    for path in fields {
        match (lookup(output, path), lookup(baseline, path)) {
            (None, None) => unknown.push(path.as_str()),
            (new, old) => {
                drifts.push(FieldDrift {
                    name: path.clone(),
                    drift: drift(new.as_deref(), old.as_deref()),
                });
            }
        }
    }
    if unknown.is_empty() { Ok(Comparison { fields: drifts }) } else { Err(unknown) }
}

fn compare_top_level(output: &Value, baseline: &Value) -> Comparison {
    let (Value::Object(new), Value::Object(old)) = (output, baseline) else {
        let whole = FieldDrift {
            name: "(document)".to_owned(),
            drift: drift(Some(output), Some(baseline)),
        };
        return Comparison { fields: vec![whole] };
    };
    let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
    let fields = names
        .map(|name| FieldDrift { name: name.clone(), drift: drift(new.get(name), old.get(name)) })
        .collect();
    Comparison { fields }
}

/// Returns the value at a path of names and indices, which are separated by dots.
///
/// `length` of an array is the number of its items. Returns `None` if no value is at the path.
fn lookup<'a>(document: &'a Value, path: &str) -> Option<Cow<'a, Value>> {
    let mut value = document;
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        value = match value {
            Value::Object(members) => members.get(part)?,
            Value::Array(items) if part == "length" && parts.peek().is_none() => {
                return Some(Cow::Owned(Value::from(items.len())));
            }
            Value::Array(items) => items.get(part.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(Cow::Borrowed(value))
}

fn drift(new: Option<&Value>, old: Option<&Value>) -> f64 {
    match (new, old) {
        (Some(Value::String(new)), Some(Value::String(old))) => text_drift(new, old),
        (Some(new), Some(old)) if equal(new, old) => 0.0,
        _ => 1.0,
    }
}

/// Returns the Levenshtein distance divided by the length of the longer text.
///
/// Lengths are in Unicode scalar values. Two empty texts are equal.
fn text_drift(new: &str, old: &str) -> f64 {
    if new == old { 0.0 } else { levenshtein::normalized_distance(new.chars(), old.chars()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn drift_of(output: &Value, baseline: &Value, fields: &[&str]) -> Result<f64, Vec<String>> {
        let fields: Vec<String> = fields.iter().map(|&it| it.to_owned()).collect();
        compare(output, baseline, &fields)
            .map(|it| it.drift())
            .map_err(|unknown| unknown.into_iter().map(str::to_owned).collect())
    }

    #[test]
    fn compares_values_deeply_and_texts_by_distance() {
        for (output, baseline, fields, expected) in [
            (json!({"a": {"b": 1, "c": 2.0}}), json!({"a": {"c": 2, "b": 1.0}}), &["a"][..], 0.0),
            (json!({"a": "kitten"}), json!({"a": "sitting"}), &["a"], 3.0 / 7.0),
            (json!({"a": "😀"}), json!({"a": "😁"}), &["a"], 1.0),
            (json!({"a": ""}), json!({"a": ""}), &["a"], 0.0),
            (json!({"a": ""}), json!({"a": "x"}), &["a"], 1.0),
            (json!({"a": "1"}), json!({"a": 1}), &["a"], 1.0),
            (
                json!({"a": [1, {"b": null}]}),
                json!({"a": [1, {"b": null}]}),
                &["a.1.b", "a.length"],
                0.0,
            ),
            (json!({"a": [1]}), json!({"a": [1, 2]}), &["a.length"], 1.0),
            (json!({}), json!({"a": null}), &["a"], 1.0),
            (json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}), &[], 0.0),
            (json!({"a": 1, "b": 2}), json!({"a": 1, "c": 2}), &[], 2.0 / 3.0),
            (json!([1, 2]), json!([1, 2]), &[], 0.0),
            (json!([1, 2]), json!({"a": 1}), &[], 1.0),
            (json!("abcd"), json!("abce"), &[], 0.25),
            (json!({}), json!({}), &[], 0.0),
        ] {
            let drift = drift_of(&output, &baseline, fields).unwrap();
            assert!((drift - expected).abs() < 1e-12, "{output} {baseline} {fields:?}: {drift}");
        }
    }

    #[test]
    fn a_field_that_neither_has_is_not_equal_but_unknown() {
        let document = json!({"action": "refund", "items": [1], "name": "x"});
        for path in ["acton", "items.5", "items.x", "name.length", "action.x", "constructor", ""] {
            assert_eq!(drift_of(&document, &document, &["name", path]), Err(vec![path.to_owned()]));
        }
    }

    proptest! {
        #[test]
        fn drift_of_texts_is_symmetric_and_in_range(a in ".{0,20}", b in ".{0,20}") {
            let there = text_drift(&a, &b);
            prop_assert!((0.0..=1.0).contains(&there));
            prop_assert!((there - text_drift(&b, &a)).abs() < 1e-12);
            prop_assert_eq!(there == 0.0, a == b);
        }
    }
}
