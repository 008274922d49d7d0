//! Agents under test that are separate processes: start, turns and replies.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    BoxFuture, Coverage, DeclaredEvidence, Event, FinishReason, Price, ProviderError, ToolCall,
    UnsupportedPart, Usage,
};

/// An agent that is a program: its command and its protocol.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "AgentEntry")]
pub struct AgentSpec {
    /// The protocol on stdin and stdout: KindLM's own, or that of a known agent.
    #[serde(default, rename = "type")]
    pub kind: AgentKind,
    /// The command line, for `sh -c`, in the folder of this file. Defaults to `claude` or `codex` for agents of these
    /// types, and is required for other agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub command: Option<String>,
    /// Arguments after the command line. Each one is quoted, so the shell does not change it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The model that the agent must use; the agent's default if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// The names of the environment variables that are passed to the agent; all variables if absent.
    ///
    /// `PATH`, `HOME` and other basic variables are always passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(length(min = 1)))]
    pub env: Option<Vec<String>>,
    /// The variables to set for the agent, with their values. For secrets, name the variable in `env` instead.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set_env: BTreeMap<String, String>,
    /// The working folder, relative to the folder of this file; that folder if absent. Not allowed for tests with a
    /// `workspace`, where the agent works in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub cwd: Option<String>,
    /// True to start the agent in an empty temporary folder, which is removed when the agent ends. Without effect in
    /// tests with a `workspace`. Needs a Unix shell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty_folder: bool,
    /// The JSON Schema of the answer, for `claude-code` and `codex`. For `codex`, a schema needs a Unix shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    pub output_schema: Option<Map<String, Value>>,
    /// The time limit for the start and for each turn, in milliseconds; `defaults.timeoutMs` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// The price of the agent's tokens in US dollars per million.
    ///
    /// For agents that do not report the cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The types of output lines to ignore, such as `system/new_notice`.
    ///
    /// List only types that hold no evidence. Any other line of an unknown type makes all evidence incomplete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub ignore_lines: Vec<String>,
    /// The kinds of evidence that are complete, for agents that do not report completeness. Reports mark these kinds as
    /// declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<DeclaredEvidence>,
}

/// The protocol of an agent on stdin and stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AgentKind {
    /// KindLM's protocol: one JSON object per line, one process per execution.
    #[default]
    Kindlm,
    /// Claude Code's `stream-json` lines, one process per execution.
    ClaudeCode,
    /// The lines of `codex exec --json`, one process per turn of a thread.
    Codex,
}

impl AgentKind {
    /// Returns the name of the protocol in suites and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kindlm => "kindlm",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }

    /// Returns the command line to use if the suite specifies none.
    ///
    /// Returns `None` for KindLM's own protocol, which has no default program.
    pub fn default_command(self) -> Option<&'static str> {
        match self {
            Self::Kindlm => None,
            Self::ClaudeCode => Some("claude"),
            Self::Codex => Some("codex"),
        }
    }
}

/// The parameters for starting an agent for one execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentStart {
    /// The agent's id in the suite.
    pub id: String,
    /// The agent's entry in the suite.
    pub agent: Arc<AgentSpec>,
    /// The test case's name.
    pub case: String,
    /// The index of the repeat, from 0.
    pub repeat: u32,
    /// The test case's variables.
    pub vars: Map<String, Value>,
    /// The system instructions; `None` without such instructions.
    pub system: Option<String>,
    /// The workspace of the execution; `None` without a workspace.
    ///
    /// The agent works in this folder instead of the working folder that the suite sets.
    pub folder: Option<AgentFolder>,
    /// The time limit for the start.
    pub timeout: Duration,
}

/// The folder in which an agent works, with its isolation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentFolder {
    /// The path.
    pub path: PathBuf,
    /// The command that isolates the agent; `None` without isolation.
    ///
    /// The agent's command line is appended as one quoted word.
    pub before: Option<String>,
    /// Environment variables to set, in addition to the agent's variables.
    pub env: Vec<(String, String)>,
    /// The names of KindLM's environment variables that are not passed on.
    ///
    /// A variable that the agent's entry names is passed anyway.
    pub without: Vec<String>,
    /// True if the agent gets only the variables that `before` names.
    ///
    /// The isolating program itself may need all variables, so its environment keeps them.
    pub names_env: bool,
}

