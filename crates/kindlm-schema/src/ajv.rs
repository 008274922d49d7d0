//! Violations in Ajv's format, as promptfoo shows them.
//!
//! Only the first violation is shown, in Ajv's order of evaluation.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use kindlm_types::{ecma, pointer};
use serde_json::{Value, json};

use crate::{walk, words};

/// The keywords of a schema in Ajv's order of evaluation.
///
/// First comes the type, then the keywords for numbers, texts, all values, lists and objects.
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

/// A schema as written by the user, and the checked value.
#[derive(Clone, Copy)]
pub(crate) struct Held<'a> {
    pub(crate) schema: &'a Value,
    pub(crate) value: &'a Value,
}

/// An error in Ajv's format.
struct AjvError {
    /// The JSON pointer into the value.
    instance: String,
    /// The JSON pointer to the keyword in the schema.
    schema: String,
    keyword: String,
    params: Value,
    message: String,
}

/// Returns Ajv's text for the first of several violations.
///
/// An example is `data/total must be >= 0`. Errors of alternatives are joined by commas. Without violations, the text
/// is empty.
pub(crate) fn first<'e, 'i: 'e>(
    held: Held<'_>,
    errors: impl IntoIterator<Item = &'e ValidationError<'i>>,
) -> String {
    let line = |it: AjvError| format!("data{} {}", it.instance, it.message);
    let lines: Vec<String> = first_errors(held, errors).into_iter().map(line).collect();
    lines.join(", ")
}

/// Returns the first of several violations as Ajv's list of error objects. Without violations, the list is empty.
pub(crate) fn first_json<'e, 'i: 'e>(
    held: Held<'_>,
    errors: impl IntoIterator<Item = &'e ValidationError<'i>>,
) -> Value {
    let object = |it: AjvError| {
        json!({
            "instancePath": it.instance,
            "schemaPath": format!("#{}", it.schema),
            "keyword": it.keyword,
            "params": it.params,
            "message": it.message,
        })
    };
    first_errors(held, errors).into_iter().map(object).collect()
}

fn first_errors<'e, 'i: 'e>(
    held: Held<'_>,
    errors: impl IntoIterator<Item = &'e ValidationError<'i>>,
) -> Vec<AjvError> {
    let first =
        errors.into_iter().min_by_key(|it| rank(held.schema, it.evaluation_path().as_str()));
    first.map(|it| all(held, it)).unwrap_or_default()
}

/// Returns the sort key of a schema path in Ajv's order: one rank for each segment of the path.
///
/// The rank of a keyword is its index in [`ORDER`]. The rank of a property or definition is its position in the schema.
/// Behind a `$ref`, only keywords have a rank.
fn rank(schema: &Value, path: &str) -> Vec<usize> {
    let mut at = Some(schema);
    let mut is_name = false;
    let parts = path.split('/').skip(1).map(pointer::key);
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
            let keyword = ORDER.iter().position(|it| *it == part).filter(|_| !is_name);
            is_name = !is_name && walk::MAP.contains(&part.as_str());
            keyword.or(rank).unwrap_or_default()
        })
        .collect()
}

/// Returns Ajv's errors for one violation.
///
/// The errors inside of alternatives or property names come first, and the error itself comes last.
fn all(held: Held<'_>, error: &ValidationError<'_>) -> Vec<AjvError> {
    let branches = |context: &[Vec<ValidationError<'static>>]| -> Vec<AjvError> {
        context.iter().flat_map(|it| first_errors(held, it)).collect()
    };
    let mut found = match error.kind() {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => branches(context),
        Kind::PropertyNames { error } => all(held, error),
        _ => Vec::new(),
    };
    let (mut params, mut message) = (params(error), message(error));
    if let (Kind::Type { .. }, Some(Value::Array(types))) =
        (error.kind(), held.schema.pointer(error.evaluation_path().as_str()))
    {
        let names: Vec<&str> = types.iter().filter_map(Value::as_str).collect();
        message = format!("must be {}", names.join(","));
        params = json!({"type": types});
    }
    let place = error.schema_path().as_str();
    let (schema, keyword) = match error.kind() {
        Kind::FalseSchema if is_for_properties(place) => {
            "must NOT have additional properties".clone_into(&mut message);
            let object = held.value.pointer(error.instance_path().as_str());
            let first = object.and_then(Value::as_object).and_then(|it| it.keys().next());
            params = json!({"additionalProperty": first});
            (place.to_owned(), "additionalProperties".to_owned())
        }
        Kind::FalseSchema => (format!("{place}/false schema"), "false schema".to_owned()),
        kind => (place.to_owned(), kind.keyword().to_owned()),
    };
    let instance = error.instance_path().as_str().to_owned();
    found.push(AjvError { instance, schema, keyword, params, message });
    found
}

/// Returns true if the path of a `false` schema ends in the keyword `additionalProperties`.
///
/// `/properties/additionalProperties` ends in a property with this name instead.
fn is_for_properties(place: &str) -> bool {
    place
        .strip_suffix("/additionalProperties")
        .is_some_and(|it| !it.ends_with("/properties") || it.ends_with("/properties/properties"))
}

