//! Tests of the conversion of transcripts.

use kindlm_types::{
    ActionStatus, Channel, Coverage, Event, Execution, FinishReason, Role, Transcript,
    UnsupportedPart, Usage,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::parse_transcript;

mod answers;
mod refused;
mod tools;

fn text(value: &Value) -> Transcript {
    parse_transcript(value).unwrap_or_else(|err| panic!("{}: {}", err.pointer, err.message))
}

/// Returns one line for each event.
fn event_lines(transcript: &Transcript) -> Vec<String> {
    let line = |event: &Event| match event {
        Event::Message { role, text } => format!("{role:?}: {text}"),
        Event::ActionCalled { call_id, name, input, .. } => format!("{call_id} {name}({input})"),
        Event::ActionResult { call_id, output, status } => {
            format!("{call_id} {status:?} {}", output.clone().unwrap_or_default())
        }
        Event::Thinking { text } => format!("thinks: {text}"),
        other => other.type_name().to_owned(),
    };
    transcript.events.iter().map(line).collect()
}

/// Returns one conversation in the formats of three APIs.
fn same_conversation() -> [Value; 3] {
    let chat = json!({"messages": [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": [{"type": "text", "text": "Where is order 7?"}]},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{\"id\": 7}"}}
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "{\"state\": \"sent\"}"},
        {"role": "assistant", "content": "It was sent."},
        {"role": "user", "content": "Thanks."},
        {"role": "assistant", "content": "Bye."},
    ]});
    let anthropic = json!({"system": [{"type": "text", "text": "You help."}], "messages": [
        {"role": "user", "content": "Where is order 7?"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "c1", "name": "find", "input": {"id": 7}}
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "{\"state\": \"sent\"}"}]}
        ]},
        {"role": "assistant", "content": [{"type": "text", "text": "It was sent."}]},
        {"role": "user", "content": "Thanks."},
        {"role": "assistant", "content": "Bye."},
    ]});
    let items = json!({"instructions": "You help.", "input": [
        {"role": "user", "content": "Where is order 7?"},
        {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{\"id\": 7}"},
        {"type": "function_call_output", "call_id": "c1", "output": "{\"state\": \"sent\"}"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It was sent."}]},
        {"role": "user", "content": [{"type": "input_text", "text": "Thanks."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Bye."}]},
    ]});
    [chat, anthropic, items]
}

#[test]
fn three_apis_give_the_same_transcript() {
    for value in same_conversation() {
        let it = text(&value);
        assert_eq!(
            event_lines(&it),
            [
                "User: Where is order 7?",
                r#"c1 find({"id":7})"#,
                r#"c1 Completed {"state":"sent"}"#,
                "Assistant: It was sent.",
                "User: Thanks.",
                "Assistant: Bye.",
            ],
            "{value}"
        );
        let input: Vec<(Role, &str)> =
            it.input.iter().map(|it| (it.role, it.content.as_str())).collect();
        assert_eq!(input, [(Role::System, "You help."), (Role::User, "Where is order 7?")]);
        assert_eq!((it.output.as_str(), it.requests), ("Bye.", 3), "{value}");
        assert_eq!(it.tool_calls[0].response, Some(json!({"state": "sent"})));
        let turns: Vec<_> = it
            .turns
            .iter()
            .map(|it| {
                let user = it.user.as_deref().unwrap();
                (user, it.text.as_str(), it.tool_calls.clone(), it.events.clone(), it.requests)
            })
            .collect();
        let first = ("Where is order 7?", "It was sent.", 0..1, 0..4, 2);
        assert_eq!(turns, [first, ("Thanks.", "Bye.", 1..1, 4..6, 1)], "{value}");
        let expected: Coverage = [Channel::Messages, Channel::Actions].into_iter().collect();
        assert_eq!(it.coverage, expected);
    }
}

#[test]
fn a_transcript_becomes_an_execution_with_labelled_turns() {
    let [chat, ..] = same_conversation();
    let begun = Execution { case: "c".to_owned(), ..Execution::default() };
    let it = text(&chat).into_execution(&["asks", "ends", "never"], begun);
    let labels: Vec<&str> = it.turns.iter().map(|it| it.label.as_str()).collect();
    assert_eq!((it.case.as_str(), labels), ("c", vec!["asks", "ends"]));
    assert_eq!(
        (it.spend.cost_usd, it.latency_ms),
        (None, None),
        "neither cost nor latency was recorded"
    );
    assert!(!it.completeness.coverage.includes(Channel::Usage));
}

#[test]
fn parts_of_every_kind_are_read() {
    for (message, expected) in [
        // Refusals, sounds, and calls with arguments that are not JSON, empty, or already parsed.
        (json!({"role": "assistant", "content": null, "refusal": "No."}), vec!["Assistant: No."]),
        (
            json!({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}),
            vec!["Assistant: No."],
        ),
        (
            json!({"role": "assistant", "audio": {"id": "a", "transcript": "Hm."}}),
            vec!["Assistant: Hm."],
        ),
        (
            json!({"role": "assistant", "tool_calls": [
                {"id": "1", "function": {"name": "f", "arguments": "{bad"}},
                {"id": "2", "function": {"name": "f", "arguments": ""}},
                {"id": "3", "function": {"name": "f", "arguments": {"a": 1}}},
                {"id": "4", "type": "custom", "custom": {"name": "sh", "input": "ls"}},
            ]}),
            vec![r#"1 f("{bad")"#, "2 f({})", r#"3 f({"a":1})"#, r#"4 sh("ls")"#],
        ),
        (
            json!({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}),
            vec!["f f({})"],
        ),
        // Anthropic's thinking and server tools.
        (
            json!({"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "Let me look."},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
                {"type": "web_search_tool_result", "tool_use_id": "s1",
                 "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}},
                {"type": "text", "text": "Found nothing."},
            ]}),
            vec![
                "thinks: hm",
                "Assistant: Let me look.",
                r#"s1 web_search({"query":"q"})"#,
                r#"s1 Failed {"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}"#,
                "Assistant: Found nothing.",
            ],
        ),
        // Reasoning items, and MCP calls with their results.
        (
            json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}),
            vec!["thinks: hm"],
        ),
        (
            json!({"type": "mcp_call", "id": "m", "name": "f", "arguments": "{}", "output": "ok", "error": null}),
            vec!["m f({})", r#"m Completed "ok""#],
        ),
        (
            json!({"type": "mcp_call", "id": "m", "name": "f", "arguments": "{}", "error": "down"}),
            vec!["m f({})", r#"m Failed "down""#],
        ),
    ] {
        let it = text(&json!([message.clone()]));
        assert_eq!(event_lines(&it), expected, "{message}");
        assert_eq!((it.requests, it.turns.len()), (1, 1), "{message}");
    }
}

#[test]
fn tool_failures_are_recorded_if_the_format_has_them() {
    let it = text(&json!([
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "is_error": true, "content": "no such file"},
            {"type": "text", "text": "Try again."},
        ]},
        {"role": "assistant", "content": "Done."},
    ]));
    assert_eq!(
        event_lines(&it),
        ["a f({})", r#"a Failed "no such file""#, "User: Try again.", "Assistant: Done."]
    );
    assert_eq!(it.turns.len(), 2, "a user text beside a result begins a turn");
}

#[test]
fn unsupported_parts_make_all_evidence_incomplete() {
    let it = text(&json!([
        {"role": "user", "content": "x"},
        {"type": "tool_search_call", "call_id": "c"},
        {"type": "message", "role": "assistant", "content": "y"},
    ]));
    assert_eq!(it.coverage, Coverage::default().losing(Channel::ALL));
    assert_eq!(it.metadata["partsNotUnderstood"], json!({"tool_search_call": ["/1"]}));
    let unsupported = UnsupportedPart::new("tool_search_call", vec!["/1".to_owned()]);
    assert_eq!(it.unsupported, std::slice::from_ref(&unsupported));
    let execution = it.into_execution(&[], Execution::default());
    assert_eq!(execution.completeness.unsupported, [unsupported]);
    for message in [
        json!({"role": "assistant", "content": [{"type": "mystery_call", "name": "f"}, {"type": "text", "text": "y"}]}),
        json!({"type": "message", "role": "assistant", "content": [{"type": "mystery_call"}, {"type": "output_text", "text": "y"}]}),
        json!({"role": "assistant", "content": [{"type": "thinking", "thinking": ""}, {"type": "mystery_call"}]}),
    ] {
        let it = text(&json!([message]));
        assert_eq!(it.coverage, Coverage::default().losing(Channel::ALL), "{message}");
        let places = it.metadata["partsNotUnderstood"]["mystery_call"].as_array().unwrap();
        assert_eq!(places.len(), 1);
        assert!(places[0].as_str().unwrap().starts_with("/0/content/"), "{places:?}");
    }
    let image = json!({"type": "image_url", "image_url": {"url": "data:"}});
    let it = text(&json!([
        {"role": "user", "content": [image, {"type": "text", "text": "What is this?"}]},
        {"role": "assistant", "content": "A cat."},
    ]));
    assert_eq!(event_lines(&it)[0], "User: What is this?");
    assert_eq!(it.metadata["partsWithoutText"], json!({"image_url": 1}));
    assert!(
        it.coverage.includes(Channel::Actions),
        "parts of user messages are not actions of the agent"
    );
}

#[test]
fn unsupported_parts_of_the_last_answer_are_reported() {
    let odd = |kind: &str| json!({"type": kind, "text": "secret"});
    let message = |content: Value| json!({"role": "assistant", "content": content});
    let asks = || json!({"role": "user", "content": "x"});
    let fine = || message(json!([{"type": "text", "text": "fine"}]));
    let half = || message(json!([{"type": "text", "text": "fine"}, odd("output_wobble")]));
    let thinks = json!([{"type": "thinking", "thinking": ""}, {"type": "text", "text": "fine"}, odd("output_wobble")]);
    let item = |content: Value| json!({"type": "message", "role": "assistant", "content": content});
    for (messages, unread) in [
        (json!([asks(), half()]), Some("`output_wobble` at /1/content/1")),
        (json!([asks(), message(thinks)]), Some("`output_wobble` at /1/content/2")),
        (
            json!([asks(), item(json!([odd("output_wobble")]))]),
            Some("`output_wobble` at /1/content/0"),
        ),
        (json!([asks(), odd("wobble"), item(json!("fine"))]), Some("`wobble` at /1")),
        // Unsupported calls, earlier answers and user messages do not make the last answer incomplete.
        (json!([asks(), {"type": "odd_call", "call_id": "c"}, item(json!("fine"))]), None),
        (json!([asks(), half(), asks(), fine()]), None),
        (json!([{"role": "user", "content": [odd("wobble")]}, fine()]), None),
        (json!([asks(), fine()]), None),
    ] {
        let it = text(&messages);
        let found = it.unread.as_deref();
        let expected = unread.map(|it| format!("{it} has an unsupported type"));
        assert_eq!(found, expected.as_deref(), "{messages}");
        assert_eq!(it.turns.last().unwrap().unread.as_deref(), found, "{messages}");
    }
    let it = text(&json!([asks(), half(), asks(), fine()]));
    assert!(it.turns[0].unread.is_some(), "the earlier turn is incomplete");
}

#[test]
fn fields_beside_the_messages_are_read() {
    let with = |more: Value| {
        let mut value = json!({"messages": [{"role": "assistant", "content": "x"}], "model": "m"});
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        value
    };
    let tokens = |input, output, total, cached| {
        Some(Usage {
            input_tokens: input,
            output_tokens: output,
            total_tokens: total,
            cached_input_tokens: cached,
            ..Usage::default()
        })
    };
    for (usage, expected) in [
        (
            json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 9}),
            tokens(5, 2, 9, None),
        ),
        (
            json!({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}),
            // The output tokens are missing.
            Some(Usage::counted(Some(5), None, None, Some(4))),
        ),
        (
            json!({"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 1}),
            tokens(9, 2, 11, Some(3)),
        ),
        (Value::Null, None),
    ] {
        assert_eq!(text(&with(json!({"usage": usage}))).usage, expected, "{usage}");
    }
    let it = text(&with(json!({
        "cost_usd": 0.25, "latency_ms": 1500, "stop_reason": "end_turn", "complete_for": ["actions", "skills"],
        "tools": [
            {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
            {"name": "g", "input_schema": {"type": "object"}},
            {"type": "web_search_20250305", "name": "web_search"},
        ],
    })));
    assert_eq!((it.cost_usd, it.latency_ms), (Some(0.25), Some(1500.0)));
    assert_eq!(it.finish_reason, Some(FinishReason::Stop));
    assert_eq!(it.coverage, [Channel::Actions, Channel::Skills].into_iter().collect());
    let names: Vec<&str> = it.tools.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["f", "g"]);
}

#[test]
fn problems_are_reported_at_their_place() {
    let user = json!({"role": "user", "content": "x"});
    let answer = json!({"role": "assistant", "content": "x"});
    for (value, pointer, message) in [
        (json!("x"), "", "the messages are a text, not a list"),
        (json!({}), "", "there are no `messages`"),
        (json!([]), "", "the list of messages is empty"),
        (json!({"messages": 3}), "/messages", "the messages are a number, not a list"),
        (json!(["x"]), "/0", "a message is an object, and this is a text"),
        (json!([{"content": "x"}]), "/0", "`role` is missing"),
        (json!([{"role": "bot", "content": "x"}]), "/0/role", "`bot` is not a role of this format"),
        (json!([{"role": 1}]), "/0/role", "`role` is a number, not a text"),
        (
            json!({"messages": [{"role": "user", "content": 3}]}),
            "/messages/0/content",
            "the content is a number, not a text or a list of parts",
        ),
        (json!([user]), "", "the transcript has no assistant message"),
        (
            json!([answer, {"role": "tool", "tool_call_id": "9", "content": ""}]),
            "/1/tool_call_id",
            "`9` answers no call: no earlier open call has this id",
        ),
        (
            json!([{"role": "assistant", "tool_calls": [{"id": "1", "function": {}}]}]),
            "/0/tool_calls/0/function",
            "`name` is missing",
        ),
        (
            json!({"messages": [answer], "usage": {"total_tokens": 3}}),
            "/usage",
            "`usage` has neither `prompt_tokens` nor `input_tokens`",
        ),
        (
            json!({"messages": [answer], "complete_for": ["everything"]}),
            "/complete_for",
            "`complete_for` must be a list of kinds of evidence",
        ),
        (
            json!({"messages": [answer], "cost_usd": -1}),
            "/cost_usd",
            "`cost_usd` must be a number of at least 0",
        ),
    ] {
        let err = parse_transcript(&value).unwrap_err();
        assert_eq!((err.pointer.as_str(), err.message.as_str()), (pointer, message), "{value}");
    }
}

/// Generates any JSON, from the keys and types of transcripts.
fn anything() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "role",
        "content",
        "type",
        "text",
        "user",
        "assistant",
        "tool",
        "tool_use",
        "tool_result",
        "id",
        "tool_use_id",
        "name",
        "input",
        "tool_calls",
        "function",
        "arguments",
        "message",
        "messages",
        "usage",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        let key = word.clone().prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn ranges_of_turns_are_valid_for_any_input(value in anything()) {
        if let Ok(it) = parse_transcript(&value) {
            prop_assert!(it.requests > 0);
            for turn in &it.turns {
                prop_assert!(it.events.get(turn.events.clone()).is_some());
                prop_assert!(it.tool_calls.get(turn.tool_calls.clone()).is_some());
            }
            let calls = it.events.iter().filter(|it| matches!(it, Event::ActionCalled { .. })).count();
            prop_assert_eq!(calls, it.tool_calls.len());
        }
    }
}

#[test]
fn unfinished_conversations_are_reported() {
    let call = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "1", "function": {"name": "look_up", "arguments": "{}"}}]});
    let result = json!({"role": "tool", "tool_call_id": "1", "content": "sent"});
    let user = json!({"role": "user", "content": "Where is it?"});
    let answer = json!({"role": "assistant", "content": "It was sent."});
    let item = |status: &str| {
        json!({"type": "message", "role": "assistant", "status": status,
        "content": [{"type": "output_text", "text": "It"}]})
    };
    let request = json!({"type": "mcp_approval_request", "id": "a", "name": "pay", "arguments": "{\"sum\":1}"});
    let approved =
        json!({"type": "mcp_approval_response", "approval_request_id": "a", "approve": true});
    for (value, expected) in [
        (json!([user, answer]), vec![]),
        (json!([user, call, result, answer]), vec![]),
        (
            json!([user, answer, user]),
            vec!["the transcript ends with a user message without an answer"],
        ),
        (
            json!([user, call]),
            vec!["the transcript ends with a call of `look_up`, which has no result"],
        ),
        (
            json!([user, call, result]),
            vec!["the transcript ends with the result of `look_up` without an answer"],
        ),
        (json!([user, item("completed")]), vec![]),
        (json!([user, item("incomplete")]), vec!["`message` at /1 has the status `incomplete`"]),
        (json!([user, request]), vec![]),
        (
            json!([user, request, approved]),
            vec!["the transcript ends with the answer to a request for approval"],
        ),
        (
            json!({"messages": [user, answer], "status": "in_progress"}),
            vec!["its `status` is `in_progress`"],
        ),
    ] {
        assert_eq!(text(&value).gaps, expected, "{value}");
    }
    let parked = text(&json!([user, request]));
    assert!(matches!(parked.events.last(), Some(Event::InputRequested { request })
        if request.action.as_deref() == Some("pay") && request.input == Some(json!({"sum": 1}))));
    let cut = json!({"messages": [user, answer], "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"}});
    assert_eq!(text(&cut).finish_reason, Some(FinishReason::Length));
    let failed =
        json!({"messages": [user, answer], "status": "failed", "error": {"message": "no"}});
    assert_eq!(text(&failed).events.last(), Some(&Event::Error { message: "no".to_owned() }));
}

