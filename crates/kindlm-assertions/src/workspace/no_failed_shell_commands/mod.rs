//! `no-failed-shell-commands`: no command that the agent ran failed.

use std::sync::Arc;

use kindlm_types::workspace::ShellRun;
use kindlm_types::{
    Action, ActionState, AssertionResult, Channel, Class, Facts, Severity, ToolKind, schema_of,
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

const ID: &str = "no-failed-shell-commands";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "No command failed that the agent ran with a shell tool.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code { code: ASSERTION_FAILED, summary: "A command failed; with `not-` none did." },
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

/// The options of `no-failed-shell-commands`; there are none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {}

#[derive(Debug)]
struct NoFailedShellCommands {
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config {} = config::parse_config(value)?;
    Ok(Arc::new(NoFailedShellCommands { label: own.label("No failed shell commands"), own }))
}

impl Assertion for NoFailedShellCommands {
    fn traits(&self) -> Traits {
        Traits::OF_RECORD
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let execution = evidence.execution;
        let events = execution.events();
        let facts = Facts::from_events(&events);
        let shells = || facts.actions.iter().filter(|it| it.kind == ToolKind::Shell);
        // A call without a recorded tool may be a shell command. The call only matters if it may have failed.
        let unnamed = facts.actions.iter().filter(|it| it.name.is_none());
        let may_have_failed =
            |it: &&Action<'_>| it.has_failed() || it.state == ActionState::Pending;
        let unnamed = unnamed.filter(may_have_failed).count();
        // A rejected command did not run, so it did not fail.
        let failed = shells().filter(|it| it.has_failed());
        let failed: Vec<String> = failed.map(|it| ShellRun::from_action(it).command).collect();
        let pending = shells().filter(|it| it.state == ActionState::Pending).count();
        let is_complete = execution.is_complete_for(Channel::Actions);
        let known = is_complete && pending + unnamed == 0;
        let holds = if failed.is_empty() { known.then_some(true) } else { Some(false) };
        let reason = format!("Failed: {}", names(failed.iter().map(String::as_str)));
        let gap = match unnamed {
            _ if !is_complete => Gap::incomplete(execution, Channel::Actions),
            0 => Gap::Unanswered(pending),
            unnamed => Gap::Half(Channel::Actions, unnamed),
        };
        Finding { holds, reason, gap }.result_with((ID, &self.label), self.own, || {
            [if self.own.negate {
                absent_in(other("the record"), ["a failed shell command"])
            } else {
                trajectory([""; 0], failed.iter().map(String::as_str))
            }]
        })
    }
}
