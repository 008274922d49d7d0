//! JSON Schemas that users write for the answers of models.

use std::fmt;

use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value, json};

use crate::ajv::{self, Held};
use crate::{branch, formats, walk, words};

/// The maximum number of steps of a pattern with backtracking. A text that needs more steps violates the pattern.
const BACKTRACK_LIMIT: usize = 1_000_000;

/// A compiled JSON Schema.
///
/// `$schema` selects draft 4, 6, 7, 2019-09 or 2020-12. Without `$schema`, a schema is read as draft 7, which is the
/// default of Ajv. So schemas written for Ajv keep their meaning (`dependencies`, list-valued `items`, `definitions`).
///
/// Two rules follow Ajv instead of drafts 4 to 7, so that no keyword of the user is ignored:
///
/// - keywords beside a `$ref` are checked, too;
/// - `nullable: true` allows null.
///
/// `format` is asserted in every draft: all formats of all drafts, and the formats that only Ajv has. Unknown formats
/// and keywords are ignored here and reported by [`lint`](crate::lint). References are resolved only within the schema;
/// nothing is fetched or opened.
pub struct Schema {
    validator: Validator,
    /// The schema as written, which determines the order of violations.
    written: Value,
}

/// An error that makes a schema unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", place(pointer))]
#[non_exhaustive]
pub struct SchemaError {
    /// The JSON pointer to the error in the schema; empty for the schema itself.
    pub pointer: String,
    /// The error and advice, as a lower-case fragment.
    pub message: String,
}

fn place(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!("at `{pointer}`: ") }
}

/// A violation of a schema by a value. Displayed as `/instance/path: what is wrong`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The JSON pointer into the value; empty for the value itself.
    pub instance: String,
    /// The JSON pointer to the keyword in the schema, through `$ref`s.
    pub schema: String,
    /// The description, as a lower-case fragment.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instance = if self.instance.is_empty() { "/" } else { &self.instance };
        write!(f, "{instance}: {}", self.message)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").finish_non_exhaustive()
    }
}

impl Schema {
    /// Compiles a schema: an object or a boolean.
    ///
    /// # Errors
    ///
    /// Fails if the schema is invalid, names an unknown draft, or refers to a missing place or to another document.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let declared = schema.get("$schema").and_then(Value::as_str);
        let mut options = jsonschema::options()
            .should_validate_formats(true)
            .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACK_LIMIT))
            .offline();
        options = formats::of_texts(options);
        if declared.is_none() {
            options = options.with_draft(Draft::Draft7);
        }
        let mut meant = schema.clone();
        let is_old = is_old(declared);
        walk::each_mut(&mut meant, &mut |it| {
            if is_old {
                as_ajv_has_it(it);
            }
            it.as_object_mut().into_iter().for_each(formats::of_numbers);
        });
        options
            .build(&meant)
            .map(|validator| Self { validator, written: schema.clone() })
            .map_err(|err| explain(schema, &err))
    }

    /// Returns true if the value conforms to the schema.
    pub fn is_valid(&self, value: &Value) -> bool {
        self.validator.is_valid(value)
    }

    /// Returns the first violation in Ajv's wording and order.
    ///
    /// An example is `data/total must be >= 0`. Returns `None` if the value conforms to the schema.
    pub fn first_as_ajv(&self, value: &Value) -> Option<String> {
        if self.validator.is_valid(value) {
            return None;
        }
        let errors: Vec<_> = self.validator.iter_errors(value).collect();
        Some(ajv::first(self.held(value), &errors))
    }

    fn held<'a>(&'a self, value: &'a Value) -> Held<'a> {
        Held { schema: &self.written, value }
    }

    /// Returns the first violation as Ajv's list of error objects.
    ///
    /// Returns `None` if the value conforms to the schema.
    pub fn first_as_ajv_json(&self, value: &Value) -> Option<Value> {
        if self.validator.is_valid(value) {
            return None;
        }
        let errors: Vec<_> = self.validator.iter_errors(value).collect();
        Some(ajv::first_json(self.held(value), &errors))
    }

    /// Returns all violations, in the order of their places in the value.
    ///
    /// The result is empty if the value conforms to the schema.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        let mut found: Vec<Violation> =
            self.validator.iter_errors(value).map(|it| violation(&it)).collect();
        crate::order::sort(value, &mut found, |it| &it.instance);
        found.dedup();
        found
    }
}

