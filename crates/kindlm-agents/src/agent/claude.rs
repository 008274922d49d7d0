//! The adapter for Claude Code, for output in the format `stream-json`.
//!
//! The adapter follows the documentation of versions 2.0 to 2.1, and recordings of 2.1.197. Each line holds one part of
//! an answer. All lines of an answer repeat the token counts of the answer, so tokens and cost are read from the
//! `result` line. In a `result` line, `modelUsage` and the cost are totals since the start of the process. So each turn
//! gets the difference to the previous `result` line.
//!
//! A command or a subagent in the background is a task. When a task ends, Claude Code starts another request and writes
//! another `result` line. Claude Code sends no such request if the model knew of the end when it answered. So a turn
//! ends at the first `result` line after which the user message is answered and no task is open.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use kindlm_types::{
    ActionStatus, Channel, Event, FinishReason, InputOption, InputRequest, ToolKind, Usage,
};
use serde_json::{Value, json};

use super::{Dialect, FAREWELL, Reported, Step, object, shell, text};

/// The types of lines that report progress but no events. The `streamlined_…` types are not listed, because such a line
/// replaces the lines of tool calls.
const SILENT: [&str; 8] = [
    "stream_event",
    "rate_limit_event",
    "tool_progress",
    "tool_use_summary",
    "auth_status",
    "prompt_suggestion",
    "keep_alive",
    "control_response",
];

/// The subtypes of `system` lines that report progress but no events.
const SILENT_SYSTEM: [&str; 32] = [
    "status",
    "hook_started",
    "hook_progress",
    "hook_response",
    "stop_hook_summary",
    "task_progress",
    "task_summary",
    "thinking_tokens",
    "turn_starting",
    "turn_duration",
    "api_error",
    "model_fallback",
    "model_consent_fallback",
    "model_refusal_fallback",
    "session_state_changed",
    "files_persisted",
    "file_snapshot",
    "local_command_output",
    "memory_recall",
    "memory_saved",
    "notification",
    "away_summary",
    "post_turn_summary",
    "plugin_install",
    "elicitation_complete",
    "informational",
    "permission_denied",
    "permission_retry",
    "commands_changed",
    "agents_killed",
    "scheduled_task_fire",
    "worker_shutting_down",
];

/// The evidence that is incomplete while a subagent works in the background.
const OF_AGENTS: [Channel; 3] = [Channel::Actions, Channel::Subagents, Channel::Skills];

/// The tools that the agent uses to stop its own tasks.
const STOPPING: [&str; 3] = ["TaskStop", "KillShell", "KillBash"];

/// The subtypes of a `result` after a configured limit has stopped the agent. Such a result becomes an event, not a
/// provider error.
const LIMITS: [&str; 3] =
    ["error_max_turns", "error_max_budget_usd", "error_max_structured_output_retries"];

/// The reader of Claude Code's lines.
#[derive(Debug, Default)]
pub(crate) struct Claude {
    ignored: HashSet<String>,
    /// The kinds of the calls that have no result yet, by call id.
    calls: HashMap<String, Called>,
    /// The ids of all reported calls.
    reported: HashSet<String>,
    /// The ids of the calls that started a background command or subagent, and have no result yet.
    background: HashSet<String>,
    /// The ids of the tasks that the agent has stopped with a tool.
    stopped: HashSet<String>,
    /// The ids of the calls that request to run in the background.
    in_background: HashSet<String>,
    /// The ids of the calls that started a background subagent. Actions of these subagents may be unreported.
    unreported: HashSet<String>,
    /// The number of reported calls of each subagent. The key is the id of the call that started the subagent.
    calls_of: HashMap<String, u64>,
    /// The tasks whose end the model does not know yet, by task id.
    tasks: HashMap<String, Task>,
    /// True if the user message of the current turn has been answered.
    is_answered: bool,
    /// True if the agent may leave background commands running.
    leaves_running: bool,
    /// True if the agent uses an API key, not a login that may be renewed.
    has_key: bool,
    /// The error message of the last failed request, which the agent retries; `None` without a failed request.
    retry: Option<String>,
    /// The id of the agent's last message.
    message: Option<String>,
    /// The tokens that the process used before this turn.
    usage: Usage,
    cost_usd: f64,
}

