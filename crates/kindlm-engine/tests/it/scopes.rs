//! Scopes of tool checks: a check in a turn sees only this turn.
//!
//! A check at the end sees the whole conversation.

use std::sync::Arc;

use kindlm_assertions::{Check, Setup, compile};
use kindlm_engine::{ConversationTurn, RunOptions, SimulatedTool, run};
use kindlm_types::{NoFiles, Reply, Role, ToolCall, ToolSpec};
use serde_json::{Value, json};

use crate::support::{Fake, edit, last_user, reply, suite};

/// Entries of checks with their results for the first turn, the second turn, and the whole conversation.
const TABLE: &str = r#"[
  [{"type": "called-tool", "value": "lookup"}, "passed", "failed", "passed"],
  [{"type": "called-tool", "value": "refund", "after": "lookup"}, "failed", "failed", "passed"],
  [{"type": "not-called-tool", "value": "lookup"}, "failed", "passed", "failed"],
  [{"type": "called-tool", "value": "refund", "status": "completed", "count": 1}, "failed", "passed", "passed"],
  [{"type": "tool-order", "value": ["lookup", "refund"]}, "failed", "failed", "passed"],
  [{"type": "tool-trajectory", "value": ["lookup"]}, "passed", "failed", "failed"],
  [{"type": "tool-trajectory", "mode": "superset", "value": ["refund"]}, "failed", "passed", "passed"],
  [{"type": "used-no-tools"}, "failed", "failed", "failed"],
  [{"type": "max-tool-calls", "value": 1}, "passed", "passed", "failed"],
  [{"type": "no-failed-actions"}, "passed", "passed", "passed"],
  [{"type": "succeeded"}, "passed", "passed", "passed"],
  [{"type": "parked"}, "failed", "failed", "failed"],
  [{"type": "message-includes", "value": "Found"}, "passed", "failed", "passed"],
  [{"type": "loaded-skill", "value": "refunds"}, "failed", "failed", "failed"],
  [{"type": "called-subagent", "value": "clerk"}, "failed", "failed", "failed"],
  [{"type": "event", "value": "action.called", "count": 1}, "passed", "passed", "failed"],
  [{"type": "not-event", "value": "error"}, "passed", "passed", "passed"],
  [{"type": "event-order", "value": ["message", "action.called", "message"]}, "passed", "passed", "passed"],
  [{"type": "max-tokens", "value": 30}, "passed", "passed", "failed"],
  [{"type": "max-cost", "value": 0.00003}, "passed", "passed", "failed"],
  [{"type": "max-latency", "value": 20}, "passed", "passed", "failed"],
  [{"type": "max-first-token", "value": 6}, "passed", "failed", "failed"],
  [{"type": "max-turns", "value": 2}, "passed", "passed", "failed"],
  [{"type": "includes", "value": "Found"}, "passed", "failed", "failed"],
  [{"type": "excludes", "value": "Refunded"}, "passed", "failed", "failed"],
  [{"type": "includes", "on": "messages[0].text", "value": "find"}, "passed", "failed", "passed"],
  [{"type": "equals", "on": "toolCalls[-1].name", "value": "lookup"}, "passed", "failed", "failed"],
  [{"type": "equals", "on": "usage.totalTokens", "value": 30}, "passed", "passed", "failed"],
  [{"type": "similarity", "value": "Found.", "severity": "gate"}, "passed", "failed", "failed"],
  [{"type": "output-equals", "value": {}}, "failed", "failed", "failed"],
  [{"type": "output-matches", "value": {"type": "object"}}, "failed", "failed", "failed"]
]"#;

/// Builds an agent that calls the requested tool without a text, and then reports the result.
fn agent() -> Fake {
    Fake::new(|_, prompt| {
        let (tool, done, first) = match last_user(prompt) {
            "find it" => ("lookup", "Found.", 4.0),
            _ => ("refund", "Refunded.", 7.0),
        };
        if prompt.messages.last().is_some_and(|it| it.role == Role::Tool) {
            return Ok(Reply { first_token_ms: Some(1.0), ..reply(done) });
        }
        let id = format!("call-{tool}");
        let call = ToolCall { id, name: tool.to_owned(), ..ToolCall::default() };
        Ok(Reply { tool_calls: vec![call], first_token_ms: Some(first), ..reply("") })
    })
}

fn tool(name: &str) -> SimulatedTool {
    SimulatedTool {
        spec: ToolSpec { name: name.to_owned(), ..ToolSpec::default() },
        default_response: Some(json!({"ok": true})),
        ..SimulatedTool::default()
    }
}

#[tokio::test(start_paused = true)]
async fn each_turn_and_the_conversation_are_checked() {
    let table: Vec<(Value, String, String, String)> = serde_json::from_str(TABLE).unwrap();
    let entries: Vec<&Value> = table.iter().map(|it| &it.0).collect();
    let (checks, problems) = compile(&json!({"assert": entries}), &Setup::new(&NoFiles, None));
    assert!(problems.is_empty(), "{problems:?}");
    let checks: Arc<[Check]> = checks.into();
    let turn = |label: &str, user: &str| {
        ConversationTurn::new(label, Some(user.to_owned()), Arc::clone(&checks))
    };
    let mut suite = suite(&["hi"]);
    edit(&mut suite.cases[0], |it| {
        it.tools = vec![tool("lookup"), tool("refund")].into();
        it.conversation = vec![turn("first", "find it"), turn("second", "refund it")];
        it.checks = Arc::clone(&checks);
    });
    let report = run(&suite, &RunOptions::default(), &agent()).await.unwrap();
    let results = &report.cases[0].executions[0].results;
    assert_eq!(results.len(), 3 * table.len());
    let found = |at: usize| {
        let it = &results[at];
        format!("{} ({})", it.verdict.status(), it.verdict.message().unwrap_or_default())
    };
    let mut wrong = Vec::new();
    for (row, (entry, first, second, whole)) in table.iter().enumerate() {
        for (scope, expected) in [first, second, whole].into_iter().enumerate() {
            let found = found(scope * table.len() + row);
            if found.split_once(' ').map(|it| it.0) != Some(expected) {
                let scope = ["first turn", "second turn", "whole"][scope];
                wrong.push(format!("{entry} on the {scope}: expected {expected}, found {found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
