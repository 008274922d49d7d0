//! All conventions give the same result for the same conversation.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use kindlm_otlp::{Filter, Reading, Received, decode_json, decode_logs_json, read_trace};
use kindlm_types::{Channel, Event, TraceSettings};
use serde_json::{Value, json};

const TRACE: &str = "5b8efff798038103d269b633813fc60c";

/// A span as `(id, parent, name, start ms, end ms, attributes)`.
pub(crate) type Row = (u8, u8, &'static str, u64, u64, Value);

fn attributes(values: &Value) -> Value {
    let one = |(key, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) => json!({"stringValue": text}),
            Value::Number(number) => json!({"intValue": number.to_string()}),
            Value::Bool(value) => json!({"boolValue": value}),
            Value::Array(items) => json!({"arrayValue": {"values":
                items.iter().map(|it| json!({"stringValue": it})).collect::<Vec<_>>()}}),
            other => unreachable!("{other}"),
        };
        json!({"key": key, "value": value})
    };
    values.as_object().unwrap().iter().map(one).collect()
}

pub(crate) fn payload(rows: &[Row]) -> Value {
    let spans = rows.iter().map(|(id, parent, name, start, end, values)| {
        let ns = |ms: u64| (1_700_000_000_000_000_000 + ms * 1_000_000).to_string();
        let mut values = values.clone();
        let object = values.as_object_mut().unwrap();
        let events = object.remove("events").unwrap_or(json!([]));
        let status = object.remove("status").unwrap_or(json!({}));
        let events = events.as_array().unwrap().iter().map(|it| {
            json!({"name": it[0], "timeUnixNano": ns(*end), "attributes": attributes(&it[1])})
        });
        json!({
            "traceId": TRACE, "spanId": format!("{id:016x}"), "parentSpanId": if *parent == 0 { String::new() } else { format!("{parent:016x}") },
            "name": name, "startTimeUnixNano": ns(*start), "endTimeUnixNano": ns(*end),
            "attributes": attributes(&values), "events": events.collect::<Vec<_>>(), "status": status,
        })
    });
    json!({"resourceSpans": [{"scopeSpans": [{"spans": spans.collect::<Vec<_>>()}]}]})
}

pub(crate) fn reading_of(payload: &Value, logs: Option<&Value>) -> Reading {
    let settings = TraceSettings::default();
    let mut received = Received::default();
    assert!(received.add(decode_json(payload.to_string().as_bytes()).unwrap()).is_empty());
    if let Some(logs) = logs {
        received.add(decode_logs_json(logs.to_string().as_bytes()).unwrap());
    }
    let traces = received.into_traces();
    read_trace(&traces[0], &settings.mapping, Filter::new(&settings.filter, None)).unwrap()
}

pub(crate) fn reading(rows: &[Row]) -> Reading {
    reading_of(&payload(rows), None)
}

/// Returns a short text for each event.
pub(crate) fn story(reading: &Reading) -> Vec<String> {
    let words = |it: &Event| match it {
        Event::Message { text, .. } => text.clone(),
        Event::ActionCalled { call_id, name, input, .. } => format!("{call_id} {name}{input}"),
        Event::ActionResult { call_id, output, status } => {
            format!("{call_id} {} {}", json!(status).as_str().unwrap(), json!(output))
        }
        Event::SubagentCalled { name, .. } => format!("> {name}"),
        Event::SubagentCompleted { status, .. } => format!("< {}", json!(status).as_str().unwrap()),
        Event::Thinking { text } => format!("({text})"),
        Event::Error { message } => format!("! {message}"),
        Event::Usage { usage, .. } => format!("{}+{}", usage.input_tokens, usage.output_tokens),
        other => format!("{other:?}"),
    };
    reading.execution.recorded_events.iter().map(words).collect()
}

fn text(value: &Value) -> String {
    value.to_string()
}

