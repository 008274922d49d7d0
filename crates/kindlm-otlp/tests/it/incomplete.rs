//! Incomplete traces do not lead to wrong conclusions.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use kindlm_types::{Channel, FinishReason};
use serde_json::{Value, json};

use crate::conventions::{Row, payload, reading, reading_of, story};

/// Returns a model request that takes 10 ms, with additional attributes.
fn chat(id: u8, start: u64, values: &Value) -> Row {
    let mut all = json!({"gen_ai.operation.name": "chat"});
    all.as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
    (id, 1, "chat m", start, start + 10, all)
}

#[test]
fn an_earlier_answer_is_not_taken_for_one_that_is_not_shown() {
    let said = |text: &str| {
        json!({"gen_ai.output.messages": json!([{"role": "assistant", "parts": [
        {"type": "text", "content": text}]}]).to_string()})
    };
    let cut =
        json!({"gen_ai.output.messages": "[{\"role\": \"assistant\", \"parts\": [{\"type\": \"te"});
    let mapped = |text: &str| json!({"gen_ai.completion.0.content": text});
    let root = || -> Row { (1, 0, "run", 0, 90, json!({})) };
    let failed = json!({"status": {"code": 2}});
    for (first, last, output) in [
        (said("One."), said("Two."), "Two."),
        (said("One."), cut.clone(), ""),
        (said("One."), json!({}), ""),
        (mapped("One."), mapped("Two."), "One.\nTwo."),
        (mapped("One."), json!({}), ""),
        // The last request failed, so the earlier answer is the output.
        (said("One."), failed, "One."),
    ] {
        let reading = reading(&[chat(2, 0, &first), chat(3, 20, &last), root()]);
        let execution = &reading.execution;
        assert_eq!(execution.output, output, "{last}");
        assert!(
            !output.is_empty() || !execution.completeness.coverage.includes(Channel::Messages),
            "{last}"
        );
    }
}

#[test]
fn time_to_first_token_is_known_if_every_request_has_it() {
    let root = || -> Row { (1, 0, "run", 0, 90, json!({})) };
    let otel = |seconds: u64| json!({"gen_ai.response.time_to_first_chunk": seconds});
    let by_vercel = json!({"ai.response.msToFirstChunk": 2500});
    for (first, last, expected) in [
        (otel(1), otel(2), Some(2000.0)),
        (otel(1), by_vercel, Some(2500.0)),
        (json!({"gen_ai.server.time_to_first_token": 3}), otel(2), Some(3000.0)),
        (otel(1), json!({}), None),
        (json!({}), json!({}), None),
    ] {
        let reading = reading(&[chat(2, 0, &first), chat(3, 20, &last), root()]);
        assert_eq!(reading.execution.first_token_ms, expected, "{first} {last}");
    }
}

#[test]
fn unsupported_parts_of_an_answer_are_reported() {
    let said = |odd: bool| {
        let mut parts = vec![json!({"type": "text", "content": "Fine."})];
        parts.extend(odd.then(|| json!({"type": "wobble", "content": "secret"})));
        json!({"gen_ai.output.messages": json!([{"role": "assistant", "parts": parts}]).to_string()})
    };
    let agent = |values: &Value| -> Row {
        let mut all = json!({"gen_ai.operation.name": "invoke_agent"});
        all.as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
        (1, 0, "run", 0, 90, all)
    };
    let mapped = json!({"gen_ai.completion.0.content": "Fine."});
    for (first, last, whole, unread) in [
        (said(false), said(true), json!({}), Some("chat m")),
        (said(true), said(false), json!({}), None),
        (said(false), said(false), said(true), Some("run")),
        (said(false), mapped, json!({}), None),
    ] {
        let reading = reading(&[chat(2, 0, &first), chat(3, 20, &last), agent(&whole)]);
        let expected = unread.map(|it| format!("`wobble` at span `{it}` has an unsupported type"));
        assert_eq!(reading.execution.completeness.unread, expected, "{last} {whole}");
    }
}

