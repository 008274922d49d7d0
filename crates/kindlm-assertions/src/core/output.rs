//! The output and the prompt of an execution as JSON values.

use kindlm_types::{CallForm, Channel, Coverage, Execution, Message, Role, ToolCall, ecma};
use serde_json::{Value, json};

/// Returns the output as the value that scripts get.
///
/// The output is a text, structured output, or the tool calls of a model that wrote no text.
pub(crate) fn output_value(execution: &Execution) -> Value {
    match &execution.output_json {
        // A command may declare structured output that differs from its text. The text is then the output.
        Some(value) if execution.output.is_empty() || is_text_of(value, &execution.output) => {
            value.clone()
        }
        _ if execution.output.is_empty() && !execution.tool_calls.is_empty() => {
            CallForm::Openai.output("", &execution.tool_calls)
        }
        _ => Value::String(execution.output.clone()),
    }
}

/// Returns the output of a model before any transform.
///
/// With `calls`, all tool calls become the output, in this format. With `None`, tool calls are the output only if the
/// model wrote no text.
pub fn output_of_model(execution: &Execution, calls: Option<CallForm>) -> Value {
    let called = calls.and_then(|form| calls_value(form, execution));
    called.unwrap_or_else(|| output_value(execution))
}

/// Returns the tool calls as the output; `None` if the output stays the same.
///
/// Structured output without text, such as OpenAI's older `function_call`, is returned as it is.
pub(crate) fn calls_value(form: CallForm, execution: &Execution) -> Option<Value> {
    match &execution.output_json {
        Some(value) if execution.output.is_empty() => Some(value.clone()),
        _ => {
            let calls = execution.tool_calls.iter().filter(|it| !is_hosted(it, execution));
            let calls: Vec<ToolCall> = calls.cloned().collect();
            (!calls.is_empty()).then(|| form.output(&execution.output, &calls))
        }
    }
}

/// Returns true for a call of a hosted tool, which the API of the model ran itself. Such a call is not part of the
/// output.
///
/// Only the API of a model has hosted tools. Such an API records everything, except possibly the usage. Calls that the
/// suite answers are not hosted.
fn is_hosted(call: &ToolCall, execution: &Execution) -> bool {
    let coverage = &execution.completeness.coverage;
    let is_of_api =
        *coverage == Coverage::Complete || *coverage == Coverage::Complete.without(Channel::Usage);
    is_of_api
        && call.response.as_ref().is_some_and(|it| *it != call.not_simulated())
        && !execution.tools.iter().any(|it| it.name == call.name)
}

/// Returns true if a text is this value as JSON and nothing else.
fn is_text_of(value: &Value, text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|it| it == *value)
}

/// Returns the prompt as text: a single user message, else all messages as JSON.
///
/// Returns `None` if no message is recorded.
pub(crate) fn prompt(input: &[Message]) -> Option<Value> {
    match input {
        [] => None,
        [only] if only.role == Role::User => Some(json!(only.content)),
        several => serde_json::to_value(several).ok().map(|it| json!(ecma::stringify(&it))),
    }
}

#[cfg(test)]
mod tests {
    use kindlm_types::ToolSpec;

    use super::*;

    fn call(name: &str, response: Option<Value>) -> ToolCall {
        ToolCall { name: name.to_owned(), arguments: json!({}), response, ..ToolCall::default() }
    }

    #[test]
    fn calls_of_hosted_tools_are_no_output() {
        let found = call("web_search", Some(Value::Null));
        let mut execution = Execution { output: "Found.".to_owned(), ..Execution::default() };
        execution.tool_calls = vec![found.clone()];
        assert_eq!(output_of_model(&execution, Some(CallForm::Anthropic)), "Found.");
        // An API that reports no usage.
        execution.completeness.coverage = Coverage::Complete.without(Channel::Usage);
        assert_eq!(output_of_model(&execution, Some(CallForm::Anthropic)), "Found.");
        execution.tool_calls = vec![found, call("remember", None)];
        let output = output_of_model(&execution, Some(CallForm::Anthropic));
        let expected =
            "Found.\n\n{\"type\":\"tool_use\",\"id\":\"\",\"name\":\"remember\",\"input\":{}}";
        assert_eq!(output, expected);
    }

    #[test]
    fn calls_that_the_suite_answered_are_output() {
        let deleted = call("delete_user", Some(json!({"ok": true})));
        let unknown = call("delete_user", None);
        let refused = ToolCall { response: Some(unknown.not_simulated()), ..unknown };
        let spec: ToolSpec = serde_json::from_value(json!({"name": "delete_user"})).unwrap();
        let simulated = Execution {
            tool_calls: vec![deleted.clone()],
            tools: vec![spec],
            ..Execution::default()
        };
        let not_offered = Execution { tool_calls: vec![refused], ..Execution::default() };
        let mut of_program = Execution { tool_calls: vec![deleted], ..Execution::default() };
        of_program.completeness.coverage = Coverage::Only([].into());
        for mut execution in [simulated, not_offered, of_program] {
            "Done.".clone_into(&mut execution.output);
            let output = output_of_model(&execution, Some(CallForm::Openai));
            assert_eq!(output["tool_calls"][0]["function"]["name"], "delete_user", "{output}");
        }
    }
}
