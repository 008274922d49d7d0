//! Converts spans to a sequence of events.

use std::collections::{HashMap, HashSet};

use kindlm_types::{ActionStatus, Event, FinishReason, Role, Speaker};
use serde_json::Value;

use crate::calls::Call;
use crate::message::RecordedMessage;
use crate::span::EXCEPTION;
use crate::step::{self, Kind};
use crate::tree::{Step, Tree};

/// The messages of models by step: the input (`told`) and the output (`said`).
///
/// The steps are in the order of their starts.
pub(crate) struct Conversation {
    pub(crate) told: Vec<(usize, Vec<RecordedMessage>)>,
    pub(crate) said: Vec<(usize, Vec<RecordedMessage>)>,
}

/// The events of an execution with their times.
struct Timeline<'t, 's> {
    tree: &'t Tree<'s>,
    events: Vec<(u64, Event)>,
}

/// Returns the events of an execution in the order of their times, or in order of arrival if the times are not
/// reliable.
pub(crate) fn ordered_events(
    tree: &Tree<'_>,
    conversation: &Conversation,
    calls: &[Call],
) -> Vec<Event> {
    let mut line = Timeline { tree, events: Vec::new() };
    let mut known: HashMap<&str, usize> = HashMap::new();
    let inputs: HashMap<usize, &[RecordedMessage]> = by_step(&conversation.told);
    let outputs: HashMap<usize, &[RecordedMessage]> = by_step(&conversation.said);
    let mut calls_of: HashMap<usize, Vec<&Call>> = HashMap::new();
    for call in calls {
        calls_of.entry(call.step).or_default().push(call);
    }
    let failed = line.innermost_errors();
    for at in tree.in_time() {
        let Some(step) = tree.steps.get(at) else { continue };
        if let Some(messages) = inputs.get(&at) {
            line.users(at, messages, &mut known);
        }
        if step.kind == Kind::Agent {
            line.subagent(at, step);
        }
        if let Some(messages) = outputs.get(&at) {
            line.answer(at, messages);
        }
        for call in calls_of.get(&at).into_iter().flatten() {
            line.call(call);
        }
        if let Some(usage) = step.usage {
            line.at_end(at, Event::Usage { usage, cost_usd: None });
        }
        if failed.contains(&at) {
            line.error(at, step);
        } else if step.kind == Kind::Inference {
            line.bad_end(at, step, outputs.get(&at).copied().unwrap_or_default());
        }
    }
    if tree.has_time {
        line.events.sort_by_key(|(time, _)| *time);
    }
    line.events.into_iter().map(|(_, event)| event).collect()
}

fn by_step(messages: &[(usize, Vec<RecordedMessage>)]) -> HashMap<usize, &[RecordedMessage]> {
    messages.iter().map(|(at, messages)| (*at, messages.as_slice())).collect()
}

impl Timeline<'_, '_> {
    fn at_start(&mut self, at: usize, event: Event) {
        let time = self.tree.steps.get(at).map_or(0, |it| it.span.start_ns);
        self.events.push((time, event));
    }

    fn at_end(&mut self, at: usize, event: Event) {
        let span = self.tree.steps.get(at).map(|it| it.span);
        let time = span.map_or(0, |it| it.end_ns.unwrap_or(it.start_ns));
        self.events.push((time, event));
    }

