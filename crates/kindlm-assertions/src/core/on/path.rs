//! Paths to values of an execution, such as `json.order.items[0].id`.

use std::fmt;

use kindlm_types::{Problem, suggest};
use serde_json::Value;

/// A step of a path, from a value to a value inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The value under a key of an object.
    Key(String),
    /// An item of a list. Negative indices count from the end.
    Item(i64),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) if key.contains(['.', '[', ']', '"']) || key.is_empty() => {
                write!(f, "[{}]", Value::String(key.clone()))
            }
            Self::Key(key) => write!(f, ".{key}"),
            Self::Item(index) => write!(f, "[{index}]"),
        }
    }
}

/// Splits a path into its first word and its steps. A malformed path is a problem.
pub(super) fn parse_path(written: &str) -> Result<(&str, Vec<Step>), Problem> {
    let end = written.find(['.', '[']).unwrap_or(written.len());
    let (root, mut rest) = written.split_at(end);
    let wrong = |what: &str| {
        Problem::new("", format!("`{written}` names no value: {what}")).with_help(
            "write it like `json.order.items[0].id`; a key with a dot in it like `json[\"a.b\"]`, \
             the last item like `messages[-1].text`",
        )
    };
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let (key, after) = after.split_at(end);
            if key.is_empty() {
                return Err(wrong("a dot must be followed by a key"));
            }
            steps.push(Step::Key(key.to_owned()));
            rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let (step, after) = bracket(after).map_err(wrong)?;
            steps.push(step);
            rest = after;
        } else {
            return Err(wrong("`]` must be followed by a dot or `[`"));
        }
    }
    Ok((root, steps))
}

/// Parses the step in brackets. Returns the step and the rest of the path.
///
/// The error is the end of a message about the path, such as `the text in brackets has no end`.
fn bracket(after: &str) -> Result<(Step, &str), &'static str> {
    if after.starts_with('"') {
        let mut texts = serde_json::Deserializer::from_str(after).into_iter::<String>();
        let Some(Ok(key)) = texts.next() else { return Err("the text in brackets has no end") };
        let rest = after.get(texts.byte_offset()..).unwrap_or_default();
        let rest = rest.strip_prefix(']').ok_or("`[` has no `]`")?;
        return Ok((Step::Key(key), rest));
    }
    let (index, rest) = after.split_once(']').ok_or("`[` has no `]`")?;
    let index = index.parse().map_err(|_| "brackets must contain a number or a text in quotes")?;
    Ok((Step::Item(index), rest))
}

/// Returns the value at the end of the steps. The error names the first step that finds no value.
pub(super) fn follow<'v>(from: &'v Value, root: &str, steps: &[Step]) -> Result<&'v Value, String> {
    let mut value = from;
    let mut place = root.to_owned();
    for step in steps {
        let next = match (step, value) {
            (Step::Key(key), Value::Object(map)) => map.get(key),
            (Step::Item(index), Value::Array(items)) => item(items, *index),
            _ => None,
        };
        value = next.ok_or_else(|| format!("{} {}", place, lacks(value, step)))?;
        place.push_str(&step.to_string());
    }
    Ok(value)
}

fn item(items: &[Value], index: i64) -> Option<&Value> {
    items.get(place(index, items.len())?)
}

/// Returns the position of an index in a list of `len` items.
///
/// The position may be after the last item. For a position before the first item, the result is `None`.
pub(super) fn place(index: i64, len: usize) -> Option<usize> {
    let from_end = || len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?);
    if index < 0 { from_end() } else { usize::try_from(index).ok() }
}

/// Describes why a step finds nothing in a value.
fn lacks(value: &Value, step: &Step) -> String {
    match (value, step) {
        (Value::Object(map), Step::Key(key)) => {
            let keys: Vec<&str> = map.keys().take(12).map(String::as_str).collect();
            let keys = if keys.is_empty() { "no keys".to_owned() } else { keys.join(", ") };
            format!("has no `{key}` (it has {keys})")
        }
        (Value::Array(items), Step::Item(_)) => match items.len() {
            0 => "is an empty list".to_owned(),
            1 => "has only one item".to_owned(),
            count => format!("has only {count} items"),
        },
        (value, _) => format!("is {}", kind(value)),
    }
}

/// Returns the type of a value with its article, such as `a list`.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns the problem of a path with an unknown first word or key.
pub(super) fn unknown(written: &str, word: &str, known: &[&str]) -> Problem {
    let message = format!("`{written}` names no value of an execution: there is no `{word}`");
    Problem::new("", message).with_help(suggest(word, "values", known.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_are_keys_and_indices() {
        for (written, root, shown) in [
            ("output", "output", ""),
            ("json.a-b.c", "json", ".a-b.c"),
            ("json[0].a", "json", "[0].a"),
            ("messages[-1].text", "messages", "[-1].text"),
            ("json[\"a.b\"][\"]\"].c", "json", "[\"a.b\"][\"]\"].c"),
        ] {
            let (found, steps) = parse_path(written).unwrap();
            assert_eq!(found, root);
            assert_eq!(steps.iter().map(ToString::to_string).collect::<String>(), shown);
        }
        for written in
            ["json.", "json..a", "json[", "json[a]", "json[0]a", "json[\"a]", "json[\"a\"b"]
        {
            assert!(
                parse_path(written).unwrap_err().message.contains("names no value"),
                "{written}"
            );
        }
    }

    #[test]
    fn steps_resolve_or_name_their_end() {
        let value = json!({"items": [{"id": 7}, {"id": null}], "name": "x"});
        for (written, found) in [
            ("json.items[0].id", Ok(json!(7))),
            ("json.items[-1].id", Ok(json!(null))),
            ("json.items[2]", Err("json.items has only 2 items")),
            ("json.items[-3]", Err("json.items has only 2 items")),
            ("json.item", Err("json has no `item` (it has items, name)")),
            ("json.name.first", Err("json.name is a text")),
            ("json[0]", Err("json is an object")),
        ] {
            let (root, steps) = parse_path(written).unwrap();
            let reached = follow(&value, root, &steps);
            assert_eq!(
                reached.cloned().map_err(|it| it.as_str().to_owned()),
                found.map_err(str::to_owned)
            );
        }
    }
}
