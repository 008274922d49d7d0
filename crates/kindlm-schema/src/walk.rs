//! Traversal of nested schemas.

use kindlm_types::pointer;
use serde_json::Value;

/// The keywords with a schema as their value.
const SCHEMA: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// The keywords with a list of schemas as their value.
const LIST: &[&str] = &["allOf", "anyOf", "items", "oneOf", "prefixItems"];

/// The keywords with a map of schemas as their value.
pub(crate) const MAP: &[&str] = &[
    "$defs",
    "definitions",
    "dependencies",
    "dependentSchemas",
    "patternProperties",
    "properties",
];

/// Calls `visit` on the schema and on every schema below it, with JSON pointers.
///
/// Data (`const`, `enum`, `default`, `examples`) is skipped.
pub(crate) fn each<'a>(schema: &'a Value, pointer: &str, visit: &mut dyn FnMut(&str, &'a Value)) {
    visit(pointer, schema);
    let Value::Object(map) = schema else { return };
    for (keyword, value) in map {
        let keyword_str = keyword.as_str();
        let here = format!("{pointer}/{}", pointer::segment(keyword));
        match value {
            Value::Object(children) if MAP.contains(&keyword_str) => {
                for (key, child) in children {
                    each(child, &format!("{here}/{}", pointer::segment(key)), visit);
                }
            }
            Value::Array(children) if LIST.contains(&keyword_str) => {
                for (index, child) in children.iter().enumerate() {
                    each(child, &format!("{here}/{index}"), visit);
                }
            }
            _ if SCHEMA.contains(&keyword_str) => each(value, &here, visit),
            _ => {}
        }
    }
}

/// Calls `change` on every nested schema, and then on the schema itself.
pub(crate) fn each_mut(schema: &mut Value, change: &mut dyn FnMut(&mut Value)) {
    if let Value::Object(map) = &mut *schema {
        for (keyword, value) in map {
            let keyword = keyword.as_str();
            match value {
                Value::Object(children) if MAP.contains(&keyword) => {
                    for child in children.values_mut() {
                        each_mut(child, change);
                    }
                }
                Value::Array(children) if LIST.contains(&keyword) => {
                    for child in children {
                        each_mut(child, change);
                    }
                }
                value if SCHEMA.contains(&keyword) => each_mut(value, change),
                _ => {}
            }
        }
    }
    change(schema);
}

/// Returns the target of a `$ref` within `root`, or `None` without such a target.
pub(crate) fn target<'a>(root: &'a Value, schema: &'a Value) -> Option<&'a Value> {
    let reference = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
    root.pointer(reference)
}

/// Returns the schema at an evaluation path, or `None` if the schema does not exist.
///
/// The part `$ref` of a path leads to the target of the reference.
pub(crate) fn at<'a>(root: &'a Value, parts: &[String]) -> Option<&'a Value> {
    let mut here = root;
    for part in parts {
        here = match (part.as_str(), here) {
            ("$ref", _) => target(root, here)?,
            (_, Value::Array(items)) => items.get(part.parse::<usize>().ok()?)?,
            (key, _) => here.get(key)?,
        };
    }
    Some(here)
}
