//! Codex: the lines of `codex exec --json`.
//!
//! Written from what is documented of the events since 0.44 (`thread.started`, `item.completed`, …), not from recordings.
//! `turn.completed` counts the tokens of the whole thread, so each turn has the difference to the one before.

use std::collections::{BTreeMap, HashMap, HashSet};

use kindlm_types::{ActionStatus, Channel, Event, InputOption, InputRequest, ToolKind, Usage};
use serde_json::{Value, json};

use super::claude::since;
use super::{Dialect, Step, Told, object, text};

/// Items that are calls. Without an id nobody could tell one from the next.
const CALLS: [&str; 5] =
    ["command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call"];

/// Items that say what they are about only when they are done.
const TOLD_WHEN_DONE: [&str; 3] = ["agent_message", "reasoning", "web_search"];

/// The reader of Codex' lines.
#[derive(Debug, Default)]
pub(crate) struct Codex {
    ignored: HashSet<String>,
    /// The calls that were told when they began.
    begun: HashSet<String>,
    /// Items that were begun and are told when they are done, in the order of their ids, by these.
    open: BTreeMap<String, Value>,
    /// The call that started each thread of another agent.
    threads: HashMap<String, String>,
    /// Tokens of the thread before this turn.
    usage: Usage,
    /// Ids of items begin anew in each process, so they get the number of their turn.
    turn: u64,
    /// What was said about errors; it matters if the turn fails.
    errors: Vec<String>,
}

impl Codex {
    pub(crate) fn new(ignored: &[String]) -> Self {
        Self { ignored: ignored.iter().cloned().collect(), ..Self::default() }
    }

    fn unknown(&self, what: String, told: &mut Told) {
        if !self.ignored.contains(&what) {
            told.not_understood(what);
        }
    }

    fn unread(&self, what: String, told: &mut Told) {
        if !self.ignored.contains(&what) {
            told.unread(what);
        }
    }
}

impl Dialect for Codex {
    fn last_error(&self) -> Option<&str> {
        self.errors.last().map(String::as_str)
    }

    fn read(&mut self, line: &str, told: &mut Told) -> Result<Step, String> {
        let line = Value::Object(object(line)?);
        match text(&line, "type") {
            "thread.started" => {
                told.complete.extend([
                    Channel::Messages,
                    Channel::Actions,
                    Channel::InputRequests,
                    Channel::Errors,
                    Channel::Usage,
                ]);
                let id = text(&line, "thread_id");
                if id.is_empty() {
                    return Err("`thread.started` has no `thread_id`".to_owned());
                }
                told.metadata.insert("threadId".to_owned(), id.into());
            }
            // What went wrong before it did not keep it from beginning.
            "turn.started" => {
                self.turn += 1;
                told.warn(std::mem::take(&mut self.errors));
            }
            kind @ ("item.started" | "item.updated" | "item.completed") => {
                let item = line.get("item").ok_or_else(|| format!("`{kind}` has no `item`"))?;
                self.item(item, kind == "item.completed", told)?;
            }
            "turn.completed" => {
                self.leave_open(told);
                self.spend(line.get("usage"), told);
                // It went on after them.
                told.warn(std::mem::take(&mut self.errors));
                return Ok(Step::Done);
            }
            "turn.failed" => {
                self.leave_open(told);
                let message = line.pointer("/error/message").and_then(Value::as_str);
                let last = self.errors.last().map(String::as_str);
                let message = message.or(last).unwrap_or("it does not say why");
                return Ok(Step::Failed(format!("the turn of Codex failed: {message}")));
            }
            "error" => self.errors.push(text(&line, "message").to_owned()),
            "request_user_input" => told.push(Event::InputRequested { request: request(&line) }),
            // Text that comes again, whole, in an item.
            "item.plan.delta" => {}
            "" => return Err("it has no `type`".to_owned()),
            other => self.unknown(other.to_owned(), told),
        }
        Ok(Step::More)
    }
}

impl Codex {
    /// Puts down what was begun in the turn and never done: calls without a result, and words that nobody was told.
    fn leave_open(&mut self, told: &mut Told) {
        for (id, item) in std::mem::take(&mut self.open) {
            match text(&item, "type") {
                "web_search" => self.search(&id, &item, told),
                "agent_message" => {
                    told.incomplete.insert(Channel::Messages);
                    told.leave_unread("a message was begun and never completed".to_owned());
                }
                _ => {
                    told.incomplete.insert(Channel::Thinking);
                }
            }
        }
    }

    fn search(&mut self, id: &str, item: &Value, told: &mut Told) {
        let input = json!({"query": text(item, "query")});
        self.begin(id, "web_search", Some(ToolKind::WebSearch), input, told);
    }

