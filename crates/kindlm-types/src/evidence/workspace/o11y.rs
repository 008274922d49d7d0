//! A summary of an agent's actions, for tests that score the agent.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::{Action, ActionState, ActionStatus, Execution, Facts, ToolKind, Usage};

/// A summary of an agent's actions. Tests that score an agent read it from `__kindlm__/results.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct O11y {
    /// The number of the agent's messages.
    pub total_turns: usize,
    /// The number of calls by tool.
    ///
    /// The key is the name of the tool's kind, or the tool's own name if its kind is unknown.
    pub tool_calls: BTreeMap<String, usize>,
    /// The number of tool calls.
    pub total_tool_calls: usize,
    /// The paths of the files that tools read, without duplicates. Failed and rejected calls are omitted.
    pub files_read: Vec<String>,
    /// The paths of the files that tools wrote or edited, without duplicates. Failed and rejected calls are omitted.
    pub files_modified: Vec<String>,
    /// The command lines of shell tools in order, also of failed and rejected calls.
    pub shell_commands: Vec<ShellRun>,
    /// The pages that tools requested in order, also of failed and rejected calls.
    pub web_fetches: Vec<Fetched>,
    /// The errors inside the agent.
    pub errors: Vec<String>,
    /// The number of times that the agent emitted its reasoning.
    pub thinking_blocks: usize,
    /// The number of times that the agent compacted its conversation history.
    pub compactions: usize,
    /// The duration of the agent's work, in milliseconds; 0 if it was not measured.
    pub duration_ms: f64,
    /// The tokens that the agent used, as far as they are recorded.
    pub usage: Usage,
    /// The cost of the tokens in US dollars; absent if it is not known.
    #[serde(rename = "estimatedCostUSD", skip_serializing_if = "Option::is_none")]
    pub estimated_cost_usd: Option<f64>,
}

/// A command that a tool ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShellRun {
    /// The command line.
    pub command: String,
    /// The exit code, if the tool's output has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// True if the command succeeded; absent if its result is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
}

/// A page that a tool requested.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fetched {
    /// The URL; empty if the tool's arguments have none.
    pub url: String,
    /// The HTTP status, if the tool's output has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<i64>,
    /// True if the page was fetched; absent if the result is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
}

impl O11y {
    /// Summarizes the events of an execution.
    pub fn from_execution(execution: &Execution) -> Self {
        let events = execution.events();
        let facts = Facts::from_events(&events);
        let mut summary = Self {
            total_turns: facts.said.len(),
            total_tool_calls: facts.actions.len(),
            errors: facts.errors.iter().map(|&it| it.to_owned()).collect(),
            thinking_blocks: facts.thoughts,
            compactions: facts.compactions,
            duration_ms: execution.latency_ms.unwrap_or_default(),
            usage: execution.usage,
            estimated_cost_usd: execution.spend.cost_usd,
            ..Self::default()
        };
        for action in &facts.actions {
            summary.add(action);
        }
        summary
    }

    fn add(&mut self, action: &Action<'_>) {
        let word = match action.kind {
            ToolKind::Unknown => action.name.unwrap_or("unknown"),
            kind => kind.as_str(),
        };
        *self.tool_calls.entry(word.to_owned()).or_default() += 1;
        match action.kind {
            // A failed or rejected call did not read or write its file.
            ToolKind::FileRead | ToolKind::FileWrite | ToolKind::FileEdit
                if ended_well(action) == Some(false) => {}
            ToolKind::FileRead => note(&mut self.files_read, path(action.input)),
            ToolKind::FileWrite | ToolKind::FileEdit => {
                note(&mut self.files_modified, path(action.input));
            }
            ToolKind::Shell => self.shell_commands.push(ShellRun::from_action(action)),
            ToolKind::WebFetch => {
                let url = text_at(action.input, &["url", "uri"]).unwrap_or_default();
                let status = number_at(action.output, &["status", "statusCode", "status_code"]);
                let refused = status.is_some_and(|it| it >= 400);
                let success = ended_well(action).map(|it| it && !refused);
                self.web_fetches.push(Fetched { url, status, success });
            }
            _ => {}
        }
    }
}

