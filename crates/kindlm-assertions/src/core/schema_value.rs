//! A JSON Schema as the value of a check, and the validation against it.

use std::sync::Arc;

use kindlm_schema::Schema;
use kindlm_types::{CheckedText, MemberPart, Problem, ResultEvidence};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Setup;
use crate::core::result_evidence::{violations, whole};
use crate::core::schema_file;

/// A JSON Schema in one of its notations.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum SchemaValue {
    /// The schema itself.
    Inline(Map<String, Value>),
    /// The schema as JSON or YAML text, or `file://` and the path of a schema file.
    Text(String),
}

/// A compiled schema that values are validated against.
#[derive(Debug)]
pub(crate) struct Conforming(Arc<Schema>);

impl SchemaValue {
    /// Compiles the schema under `value`; file references are already resolved.
    ///
    /// Fails if a text is not a JSON or YAML object, or if the schema is invalid or has unknown keywords or formats.
    pub(crate) fn compile(self, setup: &Setup<'_>) -> Result<Conforming, Vec<Problem>> {
        const AT: &str = "/value";
        let compiled = match self {
            Self::Inline(schema) => schema_file::inline(&Value::Object(schema), AT),
            Self::Text(text) => {
                let schema = written(&text, setup).map_err(|problem| vec![problem])?;
                // A JSON pointer into the parsed text is not valid in the configuration, so each problem gets the
                // pointer of the text.
                let within = |problem: Problem| Problem {
                    pointer: AT.to_owned(),
                    place: MemberPart::Value,
                    ..problem
                };
                schema_file::inline(&schema, AT)
                    .map_err(|problems| problems.into_iter().map(within).collect())
            }
        };
        compiled.map(Conforming)
    }
}

/// Parses the schema in a text of JSON or YAML. Any value but an object is a problem.
fn written(text: &str, setup: &Setup<'_>) -> Result<Value, Problem> {
    let help = "write the schema as an object, or name its file as `file://path`";
    let read = serde_json::from_str(text).or_else(|err| {
        let yaml = setup.yaml.and_then(|read| read(text).ok());
        // A YAML value that is not an object is hardly meant as a schema, so report the JSON error instead.
        yaml.filter(Value::is_object).ok_or(err)
    });
    match read {
        Ok(schema @ Value::Object(_)) => Ok(schema),
        Ok(_) => Err(Problem::new("/value", "a schema is an object").with_help(help)),
        Err(_) if is_word(text) => {
            let message = format!("the schema is the text `{}`, not an object", text.trim());
            let help = "to look for a text in the output, use `contains`; a schema is an object";
            Err(Problem::new("/value", message).with_help(help))
        }
        Err(err) => {
            let message = format!("the schema is neither JSON nor YAML: {err}");
            Err(Problem::new("/value", message).with_help(help))
        }
    }
}

/// Returns true if a text is a single word. No schema is a single word.
fn is_word(text: &str) -> bool {
    let is_part = |it: char| it.is_alphanumeric() || matches!(it, '_' | '-');
    !text.trim().is_empty() && text.trim().chars().all(is_part)
}

impl Conforming {
    /// Returns the evidence about a value of the output: the violations, or that the value conforms.
    pub(crate) fn evidence(&self, value: &Value, output: &str) -> ResultEvidence {
        let errors = violations(&self.0, value);
        if errors.is_empty() {
            return whole(CheckedText::Output, output, "JSON that conforms to the schema");
        }
        ResultEvidence::Schema { errors }
    }

    /// Returns the first violation of a value; `None` if it conforms.
    pub(crate) fn fault(&self, value: &Value) -> Option<String> {
        let first = self.0.first_as_ajv(value)?;
        Some(format!("JSON does not conform to the provided schema. Errors: {first}"))
    }
}
