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

/// One event inside an execution.
///
/// In JSON each event is an object with a `type`, such as `action.called`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum Event {
    /// A message of the agent or the user.
    #[serde(rename = "message")]
    Message {
        /// The speaker.
        role: Speaker,
        /// The text.
        text: String,
    },
    /// A tool call of the agent.
    #[serde(rename = "action.called")]
    ActionCalled {
        /// The id of the call; its result has the same id.
        call_id: String,
        /// The tool's name as the agent reports it.
        name: String,
        /// The kind of tool; derived from the name if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<ToolKind>,
        /// The arguments.
        #[serde(default)]
        input: Value,
    },
    /// The result of a tool call.
    #[serde(rename = "action.result")]
    ActionResult {
        /// The id of the call that this result belongs to.
        call_id: String,
        /// The output of the tool; absent if none was recorded.
        #[serde(
            default,
            deserialize_with = "crate::present",
            skip_serializing_if = "Option::is_none"
        )]
        output: Option<Value>,
        /// The status of the call at its end.
        status: ActionStatus,
    },
    /// A call of another agent (subagent).
    #[serde(rename = "subagent.called")]
    SubagentCalled {
        /// The id of the call; its `subagent.completed` event has the same id.
        call_id: String,
        /// The other agent's name.
        name: String,
        /// The address of the other agent, if it runs elsewhere.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remote_url: Option<String>,
    },
    /// The end of a call of another agent (subagent).
    #[serde(rename = "subagent.completed")]
    SubagentCompleted {
        /// The id of the call that this result belongs to.
        call_id: String,
        /// The output of the other agent; absent if none was recorded.
        #[serde(
            default,
            deserialize_with = "crate::present",
            skip_serializing_if = "Option::is_none"
        )]
        output: Option<Value>,
        /// The status of the call at its end.
        status: ActionStatus,
    },
    /// A skill that the agent loaded.
    #[serde(rename = "skill.loaded")]
    SkillLoaded {
        /// The skill's name.
        skill: String,
        /// The id of the tool call that loaded the skill, if a tool did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
    },
    /// A question of the agent to a person; the agent waits for the answer.
    #[serde(rename = "input.requested")]
    InputRequested {
        /// The question.
        #[serde(default)]
        request: InputRequest,
    },
    /// Reasoning that the model emitted.
    #[serde(rename = "thinking")]
    Thinking {
        /// The text of the reasoning.
        #[serde(default)]
        text: String,
    },
    /// A compaction: the agent shortened its conversation history.
    #[serde(rename = "compaction")]
    Compaction {
        /// The reason for the compaction, if it was recorded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An error inside the agent.
    #[serde(rename = "error")]
    Error {
        /// The error message.
        message: String,
    },
    /// Tokens that were used.
    #[serde(rename = "usage")]
    Usage {
        /// The tokens since the previous usage event.
        #[serde(flatten)]
        usage: Usage,
        /// The cost of these tokens in US dollars, if the agent reports it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
}

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Speaker {
    /// The agent.
    Assistant,
    /// The user, or a program that acts as the user.
    User,
}

/// The status of a call of a tool or of another agent at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionStatus {
    /// The call succeeded.
    Completed,
    /// The call failed.
    Failed,
    /// The call was not allowed.
    Rejected,
}

/// A question of an agent to a person.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InputRequest {
    /// The request's id, as the agent reports it; absent if the agent reports none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The question; absent if the agent reports none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The action that the agent asks about; absent if the agent reports none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The input of that action; absent if the agent reports none.
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
    /// The option's id.
    pub id: String,
    /// The label that the person sees; absent if the agent reports none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl Event {
    /// The values of `type`, in the order of the variants of [`Event`].
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

    /// Returns the `type` of the event in JSON.
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

    /// Returns the reason why the recorded event is invalid; `None` if it is valid.
    ///
    /// A negative cost is invalid, because it would cancel out the cost of other events. A cost that is not finite
    /// is invalid, because the sum of the costs would not be a number.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Usage { cost_usd: Some(cost), .. } if *cost < 0.0 => {
                Some(format!("`costUsd` is negative: {cost}"))
            }
            Self::Usage { cost_usd: Some(cost), .. } if !cost.is_finite() => {
                Some(format!("`costUsd` is not a finite number: {cost}"))
            }
            _ => None,
        }
    }

    /// Returns the channel (kind of evidence) that the event belongs to.
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

    /// Returns the recorded tool calls in order, each with its output if one was recorded.
    ///
    /// Results without a recorded call are omitted.
    pub fn tool_calls(events: &[Self]) -> Vec<crate::ToolCall> {
        let named = Facts::from_events(events).actions.into_iter().filter_map(|action| {
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

    /// Returns the sums of tokens and costs of all usage events.
    ///
    /// Both sums are `None` without usage events. The cost is also `None` if an event reports no cost. The tokens are
    /// marked as partial if some events report tokens and others do not.
    pub fn usage(events: &[Self]) -> (Option<Usage>, Option<f64>) {
        let (mut sum, mut cost) = (UsageSum::default(), Some(0.0));
        for event in events {
            if let Self::Usage { usage, cost_usd } = event {
                // A source may report no total, or a total below the sum of the parts.
                let parts = usage.input_tokens.saturating_add(usage.output_tokens);
                let total_tokens = usage.total_tokens.max(parts);
                sum.add(Usage { total_tokens, ..*usage });
                cost = cost.zip(*cost_usd).map(|(sum, cost)| sum + cost);
            }
        }
        if sum.is_empty() { (None, None) } else { (Some(sum.total()), cost) }
    }

    /// Returns the sum of the reported costs in US dollars.
    ///
    /// Returns `None` if no event reports a cost.
    ///
    /// The sum may be only a part of the whole cost.
    pub fn reported_usd(events: &[Self]) -> Option<f64> {
        let told = events.iter().filter_map(|it| match it {
            Self::Usage { cost_usd, .. } => *cost_usd,
            _ => None,
        });
        told.reduce(|sum, cost| sum + cost)
    }

    /// Returns a usage event.
    ///
    /// Returns `None` if no token was reported, because the usage is then unknown, not 0.
    pub fn of_usage(usage: Usage) -> Option<Self> {
        (usage != Usage::default()).then_some(Self::Usage { usage, cost_usd: None })
    }

    /// Returns the text of the last message of the agent.
    ///
    /// Returns `None` without such a message.
    pub fn last_words(events: &[Self]) -> Option<&str> {
        events.iter().rev().find_map(|it| match it {
            Self::Message { role: Speaker::Assistant, text } => Some(text.as_str()),
            _ => None,
        })
    }

    /// Returns the events of the calls in one answer: first all calls, then all results.
    ///
    /// If two calls have the same id, each result directly follows its call.
    pub fn of_calls(calls: &[crate::ToolCall]) -> Vec<Self> {
        let events = calls.iter().flat_map(Self::of_call);
        let mut ids = std::collections::HashSet::new();
        if !calls.iter().all(|it| ids.insert(&it.id)) {
            // `Facts` assigns each result to the latest earlier call with the same id.
            return events.collect();
        }
        let (asked, answered): (Vec<_>, Vec<_>) =
            events.partition(|it| matches!(it, Self::ActionCalled { .. }));
        asked.into_iter().chain(answered).collect()
    }

    /// Returns the events of one call: the call, and the result if the call has a response.
    ///
    /// Malformed arguments become a string.
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