fn violation(error: &ValidationError<'_>) -> Violation {
    Violation {
        instance: error.instance_path().as_str().to_owned(),
        schema: error.evaluation_path().as_str().to_owned(),
        message: branch::describe(error).unwrap_or_else(|| words::describe(error)),
    }
}

/// Returns true for the drafts 4, 6 and 7, which ignore keywords beside a `$ref`.
///
/// A schema without `$schema` is read as draft 7.
fn is_old(declared: Option<&str>) -> bool {
    declared
        .is_none_or(|uri| ["draft-04", "draft-06", "draft-07"].iter().any(|it| uri.contains(it)))
}

/// Applies Ajv's rules to a schema.
///
/// Moves a `$ref` with siblings into `allOf`, and adds the type null for `nullable`.
fn as_ajv_has_it(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    if map.len() > 1 && map.get("$ref").is_some_and(Value::is_string) {
        let reference = map.shift_remove("$ref").unwrap_or_default();
        if let Value::Array(all) = map.entry("allOf").or_insert_with(|| json!([])) {
            all.push(json!({ "$ref": reference }));
        }
    }
    if map.get("nullable") == Some(&Value::Bool(true)) {
        admit_null(map);
    }
}

fn admit_null(map: &mut Map<String, Value>) {
    match map.get_mut("type") {
        Some(Value::Array(types)) if !types.contains(&json!("null")) => types.push(json!("null")),
        Some(single @ Value::String(_)) => *single = json!([single.take(), "null"]),
        _ => {}
    }
}

/// Describes a compile error, with its place in the schema.
fn explain(schema: &Value, error: &ValidationError<'_>) -> SchemaError {
    if let Kind::Referencing(_) = error.kind() {
        return unresolved(schema, error);
    }
    if let Some(uri) = schema.get("$schema").and_then(Value::as_str)
        && error.to_string().contains(uri)
    {
        let message = format!(
            "`{uri}` is not a known draft of JSON Schema; use `https://json-schema.org/draft/2020-12/schema`, \
             or leave `$schema` out"
        );
        return SchemaError { pointer: "/$schema".to_owned(), message };
    }
    let pointer = error.instance_path().as_str().to_owned();
    let found = schema.pointer(&pointer).unwrap_or(schema);
    let last = pointer.rsplit('/').next().unwrap_or_default();
    let message = match (last, found) {
        ("pattern", Value::String(pattern)) => {
            format!("`{pattern}` is not a valid regular expression")
        }
        ("type", Value::String(name)) => format!(
            "`{name}` is not a type; the types are `string`, `number`, `integer`, `boolean`, `object`, `array` and `null`"
        ),
        _ if pointer.is_empty() && !found.is_object() && !found.is_boolean() => {
            format!("a schema is an object or a boolean, not {}", words::found_name(found))
        }
        _ => branch::describe(error).unwrap_or_else(|| words::describe(error)),
    };
    SchemaError { pointer, message }
}

/// Describes a reference to a missing place, or to another document.
fn unresolved(schema: &Value, error: &ValidationError<'_>) -> SchemaError {
    let mut outside = None;
    let mut dangling = None;
    // The error names the anchor that does not exist.
    let is_missing = |anchor: &str| error.to_string().contains(&format!("'{anchor}'"));
    walk::each(schema, "", &mut |pointer, it| {
        let Some(reference) = it.get("$ref").and_then(Value::as_str) else { return };
        let found = (format!("{pointer}/$ref"), reference.to_owned());
        match reference.strip_prefix('#') {
            Some(inside) if inside.is_empty() || schema.pointer(inside).is_some() => {}
            Some(inside) if !inside.starts_with('/') && !is_missing(inside) => {}
            Some(_) => _ = dangling.get_or_insert(found),
            None if error.to_string().contains(reference) => outside = Some(found),
            None => _ = outside.get_or_insert(found),
        }
    });
    match (outside, dangling) {
        (Some((pointer, reference)), _) => SchemaError {
            pointer,
            message: format!(
                "`$ref` to `{reference}` is outside this schema, and only this schema is read; \
                 copy the schema it means into `$defs` and refer to `#/$defs/…`"
            ),
        },
        (None, Some((pointer, reference))) => SchemaError {
            pointer,
            message: format!(
                "`$ref` to `{reference}` not found in this schema; define it, for example in `$defs`"
            ),
        },
        (None, None) => SchemaError { pointer: String::new(), message: error.to_string() },
    }
}