/// Returns a conversation with one tool call, in every convention.
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn dialects() -> Vec<(&'static str, Vec<Row>)> {
    let question = "Weather in Oslo?";
    let arguments = text(&json!({"city": "Oslo"}));
    let call = json!({"id": "c1", "name": "weather", "arguments": arguments});
    let function = json!({"id": "c1", "function": {"name": "weather", "arguments": arguments}});
    vec![
        (
            "OpenTelemetry today",
            vec![
                (
                    2,
                    1,
                    "chat m",
                    0,
                    100,
                    json!({
                        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.response.model": "m",
                        "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 4,
                        "gen_ai.system_instructions": text(&json!([{"type": "text", "content": "Be brief."}])),
                        "gen_ai.input.messages": text(&json!([{"role": "user", "parts": [{"type": "text", "content": question}]}])),
                        "gen_ai.output.messages": text(&json!([{"role": "assistant", "finish_reason": "tool_call", "parts": [
                            {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Oslo"}}]}])),
                    }),
                ),
                (
                    3,
                    1,
                    "execute_tool weather",
                    100,
                    150,
                    json!({
                        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "c1",
                        "gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": "rain",
                    }),
                ),
                (
                    4,
                    1,
                    "chat m",
                    150,
                    200,
                    json!({
                        "gen_ai.operation.name": "chat", "gen_ai.response.model": "m", "gen_ai.response.finish_reasons": ["stop"],
                        "gen_ai.usage.input_tokens": 20, "gen_ai.usage.output_tokens": 3,
                        "gen_ai.output.messages": text(&json!([{"role": "assistant", "parts": [{"type": "text", "content": "It rains."}]}])),
                    }),
                ),
                (
                    1,
                    0,
                    "invoke_agent a",
                    0,
                    200,
                    json!({
                        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a",
                        "gen_ai.usage.input_tokens": 29, "gen_ai.usage.output_tokens": 7,
                    }),
                ),
            ],
        ),
        (
            "OpenTelemetry with events on spans",
            vec![
                (
                    2,
                    1,
                    "chat m",
                    0,
                    100,
                    json!({
                        "gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.response.model": "m",
                        "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 4,
                        "events": [["gen_ai.user.message", {"content": question}], ["gen_ai.choice", {
                            "index": 0, "finish_reason": "tool_calls", "message": text(&json!({"role": "assistant", "tool_calls": [function]}))}]],
                    }),
                ),
                (
                    3,
                    1,
                    "execute_tool weather",
                    100,
                    150,
                    json!({
                        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "c1",
                        "gen_ai.tool.call.result": "rain",
                    }),
                ),
                (
                    4,
                    1,
                    "chat m",
                    150,
                    200,
                    json!({
                        "gen_ai.operation.name": "chat", "gen_ai.response.model": "m",
                        "gen_ai.usage.input_tokens": 20, "gen_ai.usage.output_tokens": 3,
                        "events": [["gen_ai.choice", {"finish_reason": "stop", "message": text(&json!({"content": "It rains."}))}]],
                    }),
                ),
                (1, 0, "run", 0, 200, json!({})),
            ],
        ),
        (
            "OpenLLMetry",
            vec![
                (
                    2,
                    1,
                    "openai.chat",
                    0,
                    100,
                    json!({
                        "llm.request.type": "chat", "gen_ai.system": "OpenAI", "gen_ai.response.model": "m",
                        "gen_ai.usage.prompt_tokens": 9, "gen_ai.usage.completion_tokens": 4,
                        "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": question,
                        "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.finish_reason": "tool_calls",
                        "gen_ai.completion.0.tool_calls.0.id": "c1", "gen_ai.completion.0.tool_calls.0.name": "weather",
                        "gen_ai.completion.0.tool_calls.0.arguments": arguments,
                    }),
                ),
                (
                    3,
                    1,
                    "weather.tool",
                    100,
                    150,
                    json!({
                        "traceloop.span.kind": "tool", "traceloop.entity.name": "weather",
                        "traceloop.entity.input": text(&json!({"args": [], "kwargs": {"city": "Oslo"}})), "traceloop.entity.output": "rain",
                    }),
                ),
                (
                    4,
                    1,
                    "openai.chat",
                    150,
                    200,
                    json!({
                        "llm.request.type": "chat", "gen_ai.response.model": "m", "gen_ai.completion.0.finish_reason": "stop",
                        "gen_ai.usage.prompt_tokens": 20, "gen_ai.usage.completion_tokens": 3,
                        "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "It rains.",
                    }),
                ),
                (1, 0, "run.workflow", 0, 200, json!({"traceloop.span.kind": "workflow"})),
            ],
        ),
        (
            "OpenInference",
            vec![
                (
                    2,
                    1,
                    "ChatCompletion",
                    0,
                    100,
                    json!({
                        "openinference.span.kind": "LLM", "llm.model_name": "m", "llm.system": "openai",
                        "llm.token_count.prompt": 9, "llm.token_count.completion": 4,
                        "llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": question,
                        "llm.output_messages.0.message.role": "assistant",
                        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
                        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "weather",
                        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": arguments,
                    }),
                ),
                (
                    3,
                    1,
                    "weather",
                    100,
                    150,
                    json!({
                        "openinference.span.kind": "TOOL", "tool.name": "weather", "tool_call.id": "c1", "input.value": arguments, "output.value": "rain",
                    }),
                ),
                (
                    4,
                    1,
                    "ChatCompletion",
                    150,
                    200,
                    json!({
                        "openinference.span.kind": "LLM", "llm.model_name": "m",
                        "llm.token_count.prompt": 20, "llm.token_count.completion": 3,
                        "llm.output_messages.0.message.contents.0.message_content.type": "text",
                        "llm.output_messages.0.message.contents.0.message_content.text": "It rains.",
                    }),
                ),
                (
                    1,
                    0,
                    "agent",
                    0,
                    200,
                    json!({"openinference.span.kind": "AGENT", "output.value": "It rains."}),
                ),
            ],
        ),
        (
            "Vercel's AI SDK",
            vec![
                (
                    2,
                    1,
                    "ai.generateText.doGenerate",
                    0,
                    100,
                    json!({
                        "ai.operationId": "ai.generateText.doGenerate", "gen_ai.system": "openai", "gen_ai.response.model": "m",
                        "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 4,
                        "ai.prompt.messages": text(&json!([{"role": "user", "content": [{"type": "text", "text": question}]}])),
                        "ai.response.toolCalls": text(&json!([{"toolCallId": "c1", "toolName": "weather", "args": arguments}])),
                    }),
                ),
                (
                    3,
                    1,
                    "ai.toolCall",
                    100,
                    150,
                    json!({
                        "ai.operationId": "ai.toolCall", "ai.toolCall.name": "weather", "ai.toolCall.id": "c1",
                        "ai.toolCall.args": arguments, "ai.toolCall.result": "rain",
                    }),
                ),
                (
                    4,
                    1,
                    "ai.generateText.doGenerate",
                    150,
                    200,
                    json!({
                        "ai.operationId": "ai.generateText.doGenerate", "gen_ai.response.model": "m", "ai.response.text": "It rains.",
                        "gen_ai.usage.input_tokens": 20, "gen_ai.usage.output_tokens": 3, "ai.response.finishReason": "stop",
                    }),
                ),
                (
                    1,
                    0,
                    "ai.generateText",
                    0,
                    200,
                    json!({
                        "ai.operationId": "ai.generateText", "ai.response.text": "It rains.",
                        "ai.usage.promptTokens": 29, "ai.usage.completionTokens": 7,
                    }),
                ),
            ],
        ),
        (
            "requests to models only",
            vec![
                (
                    2,
                    1,
                    "chat m",
                    0,
                    100,
                    json!({
                        "gen_ai.operation.name": "chat", "gen_ai.response.model": "m",
                        "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 4,
                        "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": question,
                        "gen_ai.completion.0.tool_calls": text(&json!([call])),
                    }),
                ),
                (
                    4,
                    1,
                    "chat m",
                    150,
                    200,
                    json!({
                        "gen_ai.operation.name": "chat", "gen_ai.response.model": "m",
                        "gen_ai.usage.input_tokens": 20, "gen_ai.usage.output_tokens": 3,
                        "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": question,
                        "gen_ai.prompt.2.role": "tool", "gen_ai.prompt.2.tool_call_id": "c1", "gen_ai.prompt.2.content": "rain",
                        "gen_ai.completion.0.content": "It rains.",
                    }),
                ),
                (1, 0, "POST /ask", 0, 200, json!({})),
            ],
        ),
    ]
}

#[test]
fn every_convention_gives_the_same_events() {
    for (dialect, rows) in dialects() {
        let reading = reading(&rows);
        let execution = &reading.execution;
        let story: Vec<String> =
            story(&reading).into_iter().filter(|it| it != "9+4" && it != "20+3").collect();
        assert_eq!(
            story,
            [
                "Weather in Oslo?".to_owned(),
                "c1 weather{\"city\":\"Oslo\"}".to_owned(),
                "c1 completed \"rain\"".to_owned(),
                "It rains.".to_owned(),
            ],
            "{dialect}"
        );
        assert_eq!(execution.output, "It rains.", "{dialect}");
        assert_eq!(execution.tool_calls.len(), 1, "{dialect}");
        assert_eq!(
            (execution.usage.input_tokens, execution.usage.output_tokens),
            (29, 7),
            "{dialect}"
        );
        assert_eq!(execution.latency_ms, Some(200.0), "{dialect}");
        assert_eq!(execution.metadata["models"], json!(["m"]), "{dialect}");
        assert_eq!(execution.requests, 2, "{dialect}");
        assert_eq!(execution.trace.as_ref().unwrap().spans.len(), rows.len(), "{dialect}");
        for channel in [Channel::Messages, Channel::Actions, Channel::Usage, Channel::Errors] {
            assert!(execution.completeness.coverage.includes(channel), "{dialect}: {channel:?}");
        }
        assert!(!execution.completeness.coverage.includes(Channel::Skills), "{dialect}");
        assert!(reading.execution.completeness.gaps.is_empty() && reading.shows_agent, "{dialect}");
    }
}

#[test]
fn messages_may_come_as_log_records() {
    let chat = |id, parent, start, end| -> Row {
        (
            id,
            parent,
            "chat m",
            start,
            end,
            json!({"gen_ai.operation.name": "chat", "gen_ai.response.model": "m"}),
        )
    };
    let spans = payload(&[chat(2, 1, 0, 100), (1, 0, "run", 0, 100, json!({}))]);
    let record = |name: &str, body: Value| {
        json!({
            "traceId": TRACE, "spanId": format!("{:016x}", 2), "eventName": name, "timeUnixNano": "1700000000050000000",
            "body": {"kvlistValue": {"values": attributes(&body)}},
        })
    };
    let logs = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [
        record("gen_ai.user.message", json!({"content": "Hello?"})),
        record("gen_ai.choice", json!({"finish_reason": "stop", "message": "{\"content\": \"Hi.\"}"})),
        record("unrelated", json!({"content": "noise"})),
    ]}]}]});
    let reading = reading_of(&spans, Some(&logs));
    assert_eq!(story(&reading), ["Hello?", "Hi."]);
    assert_eq!(reading.execution.output, "Hi.");
}

