//! The state of reading a conversation.

use std::collections::{BTreeMap, BTreeSet};

use kindlm_types::{
    ActionStatus, Channel, Coverage, Event, FinishReason, Message, Problem, Role, Speaker,
    ToolCall, Transcript, Turn, UnsupportedPart,
};
use serde_json::Value;

use super::about;

/// The maximum number of recorded locations for each type of unsupported part.
const PLACES: usize = 5;

/// The last entry of the conversation, to which the agent has not reacted yet.
enum Open {
    /// A user message.
    Unanswered,
    /// A call of this tool, which has no result yet.
    Called(String),
    /// The result of a call of this tool.
    Answered(String),
    /// A person's decision about an action that the agent requested.
    Decided,
}

impl Open {
    fn describe(&self) -> String {
        match self {
            Self::Unanswered => "a user message without an answer".to_owned(),
            Self::Called(tool) => format!("a call of `{tool}`, which has no result"),
            Self::Answered(tool) => {
                format!("the result of `{tool}` without an answer")
            }
            Self::Decided => "the answer to a request for approval".to_owned(),
        }
    }
}

/// The state of reading a conversation.
#[derive(Default)]
pub(super) struct Reading {
    transcript: Transcript,
    /// True while further items belong to the current answer of the agent.
    is_answering: bool,
    open: Option<Open>,
    /// True if the last answer has called a tool.
    calls: bool,
    /// The pointer of the last answer if it stopped for a tool call; otherwise `None`.
    stopped_to_call: Option<String>,
    /// The indices of the calls that have no result yet.
    unanswered: BTreeSet<usize>,
    /// The pointers of unsupported parts, by type; at most [`PLACES`] for each type.
    not_understood: BTreeMap<String, Vec<String>>,
    no_text: BTreeMap<String, u64>,
}

impl Reading {
    /// Reads a system message. System messages after the first answer are ignored, because the transcript's `input`
    /// ends at the first answer.
    pub(super) fn system(&mut self, text: &str) {
        if self.transcript.requests == 0 && !text.is_empty() {
            self.transcript.input.push(Message::new(Role::System, text));
        }
    }

