//! Tests for parsing records, and for the error messages about invalid records.

use super::problem::NO_OBJECT;
use super::*;

#[test]
fn invalid_records_name_the_problem() {
    for (json, message) in [
        ("{", "not JSON: it ends too early at column 1"),
        ("", "not JSON: it ends too early at column 0"),
        ("[]", NO_OBJECT),
        ("[1]", NO_OBJECT),
        ("3", NO_OBJECT),
        (
            r#"{"id": nope}"#,
            "not JSON: a word that is none of `true`, `false` and `null` at column 9",
        ),
        (r#"{"id": hello}"#, "not JSON: a value is missing, or is not quoted at column 8"),
        ("{id: 1}", "not JSON: a key without double quotes at column 2"),
        (r#"{"id": 1,}"#, "not JSON: a comma before the end of an object or list at column 10"),
        (r#"{"latency_ms": "fast"}"#, "`latency_ms` is not a number (at column 21)"),
        (r#"{"latency_ms": -1}"#, "`latency_ms` is negative"),
        (r#"{"first_token_ms": -1}"#, "`first_token_ms` is negative"),
        (r#"{"threshold": 1.5}"#, "`threshold` is not between 0 and 1"),
        (r#"{"id": 1, "id": 2}"#, "`id` is a duplicate key (at column 14)"),
        (
            r#"{"tool_calls": [{"name": "a", "arguments": {"b": 1, "b": 2}}]}"#,
            "`/tool_calls/0/arguments/b` is a duplicate key: remove one of the two",
        ),
        (
            r#"{"tool_calls": [{"name": "a", "name": "b"}]}"#,
            "`/tool_calls/0/name` is a duplicate key: remove one of the two",
        ),
        (
            r#"{"expect": {"assert": [{"type": "contains", "value": "a", "value": "b"}]}}"#,
            "`/expect/assert/0/value` is a duplicate key: remove one of the two",
        ),
        (
            r#"{"usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 3}}"#,
            "invalid `usage`: the total is 3 tokens, and the parts are 7",
        ),
        (
            "{}\n{}",
            "not JSON: something follows after its end at line 2, column 1; pass `--jsonl` for one record on each \
             line",
        ),
        (
            r#"{"tool_calls": [{}]}"#,
            "`tool_calls` is not a list of calls, each an object with a `name` (at column 18)",
        ),
    ] {
        let err = Line::parse(json.as_bytes()).err().unwrap();
        assert_eq!(err.error, message, "{json}");
    }
    let err = Line::parse(b"{\"id\": \"\xff\"}").err().unwrap();
    assert_eq!(err.error, "not UTF-8 text: invalid byte at offset 8");
}

#[test]
fn an_error_keeps_the_id_that_can_be_read() {
    for (json, id) in [
        (r#"{"id": "a", "latency_ms": []}"#, Some(Value::from("a"))),
        (r#"{"latency_ms": [], "id": 7}"#, Some(Value::from(7))),
        (r#"{"id": "a", "expect": {"#, Some(Value::from("a"))),
        (r#"{"expect": {, "id": "a"}"#, None),
    ] {
        assert_eq!(Line::parse(json.as_bytes()).err().unwrap().id, id, "{json}");
    }
}

#[test]
fn an_output_may_be_any_json_but_null() {
    for (json, output, output_json) in [
        (r#"{"agent_output": "a"}"#, "a", None),
        (r#"{"agent_output": {"a": 1.0}}"#, r#"{"a":1}"#, Some(serde_json::json!({"a": 1.0}))),
        (r#"{"agent_output": null}"#, "", None),
        ("{}", "", None),
        (r#"{"tool_calls": null, "vars": null, "expect": null, "results": [1]}"#, "", None),
    ] {
        let mut line = Line::parse(json.as_bytes()).unwrap();
        assert_eq!(line.has_evidence(), !output.is_empty(), "{json}");
        let execution = line.execution();
        assert_eq!((execution.output.as_str(), execution.output_json), (output, output_json));
    }
}

#[test]
fn the_keys_agree_with_the_record_type() {
    let json = r#"{"id": 1, "agent_input": 1, "agent_output": 1, "transcript": [], "assertions": [{"id": "a"}],
        "tool_calls": [{"name": "a"}], "events": [{"type": "compaction"}], "complete_for": [], "incomplete": ["a"], "baseline": "b", "vars": {"a": 1}, "usage": {},
        "latency_ms": 1, "first_token_ms": 1, "cost_usd": 1, "finish_reason": "stop", "log_probs": [-1], "metadata": {"a": 1},
        "provider_response": {}, "trace": {"spans": []}, "workspace": {}, "tools": [{"name": "a"}], "expect": {}, "threshold": 1, "\u0061": 2}"#;
    let record: kindlm_wire::evaluate::Record = serde_json::from_str(json).unwrap();
    assert_eq!(record.extra.len(), 1);
    let all = serde_json::to_value(record).unwrap();
    let known = all.as_object().unwrap().keys().filter(|it| *it != "a");
    let known: std::collections::BTreeSet<&str> = known.map(String::as_str).collect();
    assert_eq!(known, KEYS.into_iter().collect());
    let json = json.replace(r#""transcript": [], "#, "");
    assert_eq!(Line::parse(json.as_bytes()).unwrap().others, ["a"]);
}

#[test]
fn transcripts_hold_the_events_and_records_the_rest() {
    let json = r#"{"transcript": {"messages": [
        {"role": "user", "content": "7?"},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "find", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "sent"},
        {"role": "assistant", "content": "Sent."}
    ], "usage": {"prompt_tokens": 3, "completion_tokens": 1}, "cost_usd": 2}, "cost_usd": 0.5, "metadata": {"a": 1}}"#;
    let execution = Line::parse(json.as_bytes()).unwrap().execution();
    assert_eq!((execution.output.as_str(), execution.input[0].content.as_str()), ("Sent.", "7?"));
    assert_eq!(execution.tool_calls[0].response, Some(Value::from("sent")));
    assert_eq!((execution.usage.total_tokens, execution.spend.cost_usd), (4, Some(0.5)));
    assert_eq!((execution.requests, execution.events().len()), (2, 4));
    let complete = [Channel::Messages, Channel::Actions, Channel::Usage];
    assert_eq!(execution.completeness.coverage, complete.into_iter().collect());
    for (json, message) in [
        (
            r#"{"transcript": [{"role": "bot"}]}"#,
            "`transcript` cannot be read: /0/role: `bot` is not a role of this format (roles: `system`, `developer`, `user`, `assistant`, `tool`, `function`) (at column 33)",
        ),
        (
            r#"{"tool_calls": [], "events": [{"type": "action.called", "callId": "1", "name": "f"}]}"#,
            "`tool_calls` and `events` both record the execution; remove one of them",
        ),
        (
            r#"{"agent_output": "a", "events": [{"type": "message", "role": "assistant", "text": "b"}]}"#,
            "`agent_output` differs from the agent's last message in `events`; remove one of them",
        ),
        (
            r#"{"transcript": [{"role": "assistant", "content": "x"}], "agent_output": "x"}"#,
            "`transcript` and `agent_output` both record the execution; remove one of them",
        ),
    ] {
        let err = Line::parse(json.as_bytes()).err().unwrap();
        assert_eq!(err.error, message, "{json}");
    }
}

#[test]
fn structured_outputs_may_differ_from_the_last_message() {
    let json = r#"{"agent_output": [1], "events": [{"type": "message", "role": "assistant", "text": "Done."}]}"#;
    let execution = Line::parse(json.as_bytes()).unwrap().execution();
    assert_eq!((&*execution.output, execution.output_json), ("[1]", Some(serde_json::json!([1]))));
}

#[test]
fn other_keys_are_found_again() {
    let extra = extra(br#"{"id": 1, "agent_output": "", "other": {"a": [1]}, "b": null}"#).unwrap();
    assert_eq!(Value::Object(extra), serde_json::json!({"other": {"a": [1]}, "b": null}));
}

#[test]
fn recorded_channels_are_complete_by_default() {
    for (json, complete) in [
        ("{}", vec![]),
        (r#"{"agent_output": "hi"}"#, vec![Channel::Messages]),
        (r#"{"tool_calls": [], "usage": {}}"#, vec![Channel::Actions, Channel::Usage]),
        (r#"{"events": [{"type": "thinking"}]}"#, vec![Channel::Thinking]),
        (r#"{"tool_calls": [], "complete_for": ["skills"]}"#, vec![Channel::Skills]),
    ] {
        let execution = Line::parse(json.as_bytes()).unwrap().execution();
        assert_eq!(execution.completeness.coverage, complete.into_iter().collect(), "{json}");
    }
}

#[test]
fn unsupported_parts_of_traces_are_kept() {
    let json =
        r#"{"agent_output": "hi", "metadata": {"partsNotUnderstood": {"mystery": ["span `a`"]}}}"#;
    let execution = Line::parse(json.as_bytes()).unwrap().execution();
    let named: Vec<String> =
        execution.completeness.unsupported.iter().map(ToString::to_string).collect();
    assert_eq!(named, ["`mystery` at span `a` has an unsupported type"]);
}

#[test]
fn reasons_of_missing_evidence_are_kept() {
    for (json, expected) in [
        (r#"{"agent_output": "hi"}"#, vec![]),
        (r#"{"agent_output": "hi", "incomplete": ["a lost span"]}"#, vec!["a lost span"]),
        (
            r#"{"transcript": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "incomplete": ["cut"]}"#,
            vec!["cut"],
        ),
    ] {
        let execution = Line::parse(json.as_bytes()).unwrap().execution();
        assert_eq!(execution.completeness.gaps, expected, "{json}");
    }
}

#[test]
fn events_record_calls_messages_tokens_and_cost() {
    let json = r#"{"events": [
        {"type": "action.called", "callId": "1", "name": "f", "input": {"a": 1}},
        {"type": "action.result", "callId": "1", "output": 2, "status": "completed"},
        {"type": "message", "role": "assistant", "text": "Done."},
        {"type": "usage", "inputTokens": 3, "outputTokens": 4, "totalTokens": 7, "costUsd": 0.5}
    ]}"#;
    let execution = Line::parse(json.as_bytes()).unwrap().execution();
    assert_eq!(execution.output, "Done.");
    assert_eq!(execution.tool_calls[0].response, Some(Value::from(2)));
    assert_eq!((execution.usage.total_tokens, execution.spend.cost_usd), (7, Some(0.5)));
    assert_eq!(execution.events().len(), 4);
}
