//! `succeeded`: the agent finished without an error, a limit, or an open question to a person.

use std::sync::Arc;

use kindlm_types::{
    AssertionResult, Channel, Class, Execution, Facts, ResultEvidence, Severity, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::{Finding, Gap};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::missing_evidence::did_nothing;
use crate::core::result_evidence::last_lines;
use crate::core::workspace::missing;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "succeeded";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent came to its end: no error, no limit, no question to a person.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The agent ended with an error or at a limit, or waits for a person; with `not-` it did not.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The source did not record how the agent ended.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The options of `succeeded`; there are none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {}

#[derive(Debug)]
struct Succeeded {
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config {} = config::parse_config(value)?;
    Ok(Arc::new(Succeeded { label: own.label("Succeeded"), own }))
}

impl Assertion for Succeeded {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let execution = evidence.execution;
        let events = execution.events();
        let facts = Facts::from_events(&events);
        let obstacle = obstacle(execution, &facts);
        // An agent without any recorded activity has neither succeeded nor failed.
        let alive = !events.is_empty() || execution.exit_code().is_some() || execution.requests > 0;
        // The missing evidence may contain an error.
        if let (None, Some(gap)) = (&obstacle, execution.completeness.gaps.first()) {
            let message = format!("no failure was reported, but the evidence is incomplete: {gap}");
            return missing(ID, &self.label, message);
        }
        let reason = execution.finish_reason.as_ref().filter(|it| it.is_unclear());
        if let (None, Some(reason)) = (&obstacle, reason) {
            let message = format!(
                "no failure was reported, but the model stopped with the unknown finish reason `{}`",
                reason.as_str()
            );
            return missing(ID, &self.label, &message);
        }
        let changed = execution.workspace.as_ref().is_some_and(|it| !it.changes.is_empty());
        let is_silent = did_nothing(execution) && execution.stderr().trim().is_empty() && !changed;
        if let (None, Some(code), true) = (&obstacle, execution.exit_code(), is_silent) {
            let message = format!(
                "the program reported no output and no event, and ended with exit code {code}: let it report its \
                 actions, or check its exit code with `on: exitCode`"
            );
            return missing(ID, &self.label, &message);
        }
        let holds = if obstacle.is_none() { alive.then_some(true) } else { Some(false) };
        let reason = obstacle.unwrap_or_else(|| "no failure was reported".to_owned());
        let gap = Gap::incomplete(execution, Channel::Messages);
        Finding { holds, reason, gap }.result_with((ID, &self.label), self.own, || {
            let code = execution.exit_code().filter(|it| (*it == 0) == self.own.negate);
            code.map(|code| ResultEvidence::Command {
                exit_code: Some(code),
                stdout: last_lines(&execution.output),
                stderr: last_lines(execution.stderr()),
            })
        })
    }
}

/// Returns the reason why the agent did not succeed; `None` if no reason is recorded.
fn obstacle(execution: &Execution, facts: &Facts<'_>) -> Option<String> {
    if let Some(request) = facts.input_requests.last().filter(|_| facts.parked) {
        let prompt = request.prompt.as_deref().or(request.action.as_deref());
        return Some(format!(
            "the agent waits for a person: {}",
            prompt.unwrap_or("(no question)")
        ));
    }
    if let Some(code) = execution.exit_code().filter(|it| *it != 0) {
        return Some(format!("the command ended with exit code {code}"));
    }
    if execution.completeness.truncated {
        return Some("the conversation was ended by `maxTurns`".to_owned());
    }
    if let Some(message) = facts.errors.last() {
        return Some(format!("the agent reported an error: {message}"));
    }
    let why = execution.finish_reason.as_ref()?.broke_off()?;
    let mut words = why.chars();
    words.next().map(|first| first.to_uppercase().chain(words).collect())
}