/// A task: a command or a subagent in the background.
#[derive(Debug)]
struct Task {
    is_command: bool,
    /// The id of the call that started the task.
    call_id: String,
    has_ended: bool,
}

#[derive(Debug)]
enum Called {
    Tool,
    Subagent,
    Skill(String),
}

impl Claude {
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

impl Dialect for Claude {
    fn last_error(&self) -> Option<&str> {
        self.retry.as_deref()
    }

    fn ends_late(&mut self, reported: &mut Reported) -> bool {
        if !self.is_answered || !self.tasks.values().all(|it| it.is_command) {
            return false;
        }
        self.tasks.clear();
        self.leaves_running = true;
        self.is_answered = false;
        let warning = "a background command was still running at the time limit of the turn";
        reported.warn(vec![warning.to_owned()]);
        true
    }

    fn farewell(&self) -> Duration {
        // Claude Code gives background commands five seconds before it stops them.
        if self.leaves_running { 2 * FAREWELL } else { FAREWELL }
    }

    fn read_line(&mut self, line: &str, reported: &mut Reported) -> Result<Step, String> {
        let line = Value::Object(object(line)?);
        let kind = text(&line, "type");
        match kind {
            "system" => return Ok(self.system(&line, reported)),
            "assistant" => self.answer(&line, reported)?,
            "user" => self.results(&line, reported)?,
            "result" => return Ok(self.result(&line, reported)),
            silent if SILENT.contains(&silent) => {}
            "" => return Err("it has no `type`".to_owned()),
            other => self.unknown(other.to_owned(), reported),
        }
        Ok(Step::More)
    }
}

impl Claude {
    fn system(&mut self, line: &Value, reported: &mut Reported) -> Step {
        match text(line, "subtype") {
            "init" => {
                // The evidence of thinking is not complete, because thinking is often missing in the lines, or empty.
                reported.complete.extend([
                    Channel::Messages,
                    Channel::Actions,
                    Channel::Subagents,
                    Channel::Skills,
                    Channel::InputRequests,
                    Channel::Compactions,
                    Channel::Errors,
                    Channel::Usage,
                ]);
                for (key, name) in [
                    ("session_id", "sessionId"),
                    ("claude_code_version", "version"),
                    ("model", "model"),
                    ("permissionMode", "permissionMode"),
                ] {
                    let value = line.get(key).filter(|it| it.is_string()).cloned();
                    reported.metadata.extend(value.map(|it| (name.to_owned(), it)));
                }
                self.has_key = !matches!(text(line, "apiKeySource"), "" | "none");
            }
            "api_retry" => return self.retry(line),
            // The `stop_reason` of the `result` line replaces this value, if that line has one.
            "model_refusal_no_fallback" => reported.finish_reason = Some(FinishReason::Refusal),
            "task_started" => {
                let is_command = text(line, "task_type") == "local_bash";
                let call_id = text(line, "tool_use_id").to_owned();
                let task = Task { is_command, call_id, has_ended: false };
                self.tasks.insert(text(line, "task_id").to_owned(), task);
            }
            "task_updated" => self.update(line, reported),
            "compact_boundary" | "microcompact_boundary" => {
                let reason = line.pointer("/compact_metadata/trigger").and_then(Value::as_str);
                reported.push(Event::Compaction { reason: reason.map(str::to_owned) });
            }
            "task_notification" => self.notify(line, reported),
            silent if SILENT_SYSTEM.contains(&silent) => {}
            other => self.unknown(format!("system/{other}"), reported),
        }
        Step::More
    }

    /// Handles a failed request to the model. The turn continues, unless a retry is hopeless.
    fn retry(&mut self, line: &Value) -> Step {
        let status = line.get("error_status").and_then(Value::as_u64);
        let attempt = line.get("attempt").and_then(Value::as_u64).unwrap_or(1);
        let number = status.map_or_else(String::new, |it| format!(" {it}"));
        let error = text(line, "error");
        self.retry =
            Some(format!("a request to its model failed:{number} {error} (attempt {attempt})"));
        // After the first status 401, Claude Code may renew a login. It cannot renew a key.
        if status == Some(401) && (self.has_key || attempt > 1) {
            return Step::Failed(format!(
                "the API of Claude Code's model answers 401 ({error}); check the key or the login that the agent gets"
            ));
        }
        Step::More
    }

