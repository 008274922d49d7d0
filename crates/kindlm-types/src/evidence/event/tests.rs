//! Tests for the serialization of events, and for the facts derived from them.

use serde_json::json;

use super::*;
use crate::{Execution, Message, Role, ToolCall};

fn events(json: Value) -> Vec<Event> {
    serde_json::from_value(json).unwrap()
}

#[test]
fn every_event_is_an_object_with_its_type() {
    let all = json!([
        {"type": "message", "role": "assistant", "text": "Done."},
        {"type": "action.called", "callId": "c1", "name": "Bash", "tool": "shell", "input": {"command": "ls"}},
        {"type": "action.result", "callId": "c1", "output": null, "status": "failed"},
        {"type": "subagent.called", "callId": "s1", "name": "reviewer", "remoteUrl": "https://agents.example"},
        {"type": "subagent.completed", "callId": "s1", "output": "fine", "status": "completed"},
        {"type": "skill.loaded", "skill": "pdf", "callId": "c2"},
        {"type": "input.requested", "request": {"prompt": "May I?", "options": [{"id": "yes", "label": "Yes"}]}},
        {"type": "thinking", "text": "Hm."},
        {"type": "compaction", "reason": "full"},
        {"type": "error", "message": "no disk"},
        {"type": "usage", "inputTokens": 3, "outputTokens": 4, "totalTokens": 7, "costUsd": 0.5},
    ]);
    let read = events(all.clone());
    assert_eq!(serde_json::to_value(&read).unwrap(), all);
    let types: Vec<&str> = read.iter().map(Event::type_name).collect();
    assert_eq!(types, Event::TYPES);
    for event in &read {
        assert!(Channel::ALL.contains(&event.channel()));
        let word = serde_json::to_value(event.channel()).unwrap();
        assert_eq!(word, event.channel().as_str());
    }
}

#[test]
fn calls_without_results_are_pending() {
    let events = events(json!([
        {"type": "action.called", "callId": "a", "name": "lookup", "input": {"id": 7}},
        {"type": "action.called", "callId": "b", "name": "Bash"},
        {"type": "action.result", "callId": "a", "output": {"total": 1}, "status": "completed"},
        {"type": "action.result", "callId": "lost", "status": "rejected"},
        {"type": "action.called", "callId": "a", "name": "refund", "tool": "web_fetch"},
        {"type": "action.result", "callId": "a", "output": "no", "status": "failed"},
    ]));
    let facts = Facts::from_events(&events);
    let told: Vec<_> = facts
        .actions
        .iter()
        .map(|it| (it.name, it.kind.as_str(), it.state.as_str(), it.output.cloned()))
        .collect();
    assert_eq!(
        told,
        [
            (Some("lookup"), "unknown", "completed", Some(json!({"total": 1}))),
            (Some("Bash"), "shell", "pending", None),
            (None, "unknown", "rejected", None),
            (Some("refund"), "web_fetch", "failed", Some(json!("no"))),
        ]
    );
    assert!(facts.actions[1].is_called("shell") && facts.actions[1].is_called("Bash"));
    assert!(!facts.actions[0].is_called("unknown"), "no kind is no name");
}

#[test]
fn of_several_results_of_one_call_the_worst_counts() {
    for (results, state) in [
        (["failed", "completed", "rejected"], "failed"),
        (["completed", "failed", "completed"], "failed"),
        (["completed", "rejected", "completed"], "rejected"),
    ] {
        let mut all = vec![
            json!({"type": "action.called", "callId": "a", "name": "f"}),
            json!({"type": "subagent.called", "callId": "s", "name": "g"}),
        ];
        for status in results {
            all.push(
                json!({"type": "action.result", "callId": "a", "output": status, "status": status}),
            );
            all.push(json!({"type": "subagent.completed", "callId": "s", "status": status}));
        }
        let events = events(all.into());
        let facts = Facts::from_events(&events);
        let action = &facts.actions[0];
        assert_eq!(
            (action.state.as_str(), action.output),
            (state, Some(&json!(state))),
            "{results:?}"
        );
        assert_eq!(facts.subagents[0].state.as_str(), state, "{results:?}");
    }
}

#[test]
fn it_is_parked_if_its_last_step_is_a_question() {
    for (last, parked) in [
        (json!([]), true),
        (json!([{"type": "thinking"}, {"type": "compaction"}, {"type": "usage"}]), true),
        (json!([{"type": "message", "role": "user", "text": "yes"}]), false),
        (json!([{"type": "action.called", "callId": "a", "name": "f"}]), false),
    ] {
        let mut all = events(json!([{"type": "input.requested"}]));
        all.extend(events(last.clone()));
        assert_eq!(Facts::from_events(&all).parked, parked, "{last}");
    }
    assert!(!Facts::from_events(&[]).parked);
}

#[test]
fn plain_conversations_have_derived_events() {
    let execution = Execution {
        input: vec![Message::new(Role::System, "Be kind."), Message::new(Role::User, "Hello?")],
        output: "Hi.".to_owned(),
        tool_calls: vec![
            ToolCall {
                id: "1".to_owned(),
                name: "f".to_owned(),
                response: Some(json!(2)),
                ..ToolCall::default()
            },
            ToolCall {
                id: "2".to_owned(),
                name: "g".to_owned(),
                malformed_arguments: Some("{".to_owned()),
                ..ToolCall::default()
            },
        ],
        usage: Usage { input_tokens: 7, output_tokens: 1, total_tokens: 8, ..Usage::default() },
        ..Execution::default()
    };
    assert_eq!(
        serde_json::to_value(execution.events()).unwrap(),
        json!([
            {"type": "message", "role": "user", "text": "Hello?"},
            {"type": "usage", "inputTokens": 7, "outputTokens": 1, "totalTokens": 8},
            {"type": "action.called", "callId": "1", "name": "f", "input": null},
            {"type": "action.called", "callId": "2", "name": "g", "input": "{"},
            {"type": "action.result", "callId": "1", "output": 2, "status": "completed"},
            {"type": "message", "role": "assistant", "text": "Hi."},
        ])
    );
    let uncounted = Execution { usage: Usage::default(), ..execution };
    assert_eq!(uncounted.events().len(), 5, "that none were counted is no event");
}

#[test]
fn tokens_reported_in_parts_are_added_up() {
    let event = |input_tokens, output_tokens, total_tokens| Event::Usage {
        usage: Usage { input_tokens, output_tokens, total_tokens, ..Usage::default() },
        cost_usd: None,
    };
    for (events, total) in [
        (vec![event(900, 100, 0)], 1000),
        (vec![event(900, 100, 0), event(1, 1, 5)], 1005),
        (vec![event(0, 0, 7)], 7),
    ] {
        let usage = Event::usage(&events).0.unwrap();
        assert_eq!((usage.total_tokens, usage.is_whole()), (total, true));
    }
    // If one event reports no tokens, the sum is incomplete.
    let usage = Event::usage(&[event(900, 100, 0), event(0, 0, 0)]).0.unwrap();
    assert!(!usage.is_whole());
}

#[test]
fn costs_must_be_finite_and_not_negative() {
    let problem = |cost| {
        let event = Event::Usage { usage: Usage::default(), cost_usd: Some(cost) };
        event.problem().unwrap_or_default()
    };
    assert_eq!(problem(0.0), "");
    assert_eq!(problem(-0.5), "`costUsd` is negative: -0.5");
    assert_eq!(problem(f64::NAN), "`costUsd` is not a finite number: NaN");
    assert_eq!(problem(f64::INFINITY), "`costUsd` is not a finite number: inf");
}
