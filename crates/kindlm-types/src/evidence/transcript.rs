//! A conversation that was recorded elsewhere, as evidence.

use serde_json::{Map, Value};

use crate::{
    Channel, Coverage, Event, Execution, FinishReason, Message, ToolCall, ToolSpec, Turn, Usage,
};

/// What a recorded conversation tells of what an agent said and did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    /// What the agent was told before it said anything.
    pub input: Vec<Message>,
    /// The text of its last answer.
    pub output: String,
    /// The unsupported part of that answer, in words.
    pub unread: Option<String>,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// All tool calls, in order.
    pub tool_calls: Vec<ToolCall>,
    /// What followed each message of the user, in order; without labels.
    pub turns: Vec<Turn>,
    /// For which kinds of evidence it tells everything.
    pub coverage: Coverage,
    /// How many answers the agent gave.
    pub requests: u32,
    /// Tokens, where it tells them.
    pub usage: Option<Usage>,
    /// What it cost in US dollars, where it tells that.
    pub cost_usd: Option<f64>,
    /// How long it took in milliseconds, where it tells that.
    pub latency_ms: Option<f64>,
    /// Why it is not all of the conversation, in words; empty if nothing speaks against it.
    pub gaps: Vec<String>,
    /// Why the model stopped last, where it tells that.
    pub finish_reason: Option<FinishReason>,
    /// The tools that the model might call, where it tells them.
    pub tools: Vec<ToolSpec>,
    /// What else it tells, such as parts that were not understood.
    pub metadata: Map<String, Value>,
}

impl Transcript {
    /// Why the model stopped last, where somebody says so beside the conversation: that counts more than what the
    /// messages say. But an answer that is marked as a refusal is one, whatever word it ended with.
    pub fn finished(&self, said: Option<FinishReason>) -> Option<FinishReason> {
        match &self.finish_reason {
            Some(FinishReason::Refusal) => self.finish_reason.clone(),
            own => said.or_else(|| own.clone()),
        }
    }

    /// The evidence that it is, in the place of what `begun` has of it.
    ///
    /// `labels` name its turns in their order. Turns without a label belong to the whole conversation only.
    #[must_use]
    pub fn into_execution(self, labels: &[&str], begun: Execution) -> Execution {
        let label = |(turn, label): (Turn, &&str)| Turn { label: (*label).to_owned(), ..turn };
        let mut metadata = begun.metadata;
        metadata.extend(self.metadata);
        let tools = if self.tools.is_empty() { begun.tools } else { self.tools };
        Execution {
            input: self.input,
            output: self.output,
            unread: self.unread,
            output_json: None,
            tool_calls: self.tool_calls,
            turns: self.turns.into_iter().zip(labels).map(label).collect(),
            requests: self.requests,
            usage: self.usage.unwrap_or_default(),
            latency_ms: self.latency_ms,
            cost_usd: self.cost_usd,
            finish_reason: self.finish_reason,
            gaps: self.gaps,
            metadata,
            recorded_events: self.events,
            coverage: match self.usage {
                Some(_) => self.coverage.with(Channel::Usage),
                None => self.coverage,
            },
            tools,
            ..begun
        }
    }
}
