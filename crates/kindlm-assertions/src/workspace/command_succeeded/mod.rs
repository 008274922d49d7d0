//! `command-succeeded`: a command succeeds in the workspace when the agent has finished.

use std::sync::Arc;

use std::time::Duration;

use kindlm_types::workspace::{CommandRan, Gather};
use kindlm_types::{AssertionResult, Class, FailureCode, ResultEvidence, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::result_evidence::{explained, last_lines};
use crate::core::workspace::{decided, missing, workspace};
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

/// The command was not found, was ended by a signal, or took too long.
///
/// None of these cases proves anything about the agent.
const COMMAND_BROKEN: FailureCode = FailureCode::new("COMMAND_BROKEN");
const ID: &str = "command-succeeded";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "A command ends with exit code 0 in the workspace after the agent.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The exit code is not 0; with `not-` it is 0.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The test has no `workspace`, or the command did not run in it.",
            },
            Code {
                code: COMMAND_BROKEN,
                summary: "The command was not found, was ended by a signal, or took too long.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The command that must succeed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The command line, which `sh -c` runs in the workspace.
    #[schemars(length(min = 1))]
    value: String,
    /// The time limit in milliseconds; by default, the time limit of the agent.
    #[serde(default)]
    #[schemars(range(min = 1))]
    timeout_ms: Option<u64>,
}

#[derive(Debug)]
struct CommandSucceeded {
    gather: Gather,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value, timeout_ms } = config::parse_config(value)?;
    let label = own.label(&format!("Command succeeded: {value}"));
    let timeout = timeout_ms.map(Duration::from_millis);
    Ok(Arc::new(CommandSucceeded { gather: Gather::Command { run: value, timeout }, label, own }))
}

impl Assertion for CommandSucceeded {
    fn traits(&self) -> Traits {
        Traits { gathers: vec![self.gather.clone()], ..Traits::OF_WORKSPACE }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let workspace = match workspace(evidence, ID, &self.label) {
            Ok(workspace) => workspace,
            Err(results) => return results,
        };
        let Some(ran) = workspace.commands.iter().find(|it| it.answers(&self.gather)) else {
            let why = "the command was not run after the agent finished";
            return missing(ID, &self.label, why);
        };
        match (ran.exit_code, &ran.problem) {
            (Some(code), None) => {
                let reason = format!("exit code {code}{}", last_output_lines(ran));
                explained(decided(ID, &self.label, self.own, code == 0, reason), || {
                    [ResultEvidence::Command {
                        exit_code: Some(code),
                        stdout: last_lines(&ran.stdout),
                        stderr: last_lines(&ran.stderr),
                    }]
                })
            }
            (_, problem) => {
                let problem = problem.as_deref().unwrap_or("it did not finish");
                let message = format!("{problem}{}", last_output_lines(ran));
                vec![AssertionResult::errored(ID, &self.label, COMMAND_BROKEN, message)]
            }
        }
    }
}

/// Returns the last ten lines of the command's stderr, else of its stdout, for the message of a result.
///
/// The text is empty if there is no output, or if the exit code is 0. The evidence of a failure has more lines, from
/// both stderr and stdout.
fn last_output_lines(ran: &CommandRan) -> String {
    let text = if ran.stderr.trim().is_empty() { &ran.stdout } else { &ran.stderr };
    let lines: Vec<&str> = text.trim().lines().collect();
    let last = lines[lines.len().saturating_sub(10)..].join("\n");
    if last.is_empty() || ran.exit_code == Some(0) { String::new() } else { format!(": {last}") }
}
