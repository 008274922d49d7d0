//! Lints for unknown keywords and formats, which are legal but check nothing.

use kindlm_types::{nearest, pointer};
use serde_json::Value;

use crate::{Schema, formats, walk};

/// A part of a schema that has no effect and is probably a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lint {
    /// The JSON pointer into the schema.
    pub pointer: String,
    /// The part without effect and the probable meaning, as a lower-case fragment.
    pub message: String,
}

/// All known keywords.
///
/// The list has the keywords of drafts 4 to 2020-12, Ajv's `nullable`, and the annotations of `OpenAPI`.
const KEYWORDS: &[&str] = &[
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "discriminator",
    "else",
    "enum",
    "example",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "id",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
    "xml",
];

/// The formats of all drafts. Each is checked in every draft.
const FORMATS: &[&str] = &[
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "idn-email",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "time",
    "uri",
    "uri-reference",
    "uri-template",
    "uuid",
];

/// Finds unknown keywords and formats, in the order of the schema.
///
/// Keywords that start with `x-` count as extensions. A schema with lints is still valid.
#[must_use]
pub fn lint(schema: &Value) -> Vec<Lint> {
    let mut lints = Vec::new();
    walk::each(schema, "", &mut |pointer, it| {
        let Value::Object(map) = it else { return };
        for (keyword, value) in map {
            let here = format!("{pointer}/{}", pointer::segment(keyword));
            let message = match value {
                Value::String(format) if keyword == "format" => {
                    if formats::is_known(format) {
                        None
                    } else {
                        unknown("format", format, FORMATS)
                    }
                }
                _ if keyword.starts_with("x-") => None,
                _ => unknown("keyword", keyword, KEYWORDS),
            };
            lints.extend(message.map(|message| Lint { pointer: here, message }));
        }
    });
    lints
}

fn unknown(what: &str, word: &str, known: &[&str]) -> Option<String> {
    if known.contains(&word) {
        return None;
    }
    let hint = nearest(word, known.iter().copied())
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_default();
    Some(format!("`{word}` is not a {what} of JSON Schema and checks nothing{hint}"))
}

/// Returns the lints of a function's `parameters`.
///
/// If the schema cannot be compiled, returns a single lint with an empty pointer and the error message.
#[must_use]
pub fn faults_of_parameters(schema: &Value) -> Vec<Lint> {
    match Schema::compile(schema) {
        Ok(_) => lint(schema),
        Err(fault) => {
            let message = format!("these parameters are not a usable JSON Schema: {fault}");
            vec![Lint { pointer: String::new(), message }]
        }
    }
}