/// Returns the `params` of Ajv's error object.
fn params(error: &ValidationError<'_>) -> Value {
    let compared = |sign: &str, limit: &Value| json!({"comparison": sign, "limit": limit});
    match error.kind() {
        Kind::Type { kind } => {
            let names: Vec<String> = words::types(kind).iter().map(ToString::to_string).collect();
            match names.as_slice() {
                [only] => json!({"type": only}),
                several => json!({"type": several}),
            }
        }
        Kind::Required { property } => json!({"missingProperty": property}),
        Kind::AdditionalProperties { unexpected } => {
            json!({"additionalProperty": unexpected.first()})
        }
        Kind::UnevaluatedProperties { unexpected } => {
            json!({"unevaluatedProperty": unexpected.first()})
        }
        Kind::PropertyNames { error } => json!({"propertyName": error.instance()}),
        Kind::Enum { options } => json!({"allowedValues": **options}),
        Kind::Constant { expected_value } => json!({"allowedValue": **expected_value}),
        Kind::Minimum { limit } => compared(">=", limit),
        Kind::Maximum { limit } => compared("<=", limit),
        Kind::ExclusiveMinimum { limit } => compared(">", limit),
        Kind::ExclusiveMaximum { limit } => compared("<", limit),
        Kind::MultipleOf { multiple_of } => {
            json!({"multipleOf": crate::normalise_numbers(json!(multiple_of))})
        }
        Kind::MinLength { limit }
        | Kind::MaxLength { limit }
        | Kind::MinItems { limit }
        | Kind::MaxItems { limit }
        | Kind::MinProperties { limit }
        | Kind::MaxProperties { limit } => json!({"limit": limit}),
        Kind::AdditionalItems { limit } => json!({"limit": limit}),
        Kind::Pattern { pattern } => json!({"pattern": pattern}),
        Kind::Format { format } => json!({"format": format}),
        Kind::UniqueItems => match pair(error.instance()) {
            Some((j, i)) => json!({"i": i, "j": j}),
            None => json!({}),
        },
        Kind::OneOfNotValid { .. } => json!({"passingSchemas": null}),
        Kind::Contains => json!({"minContains": 1}),
        _ => json!({}),
    }
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

/// Returns the indexes of two equal items, or `None`. The smaller index is first.
///
/// As in Ajv, later items are compared first. Only the first 500 items are compared.
fn pair(found: &Value) -> Option<(usize, usize)> {
    let items = found.as_array().map_or(&[][..], Vec::as_slice);
    (0..items.len().min(words::SEARCHED))
        .rev()
        .find_map(|i| (0..i).rev().find(|&j| items.get(i) == items.get(j)).map(|j| (j, i)))
}

fn duplicates(found: &Value) -> String {
    match pair(found) {
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
    fn gives_the_first_error_of_ajv() {
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
                json!({"properties": {"b": {"maxLength": 1}, "type": {"minimum": 0}}}),
                json!({"type": -1, "b": "xy"}),
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

    #[test]
    fn json_errors_equal_the_error_objects() {
        for (schema, value, expected) in [
            (
                json!({"required": ["city"]}),
                json!({}),
                r##"[{"instancePath":"","schemaPath":"#/required","keyword":"required","params":{"missingProperty":"city"},"message":"must have required property 'city'"}]"##,
            ),
            (
                json!({"properties": {"a/b": {"$ref": "#/definitions/n"}}, "definitions": {"n": {"minimum": 0.5}}}),
                json!({"a/b": 0}),
                r##"[{"instancePath":"/a~1b","schemaPath":"#/definitions/n/minimum","keyword":"minimum","params":{"comparison":">=","limit":0.5},"message":"must be >= 0.5"}]"##,
            ),
            (
                json!({"anyOf": [{"type": "string"}, {"enum": [1]}]}),
                json!(null),
                r##"[{"instancePath":"","schemaPath":"#/anyOf/0/type","keyword":"type","params":{"type":"string"},"message":"must be string"},{"instancePath":"","schemaPath":"#/anyOf/1/enum","keyword":"enum","params":{"allowedValues":[1]},"message":"must be equal to one of the allowed values"},{"instancePath":"","schemaPath":"#/anyOf","keyword":"anyOf","params":{},"message":"must match a schema in anyOf"}]"##,
            ),
            (
                json!({"additionalProperties": false}),
                json!({"x": 1}),
                r##"[{"instancePath":"","schemaPath":"#/additionalProperties","keyword":"additionalProperties","params":{"additionalProperty":"x"},"message":"must NOT have additional properties"}]"##,
            ),
            (
                json!({"properties": {"a": false}}),
                json!({"a": 1}),
                r##"[{"instancePath":"/a","schemaPath":"#/properties/a/false schema","keyword":"false schema","params":{},"message":"boolean schema is false"}]"##,
            ),
        ] {
            let compiled = Schema::compile(&schema).unwrap();
            let ours = compiled.first_as_ajv_json(&value).unwrap();
            assert_eq!(ours.to_string(), expected, "{schema}");
        }
        assert_eq!(Schema::compile(&json!({})).unwrap().first_as_ajv_json(&json!(1)), None);
    }
}
