//! Parses the `gates` block of a suite, and generates its JSON Schema.

use kindlm_types::{Problem, Registry, pointer, suggest};
use serde_json::{Map, Value, json};

use super::{Gate, Registration, Threshold, built_in};

/// Returns the gates with a default threshold, which apply without a `gates` block.
pub fn defaults() -> Vec<Box<dyn Gate>> {
    compile(&Map::new()).0
}

/// Creates the gates of a `gates` block, including the default gates.
///
/// The gates are in the order of the registry. All problems are returned, and a gate with a problem is omitted. The
/// JSON pointers of problems are relative to the block.
pub fn compile(block: &Map<String, Value>) -> (Vec<Box<dyn Gate>>, Vec<Problem>) {
    compile_with(&built_in(), block)
}

/// Creates the gates of a `gates` block like [`compile`], from the gates of this registry.
pub fn compile_with(
    registry: &Registry<Registration>,
    block: &Map<String, Value>,
) -> (Vec<Box<dyn Gate>>, Vec<Problem>) {
    let mut problems = Vec::new();
    for id in block.keys().filter(|id| registry.find(id).is_none()) {
        problems.push(
            Problem::key(pointer(id), format!("there is no gate `{id}`")).with_help(suggest(
                id,
                "gates",
                registry.ids(),
            )),
        );
    }
    let mut gates = Vec::new();
    for it in registry.iter() {
        let given = block.get(it.meta.id);
        if let (Some(options), Some(Value::Object(object))) = (&it.options, given) {
            match (options.build)(object) {
                Ok(built) => gates.extend(built),
                Err(wrong) => {
                    problems
                        .extend(wrong.into_iter().map(|wrong| wrong.under(&pointer(it.meta.id))));
                }
            }
            continue;
        }
        let threshold = match given {
            None => it.meta.default,
            Some(value) => match it.meta.threshold.parse_value(value) {
                Ok(threshold) => Some(threshold),
                Err(expected) => {
                    let message = format!("`{}` must be {expected}, but is {value}", it.meta.id);
                    let problem = Problem::new(pointer(it.meta.id), message);
                    let is_rate = it.meta.threshold == Threshold::Rate;
                    problems.push(if is_rate { with_share(problem, value) } else { problem });
                    None
                }
            },
        };
        gates.extend(threshold.map(it.build));
    }
    (gates, problems)
}

/// Returns the JSON Schema of a `gates` block.
pub fn schema() -> Value {
    schema_with(&built_in())
}

/// Returns the JSON Schema of a `gates` block for the gates of this registry.
pub fn schema_with(registry: &Registry<Registration>) -> Value {
    let properties: Map<String, Value> =
        registry.iter().map(|it| (it.meta.id.to_owned(), property(it))).collect();
    json!({
        "type": "object",
        "description": "Thresholds over the whole run; they decide the exit code.",
        "properties": properties,
        "additionalProperties": false,
    })
}

fn property(registration: &Registration) -> Value {
    let meta = &registration.meta;
    let mut schema = match meta.threshold {
        Threshold::Rate => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        Threshold::Count => json!({ "type": "integer", "minimum": 0 }),
        Threshold::Amount => json!({ "type": "number", "exclusiveMinimum": 0 }),
        Threshold::Switch => json!({ "const": true }),
        Threshold::Names => Value::Null,
    };
    if let Some(options) = &registration.options {
        let options = (options.schema)();
        schema = if schema.is_null() { options } else { json!({ "anyOf": [schema, options] }) };
    }
    if let Some(object) = schema.as_object_mut() {
        object.insert("description".to_owned(), meta.summary.into());
        if let Some(default) = meta.default {
            object.insert("default".to_owned(), default.into());
        }
    }
    schema
}

/// Adds a suggestion if the value is a percentage, such as `90%`, instead of a share, such as `0.9`.
pub(super) fn with_share(problem: Problem, value: &Value) -> Problem {
    match percent(value) {
        Some(share) => problem.with_help(format!("did you mean `{share}`?")),
        None => problem,
    }
}

/// Parses a percentage from 1 to 100, such as 90 or `90%`, and returns it as a share from 0.01 to 1.
///
/// Returns `None` for other values.
fn percent(value: &Value) -> Option<f64> {
    let text = value.as_str().and_then(|it| it.trim().strip_suffix('%')?.trim_end().parse().ok());
    let percent: f64 = value.as_f64().or(text)?;
    (1.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

/// Returns the JSON pointer to a member of an object.
pub(super) fn pointer(key: &str) -> String {
    format!("/{}", pointer::segment(key))
}

impl Threshold {
    /// Parses a threshold. The error describes the expected value.
    pub fn parse_value(self, value: &Value) -> Result<f64, &'static str> {
        let (accepts, expected): (fn(f64) -> bool, _) = match self {
            Self::Rate => (|it| (0.0..=1.0).contains(&it), "a share from 0 to 1"),
            Self::Count => (|it| it >= 0.0 && it.fract() == 0.0, "a whole number from 0"),
            Self::Amount => (|it| it > 0.0, "a number above 0"),
            Self::Switch => {
                let is_on = value == &Value::Bool(true);
                return is_on.then_some(1.0).ok_or("`true`");
            }
            Self::Names => {
                return Err("an object with a threshold for each name, such as `{ name: 0.9 }`");
            }
        };
        value.as_f64().filter(|it| accepts(*it)).ok_or(expected)
    }
}
