//! Describes the differences between two requests, for error messages.

use kindlm_types::pointer;
use std::collections::BTreeMap;

use serde_json::Value;

/// The maximum number of differences in an error message.
///
/// Further differences are counted.
const NAMED: usize = 4;
/// The number of characters shown before the first difference of two texts.
const BEFORE: usize = 16;
/// The maximum number of characters shown of a text.
const SHOWN: usize = 60;

/// Describes how a request differs from a recorded request.
///
/// An example is `/messages/0/content: recorded "…", asked "…"`.
pub(super) fn differences(recorded: &Value, asked: &Value) -> String {
    let (then, now) = (leaves(recorded), leaves(asked));
    let mut said = Vec::new();
    for (place, value) in &now {
        match then.get(place) {
            Some(before) if before == value => {}
            Some(before) => {
                let (before, value) = around(before, value);
                said.push(format!("{place}: recorded {before}, asked {value}"));
            }
            None => said.push(format!("{place}: not recorded, asked {}", shown(value))),
        }
    }
    let gone = then.iter().filter(|(place, _)| !now.contains_key(*place));
    said.extend(
        gone.map(|(place, value)| format!("{place}: recorded {}, not asked", shown(value))),
    );
    if said.is_empty() {
        return "only its name".to_owned();
    }
    let more = said.len().saturating_sub(NAMED);
    said.truncate(NAMED);
    if more > 0 {
        said.push(format!("{more} more"));
    }
    said.join("; ")
}

/// Returns the leaf values of a JSON value, by JSON pointer.
///
/// An empty array or object counts as a leaf.
fn leaves(value: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    collect(value, String::new(), &mut found);
    // The request of the first sample has no `sample` key.
    found.entry("/sample".to_owned()).or_insert_with(|| 0.into());
    found
}

fn collect(value: &Value, place: String, found: &mut BTreeMap<String, Value>) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                collect(item, format!("{place}/{index}"), found);
            }
        }
        Value::Object(map) if !map.is_empty() => {
            for (key, item) in map {
                let key = pointer::segment(key);
                collect(item, format!("{place}/{key}"), found);
            }
        }
        leaf => {
            found.insert(place, leaf.clone());
        }
    }
}

/// Returns both values as text for an error message.
///
/// Two texts are cut to the part around their first difference.
fn around(before: &Value, now: &Value) -> (String, String) {
    let (Value::String(before), Value::String(now)) = (before, now) else {
        return (shown(before), shown(now));
    };
    let same = before.chars().zip(now.chars()).take_while(|(a, b)| a == b).count();
    let start = same.saturating_sub(BEFORE);
    (cut(before, start), cut(now, start))
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => cut(text, 0),
        other => other.to_string(),
    }
}

/// Returns a part of a text as a JSON string, which stays on one line.
fn cut(text: &str, start: usize) -> String {
    let part: String = text.chars().skip(start).take(SHOWN).collect();
    let begun = if start > 0 { "…" } else { "" };
    let more = if text.chars().nth(start + SHOWN).is_some() { "…" } else { "" };
    Value::String(format!("{begun}{part}{more}")).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_places_and_the_part_that_differs() {
        let long = "x".repeat(100);
        for (recorded, asked, expected) in [
            (json!({"a": 1}), json!({"a": 1}), "only its name".to_owned()),
            (json!({"a": 1}), json!({"a": 2, "sample": 2}), "/a: recorded 1, asked 2; /sample: recorded 0, asked 2".to_owned()),
            (
                json!({"a": {"b/c": ["x", "y"]}}),
                json!({"a": {"b/c": ["x", "z\n"]}}),
                r#"/a/b~1c/1: recorded "y", asked "z\n""#.to_owned(),
            ),
            (
                json!({"t": format!("{long}old{long}")}),
                json!({"t": format!("{long}new")}),
                format!(
                    r#"/t: recorded "…{}old{}…", asked "…{}new""#,
                    "x".repeat(16),
                    "x".repeat(41),
                    "x".repeat(16)
                ),
            ),
            (json!({"a": 1}), json!({"b": []}), "/b: not recorded, asked []; /a: recorded 1, not asked".to_owned()),
            (
                json!({"a": 1}),
                json!({"a": 1, "l": [1, 2, 3, 4, 5, 6]}),
                "/l/0: not recorded, asked 1; /l/1: not recorded, asked 2; /l/2: not recorded, asked 3; /l/3: not recorded, asked 4; 2 more".to_owned(),
            ),
        ] {
            assert_eq!(differences(&recorded, &asked), expected);
        }
    }
}
