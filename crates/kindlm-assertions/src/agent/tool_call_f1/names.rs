//! The names of called tools in a model's output, in the formats of the providers' APIs.

use std::collections::BTreeSet;

use serde_json::{Deserializer, Value};

/// Returns the names of the tools that a text calls.
///
/// The text is JSON, or it has JSON values on lines of their own. JSON in a Markdown fence or inside a line only
/// describes calls, so it does not count.
pub(super) fn in_text(text: &str) -> BTreeSet<String> {
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        return match &value {
            // promptfoo also parses JSON inside a JSON string.
            Value::String(text) => in_text(text),
            value => in_value(value),
        };
    }
    let mut names = BTreeSet::new();
    let mut rest = text;
    let mut fence: Option<char> = None;
    while !rest.is_empty() {
        let line = rest.split_inclusive('\n').next().unwrap_or(rest);
        let trimmed = line.trim_start();
        if let Some(mark) =
            ['`', '~'].into_iter().find(|it| trimmed.starts_with(&it.to_string().repeat(3)))
        {
            fence = match fence {
                None => Some(mark),
                Some(open) if open == mark => None,
                open => open,
            };
        } else if fence.is_none() && trimmed.starts_with(['{', '[']) {
            let start = line.len() - trimmed.len();
            if let Some((value, length)) = value_at(&rest[start..]) {
                let after = &rest[start + length..];
                let end = after.split_inclusive('\n').next().unwrap_or_default();
                if end.trim().is_empty() {
                    names.extend(in_value(&value));
                    rest = &after[end.len()..];
                    continue;
                }
            }
        }
        rest = &rest[line.len()..];
    }
    names
}

/// Parses the JSON value at the start of a text. Returns the value and its length in bytes; `None` without valid JSON.
fn value_at(text: &str) -> Option<(Value, usize)> {
    let mut values = Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

/// Returns the names of the tools that a JSON value calls.
pub(super) fn in_value(value: &Value) -> BTreeSet<String> {
    let name = |it: &Value| it.get("name").and_then(Value::as_str).map(str::to_owned);
    let list = |it: &Value, key: &str| it.get(key).and_then(Value::as_array).cloned();
    if let Some(calls) = list(value, "tool_calls") {
        let function = |it: &Value| it.get("function").and_then(name);
        return calls.iter().flat_map(|it| [function(it), name(it)]).flatten().collect();
    }
    match value {
        Value::Array(items) => items.iter().filter_map(in_item).collect(),
        _ if matches!(value["type"].as_str(), Some("tool_use" | "function_call")) => {
            name(value).into_iter().collect()
        }
        _ if value["functionCall"].is_object() => {
            name(&value["functionCall"]).into_iter().collect()
        }
        _ => {
            let calls = list(&value["toolCall"], "functionCalls").unwrap_or_default();
            calls.iter().filter_map(name).collect()
        }
    }
}

/// Returns the name in an item of a list; `None` without a name.
///
/// The name is in Gemini's `functionCall`, in OpenAI's `function`, or in the item itself.
fn in_item(item: &Value) -> Option<String> {
    let is_use = item["type"] == "tool_use" && item["name"].is_string();
    let nested = ["functionCall", "function"].iter().find(|key| item[**key].is_object());
    let holder = nested.filter(|_| !is_use).map_or(item, |key| &item[*key]);
    holder.get("name").and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_the_forms_of_the_vendors() {
        for (value, expected) in [
            (json!({"tool_calls": [{"function": {"name": "a"}}, {"name": "b"}]}), "a,b"),
            (json!({"type": "tool_use", "name": "a"}), "a"),
            (json!({"type": "function_call", "name": "a"}), "a"),
            (json!({"functionCall": {"name": "a"}}), "a"),
            (json!({"toolCall": {"functionCalls": [{"name": "a"}, {"name": "b"}]}}), "a,b"),
            (json!([{"type": "tool_use", "name": "a"}, {"type": "text", "text": "x"}]), "a"),
            (
                json!([{"functionCall": {"name": "a"}}, {"function": {"name": "b"}}, {"name": "c"}]),
                "a,b,c",
            ),
            (json!({"name": "a"}), ""),
            (json!(1), ""),
        ] {
            let names: Vec<String> = in_value(&value).into_iter().collect();
            assert_eq!(names.join(","), expected, "{value}");
        }
    }

    #[test]
    fn reads_calls_that_have_lines_of_their_own() {
        for (text, expected) in [
            ("[{\"name\": \"a\"}]", "a"),
            ("I will call\n{\"type\":\"tool_use\",\"name\":\"a\",\"input\":{}}", "a"),
            ("x\n  {\"type\":\"tool_use\",\n\"name\":\"a\"}\n[{\"name\":\"b\"}]\ny", "a,b"),
            ("text {\"type\":\"tool_use\",\"name\":\"a\"} inline", ""),
            ("{\"type\":\"tool_use\",\"name\":\"a\"} and so on", ""),
            ("Like this:\n```json\n{\"type\":\"tool_use\",\"name\":\"a\"}\n```", ""),
            ("{broken\n{\"type\":\"tool_use\",\"name\":\"a\"}", "a"),
            ("", ""),
        ] {
            let names: Vec<String> = in_text(text).into_iter().collect();
            assert_eq!(names.join(","), expected, "{text}");
        }
    }
}