impl ShellRun {
    /// Summarizes a shell tool call and its result.
    pub fn from_action(action: &Action<'_>) -> Self {
        Self {
            command: command(action.input),
            exit_code: action.exit_code(),
            success: ended_well(action),
        }
    }
}

fn ended_well(action: &Action<'_>) -> Option<bool> {
    match action.state {
        ActionState::Pending => None,
        ActionState::Ended(ActionStatus::Rejected) => Some(false),
        ActionState::Ended(_) => Some(!action.has_failed()),
    }
}

fn note(list: &mut Vec<String>, path: Option<String>) {
    if let Some(path) = path.filter(|it| !list.contains(it)) {
        list.push(path);
    }
}

/// Returns the path in a tool's arguments. Agents use different keys for the path.
///
/// Returns `None` without a path.
fn path(input: &Value) -> Option<String> {
    let names = ["file_path", "filePath", "path", "absolute_path", "notebook_path", "filename"];
    text_at(input, &names)
}

/// Returns the command line in a tool's arguments; empty without one. A list of words is joined by spaces.
fn command(input: &Value) -> String {
    let Some(value) = ["command", "cmd", "script"].iter().find_map(|key| input.get(key)) else {
        return input.as_str().unwrap_or_default().to_owned();
    };
    match value {
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            words.join(" ")
        }
        value => value.as_str().unwrap_or_default().to_owned(),
    }
}

fn text_at(value: &Value, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| value.get(key)?.as_str()).map(str::to_owned)
}

fn number_at(value: Option<&Value>, keys: &[&str]) -> Option<i64> {
    let value = value?;
    keys.iter().find_map(|key| value.get(key)?.as_i64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Channel, Completeness, Coverage, Event};
    use serde_json::json;

    #[test]
    fn events_become_numbers_and_lists() {
        let events = json!([
            {"type": "message", "role": "user", "text": "Fix it."},
            {"type": "thinking", "text": "Hm."},
            {"type": "action.called", "callId": "1", "name": "Read", "input": {"file_path": "a.ts"}},
            {"type": "action.result", "callId": "1", "status": "completed"},
            {"type": "action.called", "callId": "2", "name": "Edit", "input": {"path": "a.ts"}},
            {"type": "action.called", "callId": "3", "name": "Edit", "input": {"path": "a.ts"}},
            {"type": "action.called", "callId": "4", "name": "Bash", "input": {"command": "npm test"}},
            {"type": "action.result", "callId": "4", "output": {"exitCode": 1}, "status": "completed"},
            {"type": "action.called", "callId": "5", "name": "shell", "input": {"command": ["ls", "-l"]}},
            {"type": "action.called", "callId": "6", "name": "WebFetch", "input": {"url": "https://a"}},
            {"type": "action.result", "callId": "6", "output": {"status": 404}, "status": "completed"},
            {"type": "action.called", "callId": "7", "name": "deploy"},
            {"type": "compaction"},
            {"type": "error", "message": "lost"},
            {"type": "message", "role": "assistant", "text": "Done."},
        ]);
        let execution = Execution {
            recorded_events: serde_json::from_value::<Vec<Event>>(events).unwrap(),
            completeness: Completeness {
                coverage: Coverage::Complete.with(Channel::Actions),
                ..Completeness::default()
            },
            latency_ms: Some(12.5),
            ..Execution::default()
        };
        assert_eq!(
            serde_json::to_value(O11y::from_execution(&execution)).unwrap(),
            json!({
                "totalTurns": 1,
                "toolCalls": {"deploy": 1, "file_edit": 2, "file_read": 1, "shell": 2, "web_fetch": 1},
                "totalToolCalls": 7,
                "filesRead": ["a.ts"],
                "filesModified": ["a.ts"],
                "shellCommands": [
                    {"command": "npm test", "exitCode": 1, "success": false},
                    {"command": "ls -l"},
                ],
                "webFetches": [{"url": "https://a", "status": 404, "success": false}],
                "errors": ["lost"],
                "thinkingBlocks": 1,
                "compactions": 1,
                "durationMs": 12.5,
                "usage": {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0},
            })
        );
    }
}
