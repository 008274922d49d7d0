//! Access to the recorded facts of an execution.
//!
//! KindLM's own fields take precedence, then `metadata`, then the provider's own response, which has promptfoo's keys.

use std::borrow::Cow;

use kindlm_types::{AssertionResult, Channel, CheckedText, Event, Execution, Speaker, Trace, ecma};
use serde_json::{Map, Value};

use crate::core::codes::EVIDENCE_MISSING;
use crate::core::result_evidence::other;

/// Returns the errored result of a check without evidence. `message` includes the advice.
pub(crate) fn missing(assertion: &str, label: &str, message: &str) -> Vec<AssertionResult> {
    vec![AssertionResult::errored(assertion, label, EVIDENCE_MISSING, message)]
}

/// Returns all texts that the agent wrote for the user. An answer that equals an earlier text is left out.
///
/// Each text has the label of its turn, if it has a turn. The sources are the messages beside tool calls, the answers,
/// and the structured output.
pub(crate) fn written_texts(execution: &Execution) -> Vec<(Option<&str>, Cow<'_, str>)> {
    let turns = &execution.turns;
    let mut texts: Vec<(Option<&str>, Cow<'_, str>)> = Vec::new();
    for (at, event) in execution.recorded_events.iter().enumerate() {
        if let Event::Message { role: Speaker::Assistant, text } = event {
            let turn = turns.iter().find(|it| it.events.contains(&at));
            texts.push((turn.map(|it| it.label.as_str()), Cow::Borrowed(text)));
        }
    }
    // An answer that was recorded in several pieces is also searched as a whole.
    let answers = turns.iter().map(|it| (Some(it.label.as_str()), &it.text, &it.output_json));
    let last = (None, &execution.output, &execution.output_json);
    for (label, text, value) in answers.chain([last]) {
        let value = value.as_ref().map(|it| Cow::Owned(ecma::stringify(it)));
        for text in [Some(Cow::Borrowed(text.as_str())), value].into_iter().flatten() {
            if !texts.iter().any(|(_, it)| it.trim() == text.trim()) {
                texts.push((label, text));
            }
        }
    }
    texts
}

/// Identifies a text of [`written_texts`] for the evidence of a result.
pub(crate) fn checked_text(execution: &Execution, turn: Option<&str>, text: &str) -> CheckedText {
    match turn {
        _ if text == execution.output => CheckedText::Output,
        Some(turn) => other(format!("turn `{turn}`")),
        None => other("a message of the agent"),
    }
}

/// Returns a value of the provider's response; `None` if it is missing or `null`.
pub(crate) fn reported<'a>(execution: &'a Execution, key: &str) -> Option<&'a Value> {
    execution.provider_response.as_ref()?.get(key).filter(|it| !it.is_null())
}

/// Returns a value of the metadata; `None` if it is missing or `null`.
///
/// The metadata of the execution takes precedence over the metadata of the provider's response.
pub(crate) fn metadata<'a>(execution: &'a Execution, key: &str) -> Option<&'a Value> {
    let own = execution.metadata.get(key).filter(|it| !it.is_null());
    own.or_else(|| reported(execution, "metadata")?.get(key).filter(|it| !it.is_null()))
}

/// Returns the log probabilities of the answer's tokens; `None` without log probabilities.
pub(crate) fn log_probs(execution: &Execution) -> Option<Cow<'_, [f64]>> {
    let own = execution.log_probs.as_deref().map(Cow::Borrowed);
    let probs = own.or_else(|| {
        let list = reported(execution, "logProbs")?.as_array()?;
        Some(Cow::Owned(list.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>()?))
    });
    probs.filter(|it| !it.is_empty())
}

/// The reason why a check of probabilities cannot be decided.
pub(crate) const NO_LOG_PROBS: &str = "the probabilities of the answer's tokens were not recorded: set `logprobs: \
    true` for the provider, or add `log_probs` to the record";

/// Returns the trace; a missing or incomplete trace gives an errored result.
pub(crate) fn whole_trace<'a>(
    execution: &'a Execution,
    assertion: &str,
    label: &str,
) -> Result<&'a Trace, Vec<AssertionResult>> {
    let Some(trace) = &execution.trace else { return Err(missing(assertion, label, NO_TRACE)) };
    match execution.completeness.gaps.first() {
        None => Ok(trace),
        Some(gap) => Err(missing(assertion, label, &format!("the trace is incomplete: {gap}"))),
    }
}

/// Describes the first unsupported part of the evidence.
///
/// An unsupported part makes all evidence incomplete. The description names an output line of an agent, or a part of a
/// transcript or trace by type and place. Returns `None` if all parts are supported.
pub(crate) fn unsupported_part(execution: &Execution) -> Option<String> {
    let part = execution.completeness.unsupported.first()?;
    Some(format!("{part}, so any evidence may be missing"))
}

/// Returns the reason why evidence of a kind is missing; `None` if no reason is known.
///
/// If the reason is known, the source cannot declare the evidence complete.
pub(crate) fn known_missing(execution: &Execution, channel: Channel) -> Option<String> {
    let why = execution.known_missing(channel)?;
    let unsupported =
        unsupported_part(execution).filter(|_| execution.completeness.gaps.is_empty());
    Some(unsupported.unwrap_or_else(|| why.into_owned()))
}