    /// Handles a change of a task's status. An ended task stays in `tasks` until the model knows that it has ended.
    fn update(&mut self, line: &Value, reported: &mut Reported) {
        let id = text(line, "task_id");
        let status = line.pointer("/patch/status").and_then(Value::as_str).unwrap_or_default();
        let Some(ended) = self.ended_as(id, status) else { return };
        let Some(task) = self.tasks.get_mut(id) else { return };
        task.has_ended = true;
        // For a subagent, the later notification holds the result.
        if task.is_command {
            let call_id = task.call_id.clone();
            let output = format!("the command in the background ended with the status `{status}`");
            self.end(&call_id, ended, Some(output.into()), reported);
        }
    }

    /// Handles the notification that a background task has ended.
    fn notify(&mut self, line: &Value, reported: &mut Reported) {
        let (id, call_id) = (text(line, "task_id"), text(line, "tool_use_id"));
        self.tasks.remove(id);
        if !self.background.contains(call_id) {
            return;
        }
        let status = text(line, "status");
        let is_killed = matches!(status, "killed" | "stopped");
        if is_killed && self.leaves_running && !self.stopped.contains(id) {
            // Claude Code stops running commands when stdin is closed, so this status does not describe the command's
            // result.
            return;
        }
        let Some(ended) = self.ended_as(id, status) else {
            return self.unknown(format!("system/task_notification/{status}"), reported);
        };
        let output = line.get("summary").filter(|it| !it.is_null()).cloned();
        self.end(call_id, ended, output, reported);
        let made = line.pointer("/usage/tool_uses").and_then(Value::as_u64);
        let calls = self.calls_of.get(call_id).copied().unwrap_or(0);
        if made.is_some_and(|made| made <= calls)
            && self.unreported.remove(call_id)
            && self.unreported.is_empty()
        {
            reported.lost.retain(|it| !OF_AGENTS.contains(it));
        }
    }

    /// Returns the status of an ended task. Returns `None` if the task has not ended, or if the status is unknown.
    fn ended_as(&self, task: &str, status: &str) -> Option<ActionStatus> {
        match status {
            "completed" => Some(ActionStatus::Completed),
            "killed" | "stopped" if self.stopped.contains(task) => Some(ActionStatus::Completed),
            "failed" | "killed" | "stopped" => Some(ActionStatus::Failed),
            _ => None,
        }
    }

    /// Records the result of a call that ran in the background.
    fn end(
        &mut self,
        call_id: &str,
        status: ActionStatus,
        output: Option<Value>,
        reported: &mut Reported,
    ) {
        if !self.background.remove(call_id) {
            return;
        }
        let call_id = call_id.to_owned();
        if self.unreported.contains(&call_id) {
            let (call_id, output) = (call_id.clone(), output.clone());
            reported.push(Event::SubagentCompleted { call_id, output, status });
        }
        reported.push(Event::ActionResult { call_id, output, status });
    }

    /// Reads messages and calls of the agent. From the lines of a subagent, only calls and their results are read.
    fn answer(&mut self, line: &Value, reported: &mut Reported) -> Result<(), String> {
        let is_own = is_own(line);
        self.retry = None;
        if is_own {
            reported.finish_reason = stopped(line.pointer("/message/stop_reason"));
            // One message may be split into several lines, with one block each.
            let message = line.pointer("/message/id").and_then(Value::as_str);
            if message.is_none() || message != self.message.as_deref() {
                reported.begin_message();
                self.message = message.map(str::to_owned);
            }
        }
        let content = content(line, "assistant")?;
        if let Value::String(text) = content {
            if is_own {
                reported.add_message(text);
            }
            return Ok(());
        }
        for block in content.as_array().into_iter().flatten() {
            match text(block, "type") {
                "text" if is_own => reported.add_message(text(block, "text")),
                "thinking" if is_own => {
                    reported.push(Event::Thinking { text: text(block, "thinking").to_owned() });
                }
                "redacted_thinking" if is_own => {
                    reported.push(Event::Thinking { text: String::new() });
                }
                "text" | "thinking" | "redacted_thinking" => {}
                "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                    self.call(block, reported)?;
                    *self
                        .calls_of
                        .entry(text(line, "parent_tool_use_id").to_owned())
                        .or_default() += 1;
                }
                kind if kind.ends_with("tool_result") => {
                    self.result_block(block, false, reported)?;
                }
                other if is_own => self.note_unsupported(format!("assistant/{other}"), reported),
                other => self.unknown(format!("assistant/{other}"), reported),
            }
        }
        Ok(())
    }

