//! Facts derived from the events of an execution.

use std::collections::HashMap;

use serde_json::Value;

use super::{ActionStatus, Event, InputRequest, Speaker, ToolKind};

static NULL: Value = Value::Null;

/// The facts derived from the events: calls, messages, and the final state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts<'e> {
    /// The tool calls, in the order in which they were made.
    pub actions: Vec<Action<'e>>,
    /// The calls of other agents, in the order in which they were made.
    pub subagents: Vec<SubagentCall<'e>>,
    /// The skills that were loaded, in order.
    pub skills: Vec<&'e str>,
    /// The messages of the agent, in order.
    pub said: Vec<&'e str>,
    /// The questions that the agent asked a person, in order.
    pub input_requests: Vec<&'e InputRequest>,
    /// The errors inside the agent, in order.
    pub errors: Vec<&'e str>,
    /// The minimum number of model answers.
    ///
    /// A message of the agent begins an answer. A call or a question to a person belongs to the current answer, or
    /// begins an answer if there is none. A result or a message of the user ends the answer.
    pub answers: usize,
    /// The number of times that the agent compacted its conversation history.
    pub compactions: usize,
    /// The number of times that the agent emitted its reasoning.
    pub thoughts: usize,
    /// True if the agent ended by asking a person and waits for the answer.
    pub parked: bool,
}

/// A tool call with its result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Action<'e> {
    /// The id of the call, which is normally unique within the execution.
    pub call_id: &'e str,
    /// The tool's name as the agent reports it; `None` if only the result of the call is known.
    pub name: Option<&'e str>,
    /// The kind of the tool.
    pub kind: ToolKind,
    /// The arguments; `Null` if only the result of the call is known.
    pub input: &'e Value,
    /// The output of the tool; `None` if no output was recorded.
    pub output: Option<&'e Value>,
    /// The state of the call.
    pub state: ActionState,
}

/// A call of another agent (subagent) with its result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SubagentCall<'e> {
    /// The id of the call, which is normally unique within the execution.
    pub call_id: &'e str,
    /// The other agent's name; `None` if only the result of the call is known.
    pub name: Option<&'e str>,
    /// The address of the other agent, if it runs elsewhere.
    pub remote_url: Option<&'e str>,
    /// The output of the other agent; `None` if no output was recorded.
    pub output: Option<&'e Value>,
    /// The state of the call.
    pub state: ActionState,
}

/// The state of a call: pending, or ended with a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionState {
    /// No result was recorded. The call is not known to have completed.
    Pending,
    /// The call ended with this status.
    Ended(ActionStatus),
}

impl ActionState {
    /// Returns the name of the state: `pending`, `completed`, `failed` or `rejected`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ended(ActionStatus::Completed) => "completed",
            Self::Ended(ActionStatus::Failed) => "failed",
            Self::Ended(ActionStatus::Rejected) => "rejected",
        }
    }
}

impl ActionState {
    /// Returns true if a result with this status replaces the state.
    ///
    /// If a call has several results, the worst one counts. The last of equally bad results replaces the earlier ones.
    fn may_become(self, status: ActionStatus) -> bool {
        let badness = |it| match it {
            ActionStatus::Completed => 0,
            ActionStatus::Rejected => 1,
            ActionStatus::Failed => 2,
        };
        match self {
            Self::Pending => true,
            Self::Ended(before) => badness(status) >= badness(before),
        }
    }
}

/// Returns the exit code in the output of a shell tool.
///
/// Returns `None` if the output has no exit code.
///
/// For several commands, the result is the first code other than 0, or else the first code. Agents and APIs use
/// different keys for the exit code, and some nest the key one level down.
pub fn exit_code(output: &Value) -> Option<i64> {
    const KEYS: [&str; 6] =
        ["exit_code", "exitCode", "exitcode", "return_code", "returnCode", "returncode"];
    if let Value::Array(commands) = output {
        let codes = || commands.iter().filter_map(exit_code);
        return codes().find(|it| *it != 0).or_else(|| codes().next());
    }
    let own = KEYS.iter().find_map(|key| output.get(*key)?.as_i64());
    own.or_else(|| ["metadata", "outcome"].iter().find_map(|it| exit_code(output.get(*it)?)))
}

