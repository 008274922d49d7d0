//! The events inside an execution, in order.

mod coverage;
mod facts;
mod tool_kind;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use coverage::{Channel, Coverage, DeclaredEvidence};
pub use facts::{Action, ActionState, Facts, SubagentCall, exit_code};
pub use tool_kind::ToolKind;

use crate::{Usage, UsageSum};

/// One thing that happened inside an execution.
///
/// In JSON each event is an object with its `type`, such as `action.called`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum Event {
    /// Something was said.
    #[serde(rename = "message")]
    Message {
        /// The speaker.
        role: Speaker,
        /// The text.
        text: String,
    },
    /// The agent called a tool.
    #[serde(rename = "action.called")]
    ActionCalled {
        /// Tells this call from others; its result has the same.
        call_id: String,
        /// The tool's name in the agent's own words.
        name: String,
        /// The kind of tool; derived from the name if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<ToolKind>,
        /// The arguments.
        #[serde(default)]
        input: Value,
    },
    /// A tool answered.
    #[serde(rename = "action.result")]
    ActionResult {
        /// Which call this answers.
        call_id: String,
        /// The output of the tool.
        #[serde(
            default,
            deserialize_with = "crate::present",
            skip_serializing_if = "Option::is_none"
        )]
        output: Option<Value>,
        /// The status of the call at its end.
        status: ActionStatus,
    },
    /// The agent called another agent.
    #[serde(rename = "subagent.called")]
    SubagentCalled {
        /// Tells this call from others; its completion has the same.
        call_id: String,
        /// The other agent's name.
        name: String,
        /// The place of the other agent, if it runs elsewhere.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remote_url: Option<String>,
    },
    /// The other agent was done.
    #[serde(rename = "subagent.completed")]
    SubagentCompleted {
        /// Which call this answers.
        call_id: String,
        /// The output of the other agent.
        #[serde(
            default,
            deserialize_with = "crate::present",
            skip_serializing_if = "Option::is_none"
        )]
        output: Option<Value>,
        /// The status of the call at its end.
        status: ActionStatus,
    },
    /// The agent loaded a skill.
    #[serde(rename = "skill.loaded")]
    SkillLoaded {
        /// The skill's name.
        skill: String,
        /// The call that loaded it, if a tool did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
    },
    /// The agent asks a person, and waits.
    #[serde(rename = "input.requested")]
    InputRequested {
        /// The question.
        #[serde(default)]
        request: InputRequest,
    },
    /// The model thought aloud.
    #[serde(rename = "thinking")]
    Thinking {
        /// Its thoughts.
        #[serde(default)]
        text: String,
    },
    /// The agent shortened its memory of the conversation.
    #[serde(rename = "compaction")]
    Compaction {
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Something went wrong inside the agent.
    #[serde(rename = "error")]
    Error {
        /// What.
        message: String,
    },
    /// Tokens were used.
    #[serde(rename = "usage")]
    Usage {
        /// The tokens since the last such event.
        #[serde(flatten)]
        usage: Usage,
        /// Their cost in US dollars, if the agent reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
}

/// A speaker in an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Speaker {
    /// The agent.
    Assistant,
    /// The person, or the program that stands for one.
    User,
}

/// The status of a call of a tool or of another agent at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionStatus {
    /// It did what it was asked.
    Completed,
    /// It went wrong.
    Failed,
    /// It was not allowed.
    Rejected,
}

/// A question of an agent to a person.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InputRequest {
    /// The agent's id of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The action that the agent asks about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// With what.
    #[serde(deserialize_with = "crate::present", skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The answers to choose from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<InputOption>,
}

