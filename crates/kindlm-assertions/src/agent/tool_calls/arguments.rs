//! The differences between the arguments of calls and the expected arguments.

use kindlm_schema::{Schema, Violation};
use kindlm_types::{Mismatch, ResultEvidence, ToolCall, ecma};
use serde_json::{Map, Value};

use crate::core::result_evidence::{self, differences, mismatch};
use crate::shared::compare;

/// The highest number of schema violations that are named per call.
const NAMED: usize = 20;

/// Returns the call with the fewest differences, and these differences.
///
/// If several calls have the fewest differences, the first of them is returned. Returns `None` without calls, or if a
/// call has no difference.
pub(super) fn closest<'a>(
    calls: &[&'a ToolCall],
    differences: impl Fn(&ToolCall) -> Vec<String>,
) -> Option<(&'a ToolCall, Vec<String>)> {
    let mut best: Option<(&ToolCall, Vec<String>)> = None;
    for call in calls {
        let found = differences(call);
        if found.is_empty() {
            return None;
        }
        // A call with unparsable arguments is chosen only if all calls have such arguments.
        let rank =
            |call: &ToolCall, found: &[String]| (call.malformed_arguments.is_some(), found.len());
        if best.as_ref().is_none_or(|(other, least)| rank(call, &found) < rank(other, least)) {
            best = Some((call, found));
        }
    }
    best
}

/// Returns one line per expected argument that is missing or differs; a single line if the arguments are not JSON.
pub(super) fn mismatches(call: &ToolCall, expected: &Map<String, Value>) -> Vec<String> {
    if let Some(raw) = &call.malformed_arguments {
        return vec![unreadable(raw)];
    }
    expected
        .iter()
        .filter_map(|(key, wanted)| {
            let found = call.arguments.get(key);
            let holds = found.is_some_and(|found| compare::contains(found, wanted));
            let found = found.map_or("undefined".to_owned(), ecma::stringify);
            (!holds).then(|| format!("{key}: expected {}, got {found}", ecma::stringify(wanted)))
        })
        .collect()
}

/// Returns one line per schema violation of the call's arguments; a single line if the arguments are not JSON.
///
/// At most [`NAMED`] violations are named.
pub(super) fn violations(call: &ToolCall, schema: &Schema) -> Vec<String> {
    match &call.malformed_arguments {
        Some(raw) => vec![unreadable(raw)],
        None => schema
            .violations(&call.arguments)
            .iter()
            .take(NAMED)
            .map(Violation::to_string)
            .collect(),
    }
}

/// Returns the evidence of a call whose arguments differ from the expected ones.
pub(super) fn mismatch_evidence(call: &ToolCall, expected: &Map<String, Value>) -> ResultEvidence {
    let mismatches = unreadable_mismatch(call).unwrap_or_else(|| {
        let none = Value::Object(Map::new());
        let actual = if call.arguments.is_object() { &call.arguments } else { &none };
        differences(&Value::Object(expected.clone()), actual, false)
    });
    result_evidence::call(&call.name, &call.id, mismatches)
}

/// Returns the evidence of a call whose arguments violate a schema.
pub(super) fn violation_evidence(call: &ToolCall, schema: &Schema) -> ResultEvidence {
    let of_schema = || result_evidence::violations(schema, &call.arguments);
    let mismatches = unreadable_mismatch(call).unwrap_or_else(of_schema);
    result_evidence::call(&call.name, &call.id, mismatches)
}

fn unreadable_mismatch(call: &ToolCall) -> Option<Vec<Mismatch>> {
    let raw = Value::from(call.malformed_arguments.clone()?);
    Some(vec![mismatch("", "valid JSON", Some(&raw))])
}

/// Returns the arguments for the metadata; arguments that are not JSON stay a text.
pub(super) fn as_sent(call: &ToolCall) -> Value {
    call.malformed_arguments.clone().map_or_else(|| call.arguments.clone(), Value::from)
}

fn unreadable(raw: &str) -> String {
    format!("the arguments are not valid JSON: {raw}")
}
