//! The adapter for the thread files of Codex (`rollout-….jsonl`).
//!
//! `codex exec --json` omits the actions of subagents, refused calls, and calls of some tools. The file holds every
//! item of the model, so it holds every call. The format follows recordings of 0.169.

use std::collections::{BTreeMap, HashMap, HashSet};

use kindlm_types::{ActionStatus, Event, Speaker, ToolKind, Usage};
use serde_json::{Map, Value, json};

use super::{object, shell, text};

/// The files of one turn: the file of the thread, then the files of its subagents.
pub(crate) type Files = Vec<ThreadFile>;

/// One thread file.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadFile {
    /// The id of the thread.
    pub(super) thread: String,
    /// All lines of the file.
    pub(super) lines: Vec<String>,
}

/// The content of the files for one turn.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    /// The events, in order, without token counts.
    pub(super) events: Vec<Event>,
    /// The tokens of all subagents. The lines report the tokens of the thread itself.
    pub(super) spawned_usage: Usage,
    /// The time to the first token of the thread, in milliseconds, if it is recorded.
    pub(super) first_token_ms: Option<f64>,
    /// The number of the thread's own calls, by kind.
    pub(super) own_calls: HashMap<String, usize>,
    /// The ids of the thread's own calls.
    pub(super) own_ids: HashSet<String>,
    /// The reason why the actions of subagents are incomplete; `None` if they are complete.
    pub(super) gap: Option<String>,
}

/// Reads the files of one conversation, turn by turn.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The number of lines that earlier turns have read, by thread id.
    read: HashMap<String, usize>,
    /// The ids of the calls that were read. A subagent's file may begin with a copy of earlier lines.
    calls: HashSet<String>,
    /// The ids of the answers whose tokens were counted. A copied answer must not count again.
    answers: HashSet<String>,
    /// The id of the call that started each running subagent, by the id of the subagent's thread.
    spawned: BTreeMap<String, String>,
}

/// A line of a thread file.
struct Line {
    at: String,
    is_own: bool,
    thread: String,
    kind: String,
    payload: Value,
}

impl Reader {
    /// Reads the lines since the last turn. Fails with the reason if the files are unreliable.
    pub(super) fn turn(&mut self, files: &Files) -> Result<Recorded, String> {
        let mut lines = Vec::new();
        for (index, file) in files.iter().enumerate() {
            let from = self.read.insert(file.thread.clone(), file.lines.len()).unwrap_or(0);
            for line in file.lines.iter().skip(from) {
                lines.push(parse_line(line, &file.thread, index == 0)?);
            }
        }
        // The sort is stable, so it keeps the order within a file. The times have milliseconds.
        lines.sort_by(|one, other| one.at.cmp(&other.at));
        let details = details(&lines);
        let mut recorded = Recorded::default();
        let mut has_ended = false;
        for line in &lines {
            match line.kind.as_str() {
                "response_item" => self.item(line, &details, &mut recorded)?,
                "event_msg" => {
                    if line.is_own && text(&line.payload, "type") == "task_complete" {
                        has_ended = true;
                        let first = line.payload.get("time_to_first_token_ms");
                        let first = first.and_then(Value::as_f64);
                        recorded.first_token_ms = first.filter(|it| *it >= 0.0);
                    }
                    self.ended(line, &mut recorded);
                }
                "compacted" if line.is_own => {
                    recorded.events.push(Event::Compaction { reason: None });
                }
                "token_usage_record" => self.spend(line, &mut recorded),
                _ => {}
            }
        }
        if !has_ended {
            return Err("it lacks the end of the turn".to_owned());
        }
        let running = self.spawned.keys().next();
        recorded.gap = running.map(|it| {
            let why = if files.iter().any(|file| file.thread == *it) {
                "a spawned agent was still at work at the end of the turn"
            } else {
                "the file of a spawned agent is missing"
            };
            why.to_owned()
        });
        Ok(recorded)
    }