/// Returns the end of a sentence: the reason for missing evidence, or the advice to declare the evidence complete.
pub(crate) fn missing_evidence_advice(execution: &Execution, channel: Channel) -> String {
    if let Some(why) = known_missing(execution, channel) {
        return format!(": {why}");
    }
    format!("; {}", Source::from_execution(execution).declares(channel))
}

/// The source of the evidence, which decides who can declare the evidence complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A program that a test runs, which uses the protocol of `command`.
    Program,
    /// A record that was made elsewhere.
    Record,
    /// Spans of a trace.
    Spans,
    /// A model behind a provider, or an agent.
    Recorded,
}

impl Source {
    pub(crate) fn from_execution(execution: &Execution) -> Self {
        match execution.model.as_str() {
            _ if execution.trace.is_some() => Self::Spans,
            "command" => Self::Program,
            "" | "transcript" => Self::Record,
            _ => Self::Recorded,
        }
    }

    /// Returns the advice on how to declare that all evidence of a kind was recorded.
    pub(crate) fn declares(self, channel: Channel) -> String {
        let word = channel.as_str();
        match self {
            Self::Program => format!(
                "if nothing is missing, let the program print {{\"kindlm\":\"evidence\",\"complete\":[\"{word}\"]}}, \
                 or add `evidence: {{ complete: [{word}] }}` to the test"
            ),
            Self::Record => {
                format!("if nothing is missing, add `complete_for: [{word}]` to the record")
            }
            Self::Spans => format!(
                "if the spans show all of them, add `trace: {{ evidence: {{ complete: [{word}] }} }}` to the suite"
            ),
            Self::Recorded => format!(
                "if nothing is missing, add `evidence: {{ complete: [{word}] }}` to the test, its agent, or a \
                 provider that wraps an agent"
            ),
        }
    }
}

/// The reason why a check of spans cannot be decided.
const NO_TRACE: &str =
    "the execution has no trace: add `trace` to the record, or test the agent with `kindlm trace`";

/// Returns the perplexity: e to the power of the negated mean log probability.
pub(crate) fn perplexity(log_probs: &[f64]) -> f64 {
    let count = u32::try_from(log_probs.len()).map_or(f64::INFINITY, f64::from);
    (-(log_probs.iter().sum::<f64>() / count)).exp()
}

/// Returns true if the tool calls of an execution are known.
///
/// The tool calls are known if at least one call is recorded. They are also known if the source is a provider or a
/// program, because such a source would record a call.
pub(crate) fn knows_tool_calls(execution: &Execution) -> bool {
    !execution.tool_calls.is_empty() || execution.requests > 0 || execution.exit_code().is_some()
}

/// Returns the structured output if it is the whole output; `None` if the output is a text.
pub(crate) fn structured(execution: &Execution) -> Option<&Value> {
    let value = execution.output_json.as_ref()?;
    // A command may declare structured output that differs from its text. The text is then the output.
    let is_all = execution.output.is_empty() || execution.output == ecma::stringify(value);
    (is_all && !value.is_string()).then_some(value)
}

/// Returns the result of the provider's own filter; `None` if it is not recorded.
///
/// The keys of the result are `flagged`, `flaggedInput`, `flaggedOutput` and `reason`.
pub(crate) fn guardrails(execution: &Execution) -> Option<&Map<String, Value>> {
    metadata(execution, "guardrails")
        .or_else(|| reported(execution, "guardrails"))
        .or_else(|| {
            let history = metadata(execution, "redteamHistory")?.as_array()?;
            history.last()?.get("guardrails")
        })
        .and_then(Value::as_object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn own_fields_precede_metadata_and_provider_reports() {
        let execution = Execution {
            metadata: json!({"a": 1, "b": null}).as_object().cloned().unwrap_or_default(),
            provider_response: Some(json!({"metadata": {"a": 2, "b": 3}, "logProbs": [-1, -2.5]})),
            ..Execution::default()
        };
        assert_eq!(metadata(&execution, "a"), Some(&json!(1)));
        assert_eq!(metadata(&execution, "b"), Some(&json!(3)));
        assert_eq!(log_probs(&execution).as_deref(), Some(&[-1.0, -2.5][..]));
        let own = Execution { log_probs: Some(vec![-4.0]), ..execution };
        assert_eq!(log_probs(&own).as_deref(), Some(&[-4.0][..]));
        assert_eq!(log_probs(&Execution { log_probs: Some(Vec::new()), ..own }), None);
    }

    #[test]
    fn a_value_is_the_output_only_where_there_is_no_other_text() {
        for (output, expected) in [("", true), (r#"{"a":1}"#, true), ("done", false)] {
            let execution = Execution {
                output: output.to_owned(),
                output_json: Some(json!({"a": 1})),
                ..Execution::default()
            };
            assert_eq!(structured(&execution).is_some(), expected, "{output}");
        }
    }
}
