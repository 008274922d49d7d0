//! What the checks of one labelled turn may look at.

use kindlm_assertions::Check;
use kindlm_types::{
    ActionState, AssertionResult, Channel, Event, Execution, Facts, FailureCode, Message, Role,
    Turn, Usage, Verdict,
};

use crate::Model;
use crate::judge::{Halt, not_run};

/// The part of an execution that is one turn, as an execution of its own.
///
/// Text, tool calls, tokens, time and cost are those of the turn; `input` is the conversation's opening with
/// what the user said last.
pub(super) fn evidence(
    execution: &Execution,
    index: usize,
    model: Option<&Model>,
) -> Option<Execution> {
    let turn = execution.turns.get(index)?;
    let is_last = index + 1 == execution.turns.len();
    let events = execution.recorded_events.get(turn.events.clone()).unwrap_or_default();
    Some(Execution {
        case: execution.case.clone(),
        model: execution.model.clone(),
        repeat: execution.repeat,
        input: input(execution, index),
        output: turn.text.clone(),
        unread: turn.unread.clone(),
        // A turn that was recorded before turns told it has it only where it is the last.
        output_json: turn
            .output_json
            .clone()
            .or_else(|| execution.output_json.clone().filter(|_| is_last)),
        tool_calls: execution
            .tool_calls
            .get(turn.tool_calls.clone())
            .map(<[_]>::to_vec)
            .unwrap_or_default(),
        turns: Vec::new(),
        // At least one, also of a turn that was recorded before turns counted them.
        requests: turn.requests.max(1),
        usage: turn.usage,
        // Of a recorded conversation only the whole may be known.
        latency_ms: execution
            .latency_ms
            .filter(|it| *it <= 0.0 || turn.latency_ms > 0.0)
            .map(|_| turn.latency_ms),
        // An agent may tell what its turn cost.
        cost_usd: {
            let told = Event::usage(events).1;
            told.or_else(|| model?.cost_of(None, &turn.usage))
        },
        spent_usd: None,
        earlier_usd: 0.0,
        finish_reason: execution.finish_reason.clone().filter(|_| is_last),
        truncated: execution.truncated && is_last,
        gaps: if is_last || execution.trace.is_some() || turn.text.is_empty() {
            // A conversation that breaks off does so in its last turn; spans may be missing anywhere, and so may the answer
            // of a turn in which nothing is said.
            execution.gaps.clone()
        } else if model.is_none() {
            without_result(execution, events)
        } else {
            Vec::new()
        },
        cached: execution.cached,
        exit_code: execution.exit_code,
        stderr: String::new(),
        vars: execution.vars.clone(),
        test_metadata: execution.test_metadata.clone(),
        log_probs: None,
        metadata: execution.metadata.clone(),
        provider_response: None,
        recorded_events: events.to_vec(),
        coverage: if turn.usage == Usage::default() && execution.usage != Usage::default() {
            execution.coverage.clone().without(Channel::Usage)
        } else {
            execution.coverage.clone()
        },
        declared: execution.declared.clone(),
        trace: execution.trace.clone(),
        // The workspace at the end says nothing about one turn.
        workspace: None,
        tools: execution.tools.clone(),
        written: execution.written.clone(),
    })
}

/// The calls of a turn of which a transcript does not say how they ended, in words. A model that is asked may leave its
/// calls to somebody else.
fn without_result(execution: &Execution, of_turn: &[Event]) -> Vec<String> {
    let is_of_turn = |id: &str| {
        of_turn.iter().any(|it| matches!(it, Event::ActionCalled { call_id, .. } if call_id == id))
    };
    let actions = Facts::of(&execution.recorded_events).actions.into_iter();
    let open = actions.filter(|it| it.state == ActionState::Pending && is_of_turn(it.call_id));
    let named = open.filter_map(|it| it.name);
    named.map(|name| format!("a call of `{name}` has no result")).collect()
}

fn input(execution: &Execution, index: usize) -> Vec<Message> {
    let said = |turn: &Turn| turn.user.clone();
    // The user's first message is in the opening already.
    let Some(user) = execution.turns.iter().take(index + 1).skip(1).rev().find_map(said) else {
        return execution.input.clone();
    };
    let mut input: Vec<Message> =
        execution.input.iter().filter(|it| it.role == Role::System).cloned().collect();
    input.push(Message::new(Role::User, user));
    input
}

/// The result of a check whose turn never came.
pub(super) fn not_reached(check: &Check, label: &str, reached: usize) -> AssertionResult {
    let message = format!(
        "turn `{label}` was not reached: the conversation ended after {reached} labelled turns"
    );
    of_turn(
        check.without_looking(Verdict::Errored { code: FailureCode::INTERNAL_ERROR, message }),
        label,
    )
}

/// The result of a check whose turn was not sent, as an earlier one did not go as required.
pub(super) fn not_sent(check: &Check, label: &str, halt: &Halt) -> AssertionResult {
    of_turn(not_run(check, halt), label)
}

fn of_turn(mut result: AssertionResult, label: &str) -> AssertionResult {
    result.turn = Some(label.to_owned());
    result
}
