//! Harmful operators on the tool calls.

use kindlm_types::{Execution, ToolCall};
use kindlm_wire::mutation::MutatedEvidence;
use serde_json::{Value, json};

use crate::Original;
use crate::choice::Choice;
use crate::edit::{with_call, with_last_call, with_swapped_calls, without_call};
use crate::json::other_value;
use crate::operator::Operator;

/// The tool of an added call, if this case already calls all offered tools and all tools of other cases.
const FORBIDDEN: &str = "delete_account";

pub(crate) static TOOLS: [Operator; 6] = [
    Operator::harmful(
        MutatedEvidence::Tools,
        "drop-call",
        "removes a tool call",
        "no check requires this call: add the tool to `toolCalls`",
        |original, choice| {
            let execution = original.execution;
            without_call(execution, choice.index(execution.tool_calls.len()))
        },
    ),
    Operator::harmful(
        MutatedEvidence::Tools,
        "rename-call",
        "calls another tool with the same arguments",
        "no check requires this tool: add it to `toolCalls`",
        |original, choice| {
            let execution = original.execution;
            let at = choice.index(execution.tool_calls.len());
            let call = execution.tool_calls.get(at)?;
            let mut names =
                execution.tools.iter().map(|it| &it.name).filter(|it| **it != call.name);
            let name = names.next().cloned().unwrap_or_else(|| format!("{}_other", call.name));
            with_call(execution, at, ToolCall { name, ..call.clone() })
        },
    ),
    Operator::harmful(
        MutatedEvidence::Tools,
        "change-argument",
        "changes an argument of a tool call",
        "no check requires this argument: add `argsMatch` to the tool in `toolCalls`",
        change_argument,
    ),
    Operator::harmful(
        MutatedEvidence::Tools,
        "swap-calls",
        "swaps two neighbouring tool calls",
        "no check requires the order: add `order` to the tools in `toolCalls`, or ignore this operator if the order is free",
        |original, choice| {
            let execution = original.execution;
            let pairs = execution.tool_calls.windows(2).enumerate();
            let different = pairs.filter(|(_, it)| !matches!(it, [a, b] if is_equal(a, b)));
            let places: Vec<usize> = different.map(|(at, _)| at).collect();
            with_swapped_calls(execution, *choice.pick(&places)?)
        },
    ),
    Operator::harmful(
        MutatedEvidence::Tools,
        "repeat-call",
        "repeats a tool call",
        "no check limits the calls: add `max-tool-calls`, or `tool-trajectory`",
        |original, choice| {
            let call = choice.pick(&original.execution.tool_calls)?;
            let id = unused_id(original.execution, "repeated");
            Some(with_last_call(original.execution, &ToolCall { id, ..call.clone() }))
        },
    ),
    Operator::harmful(
        MutatedEvidence::Tools,
        "add-call",
        "adds a call of a tool that the case does not use",
        "no check forbids this call: add the tool with `shouldNotCall` to `toolCalls`, or `max-tool-calls`",
        add_call,
    ),
];

/// Returns true if two calls have the same tool and the same arguments, so that swapping the calls changes nothing.
fn is_equal(a: &ToolCall, b: &ToolCall) -> bool {
    a.name == b.name && a.arguments == b.arguments && a.malformed_arguments == b.malformed_arguments
}

fn change_argument(original: &Original<'_>, choice: &mut Choice) -> Option<Execution> {
    let execution = original.execution;
    let mut places = Vec::new();
    for (at, call) in execution.tool_calls.iter().enumerate() {
        let keys = call.arguments.as_object().into_iter().flat_map(|it| it.keys());
        places.extend(keys.map(|key| (at, key)));
    }
    let (at, key) = *choice.pick(&places)?;
    let mut call = execution.tool_calls.get(at)?.clone();
    let slot = call.arguments.get_mut(key)?;
    *slot = other_value(slot, "", &mut std::iter::empty::<Value>());
    with_call(execution, at, call)
}

fn add_call(original: &Original<'_>, choice: &mut Choice) -> Option<Execution> {
    let execution = original.execution;
    // An agent without tools cannot call a tool.
    if execution.tools.is_empty() && execution.tool_calls.is_empty() {
        return None;
    }
    let is_new = |it: &&str| execution.tool_calls.iter().all(|call| call.name != **it);
    let mut offered = execution.tools.iter().map(|it| it.name.as_str());
    let mut called =
        original.other_cases(choice).flat_map(|it| &it.tool_calls).map(|it| it.name.as_str());
    let name = offered.find(is_new).or_else(|| called.find(is_new)).unwrap_or(FORBIDDEN);
    let call = ToolCall {
        id: unused_id(execution, "added"),
        name: name.to_owned(),
        arguments: json!({}),
        response: Some(json!({"ok": true})),
        ..ToolCall::default()
    };
    Some(with_last_call(execution, &call))
}

/// Returns an id that no call has: `start` and the lowest unused number from 1.
fn unused_id(execution: &Execution, start: &str) -> String {
    let is_used = |id: &String| execution.tool_calls.iter().any(|it| it.id == *id);
    let mut ids = (1_usize..).map(|number| format!("{start}-{number}"));
    ids.find(|id| !is_used(id)).unwrap_or_default()
}