    fn call(&mut self, block: &Value, reported: &mut Reported) -> Result<(), String> {
        let (id, name) = (text(block, "id"), text(block, "name"));
        if id.is_empty() || name.is_empty() {
            return Err("a `tool_use` has no `id`, or no `name`".to_owned());
        }
        let mut input = block.get("input").cloned().unwrap_or_default();
        if ToolKind::of_name(name) == ToolKind::Shell {
            shell::unwrap_input(&mut input);
        }
        let runs_in_background = input.get("run_in_background") == Some(&Value::Bool(true));
        let called = match name {
            "Task" | "Agent" => Called::Subagent,
            "Skill" => {
                let skill = [text(&input, "skill"), text(&input, "command")];
                let skill = skill.into_iter().find(|it| !it.is_empty()).unwrap_or_default();
                Called::Skill(skill.to_owned())
            }
            _ => Called::Tool,
        };
        let subagent =
            matches!(called, Called::Subagent).then(|| match text(&input, "subagent_type") {
                "" => "general-purpose".to_owned(),
                name => name.to_owned(),
            });
        let question = (name == "AskUserQuestion").then(|| question(id, &input));
        if STOPPING.contains(&name) {
            let keys = ["task_id", "shell_id"].into_iter();
            self.stopped.extend(keys.filter_map(|it| Some(input.get(it)?.as_str()?.to_owned())));
        }
        reported.push(Event::ActionCalled {
            call_id: id.to_owned(),
            name: name.to_owned(),
            tool: None,
            input,
        });
        if let Some(name) = subagent {
            let call_id = id.to_owned();
            reported.push(Event::SubagentCalled { call_id, name, remote_url: None });
        }
        if let Some(request) = question {
            reported.push(Event::InputRequested { request });
        }
        if runs_in_background {
            self.in_background.insert(id.to_owned());
        }
        self.reported.insert(id.to_owned());
        self.calls.insert(id.to_owned(), called);
        Ok(())
    }

    /// Reads tool results. Other texts in lines of the type `user` are skipped, because the user did not write them.
    fn results(&mut self, line: &Value, reported: &mut Reported) -> Result<(), String> {
        for block in content(line, "user")?.as_array().into_iter().flatten() {
            if text(block, "type") == "tool_result" {
                let goes_on = self.goes_on(line, text(block, "tool_use_id"));
                self.result_block(block, goes_on, reported)?;
                // With a result of the agent's own call, the model also learns of all ended tasks. A call that does not
                // continue in the background gets no task notification.
                let is_own = is_own(line);
                let call_id = text(block, "tool_use_id");
                self.tasks.retain(|_, task| {
                    !(task.has_ended && is_own) && (goes_on || task.call_id != call_id)
                });
            }
        }
        Ok(())
    }

    /// Returns true if the result only reports a call that continues in the background.
    fn goes_on(&self, line: &Value, call_id: &str) -> bool {
        match line.get("tool_use_result").filter(|it| it.is_object()) {
            Some(result) => {
                result.get("backgroundTaskId").is_some_and(|it| !it.is_null())
                    || result.get("isAsync") == Some(&Value::Bool(true))
            }
            None => self.in_background.contains(call_id),
        }
    }