    fn item(
        &mut self,
        line: &Line,
        details: &HashMap<&str, &Value>,
        recorded: &mut Recorded,
    ) -> Result<(), String> {
        let item = &line.payload;
        match text(item, "type") {
            "message" if line.is_own && text(item, "role") == "assistant" => {
                let text = texts(item.get("content"), "text");
                if !text.trim().is_empty() {
                    recorded.events.push(Event::Message { role: Speaker::Assistant, text });
                }
            }
            "reasoning" if line.is_own => {
                let text = texts(item.get("summary"), "text");
                if !text.is_empty() {
                    recorded.events.push(Event::Thinking { text });
                }
            }
            "message" | "reasoning" | "ghost_snapshot" | "compaction" | "compaction_summary"
            | "context_compaction" => {}
            kind if kind.ends_with("_call") => self.call(line, details, recorded)?,
            // Codex itself adds outputs without an id; they belong to no call.
            kind if kind.ends_with("_output") => {
                let id = text(item, "call_id");
                if !id.is_empty() && self.calls.contains(id) {
                    result(id, item.get("output"), details.get(id).copied(), recorded);
                }
            }
            other => return Err(format!("it holds an item of the unknown type `{other}`")),
        }
        Ok(())
    }

    fn call(
        &mut self,
        line: &Line,
        details: &HashMap<&str, &Value>,
        recorded: &mut Recorded,
    ) -> Result<(), String> {
        let item = &line.payload;
        let id = [text(item, "call_id"), text(item, "id")].into_iter().find(|it| !it.is_empty());
        let id = id.ok_or_else(|| format!("a `{}` has no id", text(item, "type")))?;
        let detail = details.get(id).copied();
        let Some(call) = Call::from_item(item, detail) else { return Ok(()) };
        if !self.calls.insert(id.to_owned()) {
            return Ok(());
        }
        if line.is_own {
            *recorded.own_calls.entry(call.key().to_owned()).or_default() += 1;
            recorded.own_ids.insert(id.to_owned());
        }
        let is_spawn = call.name == "spawn_agent";
        recorded.events.push(Event::ActionCalled {
            call_id: id.to_owned(),
            name: call.name,
            tool: call.tool,
            input: call.input,
        });
        if is_spawn {
            let (call_id, name) = (id.to_owned(), "agent".to_owned());
            recorded.events.push(Event::SubagentCalled { call_id, name, remote_url: None });
            let threads = detail.and_then(|it| it.get("receiver_thread_ids"));
            for thread in threads.and_then(Value::as_array).into_iter().flatten() {
                if let Some(thread) = thread.as_str() {
                    self.spawned.insert(thread.to_owned(), id.to_owned());
                }
            }
        }
        // A web search has no separate item for its result.
        if text(item, "type") == "web_search_call" {
            let status = match text(item, "status") {
                "failed" => ActionStatus::Failed,
                _ => ActionStatus::Completed,
            };
            end(id, None, status, recorded);
        }
        Ok(())
    }

    /// Records the end of a subagent.
    fn ended(&mut self, line: &Line, recorded: &mut Recorded) {
        if line.is_own {
            return;
        }
        let event = &line.payload;
        let status = match text(event, "type") {
            "task_complete" if event.get("error").is_none_or(Value::is_null) => {
                ActionStatus::Completed
            }
            "task_complete" | "turn_aborted" => ActionStatus::Failed,
            _ => return,
        };
        if let Some(call_id) = self.spawned.remove(&line.thread) {
            let output = event.get("last_agent_message").filter(|it| !it.is_null()).cloned();
            recorded.events.push(Event::SubagentCompleted { call_id, output, status });
        }
    }

    fn spend(&mut self, line: &Line, recorded: &mut Recorded) {
        let record = &line.payload;
        let answer = format!("{}/{}", line.thread, text(record, "response_id"));
        let is_theirs = !line.is_own && text(record, "thread_id") == line.thread;
        if !is_theirs || !self.answers.insert(answer) {
            return;
        }
        let count = |key: &str| record.get("usage")?.get(key)?.as_u64();
        let cached = count("cached_input_tokens").unwrap_or(0);
        let usage = Usage::counted(count("input_tokens"), count("output_tokens"), None, cached);
        recorded.spawned_usage += usage;
    }
}

fn parse_line(line: &str, thread: &str, is_own: bool) -> Result<Line, String> {
    let line = Value::Object(object(line)?);
    Ok(Line {
        at: text(&line, "timestamp").to_owned(),
        is_own,
        thread: thread.to_owned(),
        kind: text(&line, "type").to_owned(),
        payload: line.get("payload").cloned().unwrap_or_default(),
    })
}