#[test]
fn open_or_unknown_states_are_unfinished() {
    let user = json!({"role": "user", "content": "Where is it?"});
    let answer = json!({"role": "assistant", "content": "It was sent."});
    let item = json!({"type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "It"}]});
    let call = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "1", "function": {"name": "look_up", "arguments": "{}"}}]});
    for (value, expected) in [
        (
            json!({"messages": [user, answer], "status": "resting"}),
            vec!["its `status` is `resting`"],
        ),
        (
            json!({"messages": [user, answer], "stop_reason": "pause_turn"}),
            vec!["the last answer is a pause (`pause_turn`), so its rest is missing"],
        ),
        (
            json!([user, {"role": "assistant", "content": "It", "stop_reason": "pause_turn"}]),
            vec!["the last answer is a pause (`pause_turn`), so its rest is missing"],
        ),
        (
            json!([user, {"role": "assistant", "content": "It", "stop_reason": "pause_turn"}, answer]),
            vec![],
        ),
        (json!([user, call, answer]), vec!["a call of `look_up` has no result"]),
        (
            json!([user, call, user, call]),
            vec![
                "a call of `look_up` has no result",
                "the transcript ends with a call of `look_up`, which has no result",
            ],
        ),
        (
            json!([user, {"type": "mcp_call", "id": "m", "name": "pay", "arguments": "{}", "status": "calling"}]),
            vec![
                "`mcp_call` at /1 has the status `calling`",
                "the transcript ends with a call of `pay`, which has no result",
            ],
        ),
        (
            json!([user, {"type": "mcp_call", "id": "m", "name": "pay", "arguments": "{}", "status": "completed", "output": "ok"}, item]),
            vec![],
        ),
    ] {
        assert_eq!(text(&value).gaps, expected, "{value}");
    }
}

