//! The adapter for Codex: the lines of `codex exec --json`.
//!
//! The adapter follows the documentation of the events since version 0.44 (`thread.started`, `item.completed`, …) and
//! recordings of version 0.169. `turn.completed` counts the tokens of the whole thread, so each turn gets the
//! difference to the previous count.
//!
//! The lines omit the actions of subagents, refused calls, and calls of some tools. So the lines are never complete
//! evidence of calls. The file of the thread ([`super::rollout`]) is complete evidence, if it can be read.

use std::collections::{BTreeMap, HashMap, HashSet};

use kindlm_types::{
    ActionStatus, Channel, Event, InputOption, InputRequest, ToolKind, Usage, duplicate_key_pointer,
};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use super::claude::since;
use super::rollout::{self, Files, Recorded, count_key};
use super::{Dialect, Reported, Step, object, shell, text};

/// The item types that are calls. A call needs an id, because its later events are matched by the id.
const CALLS: [&str; 5] =
    ["command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call"];

/// The item types whose content is only known when the item is completed.
const TOLD_WHEN_DONE: [&str; 3] = ["agent_message", "reasoning", "web_search"];

/// The kinds of evidence that are incomplete after the start of a subagent. The lines do not report a subagent's work.
pub(super) const OF_SPAWNED: [Channel; 6] = [
    Channel::Messages,
    Channel::Actions,
    Channel::Subagents,
    Channel::Skills,
    Channel::Thinking,
    Channel::Usage,
];

/// The reader of the lines of Codex.
#[derive(Debug, Default)]
pub(crate) struct Codex {
    ignored: HashSet<String>,
    /// The ids of the calls whose start was reported.
    begun: HashSet<String>,
    /// The items that have begun and are reported when they are completed, sorted by id.
    open: BTreeMap<String, Value>,
    /// The ids of the calls that started subagents, by the id of the subagent's thread.
    threads: HashMap<String, String>,
    /// The tokens of the thread before this turn.
    usage: Usage,
    /// The number of the turn. It is part of call ids, because item ids restart in each process.
    turn: u64,
    /// The error messages since the start of the turn. They become warnings, or explain a failed turn.
    errors: Vec<String>,
    /// The reader of the thread's file.
    rollout: rollout::Reader,
    /// True if the thread's file was reliable in all turns so far. The field is `None` before the first turn has ended.
    is_recorded: Option<bool>,
    /// True if the agent has started a subagent.
    has_spawned: bool,
}

impl Codex {
    pub(crate) fn new(ignored: &[String]) -> Self {
        Self { ignored: ignored.iter().cloned().collect(), ..Self::default() }
    }

    fn unknown(&self, what: String, reported: &mut Reported) {
        if !self.ignored.contains(&what) {
            reported.not_understood(what);
        }
    }

    fn note_unsupported(&self, what: String, reported: &mut Reported) {
        if !self.ignored.contains(&what) {
            reported.note_unsupported(what);
        }
    }
}

impl Dialect for Codex {
    fn last_error(&self) -> Option<&str> {
        self.errors.last().map(String::as_str)
    }

    fn read_line(&mut self, line: &str, reported: &mut Reported) -> Result<Step, String> {
        let line = Value::Object(read_line(line)?);
        match text(&line, "type") {
            "thread.started" => {
                reported.says_itself = true;
                reported.complete.extend([
                    Channel::Messages,
                    Channel::InputRequests,
                    Channel::Errors,
                    Channel::Usage,
                ]);
                let id = text(&line, "thread_id");
                if id.is_empty() {
                    return Err("`thread.started` has no `thread_id`".to_owned());
                }
                reported.metadata.insert("threadId".to_owned(), id.into());
            }
            // Errors before the start of the turn did not prevent it, so they are warnings.
            "turn.started" => {
                self.turn += 1;
                reported.warn(std::mem::take(&mut self.errors));
            }
            kind @ ("item.started" | "item.updated" | "item.completed") => {
                let item = line.get("item").ok_or_else(|| format!("`{kind}` has no `item`"))?;
                self.item(item, kind == "item.completed", reported)?;
            }
            "turn.completed" => {
                self.leave_open(reported);
                self.spend(line.get("usage"), reported);
                // The turn succeeded despite these errors, so they are warnings.
                reported.warn(std::mem::take(&mut self.errors));
                return Ok(Step::Done);
            }
            "turn.failed" => {
                self.leave_open(reported);
                let message = line.pointer("/error/message").and_then(Value::as_str);
                let last = self.errors.last().map(String::as_str);
                let message = message.or(last).unwrap_or("no reason given");
                return Ok(Step::Failed(format!("the turn of Codex failed: {message}")));
            }
            "error" => self.errors.push(text(&line, "message").to_owned()),
            "request_user_input" => {
                reported.push(Event::InputRequested { request: request(&line) });
            }
            // A later `plan` item repeats the whole text.
            "item.plan.delta" => {}
            "" => return Err("it has no `type`".to_owned()),
            other => self.unknown(other.to_owned(), reported),
        }
        Ok(Step::More)
    }

