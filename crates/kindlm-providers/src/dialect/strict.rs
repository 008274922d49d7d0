//! The schemas that OpenAI can enforce.

use serde_json::{Map, Value};

/// Returns true if OpenAI can enforce a schema. Every object must be closed and require all its properties.
pub(crate) fn is_strict(schema: &Value) -> bool {
    let Some(object) = schema.as_object() else { return schema.is_boolean() };
    let properties = object.get("properties").and_then(Value::as_object);
    let required: Vec<&str> = object
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let is_object = properties.is_some() || object.get("type").is_some_and(|it| it == "object");
    let closed = object.get("additionalProperties").is_some_and(|it| it == false);
    let complete =
        properties.into_iter().flatten().all(|(name, _)| required.contains(&name.as_str()));
    let below = properties.into_iter().flat_map(Map::values).chain(
        ["anyOf", "items", "$defs"].iter().filter_map(|key| object.get(*key)).flat_map(
            |it| match it {
                Value::Array(list) => list.iter().collect::<Vec<_>>(),
                Value::Object(defs) if !defs.contains_key("type") && !defs.contains_key("$ref") => {
                    defs.values().collect()
                }
                other => vec![other],
            },
        ),
    );
    (!is_object || (closed && complete)) && below.into_iter().all(is_strict)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn asks_for_strictness_only_where_it_is_possible() {
        for (schema, expected) in [
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}),
                true,
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}),
                false,
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
                false,
            ),
            (json!({"type": "array", "items": {"type": "object"}}), false),
            (json!({"type": "array", "items": {"type": "string"}}), true),
            (json!({"$defs": {"x": {"type": "object"}}, "type": "string"}), false),
        ] {
            assert_eq!(is_strict(&schema), expected, "{schema}");
        }
    }
}
