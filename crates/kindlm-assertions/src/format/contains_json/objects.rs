//! The search for JSON objects in a text, with a tolerant parser.

use std::ops::Range;

use serde_json::{Deserializer, Value};

use super::relaxed::object;

/// The highest length of an object in relaxed JSON, in bytes.
const LONGEST: usize = 100_000;

/// The highest number of bytes to parse for one text. A byte counts each time that it is parsed.
///
/// The search tries every brace as the start of an object. Without this limit, many braces would take quadratic time.
const MOST_WORK: usize = 4_000_000;

/// The estimated cost of a failed attempt to parse plain JSON, in bytes.
///
/// Most attempts fail early, because the parser accepts at most 128 nested levels.
const FAILURE: usize = 400;

/// The deepest nesting of an object in relaxed JSON.
const DEEPEST: usize = 64;

/// The objects in a text.
#[derive(Debug, Default)]
pub(super) struct FoundObjects {
    /// The objects, in order, without objects inside other objects.
    pub(super) objects: Vec<Value>,
    /// The ranges of the objects in the text.
    pub(super) ranges: Vec<Range<usize>>,
    /// True if the search stopped before the end of the text.
    pub(super) given_up: bool,
}

/// Finds the objects in a text.
pub(super) fn find(text: &str) -> FoundObjects {
    let mut found = FoundObjects::default();
    let mut work = MOST_WORK;
    let mut after = 0;
    for (start, end) in ends(text) {
        if start < after {
            continue;
        }
        match read_object(&text[start..], end.map(|it| it - start), &mut work) {
            Ok(Some((value, length))) => {
                after = start + length;
                found.objects.push(value);
                found.ranges.push(start..after);
            }
            Ok(None) => {}
            Err(GivenUp) => return FoundObjects { given_up: true, ..found },
        }
    }
    found
}

/// The error for a text whose search takes too much work.
struct GivenUp;

/// Returns the position of each opening brace, and the end of its closing brace.
///
/// Without a closing brace, the end is `None`. Braces in quoted texts count too, because quotes cannot be recognized in
/// prose.
fn ends(text: &str) -> Vec<(usize, Option<usize>)> {
    let mut braces = Vec::new();
    let mut open = Vec::new();
    for (at, c) in text.bytes().enumerate() {
        match c {
            b'{' => {
                open.push(braces.len());
                braces.push((at, None));
            }
            b'}' => {
                if let Some(brace) = open.pop().and_then(|it| braces.get_mut(it)) {
                    brace.1 = Some(at + 1);
                }
            }
            _ => {}
        }
    }
    braces
}

/// Returns the object at the start of a text, and its length in bytes.
///
/// Returns `None` if there is no readable object, or if the object is relaxed JSON that is too long or too deep. Fails
/// if the allowed work is used up.
fn read_object(
    text: &str,
    end: Option<usize>,
    work: &mut usize,
) -> Result<Option<(Value, usize)>, GivenUp> {
    let mut spend = |cost: usize| {
        *work = work.checked_sub(cost).ok_or(GivenUp)?;
        Ok(())
    };
    if text[1..].trim_start().starts_with(['"', '}']) {
        let mut values = Deserializer::from_str(text).into_iter::<Value>();
        if let Some(Ok(value)) = values.next() {
            return Ok(Some((value, values.byte_offset())));
        }
        spend(FAILURE)?;
    }
    let length = end.unwrap_or(text.len());
    if length > LONGEST {
        return Ok(None);
    }
    spend(length)?;
    let body = &text[..length];
    if depth(body) > DEEPEST {
        return Ok(None);
    }
    let value = if end.is_some() { object(body) } else { object(&closed(body)) };
    Ok(value.map(|value| (value, length)))
}

/// Returns the deepest nesting of braces and brackets.
fn depth(text: &str) -> usize {
    let (mut open, mut deepest) = (0_usize, 0);
    for c in text.bytes() {
        match c {
            b'{' | b'[' => open += 1,
            b'}' | b']' => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}

/// Returns the text with its open quote, brackets and braces closed at the end.
fn closed(text: &str) -> String {
    let (mut open, mut quoted, mut escaped) = (Vec::new(), false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '{' if !quoted => open.push('}'),
            '[' if !quoted => open.push(']'),
            '}' | ']' if !quoted && open.last() == Some(&c) => _ = open.pop(),
            _ => {}
        }
    }
    let quote = if quoted { "\"" } else { "" };
    let tail: String = open.into_iter().rev().collect();
    format!("{text}{quote}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn finds_objects_in_prose() {
        for (text, expected) in [
            ("", json!([])),
            ("no braces [1]", json!([])),
            (r#"Sure: {"a": {"b": 1}} and {"c": "}"} ok"#, json!([{"a": {"b": 1}}, {"c": "}"}])),
            ("x {not: json} y", json!([{"not": "json"}])),
            ("{'single': 'q', }", json!([{"single": "q"}])),
            (r#"{"a": [1, {"b": 2"#, json!([{"a": [1, {"b": 2}]}])),
            (r#"{"a": "cut o"#, json!([{"a": "cut o"}])),
            ("a { b", json!([{"b": null}])),
            ("{\n  \"a\": 1, // one\n  \"b\": \"http://x\"\n}", json!([{"a": 1, "b": "http://x"}])),
            (r#"{ {{ "a": 1 } oh {"b": 2}"#, json!([{"a": 1}, {"b": 2}])),
            ("}{", json!([{}])),
        ] {
            let found = find(text);
            assert!(!found.given_up);
            assert_eq!(json!(found.objects), expected, "{text}");
        }
    }

    #[test]
    fn a_text_of_nothing_but_braces_is_soon_given_up() {
        for text in ["{".repeat(300_000), "{\"a\":[".repeat(100_000), "{] ".repeat(30_000)] {
            let found = find(&text);
            assert!(found.given_up && found.objects.is_empty(), "{}", &text[..9]);
        }
    }
}