    fn result_block(
        &mut self,
        block: &Value,
        goes_on: bool,
        reported: &mut Reported,
    ) -> Result<(), String> {
        let id = text(block, "tool_use_id");
        if id.is_empty() {
            return Err("a `tool_result` has no `tool_use_id`".to_owned());
        }
        let failed = block.get("is_error").and_then(Value::as_bool).unwrap_or(false);
        let status = if failed { ActionStatus::Failed } else { ActionStatus::Completed };
        let output = block.get("content").map(plain);
        // This result only reports the start of a background call. The end of the call is reported later, or never.
        let has_begun = goes_on && !failed;
        if has_begun {
            self.background.insert(id.to_owned());
        } else {
            let (call_id, output) = (id.to_owned(), output.clone());
            reported.push(Event::ActionResult { call_id, output, status });
        }
        match self.calls.remove(id) {
            Some(Called::Subagent) if has_begun => {
                self.unreported.insert(id.to_owned());
                reported.lost.extend(OF_AGENTS);
            }
            Some(Called::Subagent) => {
                reported.push(Event::SubagentCompleted { call_id: id.to_owned(), output, status });
            }
            Some(Called::Skill(skill)) if !failed => {
                reported.push(Event::SkillLoaded { skill, call_id: Some(id.to_owned()) });
            }
            _ => {}
        }
        Ok(())
    }

    fn result(&mut self, line: &Value, reported: &mut Reported) -> Step {
        let subtype = text(line, "subtype");
        let is_error = line.get("is_error").and_then(Value::as_bool).unwrap_or(false);
        let answer = text(line, "result");
        let turns = line.get("num_turns").and_then(Value::as_u64);
        if turns == Some(0) && answer.is_empty() && subtype == "success" && !is_error {
            // This `result` line answers an input line for which Claude Code sent no request to the model.
            return Step::More;
        }
        self.reject(line, reported);
        if !answer.is_empty() && !is_error {
            reported.answer(answer);
        }
        self.spend(line, reported);
        reported.finish_reason = stopped(line.get("stop_reason")).or(reported.finish_reason.take());
        // A refusal is the model's answer, even if the agent reports it as an error.
        let refuses = reported.finish_reason == Some(FinishReason::Refusal);
        let errors = line.get("errors").and_then(Value::as_array).into_iter().flatten();
        let errors: Vec<&str> = errors.filter_map(Value::as_str).collect();
        if LIMITS.contains(&subtype) {
            let why =
                if errors.is_empty() { String::new() } else { format!(": {}", errors.join("; ")) };
            reported.push(Event::Error { message: format!("{subtype}{why}") });
        } else if !refuses && (is_error || subtype.starts_with("error")) {
            let why = if errors.is_empty() { answer.to_owned() } else { errors.join("; ") };
            return Step::Failed(match subtype {
                "success" => format!("Claude Code could not answer: {why}"),
                _ => format!("Claude Code ended with {subtype}: {why}"),
            });
        }
        if let Some(data) = line.get("structured_output").filter(|it| !it.is_null()) {
            reported.output_json = Some(data.clone());
        }
        let origin = line.pointer("/origin/kind").and_then(Value::as_str);
        self.is_answered |= origin != Some("task-notification");
        if !self.is_answered || !self.tasks.is_empty() {
            return Step::More;
        }
        self.is_answered = false;
        Step::Done
    }

    /// Marks the calls in `permission_denials` as rejected, because their results only report an error. Adds denied
    /// calls that have no line of their own.
    fn reject(&mut self, line: &Value, reported: &mut Reported) {
        let denied = line.get("permission_denials").and_then(Value::as_array);
        let mut ids: HashSet<String> = HashSet::new();
        for (index, it) in denied.into_iter().flatten().enumerate() {
            let (name, input) = (text(it, "tool_name"), it.get("tool_input").cloned());
            let mut input = input.unwrap_or_default();
            if ToolKind::of_name(name) == ToolKind::Shell {
                shell::unwrap_input(&mut input);
            }
            let is_it = |it: &Event| match it {
                Event::ActionCalled { call_id, name: own, input: of_own, .. } => {
                    (own == name && *of_own == input).then(|| call_id.clone())
                }
                _ => None,
            };
            let id = match text(it, "tool_use_id") {
                "" => reported.events.iter().find_map(is_it),
                id => Some(id.to_owned()),
            };
            let id = id.unwrap_or_else(|| format!("denied-{index}"));
            if !self.reported.contains(&id) {
                let call = json!({"id": id, "name": name, "input": input});
                let result = json!({"tool_use_id": id, "is_error": true});
                let recorded = self
                    .call(&call, reported)
                    .and_then(|()| self.result_block(&result, false, reported));
                if recorded.is_err() {
                    self.unknown("result/permission_denials".to_owned(), reported);
                }
            }
            ids.insert(id);
        }
        for event in &mut reported.events {
            if let Event::ActionResult { call_id, status, .. }
            | Event::SubagentCompleted { call_id, status, .. } = event
                && ids.contains(call_id)
            {
                *status = ActionStatus::Rejected;
            }
        }
    }

