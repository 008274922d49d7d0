//! A JSON Schema as the value of a check, and what does not conform to it.

use std::sync::Arc;

use kindlm_schema::{Lint, Schema};
use kindlm_types::{Place, Problem};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{Setup, schema_file};

/// A JSON Schema in one of the ways of writing it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum SchemaValue {
    /// The schema itself.
    Inline(Map<String, Value>),
    /// The schema as a text of JSON or YAML, or `file://` and the path of one.
    Text(String),
}

/// A schema that values are held against.
#[derive(Debug)]
pub(crate) struct Conforming(Arc<Schema>);

/// What a path begins with.
const FILE: &str = "file://";

impl SchemaValue {
    /// Reads and compiles the schema, which stands under `value`.
    pub(crate) fn compile(self, setup: &Setup<'_>) -> Result<Conforming, Vec<Problem>> {
        const AT: &str = "/value";
        let compiled = match self {
            Self::Inline(schema) => {
                let schema = Value::Object(schema);
                schema_file::inline(&schema, AT).and_then(|it| strict(&schema, AT).map(|()| it))
            }
            Self::Text(text) => match text.strip_prefix(FILE) {
                Some(path) => schema_file::load(setup, path, AT),
                None => written(&text, setup).and_then(|schema| {
                    // Inside a text there are no places to point at.
                    let within = |problem: Problem| Problem {
                        pointer: AT.to_owned(),
                        place: Place::Value,
                        ..problem
                    };
                    let compiled = schema_file::inline(&schema, AT);
                    compiled.and_then(|it| strict(&schema, AT).map(|()| it)).map_err(within)
                }),
            },
        };
        compiled.map(Conforming).map_err(|problem| vec![problem])
    }
}

/// The schema in a text of JSON, or of YAML.
fn written(text: &str, setup: &Setup<'_>) -> Result<Value, Problem> {
    let help = "write the schema as an object, or name its file as `file://path`";
    let read = serde_json::from_str(text).or_else(|err| {
        let yaml = setup.yaml.and_then(|read| read(text).ok());
        // A text that is no JSON is hardly ever meant as a YAML scalar.
        yaml.filter(Value::is_object).ok_or(err)
    });
    match read {
        Ok(schema @ Value::Object(_)) => Ok(schema),
        Ok(_) => Err(Problem::new("/value", "a schema is an object").with_help(help)),
        Err(err) => {
            let message = format!("the schema is neither JSON nor YAML: {err}");
            Err(Problem::new("/value", message).with_help(help))
        }
    }
}

/// Formats that Ajv knows beside those of the drafts; those of numbers and secrets check nothing there either.
const FORMATS: [&str; 11] = [
    "binary",
    "byte",
    "double",
    "float",
    "int32",
    "int64",
    "iso-date-time",
    "iso-time",
    "json-pointer-uri-fragment",
    "password",
    "url",
];

/// Refuses, as Ajv in its strict mode, what nobody knows: a misspelt keyword checks nothing, so that everything conforms.
fn strict(schema: &Value, at: &str) -> Result<(), Problem> {
    let is_known = |lint: &Lint| {
        let format = schema.pointer(&lint.pointer).and_then(Value::as_str);
        lint.pointer.ends_with("/format") && format.is_some_and(|it| FORMATS.contains(&it))
    };
    match kindlm_schema::lint(schema).into_iter().find(|it| !is_known(it)) {
        None => Ok(()),
        Some(Lint { pointer, message }) => {
            let is_format = schema.pointer(&pointer).is_some_and(Value::is_string)
                && pointer.ends_with("/format");
            let place = if is_format { Place::Value } else { Place::Key };
            let help = "correct it; what is only an annotation is called `x-…`";
            let problem = Problem::new(format!("{at}{pointer}"), message).with_help(help);
            Err(Problem { place, ..problem })
        }
    }
}

impl Conforming {
    /// What is wrong with a value; `None` if it conforms.
    pub(crate) fn fault(&self, value: &Value) -> Option<String> {
        let first = self.0.first_as_ajv(value)?;
        Some(format!("JSON does not conform to the provided schema. Errors: {first}"))
    }
}
