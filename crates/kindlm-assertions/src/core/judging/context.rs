//! The question of the user and the retrieved context, which several checks show to a judge.

use std::sync::Arc;

use kindlm_types::{AssertionResult, Execution, Problem, Role, ecma};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Frame, NotAsked};
use crate::core::codes::EVIDENCE_MISSING;
use crate::core::output::prompt;
use crate::core::scripting::{Transform, View, Viewed, see};
use crate::{Evidence, Setup};

/// The source of a check's context.
#[derive(Debug)]
pub(crate) enum ContextSource {
    /// The variable `context` of the test.
    Variable,
    /// A script that extracts the context from the output.
    Script([View; 1]),
}

/// The retrieved context.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Context {
    /// The context as written: a text, or a list of texts.
    pub(crate) value: Value,
    /// The context as one text.
    pub(crate) text: String,
}

impl ContextSource {
    /// Builds the source from the check's `contextTransform`. Pointers of problems start at that key.
    pub(crate) fn new(transform: Option<&str>, setup: &Setup<'_>) -> Result<Self, Problem> {
        match transform {
            None => Ok(Self::Variable),
            Some(text) => {
                let script = Transform::new(text, setup)?;
                Ok(Self::Script([View::Script(Arc::new(script))]))
            }
        }
    }
}

/// Returns the context, or the reason why the judge is not asked.
pub(crate) fn context_of(
    frame: &Frame,
    source: &ContextSource,
    evidence: &Evidence<'_>,
) -> Result<Context, NotAsked> {
    let never = |result: AssertionResult| NotAsked::Never(Box::new(result));
    let value = match source {
        ContextSource::Variable => {
            let Some(value) = evidence.execution.vars.get("context") else {
                let message = "there is no context: set the variable `context`, or extract it from the output with \
                    `contextTransform`";
                return Err(never(frame.errored(EVIDENCE_MISSING, message)));
            };
            value.clone()
        }
        ContextSource::Script(transform) => match see(transform, evidence) {
            Viewed::Ask(question) => return Err(NotAsked::First(question)),
            Viewed::Nothing(verdict) => return Err(never(frame.with_verdict(verdict))),
            Viewed::Changed(made) => match made.output_json {
                Some(value) => value,
                None => Value::String(made.output),
            },
            Viewed::Unchanged => Value::Null,
        },
    };
    let texts: Option<Vec<&str>> = match &value {
        Value::String(text) => Some(vec![text]),
        Value::Array(items) => items.iter().map(Value::as_str).collect(),
        _ => None,
    };
    match texts {
        Some(texts) if texts.iter().any(|it| !it.trim().is_empty()) => {
            let text = texts.join("\n");
            Ok(Context { value, text })
        }
        Some(_) => Err(never(frame.errored(EVIDENCE_MISSING, "the context is empty"))),
        None => {
            let shown = super::prompt::short(&value, 80);
            let message = format!("the context must be a text or a list of texts, but is {shown}");
            Err(never(frame.errored(EVIDENCE_MISSING, message)))
        }
    }
}

/// Returns the user's question, or an errored result if the question is unknown.
pub(crate) fn question_of(frame: &Frame, execution: &Execution) -> Result<String, NotAsked> {
    let asked = asked(execution);
    if !asked.trim().is_empty() {
        return Ok(asked);
    }
    let message =
        "the question is unknown: set the variable `query`, or add `agent_input` to the record";
    Err(NotAsked::Never(Box::new(frame.errored(EVIDENCE_MISSING, message))))
}

/// The text that a judge sees as the task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "JudgeInput")]
pub(crate) enum TaskSource {
    /// The variable `query`; if the test does not set it, the last message of the user.
    #[default]
    Query,
    /// The whole prompt: the text of the user, or all messages as JSON.
    Prompt,
}

impl TaskSource {
    /// Returns the task of an execution; empty if it is unknown.
    pub(crate) fn find_task(self, execution: &Execution) -> String {
        match self {
            Self::Query => asked(execution),
            Self::Prompt => prompt(&execution.input).as_ref().map(ecma::text).unwrap_or_default(),
        }
    }
}

/// Returns the variable `query`, else the last message of the user; empty if both are missing.
pub(crate) fn asked(execution: &Execution) -> String {
    let variable = match execution.vars.get("query") {
        None | Some(Value::Null) => None,
        Some(value) => Some(ecma::text(value)),
    };
    let said = || {
        let last = execution.turns.iter().rev().find_map(|it| it.user.clone());
        last.or_else(|| {
            let mut messages = execution.input.iter().rev();
            messages.find(|it| it.role == Role::User).map(|it| it.content.clone())
        })
    };
    variable.or_else(said).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_types::{Message, Turn};
    use serde_json::json;

    #[test]
    fn the_query_is_the_variable_or_the_last_message() {
        let setup = Setup::new(&kindlm_types::NoFiles, None);
        let prompt =
            super::super::GradingPrompt::new("", None, super::super::Slot::new("", &[]), &setup)
                .unwrap();
        let frame = Frame::new("x", "X", "", crate::EntryOptions::default(), prompt);
        let input = vec![Message::new(Role::User, "first")];
        let mut execution = Execution { input, ..Execution::default() };
        assert_eq!(question_of(&frame, &execution).unwrap(), "first");
        execution.turns = vec![Turn { user: Some("second".to_owned()), ..Turn::default() }];
        assert_eq!(question_of(&frame, &execution).unwrap(), "second");
        execution.vars = json!({"query": "third"}).as_object().cloned().unwrap();
        assert_eq!(question_of(&frame, &execution).unwrap(), "third");
        assert!(question_of(&frame, &Execution::default()).is_err());
    }
}
