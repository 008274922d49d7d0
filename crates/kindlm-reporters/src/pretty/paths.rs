//! The difference between two JSON values, by path.

use kindlm_types::{DiffFormat, ResultEvidence, ecma, pointer};
use serde_json::Value;

/// The maximum number of paths. A larger difference is easier to read by lines.
const PATHS: usize = 12;

/// The maximum number of characters of a value. The differences of a longer value are easier to read by lines.
const VALUE: usize = 60;

/// A path at which two values differ. A side that has no value is `None`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The JSON pointer.
    pub(super) path: String,
    pub(super) expected: Option<String>,
    pub(super) actual: Option<String>,
}

/// Returns the paths at which two JSON values differ.
///
/// Returns `None` for other evidence than a difference of JSON values. Also returns `None` if a difference by lines is
/// easier to read:
/// - for many changes or long values
/// - for arrays of different lengths, because equal items may have moved
pub(super) fn of_evidence(evidence: &ResultEvidence) -> Option<Vec<Change>> {
    let ResultEvidence::Diff { format: DiffFormat::Json, expected, actual } = evidence else {
        return None;
    };
    let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
    let (expected, actual) = (parse(expected)?, parse(actual)?);
    let mut open = vec![(String::new(), Some(&expected), Some(&actual))];
    let mut changes = Vec::new();
    while let Some((path, expected, actual)) = open.pop() {
        match (expected, actual) {
            (expected, actual) if expected == actual => {}
            (Some(Value::Object(old)), Some(Value::Object(new))) => {
                let added = new.keys().filter(|it| !old.contains_key(*it));
                // `open` is a stack, so the entries are pushed in reverse order.
                let keys: Vec<&String> = old.keys().chain(added).collect();
                open.extend(keys.into_iter().rev().map(|key| {
                    let path = format!("{path}/{}", pointer::segment(key));
                    (path, old.get(key), new.get(key))
                }));
            }
            (Some(Value::Array(old)), Some(Value::Array(new))) => {
                if old.len() != new.len() {
                    return None;
                }
                let pairs = old.iter().zip(new).enumerate().rev();
                open.extend(
                    pairs.map(|(at, (old, new))| (format!("{path}/{at}"), Some(old), Some(new))),
                );
            }
            // A path needs an object or an array around the value.
            _ if path.is_empty() => return None,
            (expected, actual) => {
                let [expected, actual] = [expected, actual].map(|it| it.map(ecma::stringify));
                let is_long =
                    |it: &Option<String>| it.as_ref().is_some_and(|it| it.chars().count() > VALUE);
                if is_long(&expected) || is_long(&actual) {
                    return None;
                }
                changes.push(Change { path, expected, actual });
            }
        }
    }
    (!changes.is_empty() && changes.len() <= PATHS).then_some(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_json_is_compared_by_path() {
        for (expected, actual, changes) in [
            (r#"{"items": [{"qty": 2}]}"#, r#"{"items": [{"qty": 3}]}"#, Some("/items/0/qty 2 3")),
            (r#"{"a": 1, "b": 2}"#, r#"{"a": 1, "c/d": 2}"#, Some("/b 2 none, /c~1d none 2")),
            (r#"{"a": {"b": 1}}"#, r#"{"a": "x"}"#, Some(r#"/a {"b":1} "x""#)),
            (r#"{"a": [1, 2]}"#, r#"{"a": [2]}"#, None),
            (r#"{"a": 1}"#, r#"{"a": 1}"#, None),
            ("1", "2", None),
            ("{", "{}", None),
        ] {
            let evidence = ResultEvidence::Diff {
                format: DiffFormat::Json,
                expected: expected.to_owned(),
                actual: actual.to_owned(),
            };
            let found = of_evidence(&evidence).map(|all| {
                let side = |it: Option<String>| it.unwrap_or_else(|| "none".to_owned());
                let text =
                    |it: Change| format!("{} {} {}", it.path, side(it.expected), side(it.actual));
                all.into_iter().map(text).collect::<Vec<_>>().join(", ")
            });
            assert_eq!(found.as_deref(), changes, "{expected} {actual}");
        }
        let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(100));
        let evidence = ResultEvidence::Diff {
            format: DiffFormat::Json,
            expected: long,
            actual: r#"{"a": "x"}"#.to_owned(),
        };
        assert_eq!(of_evidence(&evidence), None);
    }
}
