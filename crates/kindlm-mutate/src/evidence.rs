//! The evidence that operators change: its completeness, and its text for reports.

use kindlm_types::{Channel, Event, Execution, Speaker, ToolCall};
use kindlm_wire::mutation::MutatedEvidence;

/// Returns the reason why evidence cannot be changed; `None` if the evidence can be changed.
///
/// Incomplete evidence is not changed, because its mutants would not show how strong the checks are.
pub fn unusable(evidence: MutatedEvidence, execution: &Execution) -> Option<String> {
    match evidence {
        MutatedEvidence::Text | MutatedEvidence::Json => unusable_answer(execution),
        MutatedEvidence::Tools => unusable_calls(execution),
        MutatedEvidence::Files => unusable_files(execution),
    }
}

fn unusable_answer(execution: &Execution) -> Option<String> {
    if let Some(why) = execution.known_missing(Channel::Messages) {
        return Some(format!("the answer is incomplete: {why}"));
    }
    let mut messages = execution.recorded_events.iter().filter_map(|it| match it {
        Event::Message { role: Speaker::Assistant, text } => Some(text),
        _ => None,
    });
    let last = messages.next_back()?;
    (*last != execution.output)
        .then(|| "the last message in the events is not the output".to_owned())
}

fn unusable_calls(execution: &Execution) -> Option<String> {
    if let Some(why) = execution.known_missing(Channel::Actions) {
        return Some(format!("the tool calls are incomplete: {why}"));
    }
    (!execution.is_complete_for(Channel::Actions))
        .then(|| "the tool calls are not recorded completely".to_owned())
}

fn unusable_files(execution: &Execution) -> Option<String> {
    let workspace = execution.workspace.as_deref()?;
    if workspace.is_cut() {
        return Some("a changed file was too large to be recorded".to_owned());
    }
    (!workspace.commands.is_empty() || !workspace.tests.is_empty()).then(|| {
        "commands ran in the workspace, and their results cannot be repeated offline".to_owned()
    })
}

/// Returns one kind of evidence as text. Reports use it for the diff between an execution and its mutant.
pub fn shown(evidence: MutatedEvidence, execution: &Execution) -> String {
    match evidence {
        MutatedEvidence::Text => execution.output.clone(),
        MutatedEvidence::Json => match answer_json(execution) {
            Some(value) => format!("{value:#}"),
            None => execution.output.clone(),
        },
        MutatedEvidence::Tools => lines(execution.tool_calls.iter().map(call)),
        MutatedEvidence::Files => {
            let changes = execution.workspace.iter().flat_map(|it| &it.changes);
            lines(changes.map(|it| {
                let content = it.patch.as_deref().or(it.text.as_deref()).unwrap_or_default();
                format!("{}\n{content}", it.marked())
            }))
        }
    }
}

fn call(call: &ToolCall) -> String {
    let arguments = call.malformed_arguments.clone();
    format!("{}({})", call.name, arguments.unwrap_or_else(|| call.arguments.to_string()))
}

fn lines(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join("\n")
}

/// Returns the structured output, or else the output as JSON; `None` if the output is not a JSON object or list.
pub(crate) fn answer_json(execution: &Execution) -> Option<serde_json::Value> {
    let written = || {
        let value: serde_json::Value = serde_json::from_str(&execution.output).ok()?;
        (value.is_object() || value.is_array()).then_some(value)
    };
    execution.output_json.clone().or_else(written)
}
