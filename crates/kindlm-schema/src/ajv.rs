//! Violations in the words of Ajv, which promptfoo shows: the first one only, in the order in which Ajv looks.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use kindlm_types::ecma;
use serde_json::Value;

use crate::{walk, words};

/// Keywords in the order in which Ajv evaluates those of one schema. It looks at the type first, then at what
/// concerns numbers, texts, every value, lists and objects.
const ORDER: &[&str] = &[
    "type",
    "maximum",
    "minimum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "multipleOf",
    "maxLength",
    "minLength",
    "pattern",
    "format",
    "$ref",
    "const",
    "enum",
    "not",
    "anyOf",
    "oneOf",
    "allOf",
    "if",
    "then",
    "else",
    "maxItems",
    "minItems",
    "uniqueItems",
    "additionalItems",
    "items",
    "contains",
    "maxProperties",
    "minProperties",
    "required",
    "dependencies",
    "propertyNames",
    "additionalProperties",
    "properties",
    "patternProperties",
];

/// The first of several violations of a schema, as `data/place must be …`; empty if there is none.
pub(crate) fn first<'e, 'i: 'e>(
    schema: &Value,
    errors: impl IntoIterator<Item = &'e ValidationError<'i>>,
) -> String {
    let first = errors.into_iter().min_by_key(|it| rank(schema, it.evaluation_path().as_str()));
    first.map(|it| lines(schema, it).join(", ")).unwrap_or_default()
}

/// Where Ajv meets what a path through the schema leads to: keywords in its own order, keys of the user's own
/// objects in the order of the schema. Behind a `$ref` only the keywords count.
fn rank(schema: &Value, path: &str) -> Vec<usize> {
    let mut at = Some(schema);
    let parts = path.split('/').skip(1).map(walk::unescape);
    parts
        .map(|part| {
            let (rank, below) = match at {
                Some(Value::Object(map)) => (map.keys().position(|it| *it == part), map.get(&part)),
                Some(Value::Array(items)) => {
                    let index = part.parse().ok();
                    (index, index.and_then(|it: usize| items.get(it)))
                }
                _ => (None, None),
            };
            at = below;
            let keyword = ORDER.iter().position(|it| *it == part);
            keyword.or(rank).unwrap_or_default()
        })
        .collect()
}

/// What Ajv says of one violation: what the branches of a choice lack, before the choice itself.
fn lines(schema: &Value, error: &ValidationError<'_>) -> Vec<String> {
    let place = format!("data{}", error.instance_path().as_str());
    let branches = |context: &[Vec<ValidationError<'static>>]| -> Vec<String> {
        context.iter().filter(|it| !it.is_empty()).map(|it| first(schema, it)).collect()
    };
    let mut lines = match error.kind() {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => branches(context),
        Kind::PropertyNames { error } => lines(schema, error),
        _ => Vec::new(),
    };
    let message = match (error.kind(), schema.pointer(error.evaluation_path().as_str())) {
        (Kind::Type { .. }, Some(Value::Array(types))) => {
            let names: Vec<&str> = types.iter().filter_map(Value::as_str).collect();
            format!("must be {}", names.join(","))
        }
        _ => message(error),
    };
    lines.push(format!("{place} {message}"));
    lines
}

