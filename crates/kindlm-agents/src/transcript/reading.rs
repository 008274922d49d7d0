//! A conversation as far as it has been read.

use std::collections::{BTreeMap, BTreeSet};

use kindlm_types::{
    ActionStatus, Channel, Coverage, Event, FinishReason, Message, Problem, Role, Speaker,
    ToolCall, Transcript, Turn,
};
use serde_json::{Map, Value};

use super::about;

/// The most places that are named for unsupported parts of one type.
const PLACES: usize = 5;

/// What came last, if the agent was still to say something about it.
enum Open {
    /// A message of the user.
    Asked,
    /// A call of this tool without a result yet.
    Called(String),
    /// The result of a call of this tool.
    Answered(String),
    /// The word of a person on what the agent wants to do.
    Decided,
}

impl Open {
    fn words(&self) -> String {
        match self {
            Self::Asked => "a user message without an answer".to_owned(),
            Self::Called(tool) => format!("a call of `{tool}`, which has no result"),
            Self::Answered(tool) => {
                format!("the result of `{tool}`, to which the agent says nothing")
            }
            Self::Decided => "the answer to a request for approval".to_owned(),
        }
    }
}

/// What has been read of a conversation.
#[derive(Default)]
pub(super) struct Reading {
    transcript: Transcript,
    /// True if the agent has the word.
    is_answering: bool,
    open: Option<Open>,
    /// True if the last answer has called a tool.
    calls: bool,
    /// The place of the last answer, if it stopped because it calls tools.
    stopped_to_call: Option<String>,
    /// The calls that have no result yet, by their positions.
    unanswered: BTreeSet<usize>,
    /// The places of unsupported parts, by their types.
    not_understood: BTreeMap<String, Vec<String>>,
    no_text: BTreeMap<String, u64>,
}

impl Reading {
    /// Instructions. Those that come later stand in the middle of the conversation, and are said by nobody.
    pub(super) fn system(&mut self, text: &str) {
        if self.transcript.requests == 0 && !text.is_empty() {
            self.transcript.input.push(Message::new(Role::System, text));
        }
    }

    /// What the user says; it begins a turn, unless the agent has not said anything since the user spoke last.
    pub(super) fn user(&mut self, text: &str) {
        self.is_answering = false;
        self.open = Some(Open::Asked);
        if self.transcript.requests == 0 {
            self.transcript.input.push(Message::new(Role::User, text));
        }
        let is_waiting = self.transcript.turns.last().is_some_and(|it| it.requests == 0);
        match self.transcript.turns.last_mut().filter(|_| is_waiting) {
            Some(turn) => {
                let said = turn.user.get_or_insert_default();
                said.push('\n');
                said.push_str(text);
            }
            None => self.begin_turn(Some(text.to_owned())),
        }
        self.push(Event::Message { role: Speaker::User, text: text.to_owned() });
    }

    fn begin_turn(&mut self, user: Option<String>) {
        let events = self.transcript.events.len();
        let calls = self.transcript.tool_calls.len();
        let turn =
            Turn { user, events: events..events, tool_calls: calls..calls, ..Turn::default() };
        self.transcript.turns.push(turn);
    }

    /// An answer of the agent begins. What one before it said is not its text, and why that one stopped matters only
    /// where something went wrong.
    pub(super) fn answer(&mut self) {
        self.is_answering = true;
        self.open = None;
        self.without_call();
        self.calls = false;
        self.transcript.requests = self.transcript.requests.saturating_add(1);
        if self.transcript.turns.is_empty() {
            self.begin_turn(None);
        }
        if let Some(turn) = self.transcript.turns.last_mut() {
            turn.requests = turn.requests.saturating_add(1);
        }
        match self.transcript.finish_reason.take() {
            // What was only a pause goes on.
            Some(FinishReason::Other(word)) if word == "pause_turn" => return,
            Some(before @ FinishReason::Other(_)) if before.is_failure() => {
                let message = format!("the model stopped for the reason `{}`", before.as_str());
                self.push(Event::Error { message });
            }
            _ => {}
        }
        self.transcript.output.clear();
        self.transcript.unread = None;
        if let Some(turn) = self.transcript.turns.last_mut() {
            turn.text.clear();
            turn.unread = None;
        }
    }

    /// The agent goes on; where it did not have the word, an answer begins.
    pub(super) fn goes_on(&mut self) {
        if !self.is_answering {
            self.answer();
        }
    }

    /// Why an answer stopped, where the message says so itself.
    pub(super) fn stopped(&mut self, message: &Value, at: &str) -> Result<(), Problem> {
        self.transcript.finish_reason = about::finish_reason(message, at)?;
        let calls = self.transcript.finish_reason == Some(FinishReason::ToolCalls);
        self.stopped_to_call = calls.then(|| at.to_owned());
        Ok(())
    }

    /// An answer that stopped because it calls tools, and has no call, has lost it.
    fn without_call(&mut self) {
        if let Some(at) = self.stopped_to_call.take().filter(|_| !self.calls) {
            self.broke_off(format!("the answer at {at} stopped to call tools, and has no call"));
        }
    }

    /// What a tool gave is the answer: nothing more needs to be said.
    pub(super) fn shows_a_picture(&mut self) {
        self.open = None;
    }

    /// The answer is a refusal, whatever word it stopped with.
    pub(super) fn refused(&mut self) {
        self.transcript.finish_reason = Some(FinishReason::Refusal);
    }

