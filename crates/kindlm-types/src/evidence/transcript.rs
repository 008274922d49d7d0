//! Conversations that were recorded elsewhere, as evidence.

use serde_json::{Map, Value};

use crate::{
    Channel, Completeness, Coverage, Event, Execution, FinishReason, Message, Spend, ToolCall,
    ToolSpec, Turn, UnsupportedPart, Usage,
};

/// The messages and actions of an agent in a recorded conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    /// The messages to the agent before its first answer.
    pub input: Vec<Message>,
    /// The text of the agent's last answer.
    pub output: String,
    /// The reason why the output is incomplete, such as an unsupported part; `None` if the output is complete.
    pub unread: Option<String>,
    /// The events, in order.
    pub events: Vec<Event>,
    /// All tool calls, in order.
    pub tool_calls: Vec<ToolCall>,
    /// The turns, without labels. Each turn begins with a message of the user.
    pub turns: Vec<Turn>,
    /// The kinds of evidence that the source records completely.
    pub coverage: Coverage,
    /// The number of answers that the agent gave.
    pub requests: u32,
    /// The tokens, if they are recorded.
    pub usage: Option<Usage>,
    /// The cost in US dollars, if it is recorded.
    pub cost_usd: Option<f64>,
    /// The duration in milliseconds, if it is recorded.
    pub latency_ms: Option<f64>,
    /// The reasons why the conversation is incomplete; empty if it is complete.
    pub gaps: Vec<String>,
    /// The recorded data of unsupported types, by type.
    pub unsupported: Vec<UnsupportedPart>,
    /// The reason why the model ended the last answer; `None` if it is not recorded.
    pub finish_reason: Option<FinishReason>,
    /// The tools offered to the model, if they are recorded.
    pub tools: Vec<ToolSpec>,
    /// Other recorded data, such as unsupported parts.
    pub metadata: Map<String, Value>,
}

impl Transcript {
    /// Returns the reason why the model ended the last answer; `None` if it is not recorded.
    ///
    /// `said` is a reason that was recorded outside of the conversation. It takes precedence over the reason in the
    /// messages, unless the reason in the messages is a refusal.
    pub fn finished(&self, said: Option<FinishReason>) -> Option<FinishReason> {
        match &self.finish_reason {
            Some(FinishReason::Refusal) => self.finish_reason.clone(),
            own => said.or_else(|| own.clone()),
        }
    }

    /// Converts the transcript into an execution. Data that a transcript does not have comes from `begun`.
    ///
    /// `labels` are the labels of the turns in order. Turns without a label are not added to the execution's turns.
    /// The metadata of `begun` and of the transcript is merged. For equal keys, the value of the transcript is used.
    #[must_use]
    pub fn into_execution(self, labels: &[&str], begun: Execution) -> Execution {
        let label = |(turn, label): (Turn, &&str)| Turn { label: (*label).to_owned(), ..turn };
        let mut metadata = begun.metadata;
        metadata.extend(self.metadata);
        let tools = if self.tools.is_empty() { begun.tools } else { self.tools };
        Execution {
            input: self.input,
            output: self.output,
            completeness: Completeness {
                unread: self.unread,
                gaps: self.gaps,
                unsupported: self.unsupported,
                coverage: match self.usage {
                    Some(_) => self.coverage.with(Channel::Usage),
                    None => self.coverage,
                },
                ..begun.completeness
            },
            output_json: None,
            tool_calls: self.tool_calls,
            turns: self.turns.into_iter().zip(labels).map(label).collect(),
            requests: self.requests,
            usage: self.usage.unwrap_or_default(),
            latency_ms: self.latency_ms,
            spend: Spend { cost_usd: self.cost_usd, ..begun.spend },
            finish_reason: self.finish_reason,
            metadata,
            recorded_events: self.events,
            tools,
            ..begun
        }
    }
}
