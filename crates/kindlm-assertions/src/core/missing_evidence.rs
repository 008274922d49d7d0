//! Handling of outputs that were not recorded.
//!
//! The output of an execution is the agent's answer, and it is empty if the agent gave no answer. But some sources do
//! not record the answer. A record may have tool calls only, and instrumentations record texts only on request. Then an
//! empty output proves nothing.

use kindlm_types::{AssertionResult, Channel, Event, Execution, Speaker, ToolCall, Verdict};
use serde_json::Value;

use crate::core::codes::EVIDENCE_MISSING;
use crate::core::gap::Gap;
use crate::core::recorded::Source;

/// Returns the reason why an output is not known, with advice for the user.
pub(crate) fn no_output(execution: &Execution) -> String {
    let advice = Source::from_execution(execution).declares(Channel::Messages);
    format!("the source recorded no output, and did not declare all messages recorded; {advice}")
}

/// Returns true if the output of an execution was not recorded.
///
/// This holds in two cases:
///
/// - The record is known to be incomplete, so the last message may be missing.
/// - The output is empty, and the source does not record all messages.
pub(crate) fn is_output_missing(execution: &Execution) -> bool {
    !execution.completeness.gaps.is_empty()
        || (execution.output.is_empty()
            && execution.output_json.is_none()
            && !execution.is_complete_for(Channel::Messages))
}

/// Returns the reason why tool calls may be missing; `None` if all tool calls are recorded.
///
/// Without a complete record, the absence of a call proves nothing.
pub(crate) fn missing_calls(execution: &Execution) -> Option<String> {
    if execution.is_complete_for(Channel::Actions) {
        return None;
    }
    Some(match execution.trace {
        None => Gap::incomplete(execution, Channel::Actions).describe(),
        Some(_) => "the spans may not show all tool calls: configure the instrumentation to record tools or model \
            answers"
            .to_owned(),
    })
}

/// Returns true if spans show a tool call without its arguments.
///
/// `input` is the input of the call's event. Instrumentations record arguments only if the user enables this.
pub(crate) fn is_input_missing(execution: &Execution, input: &Value) -> bool {
    execution.trace.is_some() && input.is_null()
}

/// Returns true if spans show this call without its arguments.
///
/// `call.arguments` may then be an empty object.
pub(crate) fn are_arguments_missing(execution: &Execution, call: &ToolCall) -> bool {
    let is_it = |it: &Event| {
        matches!(it, Event::ActionCalled { call_id, name, input, .. }
            if is_input_missing(execution, input) && *call_id == call.id && *name == call.name)
    };
    call.malformed_arguments.is_none()
        && (is_input_missing(execution, &call.arguments)
            || execution.recorded_events.iter().any(is_it))
}

/// Returns the errored result of a check whose output was not recorded.
///
/// `takes_on` is true if `on` could select another value for the check.
pub(crate) fn missing_output(
    id: &str,
    label: Option<&str>,
    execution: &Execution,
    takes_on: bool,
) -> Vec<AssertionResult> {
    if let (None, Some(why)) = (execution.completeness.gaps.first(), execution.incomplete_output())
    {
        let mut result = AssertionResult::pass(id, label.unwrap_or(id));
        mark_incomplete(&why, &mut result);
        return vec![result];
    }
    let message = match (&execution.trace, execution.completeness.gaps.first()) {
        (Some(_), Some(gap)) => {
            format!("the output is unknown, because the trace is incomplete: {gap}")
        }
        (None, Some(gap)) => {
            format!("the output is unknown, because the conversation is incomplete: {gap}")
        }
        (Some(_), None) => "the spans do not contain the agent's texts: configure its instrumentation to record them \
            (`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true` for OpenTelemetry's own), or name the \
            attribute in `trace.spanMapping.outputTextAttr`"
            .to_owned(),
        (None, None) => format!("the output is unknown: {}", no_output(execution)),
    };
    let message = match execution.completeness.gaps.first() {
        None if takes_on => format!("{message}; to check another value, name it with `on`"),
        _ => message,
    };
    vec![AssertionResult::errored(id, label.unwrap_or(id), EVIDENCE_MISSING, message)]
}

/// Returns true if no act of a program or agent was recorded: no output, no call, no other event.
///
/// User messages and token counts are not acts.
pub(crate) fn did_nothing(execution: &Execution) -> bool {
    let is_act = |it: &Event| {
        !matches!(it, Event::Message { role: Speaker::User, .. } | Event::Usage { .. })
    };
    execution.output.is_empty()
        && execution.output_json.is_none()
        && execution.tool_calls.is_empty()
        && !execution.recorded_events.iter().any(is_act)
}

/// Returns the reason why no check of the output can pass, if a program ended without any act.
///
/// Without this rule, every negative check would hold. The exit code is not an output.
pub(crate) fn no_act_reason(execution: &Execution) -> Option<String> {
    let code = execution.exit_code().filter(|_| did_nothing(execution))?;
    let last = execution.stderr().trim().lines().next_back().unwrap_or_default();
    let last: String = last.chars().take(200).collect();
    let words = if last.is_empty() { String::new() } else { format!("; on stderr: {last}") };
    Some(format!(
        "the program ended with exit code {code} and without output{words}, so no check of its output can pass; use \
         `on: exitCode` to check the exit code"
    ))
}

/// Makes a result errored, because the missing part of the answer could change it.
pub(crate) fn mark_incomplete(why: &str, result: &mut AssertionResult) {
    let message =
        format!("the answer is incomplete, and its missing part may change the verdict: {why}");
    (result.score, result.reasoning) = (None, None);
    result.verdict = Verdict::Errored { code: EVIDENCE_MISSING, message };
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_types::{Completeness, Coverage, Trace};

    #[test]
    fn empty_outputs_count_only_with_complete_messages() {
        let traced = || Execution {
            trace: Some(Box::new(Trace::default())),
            completeness: Completeness {
                coverage: Coverage::Only(std::collections::BTreeSet::new()),
                ..Completeness::default()
            },
            ..Execution::default()
        };
        let said = Execution { output: "yes".to_owned(), ..traced() };
        let silent = Execution {
            completeness: Completeness { coverage: Coverage::Complete, ..traced().completeness },
            ..traced()
        };
        let recorded = Execution { trace: None, ..traced() };
        let command = Execution {
            trace: None,
            completeness: Completeness {
                coverage: [Channel::Messages].into_iter().collect(),
                ..Completeness::default()
            },
            ..Execution::default()
        };
        let lost = Execution {
            completeness: Completeness {
                gaps: vec!["a request was refused".to_owned()],
                ..said.completeness.clone()
            },
            ..said.clone()
        };
        for (execution, expected) in [
            (traced(), true),
            (said, false),
            (silent, false),
            (recorded, true),
            (command, false),
            (lost, true),
        ] {
            assert_eq!(is_output_missing(&execution), expected, "{execution:?}");
        }
    }
}
