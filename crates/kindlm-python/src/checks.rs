//! The checks of an evaluator.

use std::sync::Arc;

use kindlm_run::duplicate_key_message;
use kindlm_source::{Level, Source};
use kindlm_types::duplicate_key_pointer;
use pyo3::prelude::*;
use pyo3::types::PyString;
use serde_json::{Map, Value, json};

use crate::error::KindlmError;

/// The keys of a record that define its checks.
pub(crate) const KEYS: [&str; 3] = ["assertions", "expect", "threshold"];

/// The checks of an evaluator, as a JSON object. Each record gets the keys of this object.
pub(crate) struct Checks(String);

impl Checks {
    /// Reads an `expect` block, or an object with some of [`KEYS`].
    pub(crate) fn new(expect: &Bound<'_, PyAny>) -> PyResult<Self> {
        let invalid = |why: String| KindlmError::new_err(format!("`expect`: {why}"));
        let value = if let Ok(text) = expect.cast::<PyString>() {
            parse_value(text.to_str()?).map_err(invalid)?
        } else {
            let json = expect.py().import("json")?.call_method1("dumps", (expect,));
            let text: String =
                json.and_then(|it| it.extract()).map_err(|err| invalid(err.to_string()))?;
            serde_json::from_str(&text).map_err(|err| invalid(err.to_string()))?
        };
        let keys = match value {
            Value::Object(keys) if KEYS.iter().any(|it| keys.contains_key(*it)) => keys,
            Value::Object(expect) => Map::from_iter([("expect".to_owned(), expect.into())]),
            Value::Array(list) => Map::from_iter([("expect".to_owned(), json!({"assert": list}))]),
            _ => {
                return Err(invalid(
                    "expected checks, such as `output: { contains: [refund] }`".to_owned(),
                ));
            }
        };
        if let Some(key) = keys.keys().find(|it| !KEYS.contains(&it.as_str())) {
            let why = format!("unknown key \"{key}\" beside `assertions`, `expect` or `threshold`");
            return Err(invalid(format!("{why}; move checks into `expect`")));
        }
        Ok(Self(Value::Object(keys).to_string()))
    }

    /// Returns the JSON object.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Adds the checks to a record. `record` is the text of a JSON object that has none of [`KEYS`].
    pub(crate) fn add_to(&self, record: &[u8]) -> Vec<u8> {
        let record = record.trim_ascii_end();
        let start = record.strip_suffix(b"}").unwrap_or(record);
        let separator: &[u8] = if start.trim_ascii() == b"{" { b"" } else { b"," };
        [start, separator, &self.0.as_bytes()[1..]].concat()
    }
}

/// Reads JSON or YAML. Fails if a key is repeated. JSON has its own parser, because YAML lacks some escape sequences of
/// JSON.
fn parse_value(text: &str) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_str(text) {
        return duplicate_key_pointer(text)
            .map_or(Ok(value), |place| Err(duplicate_key_message(&place)));
    }
    let source = Arc::new(Source::new("expect", text));
    let tree = kindlm_source::read_yaml(&source, 0..text.len());
    let errors = tree.diagnostics.iter().filter(|it| it.level == Level::Error);
    let problems: Vec<String> = errors.map(|it| kindlm_source::render(it, false)).collect();
    match tree.root {
        Some(root) if problems.is_empty() => Ok(root.to_json()),
        _ => Err(format!("not valid YAML:\n{}", problems.join("\n"))),
    }
}

/// Returns the exception for records that have checks of their own. `place` is the record or the table.
pub(crate) fn own_checks(place: &str, key: &str) -> PyErr {
    KindlmError::new_err(format!(
        "{place} has `{key}`, and the evaluator has the checks too; remove `{key}` from the records"
    ))
}