#[test]
fn a_trace_that_ends_with_a_wish_for_a_tool_is_not_whole() {
    let asks = json!({"gen_ai.output.messages": json!([{"role": "assistant", "parts": [
        {"type": "tool_call", "id": "c1", "name": "pay", "arguments": {}}]}]).to_string()});
    let asked = |names: [&str; 2]| {
        let call = |id: &str, name: &str| json!({"type": "tool_call", "id": id, "name": name, "arguments": {}});
        let parts = json!([call("c1", names[0]), call("c2", names[1])]);
        json!({"gen_ai.output.messages": json!([{"role": "assistant", "parts": parts}]).to_string()})
    };
    let (both, twice) = (asked(["pay", "look_up"]), asked(["pay", "pay"]));
    let ran = |more: &Value, name: &str| -> Row {
        let mut all = json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        (5, 1, "a tool", 12, 15, all)
    };
    let silent = json!({"gen_ai.response.finish_reasons": ["tool_calls"]});
    let done = json!({"gen_ai.response.finish_reasons": ["stop"]});
    let root = || -> Row { (1, 0, "run", 0, 90, json!({})) };
    let tool: Row = (
        4,
        1,
        "execute_tool pay",
        12,
        15,
        json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}),
    );
    for (rows, gaps) in [
        (vec![chat(2, 0, &asks), root()], 1),
        (vec![chat(2, 0, &silent), root()], 1),
        (vec![chat(2, 0, &asks), tool.clone(), root()], 0),
        (vec![chat(2, 0, &silent), tool, root()], 0),
        (vec![chat(2, 0, &asks), chat(3, 20, &done), root()], 0),
        // A later call of another tool is not the requested call.
        (vec![chat(2, 0, &both), ran(&json!({"gen_ai.tool.call.id": "c2"}), "look_up"), root()], 1),
        (vec![chat(2, 0, &asks), ran(&json!({}), "look_up"), root()], 1),
        (vec![chat(2, 0, &twice), ran(&json!({"gen_ai.tool.call.id": "c2"}), "pay"), root()], 1),
        // Instrumentations may use different ids for a call than models.
        (vec![chat(2, 0, &asks), ran(&json!({"gen_ai.tool.call.id": "run-7"}), "pay"), root()], 0),
    ] {
        let reading = reading(&rows);
        assert_eq!(
            reading.execution.completeness.gaps.len(),
            gaps,
            "{rows:?}: {:?}",
            reading.execution.completeness.gaps
        );
    }
}

#[test]
fn error_finish_reasons_are_errors() {
    let bad = json!({"gen_ai.response.finish_reasons": ["error"]});
    let reading = reading(&[chat(2, 0, &bad), (1, 0, "run", 0, 90, json!({}))]);
    assert_eq!(story(&reading), ["! chat m: the model stopped for the reason `error`"]);
}

#[test]
fn missing_times_give_no_duration() {
    for (key, value, gaps) in [
        ("endTimeUnixNano", json!("0"), 1),
        ("endTimeUnixNano", Value::Null, 1),
        ("startTimeUnixNano", json!("0"), 0),
    ] {
        let mut payload = payload(&[(1, 0, "run", 0, 90, json!({}))]);
        payload["resourceSpans"][0]["scopeSpans"][0]["spans"][0][key] = value;
        let reading = reading_of(&payload, None);
        assert_eq!(reading.execution.latency_ms, None, "{key}");
        assert_eq!(reading.execution.completeness.gaps.len(), gaps, "{key}");
        assert_eq!(reading.execution.trace.unwrap().spans[0].end_time, None, "{key}");
    }
}

#[test]
fn refusals_count_with_any_finish_reason() {
    let parts = json!([{"role": "assistant", "finish_reason": "stop", "parts": [{"type": "refusal", "refusal": "No."}]}]);
    for values in [
        json!({"gen_ai.output.messages": parts.to_string(), "gen_ai.response.finish_reasons": ["stop"]}),
        json!({"events": [["gen_ai.choice", {"finish_reason": "stop", "message": "{\"refusal\": \"No.\"}"}]]}),
    ] {
        let reading = reading(&[chat(2, 0, &values)]);
        assert_eq!(reading.execution.finish_reason, Some(FinishReason::Refusal), "{values}");
        assert_eq!(reading.execution.output, "No.", "{values}");
    }
}

#[test]
fn an_exception_that_goes_through_everything_is_an_error() {
    let thrown = || json!([["exception", {"exception.message": "no disk"}]]);
    let root = |more: Value| -> Row { (1, 0, "run", 0, 90, more) };
    let done = json!({"gen_ai.response.finish_reasons": ["stop"]});
    let mut caught = done.clone();
    caught["events"] = thrown();
    for (rows, expected) in [
        (vec![chat(2, 0, &done), root(json!({"events": thrown()}))], vec!["! run: no disk"]),
        (vec![chat(2, 0, &done), root(json!({"events": thrown(), "status": {"code": 1}}))], vec![]),
        (vec![chat(2, 0, &caught), root(json!({}))], vec![]),
    ] {
        assert_eq!(story(&reading(&rows)), expected, "{rows:?}");
    }
}