    /// The answer at a place has nothing in it.
    pub(super) fn without_content(&mut self, at: &str) {
        self.broke_off(format!("the answer at {at} has neither a text nor a call"));
    }

    /// What the agent says: a message of its own, and a part of the text of its answer.
    pub(super) fn say(&mut self, text: &str) {
        self.transcript.output.push_str(text);
        if let Some(turn) = self.transcript.turns.last_mut() {
            turn.text.push_str(text);
        }
        if text.trim().is_empty() {
            return;
        }
        // Results that came within the answer are what it speaks of; a call is open until it has its own.
        if !matches!(self.open, Some(Open::Called(_))) {
            self.open = None;
        }
        self.push(Event::Message { role: Speaker::Assistant, text: text.to_owned() });
    }

    /// A call of a tool.
    pub(super) fn call(&mut self, call: ToolCall) {
        self.open = Some(Open::Called(call.name.clone()));
        self.calls = true;
        Event::of_call(&call).for_each(|event| self.push(event));
        self.unanswered.insert(self.transcript.tool_calls.len());
        self.transcript.tool_calls.push(call);
        let end = self.transcript.tool_calls.len();
        if let Some(turn) = self.transcript.turns.last_mut() {
            turn.tool_calls.end = end;
        }
    }

    /// The last call of this id has ended; what the tool gave is `None` where the format does not tell it.
    pub(super) fn answered(
        &mut self,
        id: &str,
        output: Option<Value>,
        status: ActionStatus,
        at: &str,
    ) -> Result<(), Problem> {
        let calls = &mut self.transcript.tool_calls;
        let is_it = |it: &usize| calls.get(*it).is_some_and(|it| it.id == id);
        let found = self.unanswered.iter().rev().copied().find(is_it);
        let Some((index, call)) = found.and_then(|it| Some((it, calls.get_mut(it)?))) else {
            let message = format!("`{id}` answers no call: none of this id is open before it");
            let help = "a result stands behind the call that it answers; see that none is missing";
            return Err(Problem::new(at, message).with_help(help));
        };
        call.response.clone_from(&output);
        self.open = Some(Open::Answered(call.name.clone()));
        self.unanswered.remove(&index);
        self.push(Event::ActionResult { call_id: id.to_owned(), output, status });
        Ok(())
    }

    /// A tool that is run outside of the answer comes next.
    pub(super) fn hands_over(&mut self) {
        self.is_answering = false;
    }

    /// A person has said yes or no to what the agent wants to do. It is no message, and begins no turn.
    pub(super) fn decided(&mut self) {
        self.hands_over();
        self.open = Some(Open::Decided);
    }

    /// Something that happened.
    pub(super) fn push(&mut self, event: Event) {
        self.transcript.events.push(event);
        let end = self.transcript.events.len();
        if let Some(turn) = self.transcript.turns.last_mut() {
            turn.events.end = end;
        }
    }

    /// Something in it is only a part of what it was to be, in words.
    pub(super) fn broke_off(&mut self, why: String) {
        self.transcript.gaps.push(why);
    }

    /// An unsupported part of the agent's actions. The actions are incomplete.
    pub(super) fn not_understood(&mut self, what: &str, at: &str) {
        let places = self.not_understood.entry(what.to_owned()).or_default();
        if places.len() < PLACES {
            places.push(at.to_owned());
        }
    }

    /// An unsupported part of an answer, which may be a text.
    pub(super) fn unread(&mut self, what: &str, at: &str) {
        self.not_understood(what, at);
        let why = format!("`{what}` at {at} is of a type that is not understood here");
        if let Some(turn) = self.transcript.turns.last_mut() {
            turn.unread.get_or_insert_with(|| why.clone());
        }
        self.transcript.unread.get_or_insert(why);
    }

    /// A part of a message that is no text, such as a picture.
    pub(super) fn no_text(&mut self, what: &str) {
        *self.no_text.entry(what.to_owned()).or_default() += 1;
    }

    /// All of it, and whether the last answer calls a tool. Messages tell what was said and called, and nothing else.
    pub(super) fn done(mut self) -> (Transcript, bool) {
        self.without_call();
        self.transcript.coverage = if self.not_understood.is_empty() {
            [Channel::Messages, Channel::Actions].into_iter().collect()
        } else {
            Coverage::default().losing(Channel::ALL)
        };
        // The last of them is what the transcript ends with, if it ends with a call.
        if matches!(self.open, Some(Open::Called(_))) {
            self.unanswered.pop_last();
        }
        let first = self.unanswered.first().and_then(|it| self.transcript.tool_calls.get(*it));
        let unanswered = first.map(|call| format!("a call of `{}` has no result", call.name));
        let last = self.open.map(|it| format!("the transcript ends with {}", it.words()));
        self.transcript.gaps.extend(unanswered.into_iter().chain(last));
        let metadata = [
            ("partsNotUnderstood", map(self.not_understood)),
            ("partsWithoutText", map(self.no_text)),
        ];
        let told = metadata.into_iter().filter(|(_, parts)| !parts.is_empty());
        self.transcript.metadata.extend(told.map(|(key, parts)| (key.to_owned(), parts.into())));
        (self.transcript, self.calls)
    }
}

fn map(parts: BTreeMap<String, impl Into<Value>>) -> Map<String, Value> {
    parts.into_iter().map(|(what, told)| (what, told.into())).collect()
}
