//! The evidence that an agent has reported so far.

use std::collections::{BTreeMap, BTreeSet};

use kindlm_types::{
    Channel, Coverage, Event, FinishReason, Speaker, ToolCall, UnsupportedPart, Usage,
};
use serde_json::{Map, Value};

use crate::protocol::calls;

/// The reported evidence of the current turn, and the facts about the agent.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    /// The events of the current turn.
    pub(crate) events: Vec<Event>,
    /// The calls as the agent declared them. Unlike an event, a `ToolCall` can hold arguments that are not JSON.
    pub(crate) declared: Vec<ToolCall>,
    /// The answer, if it is reported separately from the messages.
    text: Option<String>,
    /// The reason why the current message is incomplete. The field is `None` if the message is complete.
    unread: Option<String>,
    /// The last structured output of the turn; `None` without a structured output.
    pub(crate) output_json: Option<Value>,
    /// The complete kinds of evidence. The agent declares these kinds, or the output format guarantees them.
    pub(crate) complete: BTreeSet<Channel>,
    /// True if the agent or its adapter declares which kinds of evidence are complete. If false, each kind that
    /// occurred counts as complete.
    pub(crate) says_itself: bool,
    /// True if the agent has answered, which makes its messages complete.
    pub(crate) has_answered: bool,
    /// The last finish reason of the model in the turn, if reported.
    pub(crate) finish_reason: Option<FinishReason>,
    /// The time to the first token of the turn in milliseconds, if reported.
    pub(crate) first_token_ms: Option<f64>,
    /// The kinds of evidence that are incomplete according to the agent's output. The suite may declare these kinds
    /// complete.
    pub(crate) incomplete: BTreeSet<Channel>,
    /// The kinds of evidence of which a part is known to be lost.
    pub(crate) lost: BTreeSet<Channel>,
    /// The metadata that the agent reports about itself.
    pub(crate) metadata: Map<String, Value>,
    /// The number of lines and parts of each unsupported type.
    unknown: BTreeMap<String, u64>,
    /// The kinds of evidence that occurred in any turn.
    seen: BTreeSet<Channel>,
}

/// The reported evidence of one turn.
#[derive(Debug, Default)]
pub(crate) struct ReportedTurn {
    pub(crate) text: String,
    pub(crate) unread: Option<String>,
    pub(crate) output_json: Option<Value>,
    pub(crate) events: Vec<Event>,
    pub(crate) tool_calls: Vec<ToolCall>,
    pub(crate) finish_reason: Option<FinishReason>,
    pub(crate) usage: Option<Usage>,
    pub(crate) cost_usd: Option<f64>,
    pub(crate) first_token_ms: Option<f64>,
}

impl Reported {
    /// Adds an event, and marks the kind of evidence of the event as seen.
    pub(crate) fn push(&mut self, event: Event) {
        self.seen.insert(event.channel());
        self.events.push(event);
    }

    /// Records a message of the agent, unless the message is blank.
    pub(crate) fn add_message(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.push(Event::Message { role: Speaker::Assistant, text: text.to_owned() });
        }
    }

    /// Records warnings: errors after which the agent continued.
    pub(crate) fn warn(&mut self, warnings: Vec<String>) {
        if warnings.is_empty() {
            return;
        }
        let all = self.metadata.entry("warnings").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(all) = all {
            all.extend(warnings.into_iter().map(Value::String));
        }
    }

    /// Records an unsupported type of line, or of a part of a line.
    pub(crate) fn not_understood(&mut self, what: impl Into<String>) {
        *self.unknown.entry(what.into()).or_default() += 1;
    }

    /// Records an unsupported part that may belong to the answer.
    pub(crate) fn note_unsupported(&mut self, what: String) {
        self.mark_incomplete(format!("`{what}` has an unsupported type"));
        self.not_understood(what);
    }

    /// Records the reason why the current message is incomplete. A later reason does not replace the first one.
    pub(crate) fn mark_incomplete(&mut self, why: String) {
        self.unread.get_or_insert(why);
    }

    /// Begins a message of the agent. Unsupported parts of earlier messages do not make this message incomplete.
    pub(crate) fn begin_message(&mut self) {
        self.unread = None;
    }

    /// Stores the agent's declaration of complete evidence. The last declaration counts, because the agent may discover
    /// later that its evidence is incomplete.
    pub(crate) fn declare(&mut self, complete: Vec<Channel>) {
        self.says_itself = true;
        self.complete = complete.into_iter().collect();
    }

    /// Returns the coverage: the kinds of evidence that are complete. After an unknown line all kinds are lost, because
    /// the line may have held any evidence.
    pub(crate) fn coverage(&self) -> Coverage {
        if !self.unknown.is_empty() {
            return Coverage::default().losing(Channel::ALL);
        }
        // Without a declaration, a kind of evidence is complete if any evidence of this kind was reported.
        let seen = self.seen.iter().filter(|_| !self.says_itself);
        let answer = self.has_answered.then_some(&Channel::Messages);
        let reported = self.complete.iter().chain(seen).chain(answer).copied();
        let reported: Coverage = reported.filter(|it| !self.incomplete.contains(it)).collect();
        reported.losing(self.lost.iter().copied())
    }

    /// Returns the metadata of the agent, with the counts of unsupported lines.
    pub(crate) fn metadata(&self) -> Map<String, Value> {
        let mut metadata = self.metadata.clone();
        if !self.unknown.is_empty() {
            let unknown = self.unknown.iter().map(|(what, count)| (what.clone(), (*count).into()));
            let key = UnsupportedPart::LINES_KEY.to_owned();
            metadata.insert(key, Value::Object(unknown.collect()));
        }
        metadata
    }

    /// Returns the unsupported types of lines and parts.
    pub(crate) fn unsupported(&self) -> Vec<UnsupportedPart> {
        self.unknown.keys().map(|it| UnsupportedPart::new(it, Vec::new())).collect()
    }

    /// Records the answer of the turn. The answer becomes a message, too, unless the last message equals the answer.
    pub(crate) fn answer(&mut self, text: &str) {
        if Event::last_words(&self.events).is_none_or(|it| it.trim() != text.trim()) {
            self.add_message(text);
        }
        self.text = Some(text.to_owned());
    }

    /// Ends the current turn, and returns its evidence.
    pub(crate) fn take_turn(&mut self) -> ReportedTurn {
        let events = std::mem::take(&mut self.events);
        let tool_calls = calls(std::mem::take(&mut self.declared), &events);
        let (usage, cost_usd) = Event::usage(&events);
        let last_words = Event::last_words(&events).unwrap_or_default().to_owned();
        ReportedTurn {
            text: self.text.take().unwrap_or(last_words),
            unread: self.unread.take(),
            output_json: self.output_json.take(),
            events,
            tool_calls,
            finish_reason: self.finish_reason.take(),
            usage,
            cost_usd,
            first_token_ms: self.first_token_ms.take(),
        }
    }
}
