//! Agents under test that are processes of their own: their start, the messages to them, and their replies.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    BoxFuture, Coverage, DeclaredEvidence, Event, FinishReason, Price, ProviderError, ToolCall,
    Usage,
};

/// An agent that is a program: how it is started, and which language it speaks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "AgentEntry")]
pub struct AgentSpec {
    /// The protocol on stdin and stdout: KindLM's own, or that of a known agent.
    #[serde(default, rename = "type")]
    pub kind: AgentKind,
    /// The command line, for `sh -c`, in the folder of this file; `claude` or `codex` for agents of these types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub command: Option<String>,
    /// Arguments behind the command line, each one as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The model that the agent is told to use; its own choice if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// Names of the only environment variables that it gets beside `PATH`, `HOME` and others that every program needs;
    /// all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(length(min = 1)))]
    pub env: Option<Vec<String>>,
    /// The folder that it runs in, relative to the folder of this file. Not for tests with a `workspace`, in which it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub cwd: Option<String>,
    /// The time limit of its start and of each turn, in milliseconds; `defaults.timeoutMs` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// The price of its tokens in US dollars per million, if it does not report the cost itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Types of lines that KindLM does not know and that hold no evidence, such as `system/new_notice`. Without this, a
    /// line of an unknown type makes all evidence incomplete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(length(min = 1)))]
    pub ignore_lines: Vec<String>,
    /// Which evidence of the agent is complete, where the agent does not say so itself. Reports show that it was declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<DeclaredEvidence>,
}

/// The protocol of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AgentKind {
    /// KindLM's protocol: one JSON object a line, a process for each execution.
    #[default]
    Kindlm,
    /// Claude Code's `stream-json` lines, a process for each execution.
    ClaudeCode,
    /// The lines of `codex exec --json`, a process for each turn of one thread.
    Codex,
}

impl AgentKind {
    /// Its word in suites and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kindlm => "kindlm",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }

    /// The command line that starts it where a suite names none.
    pub fn default_command(self) -> Option<&'static str> {
        match self {
            Self::Kindlm => None,
            Self::ClaudeCode => Some("claude"),
            Self::Codex => Some("codex"),
        }
    }
}

/// An agent to be started for one execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentStart {
    /// Its id in the suite.
    pub id: String,
    /// The specification of its start.
    pub agent: Arc<AgentSpec>,
    /// The test case's name.
    pub case: String,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// The test case's variables.
    pub vars: Map<String, Value>,
    /// Instructions that stand above the conversation.
    pub system: Option<String>,
    /// The workspace of the execution, if it has one: where it runs instead of the folder that the suite says.
    pub folder: Option<AgentFolder>,
    /// The time limit until it is ready.
    pub timeout: Duration,
}

/// A folder in which an agent works, and what is around the agent there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentFolder {
    /// The path.
    pub path: PathBuf,
    /// The words before the command line, which is added as one quoted word; `None` if it stands alone.
    pub before: Option<String>,
    /// Variables that it gets beside those of the agent.
    pub env: Vec<(String, String)>,
    /// Names of variables of KindLM that it does not get, unless it is given them by name.
    pub without: Vec<String>,
    /// True if the agent gets only the variables that `before` names. The program that starts the agent there may
    /// need all variables.
    pub names_env: bool,
}

/// The next turn of the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentTurn {
    /// Which turn of the execution, from 1.
    pub number: u32,
    /// The turn's label in the suite, if it has one.
    pub label: Option<String>,
    /// The message of the user.
    pub text: String,
    /// The time limit of the agent.
    pub timeout: Duration,
}

/// The reply of an agent in one turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentReply {
    /// Its last words.
    pub text: String,
    /// The parts of unsupported types, in words.
    pub unread: Option<String>,
    /// Its structured output, if it has one.
    pub output_json: Option<Value>,
    /// The events, in order.
    pub events: Vec<Event>,
    /// The tool calls among the events.
    pub tool_calls: Vec<ToolCall>,
    /// Why the model stopped last, if the agent reports that.
    pub finish_reason: Option<FinishReason>,
    /// The kinds of evidence that are complete so far.
    pub coverage: Coverage,
    /// Tokens of this turn; `None` if none were reported.
    pub usage: Option<Usage>,
    /// The cost of this turn in US dollars, if the agent reports it.
    pub cost_usd: Option<f64>,
    /// The duration of the turn in milliseconds.
    pub latency_ms: f64,
}

/// The end of an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentEnd {
    /// The events after its last reply; all of the turn if that was not finished.
    pub events: Vec<Event>,
    /// The kinds of evidence that are complete; `None` if the agent never wrote anything.
    pub coverage: Option<Coverage>,
    /// The last part of its stderr.
    pub stderr: String,
    /// Its exit code; `None` if a signal ended it, or it was never started.
    pub exit_code: Option<i32>,
    /// Its own data: version, model, session, and lines of unsupported types.
    pub metadata: Map<String, Value>,
    /// The error in its last lines.
    pub error: Option<ProviderError>,
}

/// A running agent. Dropping this kills the rest of its process group.
pub trait AgentSession: Send {
    /// Says something to it, and waits until it has answered. After an error only [`end`](Self::end) makes sense.
    fn turn(&mut self, turn: AgentTurn) -> BoxFuture<'_, Result<AgentReply, ProviderError>>;

    /// Ends it, politely if it lets us.
    fn end(&mut self) -> BoxFuture<'_, AgentEnd>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_what_it_says() {
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