/// Returns Codex's own records of executed calls, by call id: commands, patches, MCP calls, web searches and subagents.
fn details(lines: &[Line]) -> HashMap<&str, &Value> {
    let noted = lines.iter().filter(|it| text(&it.payload, "type") == "item_completed");
    let items = noted.filter_map(|it| it.payload.get("item"));
    items.map(|it| (text(it, "id"), it)).collect()
}

/// Joins the texts that the parts of a message have at `key`, one per line.
fn texts(parts: Option<&Value>, key: &str) -> String {
    let parts = parts.and_then(Value::as_array).into_iter().flatten();
    let texts: Vec<&str> = parts.map(|it| text(it, key)).filter(|it| !it.is_empty()).collect();
    texts.join("\n")
}

/// A call, with the same name and input as in the lines of `codex exec --json`.
struct Call {
    name: String,
    tool: Option<ToolKind>,
    input: Value,
}

impl Call {
    /// Returns the call of an item. Returns `None` if the item only updates the agent's to-do list.
    fn from_item(item: &Value, detail: Option<&Value>) -> Option<Self> {
        let (name, space) = (text(item, "name"), text(item, "namespace"));
        let input = arguments(item);
        let call = |name: &str, tool, input| Some(Self { name: name.to_owned(), tool, input });
        let noted = detail.map_or("", |it| text(it, "type"));
        if noted == "McpToolCall" || space.starts_with("mcp__") {
            let name = match detail.map(|it| (text(it, "server"), text(it, "tool"))) {
                Some((server, tool)) if !tool.is_empty() => format!("mcp__{server}__{tool}"),
                _ => format!("{space}__{name}"),
            };
            return call(&name, Some(ToolKind::Unknown), input);
        }
        let command = ["cmd", "command"].into_iter().find_map(|it| input.get(it)).cloned();
        let command = command.or_else(|| item.pointer("/action/command").cloned());
        let line = command.as_ref().and_then(Value::as_str).map(str::trim_start);
        let patch = if name == "apply_patch" {
            input.as_str().or_else(|| input.get("input").and_then(Value::as_str))
        } else {
            line.filter(|it| it.starts_with("apply_patch"))
        };
        if noted == "FileChange" || patch.is_some() {
            let changes = detail.and_then(|it| it.get("changes")).and_then(Value::as_object);
            let changes = match changes {
                Some(changes) => {
                    changes.iter().map(|(path, it)| change(path, text(it, "type"))).collect()
                }
                None => patched(patch.unwrap_or_default()),
            };
            return call("file_change", Some(ToolKind::FileEdit), json!({"changes": changes}));
        }
        match (text(item, "type"), name) {
            ("web_search_call", _) => {
                let query = item.pointer("/action/query").cloned();
                let query = query.or_else(|| detail.and_then(|it| it.get("query")).cloned());
                call("web_search", Some(ToolKind::WebSearch), json!({"query": query}))
            }
            (_, "update_plan") => None,
            (_, "spawn_agent") => {
                let prompt = ["message", "prompt"].into_iter().find_map(|it| input.get(it));
                call(name, Some(ToolKind::AgentTask), json!({"prompt": prompt}))
            }
            // Text that is typed into a running command counts as a command.
            (_, "write_stdin") if !text(&input, "chars").trim().is_empty() => {
                let command = json!(text(&input, "chars").trim_end());
                call(name, Some(ToolKind::Shell), shell::input(&command))
            }
            (_, "exec_command" | "shell" | "shell_command" | "local_shell" | "container.exec")
            | ("local_shell_call", _) => {
                let mut own = shell::input(&command.unwrap_or(input));
                let wrapped = detail.and_then(|it| it.get("command")).filter(|it| it.is_array());
                if let (Value::Object(own), Some(wrapped)) = (&mut own, wrapped) {
                    own.insert("raw".to_owned(), wrapped.clone());
                }
                call("command_execution", Some(ToolKind::Shell), own)
            }
            (kind, "") => call(kind, None, input),
            _ => call(name, None, input),
        }
    }

    /// Returns the key by which calls are counted.
    fn key(&self) -> &str {
        count_key(&self.name, self.tool)
    }
}

/// Returns the key under which calls are counted, to compare the lines with the thread's file. The key is the kind of
/// the call, or the name of the call if the kind is unknown.
pub(super) fn count_key(name: &str, tool: Option<ToolKind>) -> &str {
    match tool {
        Some(ToolKind::Unknown) | None => name,
        Some(kind) => kind.as_str(),
    }
}