fn message(error: &ValidationError<'_>) -> String {
    let more = |limit: &u64, noun: &str| format!("must NOT have more than {limit} {noun}");
    let fewer = |limit: &u64, noun: &str| format!("must NOT have fewer than {limit} {noun}");
    match error.kind() {
        Kind::Type { kind } => {
            let names: Vec<String> = words::types(kind).iter().map(ToString::to_string).collect();
            format!("must be {}", names.join(","))
        }
        Kind::Required { property } => {
            format!("must have required property '{}'", property.as_str().unwrap_or_default())
        }
        Kind::AdditionalProperties { .. } => "must NOT have additional properties".to_owned(),
        Kind::UnevaluatedProperties { .. } => "must NOT have unevaluated properties".to_owned(),
        Kind::UnevaluatedItems { .. } => "must NOT have unevaluated items".to_owned(),
        Kind::PropertyNames { .. } => "property name must be valid".to_owned(),
        Kind::Enum { .. } => "must be equal to one of the allowed values".to_owned(),
        Kind::Constant { .. } => "must be equal to constant".to_owned(),
        Kind::Minimum { limit } => format!("must be >= {}", ecma::stringify(limit)),
        Kind::Maximum { limit } => format!("must be <= {}", ecma::stringify(limit)),
        Kind::ExclusiveMinimum { limit } => format!("must be > {}", ecma::stringify(limit)),
        Kind::ExclusiveMaximum { limit } => format!("must be < {}", ecma::stringify(limit)),
        Kind::MultipleOf { multiple_of } => {
            format!("must be multiple of {}", ecma::number(*multiple_of))
        }
        Kind::MinLength { limit } => fewer(limit, "characters"),
        Kind::MaxLength { limit } => more(limit, "characters"),
        Kind::MinItems { limit } => fewer(limit, "items"),
        Kind::MaxItems { limit } => more(limit, "items"),
        Kind::AdditionalItems { limit } => more(&(*limit as u64), "items"),
        Kind::MinProperties { limit } => fewer(limit, "properties"),
        Kind::MaxProperties { limit } => more(limit, "properties"),
        Kind::Pattern { pattern } => format!("must match pattern \"{pattern}\""),
        Kind::Format { format } => format!("must match format \"{format}\""),
        Kind::UniqueItems => duplicates(error.instance()),
        Kind::AnyOf { .. } => "must match a schema in anyOf".to_owned(),
        Kind::OneOfNotValid { .. } | Kind::OneOfMultipleValid { .. } => {
            "must match exactly one schema in oneOf".to_owned()
        }
        Kind::Not { .. } => "must NOT be valid".to_owned(),
        Kind::Contains => "must contain at least 1 valid item(s)".to_owned(),
        Kind::FalseSchema => "boolean schema is false".to_owned(),
        _ => words::describe(error),
    }
}

/// Which two items are equal: Ajv looks from the end. Long lists are not searched.
fn duplicates(found: &Value) -> String {
    let items = found.as_array().map_or(&[][..], Vec::as_slice);
    let pair = (0..items.len().min(words::SEARCHED))
        .rev()
        .find_map(|i| (0..i).rev().find(|&j| items.get(i) == items.get(j)).map(|j| (j, i)));
    match pair {
        Some((j, i)) => {
            format!("must NOT have duplicate items (items ## {j} and {i} are identical)")
        }
        None => "must NOT have duplicate items".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Schema;

    #[test]
    fn says_what_ajv_says_first() {
        for (schema, value, expected) in [
            (json!({"type": "number"}), json!("x"), "data must be number"),
            (json!({"type": ["string", "null"]}), json!(1), "data must be string,null"),
            (
                json!({"properties": {"a": {"minimum": 0}}, "required": ["b"], "additionalProperties": false}),
                json!({"a": -1, "c": 1}),
                "data must have required property 'b'",
            ),
            (
                json!({"properties": {"b": {"maxLength": 1}, "a": {"minimum": 0}}}),
                json!({"a": -1, "b": "xy"}),
                "data/b must NOT have more than 1 characters",
            ),
            (
                json!({"items": {"type": "integer"}, "uniqueItems": true}),
                json!([1, 2, 1, "x"]),
                "data must NOT have duplicate items (items ## 0 and 2 are identical)",
            ),
            (
                json!({"anyOf": [{"type": "string"}, {"minimum": 3}]}),
                json!(1),
                "data must be string, data must be >= 3, data must match a schema in anyOf",
            ),
            (json!({"not": {"type": "null"}}), json!(null), "data must NOT be valid"),
        ] {
            let compiled = Schema::compile(&schema).unwrap();
            assert_eq!(compiled.first_as_ajv(&value).as_deref(), Some(expected), "{schema}");
        }
        assert_eq!(Schema::compile(&json!({})).unwrap().first_as_ajv(&json!(1)), None);
    }
}