/// One answer that a person may choose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InputOption {
    /// Names it.
    pub id: String,
    /// The label for the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl Event {
    /// The words for `type`, in the order of [`Event`].
    pub const TYPES: [&'static str; 11] = [
        "message",
        "action.called",
        "action.result",
        "subagent.called",
        "subagent.completed",
        "skill.loaded",
        "input.requested",
        "thinking",
        "compaction",
        "error",
        "usage",
    ];

    /// Its `type` in JSON.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Message { .. } => "message",
            Self::ActionCalled { .. } => "action.called",
            Self::ActionResult { .. } => "action.result",
            Self::SubagentCalled { .. } => "subagent.called",
            Self::SubagentCompleted { .. } => "subagent.completed",
            Self::SkillLoaded { .. } => "skill.loaded",
            Self::InputRequested { .. } => "input.requested",
            Self::Thinking { .. } => "thinking",
            Self::Compaction { .. } => "compaction",
            Self::Error { .. } => "error",
            Self::Usage { .. } => "usage",
        }
    }

    /// Why the recorded event is invalid: a cost below 0 would hide another.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Usage { cost_usd: Some(cost), .. } if *cost < 0.0 => {
                Some(format!("`costUsd` is negative: {cost}"))
            }
            _ => None,
        }
    }

    /// The channel of evidence that it belongs to.
    pub fn channel(&self) -> Channel {
        match self {
            Self::Message { .. } => Channel::Messages,
            Self::ActionCalled { .. } | Self::ActionResult { .. } => Channel::Actions,
            Self::SubagentCalled { .. } | Self::SubagentCompleted { .. } => Channel::Subagents,
            Self::SkillLoaded { .. } => Channel::Skills,
            Self::InputRequested { .. } => Channel::InputRequests,
            Self::Thinking { .. } => Channel::Thinking,
            Self::Compaction { .. } => Channel::Compactions,
            Self::Error { .. } => Channel::Errors,
            Self::Usage { .. } => Channel::Usage,
        }
    }

    /// The tool calls that events tell, in order, each with its result if there is one.
    pub fn tool_calls(events: &[Self]) -> Vec<crate::ToolCall> {
        let named = Facts::of(events).actions.into_iter().filter_map(|action| {
            Some(crate::ToolCall {
                id: action.call_id.to_owned(),
                name: action.name?.to_owned(),
                arguments: action.input.clone(),
                malformed_arguments: None,
                response: action.output.cloned(),
            })
        });
        named.collect()
    }

    /// The tokens in events, and their cost; `None` for a value that no event has, or that is incomplete.
    pub fn usage(events: &[Self]) -> (Option<Usage>, Option<f64>) {
        let (mut sum, mut cost) = (UsageSum::default(), Some(0.0));
        for event in events {
            if let Self::Usage { usage, cost_usd } = event {
                // A source that reports the parts need not add them up.
                let parts = usage.input_tokens.saturating_add(usage.output_tokens);
                let total_tokens = usage.total_tokens.max(parts);
                sum.add(Usage { total_tokens, ..*usage });
                cost = cost.zip(*cost_usd).map(|(sum, cost)| sum + cost);
            }
        }
        if sum.is_empty() { (None, None) } else { (Some(sum.total()), cost) }
    }

    /// The reported cost, which may be a part of the whole; `None` if none is reported.
    pub fn told_usd(events: &[Self]) -> Option<f64> {
        let told = events.iter().filter_map(|it| match it {
            Self::Usage { cost_usd, .. } => *cost_usd,
            _ => None,
        });
        told.reduce(|sum, cost| sum + cost)
    }

    /// The event of tokens that were counted; `None` where none were: a source that counts no token has not counted.
    pub fn of_usage(usage: Usage) -> Option<Self> {
        (usage != Usage::default()).then_some(Self::Usage { usage, cost_usd: None })
    }

    /// The last text of the agent.
    pub fn last_words(events: &[Self]) -> Option<&str> {
        events.iter().rev().find_map(|it| match it {
            Self::Message { role: Speaker::Assistant, text } => Some(text.as_str()),
            _ => None,
        })
    }

    /// The events of the calls of one answer: all that it asks for, then what came back.
    pub fn of_calls(calls: &[crate::ToolCall]) -> Vec<Self> {
        let events = calls.iter().flat_map(Self::of_call);
        let mut ids = std::collections::HashSet::new();
        if !calls.iter().all(|it| ids.insert(&it.id)) {
            // Only its place shows which call a result answers.
            return events.collect();
        }
        let (asked, answered): (Vec<_>, Vec<_>) =
            events.partition(|it| matches!(it, Self::ActionCalled { .. }));
        asked.into_iter().chain(answered).collect()
    }

    /// The events of one call: that it was made, and what came back if something did.
    pub fn of_call(call: &crate::ToolCall) -> impl Iterator<Item = Self> {
        let input = call
            .malformed_arguments
            .as_ref()
            .map_or_else(|| call.arguments.clone(), |text| Value::String(text.clone()));
        let called = Self::ActionCalled {
            call_id: call.id.clone(),
            name: call.name.clone(),
            tool: None,
            input,
        };
        let result = call.response.as_ref().map(|response| Self::ActionResult {
            call_id: call.id.clone(),
            output: Some(response.clone()),
            status: ActionStatus::Completed,
        });
        std::iter::once(called).chain(result)
    }
}

#[cfg(test)]
mod tests;
