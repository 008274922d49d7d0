//! Changes an execution consistently: the same fact in the output, the turns and the events.

use std::ops::Range;

use kindlm_types::{Event, Execution, Speaker, ToolCall};
use serde_json::Value;

/// Returns the execution with another last answer: the text `output`, and `json` as its structured output.
///
/// The last message of the agent in the events changes too. The last turn changes if its text is the old answer.
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

/// Returns the execution without the tool call at the index `at`, and without the events of this call.
///
/// Returns `None` if there is no such call, or if there are recorded events that do not show the call.
pub(crate) fn without_call(execution: &Execution, at: usize) -> Option<Execution> {
    let mut mutant = execution.clone();
    execution.tool_calls.get(at)?;
    mutant.tool_calls.remove(at);
    mutant.turns.iter_mut().for_each(|it| close_gap(&mut it.tool_calls, at));
    if execution.recorded_events.is_empty() {
        return Some(mutant);
    }
    let mut events = vec![position_of_call(execution, at)?];
    events.extend(positions_of_results(execution, at));
    events.sort_unstable();
    for position in events.into_iter().rev() {
        mutant.recorded_events.remove(position);
        mutant.turns.iter_mut().for_each(|it| close_gap(&mut it.events, position));
    }
    Some(mutant)
}

/// Returns the execution with `call` instead of the tool call at the index `at`. The new call has the id of the old
/// call.
///
/// Returns `None` if there is no such call, or if there are recorded events that do not show the call.
pub(crate) fn with_call(execution: &Execution, at: usize, call: ToolCall) -> Option<Execution> {
    let mut mutant = execution.clone();
    let old = mutant.tool_calls.get_mut(at)?;
    if !mutant.recorded_events.is_empty() {
        let position = position_of_call(execution, at)?;
        if let Some(Event::ActionCalled { name, tool, input, .. }) =
            mutant.recorded_events.get_mut(position)
        {
            // The new tool may be of another kind. If `tool` is `None`, readers derive the kind from the name.
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
        // A message after all other calls stays last.
        let is_message = |it: &Event| matches!(it, Event::Message { role: Speaker::Assistant, .. });
        let is_action =
            |it: &Event| matches!(it, Event::ActionCalled { .. } | Event::ActionResult { .. });
        let action = events.iter().rposition(is_action);
        let message = events.iter().rposition(is_message).filter(|it| Some(*it) > action);
        let at = message.unwrap_or(events.len());
        let added: Vec<Event> = Event::of_call(call).collect();
        let count = added.len();
        events.splice(at..at, added);
        for turn in &mut mutant.turns {
            open_gap(&mut turn.events, at, count);
        }
        // The last turn includes the added call, even if no event follows the call.
        if let Some(turn) = mutant.turns.last_mut().filter(|it| it.events.end == at) {
            turn.events.end += count;
        }
    }
    mutant
}

/// Returns the execution with the tool calls at `first` and `first + 1` swapped, and also their events.
///
/// Of the results, only the first result of each call moves. Returns `None` if there are no such calls, or if there are
/// recorded events that do not show both calls.
pub(crate) fn with_swapped_calls(execution: &Execution, first: usize) -> Option<Execution> {
    let mut mutant = execution.clone();
    execution.tool_calls.get(first + 1)?;
    mutant.tool_calls.swap(first, first + 1);
    let events = &mut mutant.recorded_events;
    if events.is_empty() {
        return Some(mutant);
    }
    events.swap(position_of_call(execution, first)?, position_of_call(execution, first + 1)?);
    let result = |at: usize| positions_of_results(execution, at).first().copied();
    if let (Some(x), Some(y)) = (result(first), result(first + 1)) {
        events.swap(x, y);
    }
    Some(mutant)
}

/// Returns the positions of all call events with the same id as the tool call at the index `at`.
///
/// Some servers use a call id again in a later answer. Calls with the same id are in the same order in the events and
/// in the tool calls.
fn positions_of_calls(execution: &Execution, at: usize) -> Vec<usize> {
    let Some(call) = execution.tool_calls.get(at) else { return Vec::new() };
    let is_call =
        |it: &Event| matches!(it, Event::ActionCalled { call_id, .. } if *call_id == call.id);
    let events = execution.recorded_events.iter().enumerate();
    events.filter(|(_, it)| is_call(it)).map(|(position, _)| position).collect()
}

/// Returns the number of earlier tool calls that share the id of the tool call at the index `at`.
fn earlier_calls(execution: &Execution, at: usize) -> usize {
    let id = execution.tool_calls.get(at).map(|it| &it.id);
    execution.tool_calls.iter().take(at).filter(|it| Some(&it.id) == id).count()
}

/// Returns the position of the event of the tool call at the index `at`.
///
/// Returns `None` if the events and the tool calls have different numbers of calls with the id of this call.
fn position_of_call(execution: &Execution, at: usize) -> Option<usize> {
    let id = &execution.tool_calls.get(at)?.id;
    let found = positions_of_calls(execution, at);
    let all = execution.tool_calls.iter().filter(|it| it.id == *id).count();
    if found.len() == all { found.get(earlier_calls(execution, at)).copied() } else { None }
}

/// Returns the positions of the results of the tool call at the index `at`.
///
/// The results are before the event of the next call with the same id. If an earlier call has the same id, the results
/// are also after the event of the call.
fn positions_of_results(execution: &Execution, at: usize) -> Vec<usize> {
    let Some(call) = execution.tool_calls.get(at) else { return Vec::new() };
    let calls = positions_of_calls(execution, at);
    let number = earlier_calls(execution, at);
    let start = calls.get(number).copied().filter(|_| number > 0);
    let end = calls.get(number + 1).copied();
    let is_result =
        |it: &Event| matches!(it, Event::ActionResult { call_id, .. } if *call_id == call.id);
    let is_between =
        |it: &usize| start.is_none_or(|start| *it > start) && end.is_none_or(|end| *it < end);
    let events = execution.recorded_events.iter().enumerate();
    let results = events.filter(|(_, it)| is_result(it)).map(|(position, _)| position);
    results.filter(is_between).collect()
}

/// Adapts a range of a list to the removal of the item at `at`.
fn close_gap(range: &mut Range<usize>, at: usize) {
    range.start -= usize::from(range.start > at);
    range.end -= usize::from(range.end > at);
}

/// Adapts a range of a list to `count` items that were inserted before `at`.
///
/// The range grows if the items are inserted inside the range or at its start. A range that ends at `at` does not grow.
fn open_gap(range: &mut Range<usize>, at: usize, count: usize) {
    if range.start > at {
        range.start += count;
    }
    if range.end > at {
        range.end += count;
    }
}
