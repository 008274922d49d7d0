//! Tests of input that would lose content: it is refused, or marked as incomplete.

use kindlm_types::Channel;
use serde_json::{Value, json};

use super::{event_lines, parse_transcript, text};

fn user() -> Value {
    json!({"role": "user", "content": "Refund me"})
}

fn assistant_message() -> Value {
    json!({"role": "assistant", "content": "Done."})
}

#[test]
fn unknown_keys_similar_to_known_keys_are_problems() {
    let call = json!({"id": "1", "function": {"name": "pay", "arguments": "{}"}});
    let block = |more: Value| {
        let mut block = json!({"type": "tool_result", "tool_use_id": "t", "content": "no"});
        block.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let called = json!({"type": "tool_use", "id": "t", "name": "pay", "input": {}});
        json!([user(), {"role": "assistant", "content": [called]}, {"role": "user", "content": [block]}, assistant_message()])
    };
    let answer = |more: Value| {
        let mut answer = assistant_message();
        answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([user(), answer])
    };
    for (value, pointer, help) in [
        (answer(json!({"toolCalls": [call]})), "/1/toolCalls", "tool_calls"),
        (answer(json!({"tool_call": [call]})), "/1/tool_call", "tool_calls"),
        (answer(json!({"functionCall": {"name": "pay"}})), "/1/functionCall", "function_call"),
        (answer(json!({"finishReason": "length"})), "/1/finishReason", "finish_reason"),
        (
            answer(
                json!({"tool_calls": [{"id": "1", "function": {"name": "pay", "argument": "{}"}}]}),
            ),
            "/1/tool_calls/0/function/argument",
            "arguments",
        ),
        (block(json!({"isError": true})), "/2/content/0/isError", "is_error"),
        (
            json!({"messages": [user(), assistant_message()], "completeFor": ["actions"]}),
            "/completeFor",
            "complete_for",
        ),
        (
            json!({"messages": [user(), assistant_message()], "mesages": [user()]}),
            "/mesages",
            "messages",
        ),
        (
            json!([user(), {"type": "shell_call", "call_id": "c", "action": {}}, {"type": "shell_call_output", "call_id": "c", "outputt": []}]),
            "/2/outputt",
            "output",
        ),
    ] {
        let err = parse_transcript(&value).unwrap_err();
        assert_eq!(err.pointer, pointer, "{value}: {}", err.message);
        assert_eq!(err.help, Some(format!("did you mean `{help}`?")));
    }
    for (value, pointer, message) in [
        (
            block(json!({"is_error": "true"})),
            "/2/content/0/is_error",
            "`is_error` is a text, not `true` or `false`",
        ),
        (answer(json!({"refusal": true})), "/1/refusal", "`refusal` is a boolean, not a text"),
        (
            answer(json!({"stop_reason": 1})),
            "/1/stop_reason",
            "`stop_reason` is a number, not a text",
        ),
        (
            json!([user(), {"role": "assistant", "content": [{"type": "thinking", "thinking": ""}], "tool_calls": [call]}]),
            "/1/tool_calls",
            "`tool_calls` is a key of another format than the rest of the transcript",
        ),
    ] {
        let err = parse_transcript(&value).unwrap_err();
        assert_eq!((err.pointer.as_str(), err.message.as_str()), (pointer, message), "{value}");
    }
    // Vendors add their own keys, which are ignored. Values of `null` are ignored, too.
    let it = text(
        &json!({"model": "m", "metadata": {}, "max_tokens": 5, "conversation_id": "7", "messages": [
            user(),
            {"role": "assistant", "content": "Done.", "annotations": [], "reasoning_content": "x", "toolCalls": null},
        ]}),
    );
    assert!(it.coverage.includes(Channel::Actions) && it.gaps.is_empty());
}

