//! The evidence for the checks of one labelled turn.

use std::ops::Range;

use kindlm_assertions::Check;
use kindlm_types::{
    ActionState, AssertionResult, Channel, CommandEnd, Completeness, Event, Execution, Facts,
    FailureCode, Message, Role, Spend, Turn, Usage, Verdict,
};

use crate::Model;
use crate::judge::{Halt, not_run};

/// Returns the part of an execution that belongs to one turn, as an execution.
///
/// Text, tool calls, tokens, time and cost are of the turn only. `input` has the system messages and the user's last
/// message; for turns of the first message, it has all initial messages. Returns `None` if the turn was not reached.
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
        completeness: Completeness {
            unread: turn.unread.clone(),
            truncated: execution.completeness.truncated && is_last,
            gaps: if is_last || execution.trace.is_some() || turn.text.is_empty() {
                // A conversation is aborted only in its last turn. Missing spans or an empty answer can affect any
                // turn.
                execution.completeness.gaps.clone()
            } else if model.is_none() {
                without_result(execution, &turn.events)
            } else {
                Vec::new()
            },
            unsupported: execution.completeness.unsupported.clone(),
            coverage: if turn.usage == Usage::default() && execution.usage != Usage::default() {
                execution.completeness.coverage.clone().without(Channel::Usage)
            } else {
                execution.completeness.coverage.clone()
            },
            declared: execution.completeness.declared.clone(),
        },
        // Older records store no structured output for turns. The output of the whole execution belongs to the last
        // turn.
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
        // Older records do not count requests by turn, so 0 becomes 1.
        requests: turn.requests.max(1),
        usage: turn.usage,
        // For a recorded conversation, only the total time may be known.
        latency_ms: execution
            .latency_ms
            .filter(|it| *it <= 0.0 || turn.latency_ms > 0.0)
            .map(|_| turn.latency_ms),
        first_token_ms: turn.first_token_ms,
        spend: Spend {
            cost_usd: {
                let reported = Event::usage(events).1;
                reported.or_else(|| price_turn(turn, events, model?))
            },
            paid_usd: None,
            earlier_usd: 0.0,
            cached: execution.spend.cached,
        },
        finish_reason: execution.finish_reason.clone().filter(|_| is_last),
        command: CommandEnd::from_parts(execution.exit_code(), String::new()),
        vars: execution.vars.clone(),
        test_metadata: execution.test_metadata.clone(),
        log_probs: None,
        metadata: execution.metadata.clone(),
        provider_response: None,
        images: if is_last { execution.images.clone() } else { Vec::new() },
        recorded_events: events.to_vec(),
        trace: execution.trace.clone(),
        // The final state of the workspace is no evidence about one turn.
        workspace: None,
        tools: execution.tools.clone(),
        written: execution.written.clone(),
    })
}

/// Returns the cost of a turn in US dollars, computed from the price of the tokens.
///
/// If a turn of several requests has more input tokens than the threshold for long prompts, each request is priced
/// separately. Returns `None` if the price is unknown, or if the usage of any of these requests was not recorded.
fn price_turn(turn: &Turn, events: &[Event], model: &Model) -> Option<f64> {
    let long_prompt = model.price.and_then(|it| it.long_prompt);
    let may_be_long = long_prompt.is_some_and(|it| turn.usage.input_tokens > it.above);
    if turn.requests == 1 || !may_be_long {
        return model.cost_of(None, &turn.usage);
    }
    let requests = events.iter().filter_map(|it| match it {
        Event::Usage { usage, .. } => Some(usage),
        _ => None,
    });
    let requests: Vec<&Usage> = requests.collect();
    // Old records have no number of requests, which is read as 0.
    if requests.is_empty() || u32::try_from(requests.len()).ok() != Some(turn.requests) {
        return None;
    }
    requests.iter().map(|it| model.cost_of(None, it)).sum()
}

/// Returns the reasons for missing evidence: the calls of a turn that have no result.
///
/// Only transcripts have such reasons: calls of a model under test may remain without a result on purpose.
fn without_result(execution: &Execution, of_turn: &Range<usize>) -> Vec<String> {
    let events = &execution.recorded_events;
    // Calls are selected by their positions, because several calls may share an id.
    let is_call = |it: &&Event| matches!(it, Event::ActionCalled { .. });
    let before = events.iter().take(of_turn.start).filter(is_call).count();
    let until = events.iter().take(of_turn.end).filter(is_call).count();
    let actions = Facts::from_events(events).actions.into_iter();
    let called = actions.filter_map(|it| Some((it.name?, it.state)));
    let of_turn = called.take(until).skip(before);
    let open = of_turn.filter(|(_, state)| *state == ActionState::Pending);
    open.map(|(name, _)| format!("a call of `{name}` has no result")).collect()
}

fn input(execution: &Execution, index: usize) -> Vec<Message> {
    let said = |turn: &Turn| turn.user.clone();
    // The user's first message is already among the initial messages.
    let Some(user) = execution.turns.iter().take(index + 1).skip(1).rev().find_map(said) else {
        return execution.input.clone();
    };
    let mut input: Vec<Message> =
        execution.input.iter().filter(|it| it.role == Role::System).cloned().collect();
    input.push(Message::new(Role::User, user));
    input
}

/// Returns the errored result of a check whose turn was not reached.
pub(super) fn not_reached(check: &Check, label: &str, reached: usize) -> AssertionResult {
    let message = format!(
        "turn `{label}` was not reached: the conversation ended after {reached} labelled turns"
    );
    of_turn(
        check.without_looking(Verdict::Errored { code: FailureCode::INTERNAL_ERROR, message }),
        label,
    )
}

/// Returns the skipped result of a check whose turn was not sent.
///
/// A required check of an earlier turn did not hold.
pub(super) fn not_sent(check: &Check, label: &str, halt: &Halt) -> AssertionResult {
    of_turn(not_run(check, halt), label)
}

fn of_turn(mut result: AssertionResult, label: &str) -> AssertionResult {
    result.turn = Some(label.to_owned());
    result
}
