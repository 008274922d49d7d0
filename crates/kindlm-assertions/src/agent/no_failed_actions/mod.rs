//! `no-failed-actions`: no action of the agent failed.

use std::sync::Arc;

use kindlm_types::{
    ActionState, ActionStatus, AssertionResult, Channel, Class, Facts, Severity, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::{Finding, Gap, names};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::result_evidence::{absent_in, other, trajectory};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "no-failed-actions";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "No call of a tool or another agent failed; a rejected call does not count.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code { code: ASSERTION_FAILED, summary: "A call failed; with `not-` none did." },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The source did not record all calls, or not how each ended.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The options of `no-failed-actions`; there are none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {}

#[derive(Debug)]
struct NoFailedActions {
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config {} = config::parse_config(value)?;
    Ok(Arc::new(NoFailedActions { label: own.label("No failed actions"), own }))
}

impl Assertion for NoFailedActions {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        const FAILED: ActionState = ActionState::Ended(ActionStatus::Failed);
        let execution = evidence.execution;
        let events = execution.events();
        let facts = Facts::from_events(&events);
        let tools = facts.actions.iter().map(|it| (it.name, it.state, it.has_failed()));
        let others = facts.subagents.iter().map(|it| (it.name, it.state, it.state == FAILED));
        let calls: Vec<_> = tools.chain(others).collect();
        let failed = calls.iter().filter(|it| it.2);
        let failed: Vec<&str> = failed.map(|it| it.0.unwrap_or("(unknown)")).collect();
        let pending = calls.iter().filter(|it| it.1 == ActionState::Pending).count();
        // Missing calls of sub-agents matter only if at least one call of a sub-agent was recorded.
        let incomplete =
            [(Channel::Actions, true), (Channel::Subagents, !facts.subagents.is_empty())];
        let incomplete = incomplete.into_iter().filter(|(_, matters)| *matters).map(|(it, _)| it);
        let incomplete = incomplete.into_iter().find(|it| !execution.is_complete_for(*it));
        let known = incomplete.is_none() && pending == 0;
        let holds = if failed.is_empty() { known.then_some(true) } else { Some(false) };
        let reason = format!("Failed: {}", names(failed.iter().copied()));
        let gap = incomplete.map_or(Gap::Unanswered(pending), |it| Gap::incomplete(execution, it));
        Finding { holds, reason, gap }.result_with((ID, &self.label), self.own, || {
            [if self.own.negate {
                absent_in(other("the record"), ["a failed call"])
            } else {
                trajectory([""; 0], failed.iter().copied())
            }]
        })
    }
}
