//! Answers the tool calls of a model in the place of the real tools.

use kindlm_types::ToolCall;
use serde_json::{Value, json};

use crate::{SimulatedResponse, SimulatedTool};

/// The answer to a tool call.
///
/// The first tool of that name answers: with the first `when` that matches, else with its default. An error
/// object tells the model what is wrong with a call that nobody can answer.
pub(super) fn answer(tools: &[SimulatedTool], call: &ToolCall) -> Value {
    let Some(tool) = tools.iter().find(|it| it.spec.name == call.name) else {
        return error(&format!("Tool \"{}\" not simulated", call.name));
    };
    if call.malformed_arguments.is_some() {
        return error("Arguments are not valid JSON");
    }
    let matching = tool.responses.iter().find(|it| matches(it, &call.arguments));
    match matching.map(|it| &it.then).or(tool.default_response.as_ref()) {
        Some(value) => value.clone(),
        None => error("No matching simulation response"),
    }
}

fn error(message: &str) -> Value {
    json!({ "error": message })
}

fn matches(response: &SimulatedResponse, arguments: &Value) -> bool {
    response
        .when
        .iter()
        .all(|(key, expected)| arguments.get(key).is_some_and(|actual| equal(expected, actual)))
}

/// Deep equality; the order of keys and the spelling of a number (`1`, `1.0`) do not matter.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y))
        }
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| equal(x, y)))
        }
        _ => a == b,
    }
}