#[test]
fn failed_ends_are_reported() {
    let user = json!({"role": "user", "content": "Where is it?"});
    let answer = json!({"role": "assistant", "content": "It was sent."});
    let item = json!({"type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "It"}]});
    let error = |message: &str| Some(Event::Error { message: message.to_owned() });
    for (value, last) in [
        (
            json!({"messages": [user, answer], "status": "expired"}),
            error("the response has the status `expired`"),
        ),
        (json!({"messages": [user, answer], "error": {"message": "no"}}), error("no")),
        (json!({"messages": [user, answer], "error": "no"}), error("no")),
        (
            json!({"messages": [user, answer], "finish_reason": "error"}),
            error("the model stopped for the reason `error`"),
        ),
        (
            json!([user, {"role": "assistant", "content": "It", "finish_reason": "error"}]),
            error("the model stopped for the reason `error`"),
        ),
        (
            json!([user, {"type": "message", "role": "assistant", "status": "failed", "content": [{"type": "output_text", "text": ""}]}]),
            error("`message` at /1 has the status `failed`"),
        ),
    ] {
        assert_eq!(text(&value).events.last().cloned(), last, "{value}");
    }
    for (word, reason) in [("refusal", FinishReason::Refusal), ("max_tokens", FinishReason::Length)]
    {
        let value = json!([user, {"role": "assistant", "content": "It", "stop_reason": word}]);
        assert_eq!(text(&value).finish_reason, Some(reason.clone()));
        assert!(reason.broke_off().is_some());
    }
    let call = json!({"type": "mcp_call", "id": "m", "name": "pay", "arguments": "{}", "status": "failed"});
    let transcript = text(&json!([user, call, item]));
    assert!(
        transcript
            .events
            .iter()
            .any(|it| { matches!(it, Event::ActionResult { status: ActionStatus::Failed, .. }) })
    );
}