    fn item(&mut self, item: &Value, is_done: bool, told: &mut Told) -> Result<(), String> {
        let id = format!("{}.{}", self.turn, text(item, "id"));
        if text(item, "id").is_empty() && CALLS.contains(&text(item, "type")) {
            return Err(format!("an item of the type `{}` has no `id`", text(item, "type")));
        }
        if is_done {
            self.open.remove(&id);
        } else if TOLD_WHEN_DONE.contains(&text(item, "type")) {
            self.open.insert(id.clone(), item.clone());
        }
        match text(item, "type") {
            "agent_message" if is_done => {
                told.begin_message();
                told.say(text(item, "text"));
            }
            "reasoning" if is_done => {
                told.push(Event::Thinking { text: text(item, "text").to_owned() });
            }
            "error" if is_done => self.errors.push(text(item, "message").to_owned()),
            "command_execution" => {
                let input = json!({"command": text(item, "command")});
                self.begin(&id, "command_execution", Some(ToolKind::Shell), input, told);
                if is_done {
                    let output = json!({
                        "output": text(item, "aggregated_output"),
                        "exitCode": item.get("exit_code"),
                    });
                    let status = self.status(item, told);
                    end(&id, Some(output), status, told);
                }
            }
            "file_change" => {
                let input = json!({"changes": item.get("changes")});
                self.begin(&id, "file_change", Some(ToolKind::FileEdit), input, told);
                if is_done {
                    let status = self.status(item, told);
                    end(&id, None, status, told);
                }
            }
            "mcp_tool_call" => {
                let name = format!("mcp__{}__{}", text(item, "server"), text(item, "tool"));
                let input = item.get("arguments").cloned().unwrap_or_default();
                self.begin(&id, &name, Some(ToolKind::Unknown), input, told);
                if is_done {
                    let error = item.pointer("/error/message").cloned();
                    let result = item.get("result").filter(|it| !it.is_null()).cloned();
                    let status = self.status(item, told);
                    end(&id, error.or(result), status, told);
                }
            }
            "web_search" => {
                // What is searched for is known only when it is done.
                if is_done {
                    self.search(&id, item, told);
                    end(&id, None, ActionStatus::Completed, told);
                }
            }
            "collab_tool_call" => self.collab(&id, item, is_done, told),
            // What comes once more when it is done, and lists that the agent keeps for itself.
            "agent_message" | "reasoning" | "error" | "todo_list" | "plan" => {}
            "" => return Err("an item has no `type`".to_owned()),
            // A call of a tool that nobody knows is a call, and no text.
            other if other.ends_with("_call") => self.unknown(format!("item/{other}"), told),
            other => self.unread(format!("item/{other}"), told),
        }
        Ok(())
    }

    fn begin(
        &mut self,
        id: &str,
        name: &str,
        tool: Option<ToolKind>,
        input: Value,
        told: &mut Told,
    ) {
        if self.begun.insert(id.to_owned()) {
            let (call_id, name) = (id.to_owned(), name.to_owned());
            told.push(Event::ActionCalled { call_id, name, tool, input });
        }
    }

    /// Other agents: each is a thread, started by one call and looked after by later ones.
    fn collab(&mut self, id: &str, item: &Value, is_done: bool, told: &mut Told) {
        let tool = text(item, "tool");
        let kind = if tool == "spawn_agent" { ToolKind::AgentTask } else { ToolKind::Unknown };
        let input = json!({"prompt": item.get("prompt")});
        self.begin(id, tool, Some(kind), input, told);
        if !is_done {
            return;
        }
        let done = self.status(item, told);
        end(id, item.get("agents_states").cloned(), done, told);
        if tool == "spawn_agent" {
            let threads = item.get("receiver_thread_ids").and_then(Value::as_array);
            for thread in threads.into_iter().flatten().filter_map(Value::as_str) {
                self.threads.insert(thread.to_owned(), id.to_owned());
                let (call_id, name) = (id.to_owned(), "agent".to_owned());
                told.push(Event::SubagentCalled { call_id, name, remote_url: None });
            }
        }
        for (thread, state) in
            item.get("agents_states").and_then(Value::as_object).into_iter().flatten()
        {
            let status = match text(state, "status") {
                "completed" => ActionStatus::Completed,
                "errored" | "interrupted" | "shutdown" | "not_found" => ActionStatus::Failed,
                _ => continue,
            };
            if let Some(call_id) = self.threads.remove(thread) {
                let output = state.get("message").filter(|it| !it.is_null()).cloned();
                told.push(Event::SubagentCompleted { call_id, output, status });
            }
        }
    }

    /// How an item that is done has ended. Without a word, by what else it says.
    fn status(&self, item: &Value, told: &mut Told) -> ActionStatus {
        let failed = item.get("exit_code").and_then(Value::as_i64).is_some_and(|it| it != 0)
            || item.get("error").is_some_and(|it| !it.is_null());
        match text(item, "status") {
            "failed" => ActionStatus::Failed,
            "declined" => ActionStatus::Rejected,
            "" if failed => ActionStatus::Failed,
            "completed" | "" => ActionStatus::Completed,
            other => {
                self.unknown(format!("item/{}/{other}", text(item, "type")), told);
                ActionStatus::Failed
            }
        }
    }

    fn spend(&mut self, usage: Option<&Value>, told: &mut Told) {
        let Some(usage) = usage.filter(|it| it.is_object()) else { return };
        let count = |key: &str| usage.get(key).and_then(Value::as_u64);
        let cached = count("cached_input_tokens").unwrap_or(0);
        let total = Usage::counted(count("input_tokens"), count("output_tokens"), None, cached);
        let turn = since(total, self.usage);
        self.usage = total;
        told.push(Event::Usage { usage: turn, cost_usd: None });
    }
}

fn end(id: &str, output: Option<Value>, status: ActionStatus, told: &mut Told) {
    told.push(Event::ActionResult { call_id: id.to_owned(), output, status });
}

fn request(line: &Value) -> InputRequest {
    let questions = line.get("questions").and_then(Value::as_array);
    let questions: Vec<&Value> = questions.into_iter().flatten().collect();
    let asked: Vec<&str> = questions.iter().map(|it| text(it, "question")).collect();
    let options = questions.first().and_then(|it| it.get("options")).and_then(Value::as_array);
    let option = |it: &Value| InputOption {
        id: text(it, "label").to_owned(),
        label: Some(text(it, "description").to_owned()).filter(|it| !it.is_empty()),
    };
    InputRequest {
        id: Some(text(line, "call_id").to_owned()).filter(|it| !it.is_empty()),
        prompt: Some(asked.join("\n")).filter(|it| !it.is_empty()),
        action: None,
        input: line.get("questions").cloned(),
        options: options.into_iter().flatten().map(option).collect(),
    }
}