/// Returns the arguments of a call. A text that holds a JSON object is parsed.
fn arguments(item: &Value) -> Value {
    let given = ["arguments", "input"].into_iter().find_map(|it| item.get(it));
    match given.cloned().unwrap_or_default() {
        Value::String(text) => match serde_json::from_str::<Map<String, Value>>(&text) {
            Ok(map) => Value::Object(map),
            Err(_) => Value::String(text),
        },
        other => other,
    }
}

fn change(path: &str, kind: &str) -> Value {
    json!({"path": path, "kind": kind})
}

/// Returns the files in a patch, with the kind of each change.
fn patched(patch: &str) -> Vec<Value> {
    let kinds = [
        ("*** Add File: ", "add"),
        ("*** Update File: ", "update"),
        ("*** Delete File: ", "delete"),
    ];
    let named = |line: &str| {
        kinds
            .iter()
            .find_map(|(prefix, kind)| Some(change(line.strip_prefix(prefix)?.trim(), kind)))
    };
    patch.lines().filter_map(named).collect()
}

/// Records the result of a call. Does nothing if the status is unknown, or if Codex stopped the call at the end of the
/// turn.
fn result(id: &str, output: Option<&Value>, detail: Option<&Value>, recorded: &mut Recorded) {
    let output_text = match output {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(_)) => texts(output, "text"),
        Some(other) => text(other, "content").to_owned(),
        None => String::new(),
    };
    let noted = detail.map_or("", |it| text(it, "type"));
    let exit_code = match noted {
        "CommandExecution" => detail.and_then(|it| it.get("exit_code")).and_then(Value::as_i64),
        _ => exit_code(&output_text),
    };
    let status = match detail.map_or("", |it| text(it, "status")) {
        // The command was still running at the end of the turn, and Codex stopped it.
        "failed" if exit_code == Some(-1) => return,
        "completed" => Some(ActionStatus::Completed),
        "failed" => Some(ActionStatus::Failed),
        "declined" => Some(ActionStatus::Rejected),
        _ => outcome(output, &output_text, exit_code),
    };
    let Some(status) = status else { return };
    let output = match noted {
        "CommandExecution" => Some(json!({
            "output": detail.map(|it| text(it, "aggregated_output")),
            "exitCode": exit_code,
        })),
        "FileChange" => None,
        "McpToolCall" => {
            detail.and_then(|it| it.pointer("/result/Ok").or_else(|| it.get("result"))).cloned()
        }
        _ => Some(exit_code.map_or_else(
            || output.cloned().unwrap_or_default(),
            |code| json!({"output": output_text, "exitCode": code}),
        )),
    };
    end(id, output, status, recorded);
}

/// Returns the status of a call according to the call's output. Returns `None` if the output does not show the status.
fn outcome(
    output: Option<&Value>,
    output_text: &str,
    exit_code: Option<i64>,
) -> Option<ActionStatus> {
    const FAILED: [&str; 6] = [
        "unsupported call",
        "unsupported custom tool call",
        "failed to parse",
        "unable to",
        "write_stdin failed",
        "invalid ",
    ];
    if let Some(code) = exit_code {
        return Some(if code == 0 { ActionStatus::Completed } else { ActionStatus::Failed });
    }
    if output_text.starts_with("patch rejected") || output_text.contains("rejected by user") {
        return Some(ActionStatus::Rejected);
    }
    if FAILED.iter().any(|it| output_text.starts_with(it))
        || output_text.contains(" is unavailable")
    {
        return Some(ActionStatus::Failed);
    }
    let is_structured = output.is_some_and(Value::is_array)
        || serde_json::from_str::<Map<String, Value>>(output_text).is_ok();
    is_structured.then_some(ActionStatus::Completed)
}

/// Returns the exit code in the text that the model receives for a command. Returns `None` without an exit code.
fn exit_code(output_text: &str) -> Option<i64> {
    let first_lines = output_text.lines().take(8);
    let code = first_lines.into_iter().find_map(|line| {
        line.strip_prefix("Process exited with code ").or_else(|| line.strip_prefix("Exit code: "))
    });
    code?.trim().parse().ok()
}

fn end(id: &str, output: Option<Value>, status: ActionStatus, recorded: &mut Recorded) {
    recorded.events.push(Event::ActionResult { call_id: id.to_owned(), output, status });
}