    fn settle(&mut self, files: Result<Files, String>, reported: &mut Reported) {
        let recorded = files
            .and_then(|it| self.rollout.turn(&it))
            .and_then(|recorded| difference(&reported.events, &recorded).map_or(Ok(recorded), Err));
        let gap = match recorded {
            Ok(recorded) if self.is_recorded != Some(false) => self.replace(recorded, reported),
            Ok(_) => None,
            Err(why) => Some(format!("the session file was not used: {why}")),
        };
        self.is_recorded = Some(self.is_recorded.unwrap_or(true) && gap.is_none());
        if self.is_recorded == Some(true) {
            reported.complete.extend([Channel::Actions, Channel::Subagents]);
        } else {
            reported.complete.remove(&Channel::Actions);
            reported.complete.remove(&Channel::Subagents);
            if self.has_spawned {
                reported.lost.extend(OF_SPAWNED);
            }
        }
        let what = "the evidence of calls is incomplete";
        reported.warn(gap.map(|why| format!("{what}: {why}")).into_iter().collect());
    }
}

impl Codex {
    /// Replaces the events of the lines by the events of the thread's file. Token counts, errors and questions of the
    /// lines stay. Returns the reason why the file's events are incomplete; `None` if they are complete.
    fn replace(&mut self, recorded: Recorded, reported: &mut Reported) -> Option<String> {
        let in_lines = std::mem::take(&mut reported.events);
        reported.first_token_ms = recorded.first_token_ms;
        for event in recorded.events {
            self.has_spawned |= matches!(event, Event::SubagentCalled { .. });
            reported.push(event);
        }
        let mut spawned = recorded.spawned_usage;
        for event in in_lines {
            match event {
                Event::Usage { usage: own, cost_usd } => {
                    let mut usage = own;
                    usage += std::mem::take(&mut spawned);
                    reported.push(Event::Usage { usage, cost_usd });
                }
                Event::Error { .. } | Event::InputRequested { .. } => reported.push(event),
                _ => {}
            }
        }
        recorded.gap
    }

    /// Records the items that began in the turn but were never completed. A web search becomes a call without a result.
    /// For a message or reasoning, the evidence of that kind is lost.
    fn leave_open(&mut self, reported: &mut Reported) {
        for (id, item) in std::mem::take(&mut self.open) {
            match text(&item, "type") {
                "web_search" => self.search(&id, &item, reported),
                "agent_message" => {
                    reported.lost.insert(Channel::Messages);
                    reported
                        .mark_incomplete("a message was started, but never completed".to_owned());
                }
                _ => {
                    reported.lost.insert(Channel::Thinking);
                }
            }
        }
    }

    fn search(&mut self, id: &str, item: &Value, reported: &mut Reported) {
        let input = json!({"query": text(item, "query")});
        self.begin(id, "web_search", Some(ToolKind::WebSearch), input, reported);
    }