/// The next message of the user to the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentTurn {
    /// The number of the turn in the execution, from 1.
    pub number: u32,
    /// The turn's label in the suite; `None` for a turn without a label.
    pub label: Option<String>,
    /// The message of the user.
    pub text: String,
    /// The time limit of the turn.
    pub timeout: Duration,
}

/// The reply of an agent in one turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentReply {
    /// The last text of the agent.
    pub text: String,
    /// The reason why the text is incomplete, such as parts of unsupported types; `None` if the text is complete.
    pub unread: Option<String>,
    /// The structured output; `None` if the agent reports none.
    pub output_json: Option<Value>,
    /// The events, in order.
    pub events: Vec<Event>,
    /// The tool calls among the events.
    pub tool_calls: Vec<ToolCall>,
    /// The reason why the model ended the last answer; `None` if the agent does not report it.
    pub finish_reason: Option<FinishReason>,
    /// The kinds of evidence that are complete so far.
    pub coverage: Coverage,
    /// The tokens of this turn; `None` if the agent reported no tokens.
    pub usage: Option<Usage>,
    /// The cost of this turn in US dollars, if the agent reports it.
    pub cost_usd: Option<f64>,
    /// The duration of the turn in milliseconds.
    pub latency_ms: f64,
    /// The time to the first token of the turn in milliseconds, if the agent reports it.
    pub first_token_ms: Option<f64>,
}

/// Agents: programs that run for a whole conversation.
pub trait Agents: Send + Sync {
    /// Starts an agent for one execution, and waits until it is ready. Fails if the agent does not become ready.
    fn start_agent<'a>(
        &'a self,
        start: &'a AgentStart,
    ) -> BoxFuture<'a, Result<Box<dyn AgentSession + 'a>, ProviderError>>;
}

/// The data that is collected when an agent ends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentEnd {
    /// The events after the last reply; all events of the last turn if that turn did not finish.
    pub events: Vec<Event>,
    /// The kinds of evidence that are complete; `None` if the agent wrote no output.
    pub coverage: Option<Coverage>,
    /// The last part of the agent's stderr.
    pub stderr: String,
    /// The exit code; `None` if a signal ended the agent, or it was not started.
    pub exit_code: Option<i32>,
    /// Other data of the agent: version, model, session, and lines of unsupported types.
    pub metadata: Map<String, Value>,
    /// The output lines of unsupported types, by type. If there are such lines, any evidence may be missing.
    pub unsupported: Vec<UnsupportedPart>,
    /// The error that the agent reported at the end; `None` if it reported none.
    pub error: Option<ProviderError>,
}

/// A running agent. Dropping the session kills the remaining processes of the agent's process group.
pub trait AgentSession: Send {
    /// Sends a message to the agent and waits for its reply.
    ///
    /// After an error, only [`end`](Self::end) may be called.
    fn turn(&mut self, turn: AgentTurn) -> BoxFuture<'_, Result<AgentReply, ProviderError>>;

    /// Ends the agent, gracefully if possible.
    fn end(&mut self) -> BoxFuture<'_, AgentEnd>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_entry_is_parsed_by_its_keys() {
        let entry: AgentSpec = serde_json::from_value(serde_json::json!({
            "type": "claude-code", "args": ["--permission-mode", "acceptEdits"], "env": ["ANTHROPIC_API_KEY"],
        }))
        .unwrap();
        assert_eq!(
            (entry.kind, entry.kind.default_command()),
            (AgentKind::ClaudeCode, Some("claude"))
        );
        assert!(serde_json::from_value::<AgentSpec>(serde_json::json!({"comand": "x"})).is_err());
        for kind in [AgentKind::Kindlm, AgentKind::ClaudeCode, AgentKind::Codex] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