    /// Records the tokens and the cost of this turn.
    fn spend(&mut self, line: &Value, reported: &mut Reported) {
        let by_model =
            line.get("modelUsage").and_then(Value::as_object).filter(|it| !it.is_empty());
        let usage = if let Some(models) = by_model {
            let mut total = Usage::default();
            for it in models.values() {
                let keys = ["cacheReadInputTokens", "cacheCreationInputTokens"];
                total += usage(it, "inputTokens", "outputTokens", keys);
            }
            let turn = since(total, self.usage);
            self.usage = total;
            turn
        } else {
            let keys = ["cache_read_input_tokens", "cache_creation_input_tokens"];
            let own = line.get("usage").unwrap_or(&Value::Null);
            usage(own, "input_tokens", "output_tokens", keys)
        };
        let total = line.get("total_cost_usd").and_then(Value::as_f64).filter(|it| *it >= 0.0);
        let cost_usd = total.map(|total| {
            // A smaller total means that the count was reset.
            let cost = if total >= self.cost_usd { total - self.cost_usd } else { total };
            self.cost_usd = total;
            cost
        });
        reported.push(Event::Usage { usage, cost_usd });
    }
}

/// Returns true if a line belongs to the agent itself, not to a subagent.
fn is_own(line: &Value) -> bool {
    line.get("parent_tool_use_id").is_none_or(Value::is_null)
}

/// Returns the finish reason of the model; `None` if the line reports none.
fn stopped(word: Option<&Value>) -> Option<FinishReason> {
    word.and_then(Value::as_str).map(FinishReason::of_vendor)
}

/// Returns the `content` of a line's message, which is a text or a list of blocks. Fails for any other content.
fn content<'v>(line: &'v Value, kind: &str) -> Result<&'v Value, String> {
    line.pointer("/message/content")
        .filter(|it| it.is_string() || it.is_array())
        .ok_or_else(|| format!("a line of the type `{kind}` has no `message.content`"))
}

/// Returns the text of a result that consists only of text blocks. Any other result stays unchanged.
fn plain(content: &Value) -> Value {
    let Some(blocks) = content.as_array() else { return content.clone() };
    let texts: Option<Vec<&str>> =
        blocks.iter().map(|it| (text(it, "type") == "text").then(|| text(it, "text"))).collect();
    texts.map_or_else(|| content.clone(), |it| Value::String(it.join("\n")))
}

fn question(id: &str, input: &Value) -> InputRequest {
    let questions = input.get("questions").and_then(Value::as_array);
    let questions: Vec<&Value> = questions.into_iter().flatten().collect();
    let asked: Vec<&str> = questions.iter().map(|it| text(it, "question")).collect();
    let options = questions.first().and_then(|it| it.get("options")).and_then(Value::as_array);
    let option = |it: &Value| {
        let label = text(it, "label").to_owned();
        let description = Some(text(it, "description").to_owned()).filter(|it| !it.is_empty());
        InputOption { id: label, label: description }
    };
    InputRequest {
        id: Some(id.to_owned()),
        prompt: Some(asked.join("\n")).filter(|it| !it.is_empty()),
        action: None,
        input: Some(input.clone()),
        options: options.into_iter().flatten().map(option).collect(),
    }
}

/// Returns the token usage. Claude Code's count of input tokens does not include cache tokens.
fn usage(counts: &Value, input: &str, output: &str, [read, written]: [&str; 2]) -> Usage {
    let count = |key: &str| counts.get(key).and_then(Value::as_u64);
    let cached = count(read);
    let apart = cached.unwrap_or(0).saturating_add(count(written).unwrap_or(0));
    let input = count(input).map(|it| it.saturating_add(apart));
    Usage::counted(input, count(output), None, cached)
}

/// Returns the usage since the last total. A smaller total means that the count was reset.
pub(super) fn since(total: Usage, before: Usage) -> Usage {
    if total.total_tokens < before.total_tokens {
        return total;
    }
    total.without(before)
}