#[test]
fn nothing_is_vouched_for_that_spans_do_not_show() {
    use Channel::{Actions, Errors, Messages, Subagents, Usage};

    let chat = |id, parent, values: Value| -> Row {
        let mut all = json!({"gen_ai.operation.name": "chat"});
        all.as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
        (id, parent, "chat m", 0, 10, all)
    };
    let said = json!({"gen_ai.output.messages": text(&json!([{"role": "assistant", "parts": [{"type": "text", "content": "Done."}]}]))});
    let tool = |id, parent, values: Value| -> Row {
        let mut all = json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"});
        all.as_object_mut().unwrap().extend(values.as_object().unwrap().clone());
        (id, parent, "execute_tool t", 2, 5, all)
    };
    let root = || -> Row { (1, 0, "run", 0, 20, json!({})) };
    let half = json!({"gen_ai.usage.input_tokens": 1});
    let tokens = json!({"gen_ai.usage.input_tokens": 1, "gen_ai.usage.output_tokens": 0});
    let part = json!({"gen_ai.output.messages": text(&json!([{"role": "assistant", "parts": [
        {"type": "text", "content": "Done."}, {"type": "server_tool_call", "id": "1"}]}]))});
    let cases: Vec<(&str, Vec<Row>, Vec<Channel>)> = vec![
        ("texts are not recorded", vec![chat(2, 1, json!({})), root()], vec![Errors]),
        (
            "texts are recorded",
            vec![chat(2, 1, said.clone()), root()],
            vec![Messages, Actions, Errors],
        ),
        (
            "one answer is not shown",
            vec![chat(2, 1, said.clone()), chat(3, 1, json!({})), root()],
            vec![Errors],
        ),
        ("tokens are told", vec![chat(2, 1, tokens.clone()), root()], vec![Usage, Errors]),
        ("tokens are half told", vec![chat(2, 1, tokens), chat(3, 1, half), root()], vec![Errors]),
        ("a part is not understood", vec![chat(2, 1, part), root()], vec![]),
        ("a call is told", vec![tool(2, 1, json!({})), root()], vec![Actions, Errors]),
        ("the frame is lost", vec![chat(2, 7, said.clone())], vec![]),
        (
            "agents are told",
            vec![(1, 0, "invoke_agent a", 0, 9, json!({"gen_ai.operation.name": "invoke_agent"}))],
            vec![Errors, Subagents],
        ),
    ];
    for (name, rows, channels) in cases {
        let reading = reading(&rows);
        let complete = reading.execution.completeness.coverage.complete_for().cloned();
        assert_eq!(complete, Some(channels.into_iter().collect()), "{name}");
        let is_lossy = matches!(name, "a part is not understood" | "the frame is lost");
        let lost = if is_lossy { Channel::ALL.len() } else { 0 };
        assert_eq!(reading.execution.completeness.coverage.lost().len(), lost, "{name}");
        assert_eq!(
            reading.execution.completeness.gaps.len(),
            usize::from(name == "the frame is lost"),
            "{name}"
        );
    }
}

