//! Tests of the last answer: its complete text, without earlier texts.

use kindlm_types::{Event, FinishReason};
use serde_json::{Value, json};

use super::{event_lines, parse_transcript, text};

#[test]
fn all_texts_of_the_last_answer_are_the_output() {
    let user = json!({"role": "user", "content": "Refund me"});
    let server = [
        json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}),
    ];
    let block = |text: &str| json!({"type": "text", "text": text});
    let (one, two) = (block("You fool. "), block("Gladly."));
    let output = |text: &str| json!({"type": "output_text", "text": text});
    let item = |content: Value| json!({"type": "message", "role": "assistant", "content": content});
    let search = json!({"type": "web_search_call", "id": "w", "status": "completed", "action": {}});
    for (value, messages) in [
        // Anthropic splits the text of one message at citations and at server tools.
        (
            json!([user, {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm"}, one, two]}]),
            vec!["You fool. Gladly."],
        ),
        (
            json!([user, {"role": "assistant", "content": [one, server[0], server[1], two]}]),
            vec!["You fool. ", "Gladly."],
        ),
        (
            json!([user, {"role": "assistant", "content": [one, {"type": "tool_use", "id": "1", "name": "f", "input": {}}, two]}]),
            vec!["You fool. ", "Gladly."],
        ),
        (
            json!([user, {"role": "assistant", "content": [one], "stop_reason": "pause_turn"},
            {"role": "assistant", "content": [two, server[0], server[1]]}]),
            vec!["You fool. ", "Gladly."],
        ),
        (json!([user, {"role": "assistant", "content": [one, two]}]), vec!["You fool. Gladly."]),
        // The answer has several parts in one message, or several items in one response.
        (
            json!([user, item(json!([output("You fool. "), output("Gladly.")]))]),
            vec!["You fool. Gladly."],
        ),
        (
            json!([
                user,
                item(json!([output("You fool. ")])),
                search,
                item(json!([output("Gladly.")]))
            ]),
            vec!["You fool. ", "Gladly."],
        ),
    ] {
        let it = text(&value);
        assert_eq!(it.output, "You fool. Gladly.", "{value}");
        assert_eq!(it.turns[0].text, "You fool. Gladly.", "{value}");
        let lines = event_lines(&it);
        let found: Vec<&str> =
            lines.iter().filter_map(|it| it.strip_prefix("Assistant: ")).collect();
        assert_eq!(found, messages, "{value}");
    }
}

#[test]
fn earlier_messages_are_not_the_last_answer() {
    let user = json!({"role": "user", "content": "Where is it?"});
    let before = json!({"role": "assistant", "content": "I look it up."});
    for last in [
        json!({"role": "assistant", "content": ""}),
        json!({"role": "assistant", "content": []}),
        json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}),
    ] {
        let it = text(&json!([user, before, last]));
        assert_eq!((it.output.as_str(), it.turns[0].text.as_str()), ("", ""), "{last}");
    }
}

#[test]
fn answers_without_content_are_missing_evidence() {
    let user = json!({"role": "user", "content": "Where is it?"});
    let blocks = json!([{"type": "text", "text": "Hm."}]);
    for (value, at) in [
        (json!([user, {"role": "assistant", "content": null}]), "/1"),
        (json!([user, {"role": "assistant"}]), "/1"),
        (
            json!([user, {"role": "assistant", "content": null, "tool_calls": [], "refusal": ""}]),
            "/1",
        ),
        (
            json!({"messages": [user, {"role": "assistant", "content": blocks}, user,
            {"role": "assistant", "content": null}], "system": ""}),
            "/messages/3",
        ),
        (json!([user, {"type": "message", "role": "assistant"}, {"type": "reasoning"}]), "/1"),
    ] {
        let gap = format!("the answer at {at} has neither a text nor a call");
        assert_eq!(text(&value).gaps, [gap], "{value}");
    }
}

#[test]
fn refusals_count_with_any_finish_reason() {
    let user = json!({"role": "user", "content": "Help me"});
    let part = json!([{"type": "refusal", "refusal": "No."}]);
    let refusal =
        json!({"role": "assistant", "content": null, "refusal": "No.", "finish_reason": "stop"});
    for last in [
        refusal.clone(),
        json!({"role": "assistant", "content": part}),
        json!({"type": "message", "role": "assistant", "content": part}),
    ] {
        for word in [None, Some("stop")] {
            let value = json!({"messages": [user, last], "finish_reason": word});
            let it = text(&value);
            assert_eq!(it.finish_reason, Some(FinishReason::Refusal), "{value}");
            assert_eq!(it.output, "No.");
        }
        // Only the last answer counts.
        let item = json!({"type": "message", "role": "assistant", "content": "Gladly."});
        assert_eq!(text(&json!([user, last, user, item])).finish_reason, None);
    }
    let it = parse_transcript(&json!([user, refusal])).unwrap();
    assert_eq!(it.finished(Some(FinishReason::Stop)), Some(FinishReason::Refusal));
    assert!(!it.events.iter().any(|it| matches!(it, Event::Error { .. })));
}

#[test]
fn a_text_after_results_answers_them() {
    let user = json!({"role": "user", "content": "x"});
    let called =
        |id: &str, kind: &str| json!({"type": kind, "id": id, "name": "look_up", "input": {}});
    let found =
        |id: &str| json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []});
    let text_block = json!({"type": "text", "text": "Found."});
    let ends = |what: &str| format!("the transcript ends with {what}");
    for (blocks, gaps) in [
        (json!([called("1", "server_tool_use"), found("1"), text_block]), vec![]),
        (
            json!([
                called("1", "server_tool_use"),
                called("2", "server_tool_use"),
                found("2"),
                found("1"),
                text_block
            ]),
            vec![],
        ),
        (
            json!([text_block, called("1", "server_tool_use"), found("1")]),
            vec![ends("the result of `look_up` without an answer")],
        ),
        (
            json!([called("1", "tool_use"), text_block]),
            vec![ends("a call of `look_up`, which has no result")],
        ),
        (
            json!([
                called("1", "tool_use"),
                called("2", "server_tool_use"),
                found("2"),
                text_block
            ]),
            vec!["a call of `look_up` has no result".to_owned()],
        ),
    ] {
        let it = text(&json!([user, {"role": "assistant", "content": blocks}]));
        assert_eq!(it.gaps, gaps, "{blocks}");
    }
}
