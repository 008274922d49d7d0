//! The JSON objects in a text, read generously: what a program would still make sense of.

use serde_json::{Deserializer, Value};

use super::relaxed::object;

/// How much of an object that is not plain JSON is looked at, in bytes.
const LONGEST: usize = 100_000;

/// How much work one text may make, in bytes that are read: braces in a long text need not mean objects, and each
/// of them may be the beginning of one.
const MOST_WORK: usize = 4_000_000;

/// What it costs to find that something is not plain JSON: at most the 128 levels that its reader goes down.
const FAILURE: usize = 400;

/// How deep an object may be nested that is read generously.
const DEEPEST: usize = 64;

/// The objects in a text.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// In order. One within another that was found does not count by itself.
    pub(super) objects: Vec<Value>,
    /// True if the text was given up before its end.
    pub(super) given_up: bool,
}

/// Finds the objects in a text.
pub(super) fn find(text: &str) -> Found {
    let mut found = Found::default();
    let mut work = MOST_WORK;
    let mut after = 0;
    for (start, end) in ends(text) {
        if start < after {
            continue;
        }
        match read(&text[start..], end.map(|it| it - start), &mut work) {
            Ok(Some((value, length))) => {
                after = start + length;
                found.objects.push(value);
            }
            Ok(None) => {}
            Err(GivenUp) => return Found { given_up: true, ..found },
        }
    }
    found
}

/// The text makes too much work.
struct GivenUp;

/// Where each opening brace of a text stands, and where the text ends that its closing brace ends.
///
/// Braces in texts count, too: in prose there is no way to know which of them are quoted.
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

/// The object at the beginning of a text, and how long it is.
fn read(
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

/// How many braces and brackets are open at once.
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

/// The text with the brackets and braces closed that are open at its end, and a quote.
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
