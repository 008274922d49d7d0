//! Schemas generated from the configuration types.

use kindlm_types::Definitions;
use serde_json::{Map, Value, json};

use crate::walk;

/// Adds definitions to a schema, and limits the schema to the values that the configuration accepts.
///
/// Optional keys may be absent but not null. Integers are within the range of their type.
#[must_use]
pub fn finish(mut schema: Value, definitions: Definitions) -> Value {
    let definitions = definitions.take();
    if !definitions.is_empty()
        && let Value::Object(map) = &mut schema
    {
        map.insert("$defs".to_owned(), Value::Object(definitions));
    }
    walk::each_mut(&mut schema, &mut |it| {
        if let Value::Object(map) = it {
            bound_integer(map);
            refuse_null(map);
        }
    });
    schema
}

/// Removes null from the schemas of optional keys.
fn refuse_null(map: &mut Map<String, Value>) {
    // `then` lists the keys that are required under the condition in `if`.
    let required = [map.get("required"), map.get("then").and_then(|it| it.get("required"))];
    let required = required.map(|it| it.cloned().unwrap_or_default());
    let is_required =
        |key: &str| required.iter().filter_map(Value::as_array).flatten().any(|name| name == key);
    let Some(Value::Object(properties)) = map.get_mut("properties") else { return };
    for (key, schema) in properties {
        if !is_required(key)
            && let Value::Object(schema) = schema
        {
            strip_null(schema);
        }
    }
}

fn strip_null(schema: &mut Map<String, Value>) {
    if schema.get("default") == Some(&Value::Null) {
        schema.shift_remove("default");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|it| it != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(options)) = schema.get_mut("enum") {
        options.retain(|it| !it.is_null());
    }
    for keyword in ["anyOf", "oneOf"] {
        let Some(Value::Array(branches)) = schema.get_mut(keyword) else { continue };
        let is_null = |it: &Value| {
            it.get("type").is_some_and(|name| name == "null")
                || it.get("const").is_some_and(Value::is_null)
        };
        branches.retain(|it| !is_null(it));
        if let [Value::Object(only)] = branches.as_slice() {
            let only = only.clone();
            schema.shift_remove(keyword);
            for (key, value) in only {
                schema.entry(key).or_insert(value);
            }
        }
    }
}

/// Replaces an integer `format` by its bounds, and removes a float `format`.
fn bound_integer(map: &mut Map<String, Value>) {
    let (low, high) = match map.get("format").and_then(Value::as_str) {
        Some("uint8") => (json!(0), json!(u8::MAX)),
        Some("uint16") => (json!(0), json!(u16::MAX)),
        Some("uint32") => (json!(0), json!(u32::MAX)),
        Some("uint64" | "uint") => (json!(0), json!(u64::MAX)),
        Some("int8") => (json!(i8::MIN), json!(i8::MAX)),
        Some("int16") => (json!(i16::MIN), json!(i16::MAX)),
        Some("int32") => (json!(i32::MIN), json!(i32::MAX)),
        Some("int64" | "int") => (json!(i64::MIN), json!(i64::MAX)),
        Some("double" | "float") => {
            map.shift_remove("format");
            return;
        }
        _ => return,
    };
    // Editors ignore the format, but check the bounds.
    map.shift_remove("format");
    if !map.contains_key("exclusiveMinimum") {
        map.entry("minimum").or_insert(low);
    }
    if !map.contains_key("exclusiveMaximum") {
        map.entry("maximum").or_insert(high);
    }
}
