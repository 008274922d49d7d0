//! JSON Schemas for Gemini. A schema is sent in Gemini's subset of `OpenAPI` if possible, or else unchanged.

use kindlm_types::ToolSpec;
use serde_json::{Map, Value, json};

use crate::dialect::chat;

/// The keywords of Gemini's own schema type.
const KNOWN: [&str; 22] = [
    "anyOf",
    "default",
    "description",
    "enum",
    "example",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "nullable",
    "pattern",
    "properties",
    "propertyOrdering",
    "required",
    "title",
    "type",
];

/// Keywords that can be dropped. They add nothing, or only forbid output that models rarely produce.
const DISPENSABLE: [&str; 5] = ["$schema", "$id", "$comment", "additionalProperties", "examples"];

/// Returns a tool declaration. Gemini refuses an object schema without properties, so the declaration then has no
/// schema.
pub(super) fn declaration(tool: &ToolSpec) -> Value {
    let mut out = Map::new();
    chat::put(&mut out, "name", Some(tool.name.clone()));
    chat::put(&mut out, "description", tool.description.clone());
    let parameters = tool.parameters.as_ref().filter(|it| !is_empty_object(it));
    if let Some(parameters) = parameters {
        let (key, schema) = place(parameters, "parameters", "parametersJsonSchema");
        chat::put(&mut out, key, Some(schema));
    }
    Value::Object(out)
}

fn is_empty_object(schema: &Value) -> bool {
    let properties = schema["properties"].as_object();
    let is_object = schema["type"] == "object" || schema.as_object().is_some_and(Map::is_empty);
    is_object && properties.is_none_or(Map::is_empty) && schema.get("$ref").is_none()
}

/// Returns the key and the schema to send. The key is `own` for the reduced schema, or else `whole` for the unchanged
/// schema.
pub(super) fn place(
    schema: &Value,
    own: &'static str,
    whole: &'static str,
) -> (&'static str, Value) {
    match reduce(schema) {
        Some(reduced) => (own, reduced),
        None => (whole, schema.clone()),
    }
}

/// Converts a schema to Gemini's own type; `None` if that type cannot express it.
fn reduce(schema: &Value) -> Option<Value> {
    let mut out = Map::new();
    for (key, value) in schema.as_object()? {
        match key.as_str() {
            "type" => put_type(&mut out, value)?,
            "const" => put(&mut out, "enum", json!([value])),
            "properties" => {
                let reduced: Option<Map<_, _>> = value
                    .as_object()?
                    .iter()
                    .map(|(name, it)| Some((name.clone(), reduce(it)?)))
                    .collect();
                put(&mut out, key, Value::Object(reduced?));
            }
            "items" => put(&mut out, key, reduce(value)?),
            "anyOf" | "oneOf" => {
                let reduced: Option<Vec<Value>> = value.as_array()?.iter().map(reduce).collect();
                put(&mut out, "anyOf", Value::Array(reduced?));
            }
            known if KNOWN.contains(&known) => put(&mut out, key, value.clone()),
            dispensable if DISPENSABLE.contains(&dispensable) => {}
            _ => return None,
        }
    }
    Some(Value::Object(out))
}

/// Sets the type: a single type, optionally with `null`. Returns `None` for a list without exactly one type besides
/// `null`.
fn put_type(out: &mut Map<String, Value>, value: &Value) -> Option<()> {
    let Value::Array(types) = value else {
        put(out, "type", value.clone());
        return Some(());
    };
    let mut rest = types.iter().filter(|it| *it != "null");
    let (first, None) = (rest.next()?, rest.next()) else { return None };
    put(out, "type", first.clone());
    if types.len() > 1 {
        put(out, "nullable", json!(true));
    }
    Some(())
}

fn put(out: &mut Map<String, Value>, key: &str, value: Value) {
    out.insert(key.to_owned(), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reduces_supported_keywords_and_keeps_the_rest() {
        for (schema, expected) in [
            (
                json!({"$schema": "x", "type": "object", "properties": {"a": {"type": ["string", "null"]}}, "additionalProperties": false}),
                Some(
                    json!({"type": "object", "properties": {"a": {"type": "string", "nullable": true}}}),
                ),
            ),
            (
                json!({"type": "array", "items": {"oneOf": [{"const": "x"}, {"type": "integer"}]}}),
                Some(
                    json!({"type": "array", "items": {"anyOf": [{"enum": ["x"]}, {"type": "integer"}]}}),
                ),
            ),
            // A property may have the name of a keyword.
            (
                json!({"type": "object", "properties": {"$ref": {"type": "string"}}}),
                Some(json!({"type": "object", "properties": {"$ref": {"type": "string"}}})),
            ),
            (json!({"$ref": "#/$defs/a", "$defs": {"a": {}}}), None),
            (json!({"type": ["string", "number"]}), None),
            (json!({"type": "object", "properties": {"a": true}}), None),
            (json!({"allOf": []}), None),
        ] {
            assert_eq!(reduce(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn declares_a_tool_without_arguments_without_parameters() {
        for parameters in [None, Some(json!({})), Some(json!({"type": "object", "properties": {}}))]
        {
            let tool = ToolSpec { name: "f".to_owned(), description: None, parameters };
            assert_eq!(declaration(&tool), json!({"name": "f"}));
        }
    }
}
