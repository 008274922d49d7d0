//! What an agent has told so far.

use std::collections::{BTreeMap, BTreeSet};

use kindlm_types::{Channel, Coverage, Event, Speaker, ToolCall, Usage};
use serde_json::{Map, Value};

/// What an agent has told: of the turn under way, and of itself.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// What happened in the turn under way.
    pub(crate) events: Vec<Event>,
    /// Calls that keep what no event tells: arguments that are not JSON.
    pub(crate) declared: Vec<ToolCall>,
    /// The answer, where it is told apart from the messages.
    text: Option<String>,
    /// The last structured output of the turn.
    pub(crate) output_json: Option<Value>,
    /// What it is complete for, by its own word or by what is known of its kind.
    pub(crate) complete: BTreeSet<Channel>,
    /// What it says of itself.
    pub(crate) metadata: Map<String, Value>,
    /// Lines that nobody understands, by their type.
    unknown: BTreeMap<String, u64>,
    /// The kinds of evidence of all turns.
    seen: BTreeSet<Channel>,
}

/// One turn of what was told.
#[derive(Debug, Default)]
pub(crate) struct ToldTurn {
    pub(crate) text: String,
    pub(crate) output_json: Option<Value>,
    pub(crate) events: Vec<Event>,
    pub(crate) tool_calls: Vec<ToolCall>,
    pub(crate) usage: Option<Usage>,
    pub(crate) cost_usd: Option<f64>,
}

impl Told {
    /// Puts down what happened.
    pub(crate) fn push(&mut self, event: Event) {
        self.seen.insert(event.channel());
        self.events.push(event);
    }

    /// Puts down that the agent said something.
    pub(crate) fn say(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.push(Event::Message { role: Speaker::Assistant, text: text.to_owned() });
        }
    }

    /// Puts down that a line of this type, or a part of one, could not be understood.
    pub(crate) fn not_understood(&mut self, what: impl Into<String>) {
        *self.unknown.entry(what.into()).or_default() += 1;
    }

    /// For which kinds of evidence everything is told. Where lines could not be understood nobody knows what they told.
    pub(crate) fn coverage(&self) -> Coverage {
        if !self.unknown.is_empty() {
            return Coverage::Only(BTreeSet::new());
        }
        self.complete.union(&self.seen).copied().collect()
    }

    /// What the agent says of itself, and what of it was not understood.
    pub(crate) fn metadata(&self) -> Map<String, Value> {
        let mut metadata = self.metadata.clone();
        if !self.unknown.is_empty() {
            let unknown = self.unknown.iter().map(|(what, count)| (what.clone(), (*count).into()));
            metadata.insert("unknownLines".to_owned(), Value::Object(unknown.collect()));
        }
        metadata
    }

    /// Puts down the answer of the turn, which the last message may have said already.
    pub(crate) fn answer(&mut self, text: &str) {
        if Event::last_words(&self.events).is_none_or(|it| it.trim() != text.trim()) {
            self.say(text);
        }
        self.text = Some(text.to_owned());
    }

    /// Ends the turn under way: what it told, ready for evidence.
    pub(crate) fn take_turn(&mut self) -> ToldTurn {
        let events = std::mem::take(&mut self.events);
        let mut tool_calls = std::mem::take(&mut self.declared);
        for call in Event::tool_calls(&events) {
            if !tool_calls.iter().any(|it| it.id == call.id) {
                tool_calls.push(call);
            }
        }
        let order: Vec<&str> = events
            .iter()
            .filter_map(|it| match it {
                Event::ActionCalled { call_id, .. } => Some(call_id.as_str()),
                _ => None,
            })
            .collect();
        tool_calls.sort_by_key(|it| order.iter().position(|id| *id == it.id));
        let (usage, cost_usd) = Event::usage(&events);
        let said = Event::last_words(&events).unwrap_or_default().to_owned();
        ToldTurn {
            text: self.text.take().unwrap_or(said),
            output_json: self.output_json.take(),
            events,
            tool_calls,
            usage,
            cost_usd,
        }
    }
}
