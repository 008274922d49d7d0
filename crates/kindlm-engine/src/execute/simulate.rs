//! Simulated tools, which answer the tool calls of a model.

use std::collections::HashMap;

use kindlm_types::{ActionStatus, ToolCall};
use serde_json::{Value, json};

use crate::{SimulatedAnswer, SimulatedResponse, SimulatedTool};

/// The state of the simulated tools in one execution.
///
/// Their answers may depend on earlier calls.
#[derive(Debug, Default)]
pub(super) struct Simulation {
    /// The number of uses of each response, by the indices of the tool and the response.
    given: HashMap<(usize, usize), usize>,
}

/// The answer of a simulated tool.
pub(super) struct Simulated {
    pub(super) answer: Value,
    pub(super) status: ActionStatus,
}

impl Simulation {
    /// Returns the answer to a tool call.
    ///
    /// The first tool with the called name answers, with its first matching `when`, or else with its default. A call
    /// that cannot be answered fails. Its result is an error object with the reason, for the model.
    pub(super) fn answer(&mut self, tools: &[SimulatedTool], call: &ToolCall) -> Simulated {
        let mut tools = tools.iter().enumerate();
        let Some((place, tool)) = tools.find(|(_, it)| it.spec.name == call.name) else {
            return Simulated { answer: call.not_simulated(), status: ActionStatus::Failed };
        };
        if call.malformed_arguments.is_some() {
            return error("Arguments are not valid JSON");
        }
        let mut responses = tool.responses.iter().enumerate();
        match responses.find(|(_, it)| matches(it, &call.arguments)) {
            Some((at, response)) => self.next((place, at), &response.answers),
            None => match &tool.default_response {
                Some(value) => Simulated { answer: value.clone(), status: ActionStatus::Completed },
                None => error("No matching simulation response"),
            },
        }
    }

    /// Returns the next of several answers and counts the use; the last answer repeats.
    fn next(&mut self, place: (usize, usize), answers: &[SimulatedAnswer]) -> Simulated {
        let given = self.given.entry(place).or_default();
        let answer = answers.get(*given).or(answers.last());
        *given += 1;
        match answer {
            Some(SimulatedAnswer { then, status }) => {
                Simulated { answer: then.clone(), status: *status }
            }
            None => error("No matching simulation response"),
        }
    }
}

fn error(message: &str) -> Simulated {
    Simulated { answer: json!({ "error": message }), status: ActionStatus::Failed }
}

fn matches(response: &SimulatedResponse, arguments: &Value) -> bool {
    response
        .when
        .iter()
        .all(|(key, expected)| arguments.get(key).is_some_and(|actual| equal(expected, actual)))
}

/// Returns true if two values are deeply equal.
///
/// The order of keys and the notation of numbers (`1`, `1.0`) do not matter. Two integers are compared exactly, even if
/// a float cannot hold them.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            x == y || (x.is_f64() || y.is_f64()) && x.as_f64() == y.as_f64()
        }
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y))
        }
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| equal(x, y)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_beyond_the_precision_of_floats_differ() {
        for (when, arguments, expected) in [
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_992_u64), false),
            (json!(9_007_199_254_740_993_u64), json!(9_007_199_254_740_993_u64), true),
            (json!([1, { "a": 2.0 }]), json!([1.0, { "a": 2 }]), true),
        ] {
            assert_eq!(equal(&when, &arguments), expected, "{when} and {arguments}");
        }
    }
}