#[test]
fn calls_beside_a_system_prompt_are_read() {
    let call = json!({"id": "1", "function": {"name": "pay", "arguments": "{}"}});
    let answer = json!({"role": "assistant", "content": "Done.", "tool_calls": [call]});
    let it = text(&json!({"system": "Help.", "messages": [user(), answer]}));
    assert_eq!(it.tool_calls.len(), 1);
}

#[test]
fn two_keys_for_the_messages_are_refused() {
    for (value, pointer, keys) in [
        (
            json!({"messages": [user(), assistant_message()], "output": []}),
            "/output",
            ["messages", "output"],
        ),
        (
            json!({"messages": [user(), assistant_message()], "choices": [{}]}),
            "/choices",
            ["messages", "choices"],
        ),
        (
            json!({"messages": [user(), assistant_message()], "content": "x"}),
            "/content",
            ["messages", "content"],
        ),
        (
            json!({"messages": [user(), assistant_message()], "input": "x"}),
            "/input",
            ["messages", "input"],
        ),
        (json!({"input": [user()], "items": [assistant_message()]}), "/items", ["input", "items"]),
        (
            json!({"messages": [user(), assistant_message()], "system": "a", "instructions": "b"}),
            "/instructions",
            ["system", "instructions"],
        ),
    ] {
        let err = parse_transcript(&value).unwrap_err();
        assert_eq!(err.pointer, pointer, "{value}");
        assert!(keys.iter().all(|it| err.message.contains(&format!("`{it}`"))), "{}", err.message);
    }
    let err =
        parse_transcript(&json!({"choices": [{"message": assistant_message()}]})).unwrap_err();
    assert_eq!(err.message, "`choices` alone is not the conversation: there are no `messages`");
}

#[test]
fn a_request_and_its_response_are_one_conversation() {
    let output = json!([
        {"type": "function_call", "call_id": "c", "name": "pay", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "ok"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ]);
    for input in [json!([user()]), json!("Refund me")] {
        let it = text(&json!({"input": input, "output": output, "previous_response_id": null}));
        assert_eq!(
            event_lines(&it),
            ["User: Refund me", "c pay({})", r#"c Completed "ok""#, "Assistant: Done."]
        );
        assert!(it.gaps.is_empty(), "{:?}", it.gaps);
    }
    let err = parse_transcript(&json!({"input": [user()], "output": [3]})).unwrap_err();
    assert_eq!(err.pointer, "/output/0");
}

#[test]
fn references_to_earlier_conversations_are_gaps() {
    for (key, value) in
        [("previous_response_id", json!("resp_1")), ("conversation", json!({"id": "conv_1"}))]
    {
        let it = text(&json!({"input": [user(), assistant_message()], key: value}));
        assert_eq!(it.gaps, [format!("it continues an earlier conversation (`{key}`)")]);
    }
}

#[test]
fn answers_that_stop_for_tools_need_a_call() {
    let lost = |at: &str| format!("the answer at {at} stopped to call tools, but has no call");
    let called = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "pay", "input": {}}], "stop_reason": "tool_use"});
    let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]});
    let stopped = |word: &str| json!({"role": "assistant", "content": "Hm.", "stop_reason": word});
    for (value, gaps) in [
        (json!([user(), stopped("tool_use")]), vec![lost("/1")]),
        (json!([user(), stopped("tool_calls"), user(), assistant_message()]), vec![lost("/1")]),
        (json!([user(), called, result, stopped("end_turn")]), vec![]),
        (json!([user(), called, result, stopped("tool_use")]), vec![lost("/3")]),
        (
            json!({"messages": [user(), assistant_message()], "finish_reason": "tool_calls"}),
            vec!["the model stopped to call tools, but its last answer has no call".to_owned()],
        ),
    ] {
        assert_eq!(text(&value).gaps, gaps, "{value}");
    }
}

#[test]
fn an_image_is_a_complete_answer() {
    let image = json!({"type": "image_generation_call", "id": "i", "status": "completed", "result": "aGk="});
    assert!(text(&json!([user(), image])).gaps.is_empty());
}
