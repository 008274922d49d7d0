//! Paths into an answer. Examples are `choices.0.message.content` and `data[0].text`; a path that begins with `$` is a
//! JSONPath.

use serde_json::Value;
use serde_json_path::JsonPath;

/// A path into an answer.
#[derive(Clone, Debug)]
pub(super) enum Path {
    /// Keys and positions, from the outside in. Without steps, the path selects the whole answer.
    Steps(Vec<String>),
    /// A JSONPath query (RFC 9535).
    Query(Box<JsonPath>),
}

impl Default for Path {
    fn default() -> Self {
        Self::Steps(Vec::new())
    }
}

impl Path {
    /// Parses a path, or returns the reason why it is invalid.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with('$') {
            return JsonPath::parse(text)
                .map(|path| Self::Query(Box::new(path)))
                .map_err(|err| format!("`{text}` is not JSONPath: {err}"));
        }
        let mut steps = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            if !name.is_empty() {
                steps.push(name.to_owned());
            }
            rest = match after.strip_prefix('[') {
                Some(inside) => {
                    let (step, behind) = bracket(inside).ok_or_else(|| {
                        format!("`{text}` is not a path: a bracket is never closed")
                    })?;
                    steps.push(step);
                    behind
                }
                None => after.strip_prefix('.').unwrap_or(after),
            };
        }
        Ok(Self::Steps(steps))
    }

    /// Returns the first value that the path selects; `None` without a match.
    pub(super) fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Steps(steps) => steps.iter().try_fold(value, |value, step| match value {
                Value::Array(list) => list.get(step.parse::<usize>().ok()?),
                Value::Object(object) => object.get(step),
                _ => None,
            }),
            Self::Query(path) => path.query(value).first(),
        }
    }

    /// Returns the selected value; `None` if the path selects nothing. A JSONPath that does not select exactly one list
    /// returns a list of all selected values.
    pub(super) fn list(&self, value: &Value) -> Option<Value> {
        match self {
            Self::Steps(_) => self.first(value).cloned(),
            Self::Query(path) => {
                let nodes = path.query(value).all();
                match nodes.as_slice() {
                    [] => None,
                    [list @ Value::Array(_)] => Some((*list).clone()),
                    nodes => Some(Value::Array(nodes.iter().map(|it| (*it).clone()).collect())),
                }
            }
        }
    }
}

/// Returns the step in brackets, with or without quotes, and the rest after them. Returns `None` if the bracket is not
/// closed.
fn bracket(inside: &str) -> Option<(String, &str)> {
    for quote in ['"', '\''] {
        if let Some(quoted) = inside.strip_prefix(quote) {
            let (step, behind) = quoted.split_once(quote)?;
            return Some((step.to_owned(), behind.strip_prefix(']')?));
        }
    }
    let (step, behind) = inside.split_once(']')?;
    Some((step.trim().to_owned(), behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn selects_values_by_key_and_position() {
        let answer = json!({"a": [{"b": "x", "c.d": 1}, {"b": "y"}], "0": "zero", "n": null});
        for (path, expected) in [
            ("", Some(answer.clone())),
            ("a.0.b", Some(json!("x"))),
            ("a[1].b", Some(json!("y"))),
            ("a[0][\"c.d\"]", Some(json!(1))),
            ("a[0]['c.d']", Some(json!(1))),
            ("a..0", Some(json!({"b": "x", "c.d": 1}))),
            ("0", Some(json!("zero"))),
            ("n", Some(Value::Null)),
            ("a.2.b", None),
            ("a.-1", None),
            ("n.x", None),
            ("a.length", None),
            ("$.a[1].b", Some(json!("y"))),
            ("$.a[*].b", Some(json!("x"))),
            ("$..nothing", None),
        ] {
            let parsed = Path::parse(path).expect(path);
            assert_eq!(parsed.first(&answer), expected.as_ref(), "{path}");
        }
    }

    #[test]
    fn list_returns_one_list_or_all_matches() {
        let answer = json!({"a": [{"b": 1}, {"b": 2}]});
        for (path, expected) in [
            ("a", Some(json!([{"b": 1}, {"b": 2}]))),
            ("$.a", Some(json!([{"b": 1}, {"b": 2}]))),
            ("$.a[*]", Some(json!([{"b": 1}, {"b": 2}]))),
            ("$.a[?@.b > 1]", Some(json!([{"b": 2}]))),
            ("$.x", None),
        ] {
            assert_eq!(Path::parse(path).expect(path).list(&answer), expected, "{path}");
        }
    }

    #[test]
    fn invalid_paths_name_the_reason() {
        for (path, expected) in [("a[0", "bracket"), ("a[\"b]", "bracket"), ("$.a[", "JSONPath")] {
            let message = Path::parse(path).expect_err(path);
            assert!(message.contains(expected), "{message}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(path in ".{0,40}") {
            if let Ok(path) = Path::parse(&path) {
                path.first(&json!({"a": [1, {"b": 2}]}));
                path.list(&json!([]));
            }
        }

        #[test]
        fn reads_back_paths_joined_with_dots(steps in proptest::collection::vec("[a-z0-9_-]{1,6}", 1..5)) {
            let mut value = json!("found");
            for step in steps.iter().rev() {
                value = json!({step: value});
            }
            let path = Path::parse(&steps.join(".")).expect("a path");
            prop_assert_eq!(path.first(&value), Some(&json!("found")));
        }
    }
}