    /// Adds the new user messages of a model request.
    ///
    /// Each request repeats the earlier messages, so a text is new only if it occurs more often than in each earlier
    /// request. `known` has the highest count of each text so far.
    fn users<'m>(
        &mut self,
        at: usize,
        messages: &'m [RecordedMessage],
        known: &mut HashMap<&'m str, usize>,
    ) {
        let mut here: HashMap<&str, usize> = HashMap::new();
        for text in
            messages.iter().filter(|it| it.role == Role::User).filter_map(|it| it.text.as_deref())
        {
            let count = here.entry(text).or_default();
            *count += 1;
            let before = known.entry(text).or_default();
            if *count > *before {
                *before = *count;
                self.at_start(at, Event::Message { role: Speaker::User, text: text.to_owned() });
            }
        }
    }

    fn answer(&mut self, at: usize, messages: &[RecordedMessage]) {
        for message in messages {
            for text in &message.thoughts {
                self.at_end(at, Event::Thinking { text: text.clone() });
            }
            if let Some(text) = message.text.clone().filter(|it| !it.is_empty()) {
                self.at_end(at, Event::Message { role: Speaker::Assistant, text });
            }
        }
    }

    fn call(&mut self, call: &Call) {
        // Arguments that the trace does not contain are null, not an empty object.
        let input = match &call.malformed {
            Some(text) => Value::from(text.as_str()),
            None if call.shows_arguments => call.arguments.clone(),
            None => Value::Null,
        };
        let called = Event::ActionCalled {
            call_id: call.id.clone(),
            name: call.name.clone(),
            tool: None,
            input,
        };
        let ended = self.tree.steps.get(call.step).is_some_and(|it| it.span.end_ns.is_some());
        let status = if call.failed { ActionStatus::Failed } else { ActionStatus::Completed };
        let output = call.output.clone();
        let result = Event::ActionResult { call_id: call.id.clone(), output, status };
        if call.has_span {
            self.at_start(call.step, called);
            if ended {
                self.at_end(call.step, result);
            }
        } else {
            self.at_end(call.step, called);
            // A model received the result, so the call has completed.
            if call.output.is_some() {
                self.at_end(call.step, result);
            }
        }
    }

    /// Adds the events of a subagent: an agent inside the span of an agent with another name.
    ///
    /// Adds nothing for any other agent.
    fn subagent(&mut self, at: usize, step: &Step<'_>) {
        let name = step::agent_name(step.span);
        let other = |it: &Step<'_>| it.kind == Kind::Agent && step::agent_name(it.span) != name;
        if !self.tree.is_within(at, other) {
            return;
        }
        let call_id = step.span.span_id.clone();
        let remote_url = step.span.text("server.address").map(str::to_owned);
        self.at_start(
            at,
            Event::SubagentCalled { call_id: call_id.clone(), name: name.to_owned(), remote_url },
        );
        if step.span.end_ns.is_some() {
            let failed = step.span.has_failed();
            let status = if failed { ActionStatus::Failed } else { ActionStatus::Completed };
            let output = step::whole_output(step.span).map(Value::from);
            self.at_end(at, Event::SubagentCompleted { call_id, output, status });
        }
    }

    /// Returns the steps in which an error occurred, without the steps around them.
    ///
    /// Only models, agents and root spans are returned. The error of a failed tool call is in the result of the call.
    ///
    /// An exception without an error status counts only in a root span. In any other span, the program may have
    /// caught the exception.
    fn innermost_errors(&self) -> HashSet<usize> {
        let mut around = HashSet::new();
        let mut failed = HashSet::new();
        for (at, step) in self.tree.steps.iter().enumerate() {
            let mut above = self.tree.ancestors(at).peekable();
            let is_inside = above.peek().is_some();
            let went_wrong = step.span.has_failed() || (!is_inside && step.span.has_thrown());
            if !went_wrong || step.kind == Kind::Tool || (step.kind == Kind::Other && is_inside) {
                continue;
            }
            around.extend(above);
            failed.insert(at);
        }
        failed.retain(|it| !around.contains(it));
        failed
    }

    /// Adds an error if the finish reason of a model request is a failure, such as a malformed tool call.
    ///
    /// Many instrumentations do not set an error status for such an end.
    fn bad_end(&mut self, at: usize, step: &Step<'_>, messages: &[RecordedMessage]) {
        let by_message = || messages.iter().rev().find_map(|it| it.finish_reason.clone());
        let Some(word) = step::finish_reason(step.span).or_else(by_message) else { return };
        if FinishReason::of_vendor(&word).is_failure() {
            let message = format!("{}: the model stopped for the reason `{word}`", step.span.name);
            self.at_end(at, Event::Error { message });
        }
    }

    fn error(&mut self, at: usize, step: &Step<'_>) {
        let exception = step.span.events.iter().find(|it| it.name == EXCEPTION);
        let exception = exception.and_then(|it| it.attributes.get("exception.message")?.as_str());
        let message = step
            .span
            .status_message
            .as_deref()
            .or(exception)
            .or_else(|| step.span.text("error.type"))
            .unwrap_or("no reason was reported");
        self.at_end(at, Event::Error { message: format!("{}: {message}", step.span.name) });
    }
}