impl Action<'_> {
    /// Returns the exit code of the command that a shell tool ran. Returns `None` for other tools, and for an output
    /// without an exit code.
    pub fn exit_code(&self) -> Option<i64> {
        self.output.filter(|_| self.kind == ToolKind::Shell).and_then(exit_code)
    }

    /// Returns true if the tool, or the command that it ran, failed.
    ///
    /// False for rejected calls and for calls without a result.
    pub fn has_failed(&self) -> bool {
        match self.state {
            ActionState::Ended(ActionStatus::Failed) => true,
            ActionState::Ended(ActionStatus::Completed) => {
                self.exit_code().is_some_and(|it| it != 0)
            }
            ActionState::Ended(ActionStatus::Rejected) | ActionState::Pending => false,
        }
    }

    /// Returns true if the called tool, or the kind of this tool, has this name.
    ///
    /// `unknown` is not accepted as the name of a kind.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == Some(name) || (self.kind != ToolKind::Unknown && self.kind.as_str() == name)
    }
}

impl<'e> Facts<'e> {
    /// Derives the facts from events in order.
    pub fn from_events(events: &'e [Event]) -> Self {
        let mut facts = Self::default();
        // Results are matched to calls by id. If calls share an id, a result belongs to the last earlier call.
        let mut actions: HashMap<&str, usize> = HashMap::new();
        let mut subagents: HashMap<&str, usize> = HashMap::new();
        for event in events {
            match event {
                Event::Message { role, text } => {
                    if *role == Speaker::Assistant {
                        facts.said.push(text);
                    }
                }
                Event::ActionCalled { call_id, name, tool, input } => {
                    actions.insert(call_id, facts.actions.len());
                    facts.actions.push(Action {
                        call_id,
                        name: Some(name),
                        kind: tool.unwrap_or_else(|| ToolKind::of_name(name)),
                        input,
                        output: None,
                        state: ActionState::Pending,
                    });
                }
                Event::ActionResult { call_id, output, status } => {
                    let at = *actions.entry(call_id).or_insert_with(|| {
                        facts.actions.push(Action {
                            call_id,
                            name: None,
                            kind: ToolKind::Unknown,
                            input: &NULL,
                            output: None,
                            state: ActionState::Pending,
                        });
                        facts.actions.len() - 1
                    });
                    if let Some(action) = facts.actions.get_mut(at)
                        && action.state.may_become(*status)
                    {
                        action.output = output.as_ref();
                        action.state = ActionState::Ended(*status);
                    }
                }
                Event::SubagentCalled { call_id, name, remote_url } => {
                    subagents.insert(call_id, facts.subagents.len());
                    facts.subagents.push(SubagentCall {
                        call_id,
                        name: Some(name),
                        remote_url: remote_url.as_deref(),
                        output: None,
                        state: ActionState::Pending,
                    });
                }
                Event::SubagentCompleted { call_id, output, status } => {
                    let at = *subagents.entry(call_id).or_insert_with(|| {
                        facts.subagents.push(SubagentCall {
                            call_id,
                            name: None,
                            remote_url: None,
                            output: None,
                            state: ActionState::Pending,
                        });
                        facts.subagents.len() - 1
                    });
                    if let Some(call) = facts.subagents.get_mut(at)
                        && call.state.may_become(*status)
                    {
                        call.output = output.as_ref();
                        call.state = ActionState::Ended(*status);
                    }
                }
                Event::SkillLoaded { skill, .. } => facts.skills.push(skill),
                Event::InputRequested { request } => facts.input_requests.push(request),
                Event::Thinking { .. } => facts.thoughts += 1,
                Event::Compaction { .. } => facts.compactions += 1,
                Event::Error { message } => facts.errors.push(message),
                Event::Usage { .. } => {}
            }
        }
        facts.answers = answers(events);
        facts.parked = is_parked(events);
        facts
    }
}

/// Counts the model answers; see [`Facts::answers`].
fn answers(events: &[Event]) -> usize {
    let (mut answers, mut is_answering) = (0, false);
    for event in events {
        match event {
            Event::Message { role: Speaker::Assistant, .. } => {
                answers += 1;
                is_answering = true;
            }
            Event::ActionCalled { .. }
            | Event::SubagentCalled { .. }
            | Event::InputRequested { .. } => {
                answers += usize::from(!is_answering);
                is_answering = true;
            }
            Event::Message { .. }
            | Event::ActionResult { .. }
            | Event::SubagentCompleted { .. } => is_answering = false,
            Event::SkillLoaded { .. }
            | Event::Thinking { .. }
            | Event::Compaction { .. }
            | Event::Error { .. }
            | Event::Usage { .. } => {}
        }
    }
    answers
}

/// Returns true if the last event is a question to a person.
///
/// Reasoning, compaction and usage events are skipped, because they are no steps of the conversation.
fn is_parked(events: &[Event]) -> bool {
    let passive = |it: &&Event| {
        matches!(it, Event::Thinking { .. } | Event::Compaction { .. } | Event::Usage { .. })
    };
    let last = events.iter().rev().find(|it| !passive(it));
    matches!(last, Some(Event::InputRequested { .. }))
}
