//! Tests of paths to values of an execution.

use super::*;
use kindlm_types::{Coverage, FinishReason, Message, Role, ToolCall, Usage};

fn execution() -> Execution {
    Execution {
        input: vec![Message::new(Role::User, "Where is it?")],
        output: r#"{"order": {"id": 7}}"#.to_owned(),
        tool_calls: vec![
            ToolCall {
                id: "1".to_owned(),
                name: "lookup".to_owned(),
                arguments: json!({"id": 7}),
                response: Some(Value::Null),
                ..ToolCall::default()
            },
            ToolCall { id: "2".to_owned(), name: "wait".to_owned(), ..ToolCall::default() },
        ],
        usage: Usage { input_tokens: 10, output_tokens: 5, total_tokens: 15, ..Usage::default() },
        latency_ms: Some(12.0),
        finish_reason: Some(FinishReason::Stop),
        requests: 1,
        vars: json!({"city": "Bern"}).as_object().cloned().unwrap_or_default(),
        ..Execution::default()
    }
}

fn find(written: &str, execution: &Execution) -> Selected {
    Selector::new(written).unwrap().find(execution)
}

#[test]
fn a_path_names_any_value_of_an_execution() {
    let execution = execution();
    for (written, value) in [
        ("output", json!(r#"{"order": {"id": 7}}"#)),
        ("output.order.id", json!(7)),
        ("json.order", json!({"id": 7})),
        ("input", json!("Where is it?")),
        ("messages[-1].role", json!("assistant")),
        ("toolCalls[0].input.id", json!(7)),
        ("toolCalls[0].output", json!(null)),
        ("toolCalls[1].status", json!("pending")),
        ("usage.outputTokens", json!(5)),
        ("latencyMs", json!(12)),
        ("finishReason", json!("stop")),
        ("vars.city", json!("Bern")),
        ("events[0].type", json!("message")),
    ] {
        assert_eq!(find(written, &execution), Selected::Value(value), "{written}");
    }
}

#[test]
fn missing_values_are_absent_and_unrecorded_ones_unknown() {
    let whole = execution();
    for written in ["json.order.sum", "toolCalls[2]", "toolCalls[0].input.city", "messages[9].text"]
    {
        assert!(matches!(find(written, &whole), Absent(_)), "{written}");
    }
    for written in [
        "toolCalls[1].output",
        "toolCalls[1].output.id",
        "costUsd",
        "exitCode",
        "stdout",
        "stderr",
        "metadata.x",
        "vars.street",
        "trace",
    ] {
        assert!(matches!(find(written, &whole), Unknown(_)), "{written}");
    }
    let unknown = Execution {
        completeness: Completeness {
            coverage: Coverage::Only([].into()),
            ..execution().completeness
        },
        output: String::new(),
        usage: Usage::default(),
        ..execution()
    };
    for written in [
        "output",
        "json.order",
        "messages",
        "toolCalls[0]",
        "toolCalls",
        "events",
        "usage.inputTokens",
    ] {
        assert!(matches!(find(written, &unknown), Unknown(_)), "{written}");
    }
    let prose = Execution { output: "Hi!".to_owned(), ..execution() };
    assert_eq!(find("json.a", &prose), Absent("the output is not JSON".to_owned()));
}

#[test]
fn a_word_that_names_nothing_is_a_problem_with_a_suggestion() {
    for (written, word) in [
        ("ouput", "output"),
        ("toolcalls[0]", "toolCalls"),
        ("usage.input_tokens", "inputTokens"),
        ("toolCalls[0].arguments", "input"),
        ("messages[0].txt", "text"),
        ("", "output"),
    ] {
        let problem = Selector::new(written).unwrap_err();
        let help = problem.help.unwrap_or_default();
        assert!(help.contains(word), "{written}: {}, {help}", problem.message);
    }
}

#[test]
fn unrecorded_facts_of_calls_are_unknown_on_every_path() {
    let events = json!([
        {"type": "action.called", "callId": "a", "name": "lookup", "input": {"id": 7}},
        {"type": "action.result", "callId": "a", "status": "completed", "output": 1},
        {"type": "action.called", "callId": "b", "name": "refund"},
        {"type": "action.result", "callId": "c", "status": "completed", "output": 2},
    ]);
    let traced = Execution {
        trace: Some(Box::default()),
        recorded_events: serde_json::from_value(events).unwrap(),
        ..Execution::default()
    };
    for written in [
        "toolCalls[1].input",
        "toolCalls[1].input.amount",
        "toolCalls[1]",
        "toolCalls[-1].name",
        "toolCalls[2].input",
        "toolCalls",
        "events",
        "events[2]",
        "events[2].input",
    ] {
        assert!(matches!(find(written, &traced), Unknown(_)), "{written}");
    }
    for (written, value) in [
        ("toolCalls[0].input.id", json!(7)),
        ("toolCalls[1].name", json!("refund")),
        ("toolCalls[2].output", json!(2)),
        ("events[1].output", json!(1)),
        ("events[2].name", json!("refund")),
    ] {
        assert_eq!(find(written, &traced), Selected::Value(value), "{written}");
    }
    // Without a trace, a call without `input` has no arguments.
    let told = Execution { trace: None, ..traced };
    assert_eq!(find("toolCalls[1].input", &told), Selected::Value(json!(null)));
}

#[test]
fn recorded_values_are_found_beside_missing_ones() {
    let cut = Execution {
        completeness: Completeness {
            gaps: vec!["a line was cut".to_owned()],
            ..execution().completeness
        },
        ..execution()
    };
    for written in ["vars.city", "latencyMs", "input", "finishReason"] {
        let Selected::Value(value) = find(written, &cut) else { panic!("{written}") };
        assert!(!is_output_missing(&in_place_of_the_output(&cut, value)), "{written}");
    }
    let traced = Execution { trace: Some(Box::default()), ..cut };
    for written in ["output", "toolCalls", "events", "usage", "trace", "trace.spans"] {
        let Unknown(why) = find(written, &traced) else { panic!("{written}") };
        let names_it = why.contains("a line was cut") || matches!(written, "output" | "usage");
        assert!(names_it, "{written}: {why}");
    }
}