    /// Reads a user message. The message begins a turn. If the agent has not answered the previous message, the text
    /// is added to that message.
    pub(super) fn user(&mut self, text: &str) {
        self.is_answering = false;
        self.open = Some(Open::Unanswered);
        if self.transcript.requests == 0 {
            self.transcript.input.push(Message::new(Role::User, text));
        }
        let is_waiting = self.transcript.turns.last().is_some_and(|it| it.requests == 0);
        match self.transcript.turns.last_mut().filter(|_| is_waiting) {
            Some(turn) => {
                let user = turn.user.get_or_insert_default();
                user.push('\n');
                user.push_str(text);
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

    /// Begins an answer of the agent. Its text replaces the text of earlier answers, unless the last answer paused. If
    /// the finish reason of the last answer is a failure, an error is recorded.
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
            // After a pause, this answer continues the earlier answer.
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

    /// Begins an answer of the agent, unless an answer is in progress.
    pub(super) fn goes_on(&mut self) {
        if !self.is_answering {
            self.answer();
        }
    }

    /// Reads the finish reason of an answer. A message without a reason clears the earlier reason. Fails if the reason
    /// is not a text.
    pub(super) fn stopped(&mut self, message: &Value, at: &str) -> Result<(), Problem> {
        self.transcript.finish_reason = about::finish_reason(message, at)?;
        let calls = self.transcript.finish_reason == Some(FinishReason::ToolCalls);
        self.stopped_to_call = calls.then(|| at.to_owned());
        Ok(())
    }

    /// Records missing evidence if the finish reason of an answer is tool calls, but the answer has no call.
    fn without_call(&mut self) {
        if let Some(at) = self.stopped_to_call.take().filter(|_| !self.calls) {
            self.broke_off(format!("the answer at {at} stopped to call tools, but has no call"));
        }
    }

    /// Records that the image of a tool is the answer. The conversation may end without a further message.
    pub(super) fn shows_a_picture(&mut self) {
        self.open = None;
    }

    /// Marks the answer as a refusal, regardless of its finish reason.
    pub(super) fn refused(&mut self) {
        self.transcript.finish_reason = Some(FinishReason::Refusal);
    }

    /// Records missing evidence for an answer without a text and without a call.
    pub(super) fn without_content(&mut self, at: &str) {
        self.broke_off(format!("the answer at {at} has neither a text nor a call"));
    }

    /// Reads a text of the agent, which is a message and a part of the answer.
    pub(super) fn add_message(&mut self, text: &str) {
        self.transcript.output.push_str(text);
        if let Some(turn) = self.transcript.turns.last_mut() {
            turn.text.push_str(text);
        }
        if text.trim().is_empty() {
            return;
        }
        // The text reacts to earlier results within the answer. A call stays open until it has its own result.
        if !matches!(self.open, Some(Open::Called(_))) {
            self.open = None;
        }
        self.push(Event::Message { role: Speaker::Assistant, text: text.to_owned() });
    }

    /// Adds a tool call with its events to the current turn. The call stays open until its result is read.
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

    /// Records the end of the last open call with this id. Fails without such a call. `output` is `None` if the format
    /// does not include the output.
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
            let message = format!("`{id}` answers no call: no earlier open call has this id");
            let help = "a result must follow its call; check if a call is missing";
            return Err(Problem::new(at, message).with_help(help));
        };
        call.response.clone_from(&output);
        self.open = Some(Open::Answered(call.name.clone()));
        self.unanswered.remove(&index);
        self.push(Event::ActionResult { call_id: id.to_owned(), output, status });
        Ok(())
    }

    /// Ends the agent's answer, because the next entry comes from the client.
    pub(super) fn hands_over(&mut self) {
        self.is_answering = false;
    }

    /// Records a person's decision about an action of the agent. The decision is not a message, and begins no turn.
    pub(super) fn decided(&mut self) {
        self.hands_over();
        self.open = Some(Open::Decided);
    }

    /// Adds an event to the current turn.
    pub(super) fn push(&mut self, event: Event) {
        self.transcript.events.push(event);
        let end = self.transcript.events.len();
        if let Some(turn) = self.transcript.turns.last_mut() {
            turn.events.end = end;
        }
    }

    /// Records the reason why the conversation is incomplete.
    pub(super) fn broke_off(&mut self, why: String) {
        self.transcript.gaps.push(why);
    }

    /// Records an unsupported part, which may hold an action. All evidence then counts as lost.
    pub(super) fn not_understood(&mut self, what: &str, at: &str) {
        let places = self.not_understood.entry(what.to_owned()).or_default();
        if places.len() < PLACES {
            places.push(at.to_owned());
        }
    }

    /// Records an unsupported part of an answer, which may hold text.
    pub(super) fn note_unsupported(&mut self, what: &str, at: &str) {
        self.not_understood(what, at);
        let why = format!("`{what}` at {at} has an unsupported type");
        if let Some(turn) = self.transcript.turns.last_mut() {
            turn.unread.get_or_insert_with(|| why.clone());
        }
        self.transcript.unread.get_or_insert(why);
    }

    /// Counts a part of a message that is not text, such as an image.
    pub(super) fn no_text(&mut self, what: &str) {
        *self.no_text.entry(what.to_owned()).or_default() += 1;
    }

    /// Returns the transcript, and true if the last answer calls a tool. The complete evidence is messages and actions;
    /// with unsupported parts, all evidence is lost.
    pub(super) fn done(mut self) -> (Transcript, bool) {
        self.without_call();
        self.transcript.coverage = if self.not_understood.is_empty() {
            [Channel::Messages, Channel::Actions].into_iter().collect()
        } else {
            Coverage::default().losing(Channel::ALL)
        };
        // If the last entry is a call, the report names the end of the conversation, not the missing result of this
        // call.
        if matches!(self.open, Some(Open::Called(_))) {
            self.unanswered.pop_last();
        }
        let first = self.unanswered.first().and_then(|it| self.transcript.tool_calls.get(*it));
        let unanswered = first.map(|call| format!("a call of `{}` has no result", call.name));
        let last = self.open.map(|it| format!("the transcript ends with {}", it.describe()));
        self.transcript.gaps.extend(unanswered.into_iter().chain(last));
        let unsupported = self.not_understood.into_iter();
        let unsupported: Vec<UnsupportedPart> =
            unsupported.map(|(what, places)| UnsupportedPart::new(what, places)).collect();
        let metadata = &mut self.transcript.metadata;
        UnsupportedPart::add_to_metadata(&unsupported, metadata);
        if !self.no_text.is_empty() {
            let counts = self.no_text.into_iter().map(|(what, count)| (what, Value::from(count)));
            metadata.insert("partsWithoutText".to_owned(), Value::Object(counts.collect()));
        }
        self.transcript.unsupported = unsupported;
        (self.transcript, self.calls)
    }
}