    fn item(&mut self, item: &Value, is_done: bool, reported: &mut Reported) -> Result<(), String> {
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
                reported.begin_message();
                reported.add_message(text(item, "text"));
            }
            "reasoning" if is_done => {
                reported.push(Event::Thinking { text: text(item, "text").to_owned() });
            }
            "error" if is_done => self.errors.push(text(item, "message").to_owned()),
            "command_execution" => {
                let input = shell::input(item.get("command").unwrap_or(&Value::Null));
                self.begin(&id, "command_execution", Some(ToolKind::Shell), input, reported);
                if is_done {
                    let output = json!({
                        "output": text(item, "aggregated_output"),
                        "exitCode": item.get("exit_code"),
                    });
                    let status = self.status(item, reported);
                    end(&id, Some(output), status, reported);
                }
            }
            "file_change" => {
                let input = json!({"changes": item.get("changes")});
                self.begin(&id, "file_change", Some(ToolKind::FileEdit), input, reported);
                if is_done {
                    let status = self.status(item, reported);
                    end(&id, None, status, reported);
                }
            }
            "mcp_tool_call" => {
                let name = format!("mcp__{}__{}", text(item, "server"), text(item, "tool"));
                let input = item.get("arguments").cloned().unwrap_or_default();
                self.begin(&id, &name, Some(ToolKind::Unknown), input, reported);
                if is_done {
                    let error = item.pointer("/error/message").cloned();
                    let result = item.get("result").filter(|it| !it.is_null()).cloned();
                    let status = self.status(item, reported);
                    end(&id, error.or(result), status, reported);
                }
            }
            "web_search" => {
                // The query is only known when the search is completed.
                if is_done {
                    self.search(&id, item, reported);
                    end(&id, None, ActionStatus::Completed, reported);
                }
            }
            "collab_tool_call" => self.collab(&id, item, is_done, reported),
            // The first three are read when they are completed. The others are the agent's internal lists.
            "agent_message" | "reasoning" | "error" | "todo_list" | "plan" => {}
            "" => return Err("an item has no `type`".to_owned()),
            // An unknown item of this form is a call, so it is not part of the answer's text.
            other if other.ends_with("_call") => self.unknown(format!("item/{other}"), reported),
            other => self.note_unsupported(format!("item/{other}"), reported),
        }
        Ok(())
    }

    fn begin(
        &mut self,
        id: &str,
        name: &str,
        tool: Option<ToolKind>,
        input: Value,
        reported: &mut Reported,
    ) {
        if self.begun.insert(id.to_owned()) {
            let (call_id, name) = (id.to_owned(), name.to_owned());
            reported.push(Event::ActionCalled { call_id, name, tool, input });
        }
    }

    /// Reads a call about a subagent. Each subagent is a thread, which one call starts and later calls manage.
    fn collab(&mut self, id: &str, item: &Value, is_done: bool, reported: &mut Reported) {
        let tool = text(item, "tool");
        let kind = if tool == "spawn_agent" { ToolKind::AgentTask } else { ToolKind::Unknown };
        self.has_spawned |= tool == "spawn_agent";
        let input = json!({"prompt": item.get("prompt")});
        self.begin(id, tool, Some(kind), input, reported);
        if !is_done {
            return;
        }
        let done = self.status(item, reported);
        end(id, item.get("agents_states").cloned(), done, reported);
        if tool == "spawn_agent" {
            let threads = item.get("receiver_thread_ids").and_then(Value::as_array);
            for thread in threads.into_iter().flatten().filter_map(Value::as_str) {
                self.threads.insert(thread.to_owned(), id.to_owned());
                let (call_id, name) = (id.to_owned(), "agent".to_owned());
                reported.push(Event::SubagentCalled { call_id, name, remote_url: None });
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
                reported.push(Event::SubagentCompleted { call_id, output, status });
            }
        }
    }

    /// Returns the status of a completed item. Without a `status` field, the exit code and the error decide. An unknown
    /// status counts as failed, and is recorded as unsupported.
    fn status(&self, item: &Value, reported: &mut Reported) -> ActionStatus {
        let failed = item.get("exit_code").and_then(Value::as_i64).is_some_and(|it| it != 0)
            || item.get("error").is_some_and(|it| !it.is_null());
        match text(item, "status") {
            "failed" => ActionStatus::Failed,
            "declined" => ActionStatus::Rejected,
            "" if failed => ActionStatus::Failed,
            "completed" | "" => ActionStatus::Completed,
            other => {
                self.unknown(format!("item/{}/{other}", text(item, "type")), reported);
                ActionStatus::Failed
            }
        }
    }

    fn spend(&mut self, usage: Option<&Value>, reported: &mut Reported) {
        let Some(usage) = usage.filter(|it| it.is_object()) else { return };
        let count = |key: &str| usage.get(key).and_then(Value::as_u64);
        let cached = count("cached_input_tokens");
        let total = Usage::counted(count("input_tokens"), count("output_tokens"), None, cached);
        let turn = since(total, self.usage);
        self.usage = total;
        reported.push(Event::Usage { usage: turn, cost_usd: None });
    }
}