#[test]
fn nested_agents_and_errors_are_reported_once() {
    let agent = |id, parent, name: &'static str, start, end, more: Value| -> Row {
        let mut all = json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        (id, parent, "invoke_agent", start, end, all)
    };
    let failed = json!({"status": {"code": 2, "message": "rate limited"}});
    let reading = reading(&[
        (
            4,
            3,
            "execute_tool t",
            20,
            30,
            json!({
                "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.tool.call.arguments": "{}",
                "status": {"code": "STATUS_CODE_ERROR"},
            }),
        ),
        (
            5,
            3,
            "chat m",
            30,
            40,
            json!({"gen_ai.operation.name": "chat", "status": {"code": 2, "message": "rate limited"}}),
        ),
        agent(3, 2, "researcher", 10, 50, failed.clone()),
        agent(2, 1, "lead", 5, 60, failed.clone()),
        (1, 0, "run", 0, 70, failed),
    ]);
    assert_eq!(
        story(&reading),
        [
            "> researcher",
            "0000000000000004 t{}",
            "0000000000000004 failed null",
            "! chat m: rate limited",
            "< failed"
        ]
    );
}

#[test]
fn a_parent_in_another_process_is_no_gap() {
    let mut payload = payload(&[(2, 7, "chat m", 0, 10, json!({"gen_ai.operation.name": "chat"}))]);
    let span = &mut payload["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    span["flags"] = json!(0x301);
    let reading = reading_of(&payload, None);
    assert_eq!(reading.execution.completeness.gaps, [] as [&str; 0]);
    assert_eq!(reading.execution.latency_ms, Some(10.0));
}

#[test]
fn a_call_of_a_tool_without_a_name_is_a_gap() {
    let gaps = |name: &'static str, more: Value| {
        let mut attributes = json!({"gen_ai.operation.name": "execute_tool"});
        attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        reading_of(&payload(&[(2, 0, name, 0, 10, attributes)]), None)
            .execution
            .completeness
            .gaps
            .len()
    };
    assert_eq!(gaps("execute_tool", json!({})), 1);
    assert_eq!(gaps("execute_tool", json!({"gen_ai.tool.name": "pay"})), 0);
    assert_eq!(gaps("execute_tool pay", json!({})), 0);
    assert_eq!(gaps("pay", json!({})), 0);
}

