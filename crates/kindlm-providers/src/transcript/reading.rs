//! A conversation as far as it has been read.

use std::collections::BTreeMap;

use kindlm_types::{
    ActionStatus, Channel, Coverage, Event, FinishReason, Message, Problem, Role, Speaker,
    ToolCall, Transcript, Turn,
};
use serde_json::{Map, Value};

use super::about::{FINISH, finish_reason};

/// How the words for a call begin that nobody has answered yet.
const OPEN_CALL: &str = "a call of ";

/// What has been read of a conversation.
#[derive(Default)]
pub(super) struct Reading {
    transcript: Transcript,
    /// Whether the agent has the word.
    is_answering: bool,
    /// What came last, in words, if the agent was still to say something about it.
    open: Option<String>,
    not_understood: BTreeMap<String, u64>,
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
        self.open = Some("a message of the user, which nobody answers".to_owned());
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

    /// An answer of the agent begins.
    pub(super) fn answer(&mut self) {
        self.is_answering = true;
        self.open = None;
        self.transcript.requests = self.transcript.requests.saturating_add(1);
        if self.transcript.turns.is_empty() {
            self.begin_turn(None);
        }
        if let Some(turn) = self.transcript.turns.last_mut() {
            turn.requests = turn.requests.saturating_add(1);
        }
    }

    /// The agent goes on; where it did not have the word, an answer begins.
    pub(super) fn goes_on(&mut self) {
        if !self.is_answering {
            self.answer();
        }
    }

    /// Why an answer stopped, where the message says so itself. The last one counts; one that went wrong in between is an
    /// error.
    pub(super) fn stopped(&mut self, message: &Value) {
        let word = FINISH.iter().find_map(|it| message.get(*it)?.as_str());
        let before = std::mem::replace(&mut self.transcript.finish_reason, word.map(finish_reason));
        if let Some(FinishReason::Other(word)) = before.filter(FinishReason::is_failure)
            && word != "pause_turn"
        {
            self.push(Event::Error {
                message: format!("the model stopped for the reason `{word}`"),
            });
        }
    }

    /// What the agent says.
    pub(super) fn say(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        text.clone_into(&mut self.transcript.output);
        if let Some(turn) = self.transcript.turns.last_mut() {
            text.clone_into(&mut turn.text);
        }
        self.push(Event::Message { role: Speaker::Assistant, text: text.to_owned() });
    }

    /// A call of a tool.
    pub(super) fn call(&mut self, call: ToolCall) {
        self.open = Some(format!("{OPEN_CALL}`{}`, which has no result", call.name));
        Event::of_call(&call).for_each(|event| self.push(event));
        self.transcript.tool_calls.push(call);
        let end = self.transcript.tool_calls.len();
        if let Some(turn) = self.transcript.turns.last_mut() {
            turn.tool_calls.end = end;
        }
    }

    /// What a tool gave to the last call of this id.
    pub(super) fn answered(
        &mut self,
        id: &str,
        output: Value,
        status: ActionStatus,
        at: &str,
    ) -> Result<(), Problem> {
        self.is_answering = false;
        let is_open = |it: &&mut ToolCall| it.id == id && it.response.is_none();
        let Some(call) = self.transcript.tool_calls.iter_mut().rev().find(is_open) else {
            let message = format!("`{id}` answers no call: none of this id is open before it");
            let help = "a result stands behind the call that it answers; see that none is missing";
            return Err(Problem::new(at, message).with_help(help));
        };
        call.response = Some(output.clone());
        self.open = Some(format!("the result of `{}`, to which the agent says nothing", call.name));
        self.push(Event::ActionResult { call_id: id.to_owned(), output: Some(output), status });
        Ok(())
    }

    /// A person has said yes or no to what the agent wants to do. It is no message, and begins no turn.
    pub(super) fn decided(&mut self) {
        self.is_answering = false;
        self.open = Some("the answer to a request for approval".to_owned());
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

    /// A part of what the agent did that nobody understands, so it is not known any more what it did not do.
    pub(super) fn not_understood(&mut self, what: &str) {
        *self.not_understood.entry(what.to_owned()).or_default() += 1;
    }

    /// A part of a message that is no text, such as a picture.
    pub(super) fn no_text(&mut self, what: &str) {
        *self.no_text.entry(what.to_owned()).or_default() += 1;
    }

    /// All of it. Messages tell what was said and called, and nothing else.
    pub(super) fn done(mut self) -> Transcript {
        self.transcript.coverage = if self.not_understood.is_empty() {
            [Channel::Messages, Channel::Actions].into_iter().collect()
        } else {
            Coverage::Only([].into())
        };
        let calls = &self.transcript.tool_calls;
        let is_open = |it: &&ToolCall| it.response.is_none();
        // The last one of them is what the transcript ends with, if it does.
        let ends_open = self.open.as_ref().is_some_and(|it| it.starts_with(OPEN_CALL));
        let mut open: Vec<&ToolCall> = calls.iter().filter(is_open).collect();
        if ends_open {
            open.pop();
        }
        if let Some(call) = open.first() {
            let name = &call.name;
            self.transcript.gaps.push(format!("a call of `{name}` has no result"));
        }
        if let Some(last) = self.open {
            self.transcript.gaps.push(format!("the transcript ends with {last}"));
        }
        for (key, parts) in
            [("partsNotUnderstood", self.not_understood), ("partsWithoutText", self.no_text)]
        {
            if !parts.is_empty() {
                let parts = parts.into_iter().map(|(what, count)| (what, count.into()));
                let parts: Map<String, Value> = parts.collect();
                self.transcript.metadata.insert(key.to_owned(), parts.into());
            }
        }
        self.transcript
    }
}