/// Describes a contradiction between the thread's file and the lines. Returns `None` if they agree. After a
/// contradiction, the file is not trusted, because the agent may have changed it.
fn difference(reported: &[Event], recorded: &Recorded) -> Option<String> {
    let mut unmatched: Vec<&str> = messages(&recorded.events).collect();
    for text in messages(reported) {
        let Some(at) = unmatched.iter().position(|it| *it == text) else {
            return Some("it lacks a message that Codex reported".to_owned());
        };
        unmatched.swap_remove(at);
    }
    if !unmatched.is_empty() {
        return Some("it contains a message that Codex did not report".to_owned());
    }
    let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
    for event in reported {
        if let Event::ActionCalled { name, tool, .. } = event {
            *calls.entry(count_key(name, *tool)).or_default() += 1;
        }
    }
    let held = |kind: &str| recorded.own_calls.get(kind).copied().unwrap_or(0);
    if let Some((kind, _)) = calls.iter().find(|(kind, count)| held(kind) < **count) {
        return Some(format!("it lacks calls of `{kind}` that Codex reported"));
    }
    for kind in completed(recorded) {
        match calls.get_mut(kind) {
            Some(count) if *count > 0 => *count -= 1,
            _ => return Some(format!("it contains a call of `{kind}` that Codex did not report")),
        }
    }
    None
}

fn messages(events: &[Event]) -> impl Iterator<Item = &str> {
    events.iter().filter_map(|it| match it {
        Event::Message { text, .. } => Some(text.trim()),
        _ => None,
    })
}

/// Returns the kinds of the successful calls that the thread itself made, without kinds that Codex may omit from its
/// lines.
fn completed(recorded: &Recorded) -> impl Iterator<Item = &str> {
    let done = recorded.events.iter().filter_map(|it| match it {
        Event::ActionResult { call_id, status: ActionStatus::Completed, .. } => Some(call_id),
        _ => None,
    });
    let done: HashSet<&String> = done.filter(|it| recorded.own_ids.contains(*it)).collect();
    recorded.events.iter().filter_map(move |it| match it {
        Event::ActionCalled { call_id, name, tool, .. } if done.contains(call_id) => {
            let has_lines = ["command_execution", "file_change", "web_search"]
                .contains(&name.as_str())
                || name.starts_with("mcp__");
            has_lines.then(|| count_key(name, *tool))
        }
        _ => None,
    })
}

/// Parses a line as an object. Codex writes two `id` keys into the `item` of a web search. The first one holds the id
/// of the item.
fn read_line(line: &str) -> Result<Map<String, Value>, String> {
    if duplicate_key_pointer(line).as_deref() != Some("/item/id") {
        return object(line);
    }
    let read = serde_json::from_str::<Map<String, Value>>(line);
    let item = serde_json::from_str::<Searched>(line);
    let (mut map, Searched { item }) =
        read.and_then(|it| Ok((it, item?))).map_err(|err| format!("it cannot be read: {err}"))?;
    map.insert("item".to_owned(), Value::Object(item.0));
    Ok(map)
}

/// A line with an item, for the items of web searches.
#[derive(serde::Deserialize)]
struct Searched {
    item: FirstId,
}

/// An object in which the first of two `id` keys counts.
struct FirstId(Map<String, Value>);

impl<'de> Deserialize<'de> for FirstId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = FirstId;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FirstId, A::Error> {
                let mut keys = Map::new();
                while let Some((key, value)) = map.next_entry::<String, Value>()? {
                    if !keys.contains_key(&key) {
                        keys.insert(key, value);
                    } else if key != "id" {
                        return Err(A::Error::custom(format!("it has a duplicate key `{key}`")));
                    }
                }
                Ok(FirstId(keys))
            }
        }
        deserializer.deserialize_map(Keys)
    }
}

fn end(id: &str, output: Option<Value>, status: ActionStatus, reported: &mut Reported) {
    reported.push(Event::ActionResult { call_id: id.to_owned(), output, status });
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
