//! Harmful operators on answers in JSON.

use kindlm_types::{Execution, ecma, pointer};
use kindlm_wire::mutation::MutatedEvidence;
use serde_json::{Value, json};

use crate::Original;
use crate::choice::Choice;
use crate::edit::with_output;
use crate::evidence::answer_json;
use crate::operator::Operator;

pub(crate) static JSON: [Operator; 4] = [
    Operator::harmful(
        MutatedEvidence::Json,
        "json-drop-key",
        "removes a key",
        "no check requires this key: list it under `required` in a schema (`output`)",
        |original, choice| {
            let mut value = answer_json(original.execution)?;
            let keys = places(&value, &|_| true);
            let place = choice.pick(&keys)?;
            let (parent, segment) = place.rsplit_once('/')?;
            let key = pointer::key(segment);
            value.pointer_mut(parent)?.as_object_mut()?.shift_remove(&key)?;
            Some(with_json(original.execution, &value))
        },
    ),
    Operator::harmful(
        MutatedEvidence::Json,
        "json-change-type",
        "changes the type of a value",
        "no check requires the type of this value: give it in a schema (`output`)",
        |original, choice| {
            replace(original, choice, &|it| !it.is_null(), |value, _, _| other_type(value))
        },
    ),
    Operator::harmful(
        MutatedEvidence::Json,
        "json-change-value",
        "changes a value to another of the same type",
        "no check requires this value: give it as `enum` or `const` in a schema (`output`), or compare it with `on`",
        |original, choice| {
            let is_scalar = |it: &Value| it.is_string() || it.is_number() || it.is_boolean();
            replace(original, choice, &is_scalar, other_value)
        },
    ),
    Operator::harmful(
        MutatedEvidence::Json,
        "json-null",
        "sets a value to null",
        "no check forbids null here: give the type of the value in a schema (`output`)",
        |original, choice| replace(original, choice, &|it| !it.is_null(), |_, _, _| Value::Null),
    ),
];

/// Replaces one object member of the answer whose value meets `fits`; `None` if there is no such member.
fn replace(
    original: &Original<'_>,
    choice: &mut Choice,
    fits: &dyn Fn(&Value) -> bool,
    new: fn(&Value, &str, &mut dyn Iterator<Item = Value>) -> Value,
) -> Option<Execution> {
    let mut value = answer_json(original.execution)?;
    let places = places(&value, fits);
    let place = choice.pick(&places)?;
    let mut others = original.other_cases(choice).filter_map(answer_json);
    let slot = value.pointer_mut(place)?;
    *slot = new(slot, place, &mut others);
    Some(with_json(original.execution, &value))
}

/// Returns the JSON pointers of all object members whose value meets `fits`, at any depth. List items are not included.
fn places(value: &Value, fits: &dyn Fn(&Value) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), value)];
    while let Some((at, value)) = open.pop() {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    let at = format!("{at}/{}", pointer::segment(key));
                    if fits(value) {
                        found.push(at.clone());
                    }
                    open.push((at, value));
                }
            }
            Value::Array(items) => {
                open.extend(
                    items.iter().enumerate().map(|(at_item, it)| (format!("{at}/{at_item}"), it)),
                );
            }
            _ => {}
        }
    }
    found
}

fn other_type(value: &Value) -> Value {
    match value {
        Value::String(_) | Value::Null => json!(0),
        Value::Number(_) | Value::Bool(_) => value.to_string().into(),
        Value::Array(_) => json!({}),
        Value::Object(_) => json!([]),
    }
}

/// Returns another value of the same type; for null, a text.
///
/// A string becomes a different string that another case has at the same JSON pointer `place`, if there is one.
pub(crate) fn other_value(
    value: &Value,
    place: &str,
    others: &mut dyn Iterator<Item = Value>,
) -> Value {
    match value {
        Value::String(text) => {
            let mut known = others.filter_map(|it| it.pointer(place)?.as_str().map(str::to_owned));
            let other = known.find(|it| it != text);
            other.unwrap_or_else(|| changed(text)).into()
        }
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.wrapping_add(1).into(),
            None => number.as_f64().map_or(Value::Null, |it| (it + 1.0).into()),
        },
        Value::Bool(flag) => (!flag).into(),
        Value::Array(items) if items.is_empty() => json!(["other"]),
        Value::Array(_) => json!([]),
        Value::Object(map) if map.is_empty() => json!({"other": true}),
        Value::Object(_) => json!({}),
        Value::Null => json!("other"),
    }
}

/// Returns the text with another last digit. A text without digits gets the ending `_other`.
fn changed(text: &str) -> String {
    let other = crate::prose::other_number(text);
    if other == text { format!("{text}_other") } else { other }
}

/// Returns the execution with another JSON answer, both in the output and in the structured output.
fn with_json(execution: &Execution, value: &Value) -> Execution {
    let written: Option<Value> = serde_json::from_str(&execution.output).ok();
    let old = answer_json(execution);
    let is_output = written.is_some() && written == old;
    let output = match &execution.output_json {
        // If only structured output was recorded, `output` is the same value as text, so `output` changes too.
        Some(old) if execution.output == ecma::text(old) => ecma::text(value),
        _ if is_output && execution.output.contains('\n') => format!("{value:#}"),
        _ if is_output => value.to_string(),
        _ => execution.output.clone(),
    };
    with_output(execution, &output, execution.output_json.as_ref().map(|_| value.clone()))
}