/// Returns spans that record the same tokens several times.
///
/// A wrapper span contains an unrelated span, which contains the request.
fn framed() -> Vec<Row> {
    let chat = |count: u64, tokens: u64| json!({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": tokens, "gen_ai.usage.output_tokens": count});
    vec![
        (1, 0, "chat outer", 0, 90, chat(5, 10)),
        (2, 1, "POST", 10, 80, json!({"http.method": "POST"})),
        (3, 2, "chat inner", 20, 70, chat(5, 10)),
        (
            4,
            1,
            "execute_tool t",
            81,
            85,
            json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}),
        ),
        (
            5,
            2,
            "execute_tool t",
            82,
            84,
            json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}),
        ),
        (6, 4, "GET", 82, 84, json!({"http.method": "GET"})),
        (
            7,
            6,
            "execute_tool t",
            83,
            84,
            json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}),
        ),
    ]
}

#[test]
fn a_call_that_is_the_answer_needs_no_result() {
    let asks = json!({"gen_ai.operation.name": "chat",
        "gen_ai.output.messages": text(&json!([{"role": "assistant", "parts": [
            {"type": "text", "content": "Here."},
            {"type": "tool_call", "id": "c1", "name": "final_result", "arguments": {"city": "Paris"}}]}]))});
    let city = r#"{"city":"Paris"}"#;
    for (shown, gaps) in [
        (json!({"final_result": city}), 0),
        (json!({"output.value": city}), 0),
        (json!({}), 1),
        (json!({"final_result": city, "status": {"code": 2}}), 1),
        // These texts are no results: the first text only repeats the call, and the model wrote the second text with
        // the call.
        (json!({"output.value": r#"{"messages": [{"tool_calls": [{"id": "c1"}]}]}"#}), 1),
        (json!({"ai.response.text": "Here."}), 1),
    ] {
        let mut agent = json!({"gen_ai.operation.name": "invoke_agent"});
        agent.as_object_mut().unwrap().extend(shown.as_object().unwrap().clone());
        let agent: Row = (1, 0, "agent run", 0, 90, agent);
        let reading = reading(&[(2, 1, "chat m", 0, 10, asks.clone()), agent]);
        assert_eq!(
            reading.execution.completeness.gaps.len(),
            gaps,
            "{shown}: {:?}",
            reading.execution.completeness.gaps
        );
        if gaps == 0 {
            assert_eq!(reading.execution.output, city, "{shown}");
        }
    }
}

#[test]
fn an_outer_span_gives_tokens_that_inner_spans_lack() {
    let chat = |input: Option<u64>, output: Option<u64>| {
        let mut all = json!({"gen_ai.operation.name": "chat"});
        for (key, count) in [("input_tokens", input), ("output_tokens", output)] {
            if let Some(count) = count {
                all[format!("gen_ai.usage.{key}")] = json!(count);
            }
        }
        all
    };
    let tokens = |rows: &[Row]| {
        let usage = reading(rows).execution.usage;
        (usage.input_tokens, usage.output_tokens, usage.is_whole())
    };
    let frame = |values: Value| -> Row { (1, 0, "run", 0, 90, values) };
    let inner = |id, parent, values: Value| -> Row { (id, parent, "chat m", 10, 20, values) };
    let half = || inner(2, 1, chat(Some(3), None));
    let whole = || inner(3, 1, chat(Some(7), Some(2)));
    assert_eq!(tokens(&[frame(chat(Some(10), Some(5))), half()]), (10, 5, true));
    assert_eq!(tokens(&[frame(chat(Some(10), Some(5))), half(), whole()]), (10, 5, true));
    assert_eq!(tokens(&[frame(chat(Some(10), Some(5))), whole()]), (7, 2, true), "told once");
    assert_eq!(tokens(&[frame(chat(Some(10), None)), half()]), (3, 0, false));
    // The middle span records all tokens inside it, so it counts, and the outer span does not.
    let between = inner(4, 1, chat(Some(6), Some(4)));
    let deep = inner(5, 4, chat(Some(1), None));
    assert_eq!(tokens(&[frame(chat(Some(10), Some(5))), between, deep]), (6, 4, true));
}

#[test]
fn omitted_spans_do_not_count_their_parent_twice() {
    let whole = reading(&framed());
    let settings = TraceSettings::default();
    let matches = |name: &str| Ok(name.starts_with("chat") || name.starts_with("execute"));
    let mut received = Received::default();
    received.add(decode_json(payload(&framed()).to_string().as_bytes()).unwrap());
    let spans = received.into_traces().remove(0);
    let filter = Filter::new(&settings.filter, Some(&matches));
    let part = read_trace(&spans, &settings.mapping, filter).unwrap();
    assert_eq!(part.left_out, 2);
    for it in [&whole, &part] {
        let execution = &it.execution;
        let tokens = (execution.usage.input_tokens, execution.usage.output_tokens);
        assert_eq!((execution.requests, tokens, it.inferences.len()), (1, (10, 5), 1));
        assert_eq!(execution.tool_calls.len(), 2, "{:?}", execution.tool_calls);
        assert_eq!(execution.latency_ms, Some(90.0));
    }
    // Without the root span, the outermost selected spans are the roots.
    let matches = |name: &str| Ok(name.ends_with("inner"));
    let filter = Filter::new(&settings.filter, Some(&matches));
    let part = read_trace(&spans, &settings.mapping, filter).unwrap();
    assert_eq!(part.execution.latency_ms, Some(50.0));
}

#[test]
fn calls_find_the_spans_that_are_theirs() {
    // Each row has the calls that models request, the calls that spans record, and the expected number of calls. A
    // call is `(id, arguments)`.
    let none = Value::Null;
    let cases = [
        (vec![("1", json!({"a": 1}))], vec![("1", none.clone())], 1),
        (vec![("1", json!({"a": 1}))], vec![("2", json!({"a": 1}))], 2),
        (vec![("", json!({"a": 1, "b": 2}))], vec![("", json!({"b": 2, "a": 1}))], 1),
        (vec![("", json!({"a": 1}))], vec![("", json!({"a": 2}))], 2),
        (vec![("1", json!({"a": 1}))], vec![("", none.clone())], 1),
        (vec![("", none.clone())], vec![("", json!({"a": 2})), ("", json!({"a": 3}))], 2),
        (
            vec![("", json!({"a": 2})), ("", json!({"a": 1}))],
            vec![("", json!({"a": 1})), ("", json!({"a": 2}))],
            2,
        ),
        (vec![("1", json!({"a": 1})), ("1", json!({"a": 1}))], vec![("1", json!({"a": 1}))], 2),
    ];
    for (asked, told, expected) in cases {
        let parts: Vec<Value> = asked
            .iter()
            .map(|(id, arguments)| {
                let mut part = json!({"type": "tool_call", "name": "t"});
                if !id.is_empty() {
                    part["id"] = json!(id);
                }
                if !arguments.is_null() {
                    part["arguments"] = arguments.clone();
                }
                part
            })
            .collect();
        let said = json!([{"role": "assistant", "parts": parts}]).to_string();
        let mut rows: Vec<Row> = vec![(
            1,
            0,
            "chat",
            0,
            10,
            json!({"gen_ai.operation.name": "chat", "gen_ai.output.messages": said}),
        )];
        for (at, (id, arguments)) in (2..).zip(&told) {
            let mut values =
                json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"});
            if !id.is_empty() {
                values["gen_ai.tool.call.id"] = json!(id);
            }
            if !arguments.is_null() {
                values["gen_ai.tool.call.arguments"] = json!(arguments.to_string());
            }
            rows.push((at, 0, "execute_tool t", 20 + u64::from(at), 30 + u64::from(at), values));
        }
        let calls = reading(&rows).execution.tool_calls;
        assert_eq!(calls.len(), expected, "{asked:?} {told:?} {calls:#?}");
    }
}
