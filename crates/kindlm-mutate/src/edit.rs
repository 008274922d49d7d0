//! Changes an execution consistently: the same fact in the output, the turns and the events.

use std::ops::Range;

use kindlm_types::{Event, Execution, Speaker, ToolCall};
use serde_json::Value;

/// Returns the execution with another last answer.
///
/// Also changes the last turn, if it holds the old answer, and the last message of the agent in the events.
pub(crate) fn with_output(execution: &Execution, output: &str, json: Option<Value>) -> Execution {
    let mut mutant = execution.clone();
    if let Some(turn) = mutant.turns.last_mut().filter(|it| it.text == execution.output) {
        output.clone_into(&mut turn.text);
        turn.output_json.clone_from(&json);
    }
    let last = mutant.recorded_events.iter_mut().rev().find_map(|it| match it {
        Event::Message { role: Speaker::Assistant, text } => Some(text),
        _ => None,
    });
    if let Some(text) = last {
        output.clone_into(text);
    }
    output.clone_into(&mut mutant.output);
    mutant.output_json = json;
    mutant
}

/// Returns the execution without the tool call at an index.
///
/// Returns `None` if there is no such call, or if events are recorded and they do not show exactly one call with its
/// id.
pub(crate) fn without_call(execution: &Execution, at: usize) -> Option<Execution> {
    let mut mutant = execution.clone();
    let call = execution.tool_calls.get(at)?;
    mutant.tool_calls.remove(at);
    mutant.turns.iter_mut().for_each(|it| close_gap(&mut it.tool_calls, at));
    if execution.recorded_events.is_empty() {
        return Some(mutant);
    }
    position_of_call(&execution.recorded_events, &call.id)?;
    while let Some(position) = position_of(&mutant.recorded_events, &call.id) {
        mutant.recorded_events.remove(position);
        mutant.turns.iter_mut().for_each(|it| close_gap(&mut it.events, position));
    }
    Some(mutant)
}

/// Returns the execution with `call` instead of the tool call at an index.
///
/// Returns `None` if there is no such call, or if events are recorded and they do not show exactly one call with its
/// id.
pub(crate) fn with_call(execution: &Execution, at: usize, call: ToolCall) -> Option<Execution> {
    let mut mutant = execution.clone();
    let old = mutant.tool_calls.get_mut(at)?;
    if !mutant.recorded_events.is_empty() {
        let position = position_of_call(&mutant.recorded_events, &old.id)?;
        if let Some(Event::ActionCalled { name, tool, input, .. }) =
            mutant.recorded_events.get_mut(position)
        {
            // Another tool may be of another kind, which readers derive from the name.
            if *name != call.name {
                *tool = None;
            }
            name.clone_from(&call.name);
            input.clone_from(&call.arguments);
        }
    }
    *old = call;
    Some(mutant)
}

/// Returns the execution with one more tool call after all others.
pub(crate) fn with_last_call(execution: &Execution, call: &ToolCall) -> Execution {
    let mut mutant = execution.clone();
    let end = mutant.tool_calls.len();
    mutant.tool_calls.push(call.clone());
    if let Some(turn) = mutant.turns.last_mut() {
        turn.tool_calls.end = end + 1;
    }
    let events = &mut mutant.recorded_events;
    if !events.is_empty() {
        // The last message stays the end of the execution.
        let is_last = |it: &Event| matches!(it, Event::Message { role: Speaker::Assistant, .. });
        let at = events.iter().rposition(is_last).unwrap_or(events.len());
        let added: Vec<Event> = Event::of_call(call).collect();
        let count = added.len();
        events.splice(at..at, added);
        for turn in &mut mutant.turns {
            open_gap(&mut turn.events, at, count);
        }
    }
    mutant
}

/// Returns the execution with two neighbouring tool calls in the other order.
///
/// Returns `None` if there are no such calls, or if events are recorded and they do not show exactly one call with
/// each id.
pub(crate) fn with_swapped_calls(execution: &Execution, first: usize) -> Option<Execution> {
    let mut mutant = execution.clone();
    let (a, b) = (execution.tool_calls.get(first)?, execution.tool_calls.get(first + 1)?);
    mutant.tool_calls.swap(first, first + 1);
    let events = &mut mutant.recorded_events;
    if events.is_empty() {
        return Some(mutant);
    }
    let (x, y) = (position_of_call(events, &a.id)?, position_of_call(events, &b.id)?);
    events.swap(x, y);
    if let (Some(x), Some(y)) =
        (position_of_result(events, &a.id), position_of_result(events, &b.id))
    {
        events.swap(x, y);
    }
    Some(mutant)
}

fn position_of(events: &[Event], id: &str) -> Option<usize> {
    position_of_call(events, id).or_else(|| position_of_result(events, id))
}

/// Returns the position of the call with this id; `None` if there is none, or if several calls have the id.
///
/// The events of calls with the same id cannot be told apart.
fn position_of_call(events: &[Event], id: &str) -> Option<usize> {
    let is_call = |it: &Event| matches!(it, Event::ActionCalled { call_id, .. } if call_id == id);
    let mut found = events.iter().enumerate().filter(|(_, it)| is_call(it)).map(|(at, _)| at);
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

fn position_of_result(events: &[Event], id: &str) -> Option<usize> {
    events.iter().position(|it| matches!(it, Event::ActionResult { call_id, .. } if call_id == id))
}

/// Adapts a range of a list to the removal of the item at `at`.
fn close_gap(range: &mut Range<usize>, at: usize) {
    range.start -= usize::from(range.start > at);
    range.end -= usize::from(range.end > at);
}

/// Adapts a range of a list to `count` items that were inserted before `at`.
///
/// The range grows if the items are inserted inside it or at its start. It does not grow if it ends at `at`.
fn open_gap(range: &mut Range<usize>, at: usize, count: usize) {
    if range.start > at {
        range.start += count;
    }
    if range.end > at {
        range.end += count;
    }
}
