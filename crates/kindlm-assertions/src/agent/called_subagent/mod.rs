//! `called-subagent`: the agent called another agent.

use std::sync::Arc;

use kindlm_types::{
    ActionState, AssertionResult, Channel, Class, Facts, Severity, SubagentCall, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::{
    Count, Counted, Finding, Gap, Phrase, PhrasePattern, State, given_up, names,
};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::result_evidence::trajectory;
use crate::shared::pattern::SearchError;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "called-subagent";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The agent called another agent, optionally with an address, a status and a number of calls.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The agent made no such call of the other agent, or not the required number; with `not-` it made one.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The source did not record all calls of other agents, and the recorded ones do not decide.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The calls of another agent that must have been made.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The name of the other agent.
    #[schemars(length(min = 1))]
    value: String,
    /// The URL at which the other agent must run, or a pattern for it.
    remote_url: Option<Phrase>,
    /// The status that the calls must have.
    status: Option<State>,
    /// The required number of calls; at least one by default.
    count: Option<Counted>,
}

#[derive(Debug)]
struct CalledSubagent {
    name: String,
    remote_url: Option<PhrasePattern>,
    status: Option<State>,
    count: Count,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value: name, remote_url, status, count } = config::parse_config(value)?;
    let label = own.label(&format!("Called subagent: {name}"));
    let remote_url = remote_url.map(|it| it.pattern("/remoteUrl")).transpose()?;
    let count = Count::new(count)?;
    Ok(Arc::new(CalledSubagent { name, remote_url, status, count, label, own }))
}

impl CalledSubagent {
    /// Returns true if the call matches; `None` if the result depends on an unrecorded fact.
    ///
    /// The name of the agent, the URL of the agent and the result of the call can be unrecorded. Fails if matching the
    /// URL takes too long.
    fn is_meant(&self, call: &SubagentCall<'_>) -> Result<Option<bool>, SearchError> {
        let named = call.name.map(|it| it == self.name);
        let there = match (&self.remote_url, call.remote_url) {
            (None, _) => Some(true),
            (Some(wanted), Some(url)) => Some(wanted.is(url)?),
            (Some(_), None) => None,
        };
        let ended = match self.status {
            Some(status) if !status.is(call.state) => {
                (call.state != ActionState::Pending).then_some(false)
            }
            _ => Some(true),
        };
        let all = [named, there, ended];
        let is_not = all.contains(&Some(false));
        Ok(if is_not { Some(false) } else { (!all.contains(&None)).then_some(true) })
    }
}

impl Assertion for CalledSubagent {
    fn traits(&self) -> Traits {
        Traits { label: Some(self.label.clone()), ..Traits::OF_RECORD }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let events = evidence.execution.events();
        let calls = Facts::from_events(&events).subagents;
        let (mut found, mut unanswered) = (0, 0);
        for call in &calls {
            match self.is_meant(call) {
                Ok(Some(true)) => found += 1,
                Ok(Some(false)) => {}
                Ok(None) => unanswered += 1,
                Err(err) => return given_up(ID, &self.label, &err),
            }
        }
        let complete = evidence.execution.is_complete_for(Channel::Subagents);
        let holds = self.count.holds(found, complete.then_some(found + unanswered));
        let gap = if complete {
            Gap::Half(Channel::Subagents, unanswered)
        } else {
            Gap::incomplete(evidence.execution, Channel::Subagents)
        };
        let all = calls.iter().map(|it| it.name.unwrap_or("(unknown)"));
        let reason = format!(
            "matching calls of `{}`: {found}, expected {}; other agents called: {}",
            self.name,
            self.count.expected(self.own.negate),
            names(all)
        );
        let negate = self.own.negate;
        Finding { holds, reason, gap }.result_with((ID, &self.label), self.own, || {
            let expected = (!negate).then_some(self.name.as_str());
            let called = calls.iter().map(|it| it.name.unwrap_or("(unknown)"));
            [self.count.evidence("calls", found, negate), trajectory(expected, called)]
        })
    }
}
