//! Validation of a model's calls against the tools that it was offered.

use kindlm_schema::Schema;
use kindlm_types::{AssertionResult, Execution, ResultEvidence, ToolSpec, ecma};
use serde_json::{Value, json};

use crate::EntryOptions;
use crate::core::codes::EVIDENCE_MISSING;
use crate::core::grade::{Grade, PASSED};
use crate::core::missing_evidence::missing_calls;
use crate::core::recorded::structured;
use crate::core::result_evidence::{absent, call, mismatch, trajectory, violations};

/// A call with its name and arguments.
///
/// If the arguments are not JSON, `arguments` is an error with the original text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    name: String,
    arguments: Result<Value, String>,
}

impl Call {
    fn new(name: &str, arguments: &Value) -> Self {
        let arguments = match arguments {
            Value::String(text) => serde_json::from_str(text).map_err(|_| text.clone()),
            Value::Null => Ok(json!({})),
            other => Ok(other.clone()),
        };
        Self { name: name.to_owned(), arguments }
    }

    /// Reads a call from an object with a name, and arguments under one of these keys.
    ///
    /// Returns `None` if the name or the arguments are missing.
    fn from_object(value: &Value, keys: &[&str]) -> Option<Self> {
        let name = value.get("name")?.as_str()?;
        let arguments = keys.iter().find_map(|it| value.get(*it))?;
        Some(Self::new(name, arguments))
    }

    /// Returns the reason why the call does not fit the tools; `None` if it fits.
    ///
    /// The wording follows promptfoo. Fails if the schema of the tool cannot be compiled.
    fn fault(&self, tools: &[ToolSpec]) -> Result<Option<String>, String> {
        let name = &self.name;
        let arguments = match &self.arguments {
            Ok(arguments) => arguments,
            Err(text) => {
                return Ok(Some(format!(
                    "Call to \"{name}\" has arguments that are not JSON: {text}"
                )));
            }
        };
        let Some(tool) = tools.iter().find(|it| it.name == *name) else {
            return Ok(Some(format!("Called \"{name}\", but there is no function with that name")));
        };
        let Some(parameters) = &tool.parameters else { return Ok(None) };
        let schema = Schema::compile(parameters)
            .map_err(|err| format!("the schema of the tool `{name}` cannot be used: {err}"))?;
        let errors = schema.first_as_ajv_json(arguments);
        Ok(errors.map(|it| {
            format!("Call to \"{name}\" does not match schema: {}", ecma::stringify(&it))
        }))
    }
}

/// The calls in the output, for executions without recorded calls.
pub(crate) struct InOutput<'a> {
    /// The part of the output that should contain calls.
    pub(crate) value: &'a Value,
    /// The parsed calls; `None` if the output has no calls.
    pub(crate) calls: Option<Vec<Call>>,
    /// The start of the failure message if there are no calls.
    pub(crate) nothing: &'a str,
}

/// Checks the recorded calls, or the calls in the output if none were recorded.
pub(crate) fn result(
    id: &str,
    label: &str,
    execution: &Execution,
    output: InOutput<'_>,
    negate: bool,
) -> AssertionResult {
    let label = &EntryOptions { negate, threshold: None }.label(label);
    let errored = |message: String| AssertionResult::errored(id, label, EVIDENCE_MISSING, message);
    let seen = recorded_calls(execution);
    let are_seen = !seen.is_empty();
    let calls = if are_seen { Some(seen) } else { output.calls };
    // Calls that were parsed from the output count as complete.
    let may_be_more = missing_calls(execution).filter(|_| are_seen || calls.is_none());
    let fault = match &calls {
        Some(calls) => match misfit(execution, calls) {
            Ok(fault) => fault,
            Err(message) => return errored(message),
        },
        None if may_be_more.is_some() => None,
        None => Some(format!("{}: {}", output.nothing, ecma::stringify(output.value))),
    };
    if let Some(why) = may_be_more.filter(|_| fault.is_none()) {
        return errored(format!("the tool calls are incomplete: {why}"));
    }
    let pass = fault.is_none() != negate;
    let reason = match (pass, fault) {
        (true, _) => PASSED.to_owned(),
        (false, Some(fault)) => fault,
        (false, None) => "The calls match the schemas of their functions".to_owned(),
    };
    let evidence = || match calls.as_deref() {
        Some(calls) if negate => trajectory([""; 0], calls.iter().map(|it| it.name.as_str())),
        Some(calls) => misfit_evidence(execution, calls),
        None => absent(["a function call"]),
    };
    Grade::with(pass, reason).result(id, label).with_failure_evidence(|| [evidence()])
}

