//! What an agent has told so far.

use std::collections::{BTreeMap, BTreeSet};

use kindlm_types::{Channel, Coverage, Event, FinishReason, Speaker, ToolCall, Usage};
use serde_json::{Map, Value};

use crate::protocol::calls;

/// What an agent has told: of the turn under way, and of itself.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// What happened in the turn under way.
    pub(crate) events: Vec<Event>,
    /// Calls that keep what no event tells: arguments that are not JSON.
    pub(crate) declared: Vec<ToolCall>,
    /// The answer, where it is told apart from the messages.
    text: Option<String>,
    /// The unsupported parts of the last message, in words.
    unread: Option<String>,
    /// The last structured output of the turn.
    pub(crate) output_json: Option<Value>,
    /// What it is complete for, by its own word or by what is known of its kind.
    pub(crate) complete: BTreeSet<Channel>,
    /// True if it has said for which kinds of evidence it tells everything.
    pub(crate) says_itself: bool,
    /// True if it has answered, by which it tells all that it says.
    pub(crate) has_answered: bool,
    /// Why the model stopped last in the turn, where it tells that.
    pub(crate) finish_reason: Option<FinishReason>,
    /// What it is not complete for by its own account. The suite may declare it complete.
    pub(crate) incomplete: BTreeSet<Channel>,
    /// The kinds of evidence of which some is known to be lost.
    pub(crate) lost: BTreeSet<Channel>,
    /// What it says of itself.
    pub(crate) metadata: Map<String, Value>,
    /// Lines of unsupported types, by their type.
    unknown: BTreeMap<String, u64>,
    /// The kinds of evidence of all turns.
    seen: BTreeSet<Channel>,
}

/// One turn of what was told.
#[derive(Debug, Default)]
pub(crate) struct ToldTurn {
    pub(crate) text: String,
    pub(crate) unread: Option<String>,
    pub(crate) output_json: Option<Value>,
    pub(crate) events: Vec<Event>,
    pub(crate) tool_calls: Vec<ToolCall>,
    pub(crate) finish_reason: Option<FinishReason>,
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

    /// Puts down a warning: something went wrong, and the agent went on.
    pub(crate) fn warn(&mut self, warnings: Vec<String>) {
        if warnings.is_empty() {
            return;
        }
        let all = self.metadata.entry("warnings").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(all) = all {
            all.extend(warnings.into_iter().map(Value::String));
        }
    }

    /// Puts down that a line of this type, or a part of one, could not be understood.
    pub(crate) fn not_understood(&mut self, what: impl Into<String>) {
        *self.unknown.entry(what.into()).or_default() += 1;
    }

    /// The same of what may be a part of the answer.
    pub(crate) fn unread(&mut self, what: String) {
        self.leave_unread(format!("`{what}` is of a type that is not understood here"));
        self.not_understood(what);
    }

    /// Puts down why the answer is not all there, in words.
    pub(crate) fn leave_unread(&mut self, why: String) {
        self.unread.get_or_insert(why);
    }

    /// A message of the agent begins: what came before is no part of it.
    pub(crate) fn begin_message(&mut self) {
        self.unread = None;
    }

    /// Takes its word for what it tells completely. The last one counts: it may have found out that it does not tell all
    /// that it meant to.
    pub(crate) fn declare(&mut self, complete: Vec<Channel>) {
        self.says_itself = true;
        self.complete = complete.into_iter().collect();
    }

    /// For which kinds of evidence everything is recorded. An unknown line may have held evidence of any kind.
    pub(crate) fn coverage(&self) -> Coverage {
        if !self.unknown.is_empty() {
            return Coverage::default().losing(Channel::ALL);
        }
        // Who does not say tells all of what it tells some of; its own word goes before.
        let seen = self.seen.iter().filter(|_| !self.says_itself);
        let answer = self.has_answered.then_some(&Channel::Messages);
        let told = self.complete.iter().chain(seen).chain(answer).copied();
        let told: Coverage = told.filter(|it| !self.incomplete.contains(it)).collect();
        told.losing(self.lost.iter().copied())
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
        let tool_calls = calls(std::mem::take(&mut self.declared), &events);
        let (usage, cost_usd) = Event::usage(&events);
        let said = Event::last_words(&events).unwrap_or_default().to_owned();
        ToldTurn {
            text: self.text.take().unwrap_or(said),
            unread: self.unread.take(),
            output_json: self.output_json.take(),
            events,
            tool_calls,
            finish_reason: self.finish_reason.take(),
            usage,
            cost_usd,
        }
    }
}