#[test]
fn damaged_calls_of_the_ai_sdk_are_reported() {
    let call = json!({"toolCallId": "c1", "toolName": "pay", "input": {}});
    let nameless = json!([{"toolCallId": "c1", "input": {}}]).to_string();
    let whole = json!([call]).to_string();
    let cut = &whole[..whole.len() - 8];
    for (calls, unread) in [
        (json!(nameless), Some("a call without a name")),
        (json!(cut), Some("a list of calls of another form")),
        (json!(call.to_string()), Some("a list of calls of another form")),
        (json!("[]"), None),
        (json!("[ ]"), None),
        (json!(""), None),
    ] {
        let values = json!({"ai.response.text": "Fine.", "ai.response.toolCalls": calls});
        let reading = reading(&[chat(2, 0, &values), (1, 0, "run", 0, 90, json!({}))]);
        let completeness = &reading.execution.completeness;
        let expected = unread.map(|it| format!("`{it}` at span `chat m` has an unsupported type"));
        assert_eq!(completeness.unread, expected, "{calls}");
        assert_eq!(completeness.coverage.includes(Channel::Actions), unread.is_none(), "{calls}");
    }
}

#[test]
fn cut_calls_of_a_message_are_reported() {
    let cut = r#"[{"id": "c1", "function": {"na"#;
    let choice = |calls: &str| json!({"events": [["gen_ai.choice", {"content": "Fine.", "tool_calls": calls}]]});
    for (calls, is_whole) in [(cut, false), ("[]", true)] {
        let reading = reading(&[chat(2, 0, &choice(calls)), (1, 0, "run", 0, 90, json!({}))]);
        let completeness = &reading.execution.completeness;
        assert_eq!(completeness.unread.is_none(), is_whole, "{calls}");
        assert_eq!(completeness.coverage.includes(Channel::Actions), is_whole, "{calls}");
    }
}

#[test]
fn a_message_with_only_reasoning_counts() {
    let said = |parts: Value, reason: &str| json!({"gen_ai.output.messages": json!([{"role": "assistant", "parts": parts, "finish_reason": reason}]).to_string()});
    let thought = |text: &str| json!({"type": "reasoning", "content": text});
    let first = said(json!([thought("Hm."), {"type": "text", "content": "One."}]), "stop");
    let last = said(json!([thought("It is a secret.")]), "length");
    let reading =
        reading(&[chat(2, 0, &first), chat(3, 20, &last), (1, 0, "run", 0, 90, json!({}))]);
    assert_eq!(story(&reading), ["(Hm.)", "One.", "(It is a secret.)"]);
    assert_eq!(reading.execution.finish_reason, Some(FinishReason::Length));
    // The text of an earlier answer is not the output.
    assert_eq!(reading.execution.output, "");
    assert!(!reading.execution.completeness.coverage.includes(Channel::Messages));
}

#[test]
fn log_events_without_their_span_make_a_trace_incomplete() {
    let values = json!({"gen_ai.output.messages": json!([{"role": "assistant", "parts": [
        {"type": "text", "content": "Fine."}]}]).to_string()});
    let spans = payload(&[chat(2, 0, &values), (1, 0, "run", 0, 90, json!({}))]);
    let trace = &spans["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"];
    for (trace, span, is_whole) in [
        (trace, 2, true),
        (trace, 9, false),
        // The event of another trace says nothing about this trace.
        (&json!("00000000000000000000000000000001"), 9, true),
    ] {
        let record = json!({
            "traceId": trace, "spanId": format!("{span:016x}"), "eventName": "gen_ai.choice",
            "body": {"kvlistValue": {"values": [{"key": "content", "value": {"stringValue": "Fine."}}]}},
        });
        let logs = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]});
        let completeness = reading_of(&spans, Some(&logs)).execution.completeness;
        let gaps = ["the span of a log event `gen_ai.choice` is missing"];
        assert_eq!(completeness.gaps, gaps[usize::from(is_whole)..], "{trace} {span}");
        assert_eq!(completeness.coverage.includes(Channel::Actions), is_whole, "{trace} {span}");
    }
}

#[test]
fn calls_without_an_id_get_a_free_one() {
    let call = |id: Value, name: &str| json!({"type": "tool_call", "id": id, "name": name, "arguments": {}});
    let parts = json!([
        call(json!("call_1"), "pay"),
        call(Value::Null, "look_up"),
        call(Value::Null, "send"),
        call(json!("call_3"), "end"),
    ]);
    let asks = json!({"gen_ai.output.messages": json!([{"role": "assistant", "parts": parts}]).to_string()});
    let calls = reading(&[chat(2, 0, &asks)]).execution.tool_calls;
    let found: Vec<_> = calls.iter().map(|it| (it.id.as_str(), it.name.as_str())).collect();
    assert_eq!(
        found,
        [("call_1", "pay"), ("call_2", "look_up"), ("call_4", "send"), ("call_3", "end")]
    );
}