/// Returns the evidence of the first call that does not fit its tool.
fn misfit_evidence(execution: &Execution, calls: &[Call]) -> ResultEvidence {
    let is_misfit = |it: &&Call| !matches!(it.fault(&execution.tools), Ok(None));
    let Some(misfit) = calls.iter().find(is_misfit) else { return absent(["a function call"]) };
    let name = &misfit.name;
    let Some(tool) = execution.tools.iter().find(|it| it.name == *name) else {
        let known = execution.tools.iter().map(|it| it.name.as_str());
        return trajectory(known, calls.iter().map(|it| it.name.as_str()));
    };
    let schema = tool.parameters.as_ref().and_then(|it| Schema::compile(it).ok());
    let mismatches = match (&misfit.arguments, schema) {
        (Ok(arguments), Some(schema)) => violations(&schema, arguments),
        (Err(text), _) => vec![mismatch("", "valid JSON", Some(&json!(text)))],
        (Ok(_), None) => Vec::new(),
    };
    // `Call` has no id, so the id comes from the recorded call with the same name and arguments.
    let recorded = recorded_calls(execution)
        .iter()
        .position(|it| it.name == *name && it.arguments == misfit.arguments);
    let id = recorded.and_then(|at| execution.tool_calls.get(at)).map_or("", |it| it.id.as_str());
    call(name, id, mismatches)
}

/// Returns the recorded calls of the execution.
fn recorded_calls(execution: &Execution) -> Vec<Call> {
    let calls = execution.tool_calls.iter().map(|it| Call {
        name: it.name.clone(),
        arguments: match &it.malformed_arguments {
            Some(text) => Err(text.clone()),
            None if it.arguments.is_null() => Ok(json!({})),
            None => Ok(it.arguments.clone()),
        },
    });
    calls.collect()
}

/// Returns the calls of a list in OpenAI's format.
///
/// Each item has `function.name`, and `function.arguments` as text. Returns `None` for an empty list and for any other
/// value.
pub(crate) fn listed(value: &Value) -> Option<Vec<Call>> {
    let items = value.as_array().filter(|it| !it.is_empty())?;
    let call = |it: &Value| {
        let function = it.get("function")?;
        function.get("arguments")?.as_str()?;
        Call::from_object(function, &["arguments"])
    };
    items.iter().map(call).collect()
}

/// Returns the calls in a value, in the formats of OpenAI, Google and Anthropic.
///
/// Returns `None` if the value has no calls.
pub(crate) fn any(value: &Value) -> Option<Vec<Call>> {
    if let Value::Array(items) = value {
        let calls: Vec<Call> = items.iter().filter_map(any).flatten().collect();
        return Some(calls).filter(|it| !it.is_empty());
    }
    if let Some(inner) = value.get("tool_calls") {
        return any(inner);
    }
    let wrapped = ["function_call", "functionCall", "function"];
    let inner = wrapped.iter().find_map(|it| value.get(*it)).unwrap_or(value);
    Call::from_object(inner, &["arguments", "args", "input"]).map(|it| vec![it])
}

/// Returns the structured output, else the output text as a JSON string.
pub(crate) fn output(execution: &Execution) -> Value {
    structured(execution).cloned().unwrap_or_else(|| json!(execution.output))
}

/// Returns the problem of the first call that does not fit its tool; `None` if all calls fit.
///
/// The error is the reason why the check cannot be decided.
fn misfit(execution: &Execution, calls: &[Call]) -> Result<Option<String>, String> {
    if execution.tools.is_empty() {
        let message =
            "the offered tools were not recorded: add `tools` to the test or to the record";
        return Err(message.to_owned());
    }
    for call in calls {
        let fault = call.fault(&execution.tools)?;
        if fault.is_some() {
            return Ok(fault);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_in_the_forms_of_the_vendors() {
        for value in [
            json!({"name": "f", "arguments": "{\"a\":1}"}),
            json!({"function_call": {"name": "f", "arguments": "{\"a\":1}"}}),
            json!([{"function": {"name": "f", "arguments": "{\"a\":1}"}}]),
            json!({"content": "x", "tool_calls": [{"function": {"name": "f", "arguments": "{\"a\":1}"}}]}),
            json!([{"text": "hm"}, {"functionCall": {"name": "f", "args": {"a": 1}}}]),
            json!([{"type": "tool_use", "name": "f", "input": {"a": 1}}]),
        ] {
            let expected = Call { name: "f".to_owned(), arguments: Ok(json!({"a": 1})) };
            assert_eq!(any(&value), Some(vec![expected]), "{value}");
        }
        for value in [json!("f"), json!([]), json!({"name": "f"}), json!([{"text": "hm"}])] {
            assert_eq!(any(&value), None, "{value}");
        }
    }
}
