//! Tests of scripted replies: their conditions, and the counts of their uses.

use std::time::{Duration, Instant};

use kindlm_providers::scripted::{Config, Script};
use kindlm_types::{
    FinishReason, Models, Problem, ProviderErrorKind as Kind, Reply, ToolCall, Unlimited, Usage,
};

use super::*;

fn script(replies: Value) -> Script {
    let config = Value::Object(Map::from_iter([("replies".to_owned(), replies)]));
    let config = Config::from_value(&config).unwrap();
    Script::load(&config, &Memory(&[])).unwrap()
}

fn ask(script: &Script, prompt: &Prompt) -> Result<Reply, ProviderError> {
    script.reply("scripted", prompt).result
}

fn reply_text(script: &Script, prompt: &Prompt) -> String {
    ask(script, prompt).map_or_else(|err| format!("{:?}", err.kind), |it| it.text)
}

fn conversation(messages: Vec<Message>) -> Prompt {
    Prompt { messages, ..prompt("") }
}

/// Returns a conversation that ends with a tool result.
fn after_tool(tool: &str, result: &str) -> Prompt {
    let call = ToolCall {
        id: "c1".into(),
        name: tool.into(),
        arguments: json!({}),
        ..ToolCall::default()
    };
    let calling = Message { tool_calls: vec![call.clone()], ..Message::new(Role::Assistant, "") };
    conversation(vec![
        Message::new(Role::System, "Be brief."),
        Message::new(Role::User, "where is order 12345?"),
        calling,
        Message::tool_result(&call, result),
    ])
}

#[test]
fn conditions_choose_the_first_reply_that_fits() {
    let order = || after_tool("lookup_order", r#"{"status":"shipped"}"#);
    let asked = || conversation(order().messages[..2].to_vec());
    for (when, prompt, fits) in [
        (json!({}), asked(), true),
        (json!({"contains": "order 12345"}), asked(), true),
        (json!({"contains": "Order 12345"}), asked(), false),
        (json!({"contains": ["where", "12345"]}), asked(), true),
        (json!({"contains": ["where", "refund"]}), asked(), false),
        (json!({"contains": "brief"}), asked(), false),
        (json!({"equals": "\n where is order 12345? \n"}), asked(), true),
        (json!({"equals": "where is order"}), asked(), false),
        (json!({"systemContains": "brief"}), asked(), true),
        (json!({"systemContains": "order"}), asked(), false),
        (json!({"conversationContains": ["brief", "12345"]}), asked(), true),
        (json!({"conversationContains": "shipped"}), asked(), false),
        (json!({"conversationContains": "shipped"}), order(), true),
        (json!({"model": "m-1"}), asked(), true),
        (json!({"model": ["m-0", "m-1"]}), asked(), true),
        (json!({"model": "m"}), asked(), false),
        (json!({"toolResult": true}), asked(), false),
        (json!({"toolResult": false}), asked(), true),
        (json!({"toolResult": true}), order(), true),
        (json!({"toolResult": false}), order(), false),
        (json!({"toolResult": "lookup_order"}), order(), true),
        (json!({"toolResult": "refund"}), order(), false),
        (json!({"toolResult": ["lookup_order", "refund"]}), order(), false),
        (json!({"toolResultContains": "shipped"}), order(), true),
        (json!({"toolResultContains": "lost"}), order(), false),
        (json!({"toolResultContains": "shipped"}), asked(), false),
        (json!({"contains": "12345"}), order(), true),
        (json!({"contains": "12345", "model": "other"}), asked(), false),
    ] {
        let script = script(json!([{ "when": when, "text": "fits" }, { "text": "does not" }]));
        assert_eq!(reply_text(&script, &prompt) == "fits", fits, "{script:?}");
    }
}

#[test]
fn results_of_tools_count_since_the_last_user_message_only() {
    let script =
        script(json!([{"when": {"toolResult": true}, "text": "after"}, {"text": "before"}]));
    let mut next = after_tool("f", "{}");
    assert_eq!(reply_text(&script, &next), "after");
    next.messages.push(Message::new(Role::Assistant, "done"));
    next.messages.push(Message::new(Role::User, "and now?"));
    assert_eq!(reply_text(&script, &next), "before");
}

#[test]
fn a_tool_is_called_once_unless_the_script_repeats_it() {
    let call = json!([{"name": "f"}]);
    let asked = prompt("where is order 12345?");
    let brief = script(json!([{"toolCalls": call}, {"text": "done"}]));
    assert_eq!(ask(&brief, &asked).unwrap().tool_calls[0].name, "f");
    assert_eq!(reply_text(&brief, &after_tool("f", "{}")), "done");
    let stubborn = script(json!([{"when": {"toolResult": true}, "toolCalls": call}]));
    assert_eq!(ask(&stubborn, &after_tool("f", "{}")).unwrap().tool_calls[0].id, "call_1");
}

#[test]
fn scripted_replies_have_all_fields_of_a_reply() {
    let script = script(json!([
        {"when": {"contains": "calls"}, "text": "Let me see.", "usage": {"inputTokens": 7, "outputTokens": 5},
         "toolCalls": [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "id": "mine"},
                       {"name": "h", "malformedArguments": "{oops"}]},
        {"when": {"contains": "json"}, "json": {"b": 1, "a": null}, "finishReason": "length", "latencyMs": 5},
        {"when": {"contains": "null"}, "json": null},
        {"when": {"contains": "refuse"}, "refusal": "No.",
         "usage": {"inputTokens": 1, "totalTokens": 9, "cachedInputTokens": 1}},
        {"when": {"contains": "half"}, "text": "x", "usage": {"inputTokens": 1}},
        {"when": {"contains": "nothing"}, "text": ""},
    ]));
    let calls = ask(&script, &prompt("calls")).unwrap();
    insta::assert_debug_snapshot!(calls);
    let as_json = ask(&script, &prompt("json")).unwrap();
    assert_eq!(
        (as_json.text.as_str(), as_json.finish_reason),
        (r#"{"b":1,"a":null}"#, FinishReason::Length)
    );
    assert!((as_json.latency_ms - 5.0).abs() < f64::EPSILON);
    assert_eq!(ask(&script, &prompt("null")).unwrap().text, "null");
    let refusal = ask(&script, &prompt("refuse")).unwrap();
    assert_eq!(
        (refusal.refusal.as_deref(), refusal.finish_reason),
        (Some("No."), FinishReason::Refusal)
    );
    let usage = Usage {
        input_tokens: 1,
        output_tokens: 8,
        total_tokens: 9,
        cached_input_tokens: Some(1),
        ..Usage::default()
    };
    assert_eq!(refusal.usage, usage, "of a sum and one of its parts the other follows");
    assert!(ask(&script, &prompt("half")).unwrap().usage.partial, "what is absent is not 0");
    let nothing = ask(&script, &prompt("nothing")).unwrap();
    assert_eq!((nothing.text.as_str(), nothing.finish_reason), ("", FinishReason::Stop));
}

#[test]
fn scripted_errors_equal_real_provider_errors() {
    for (error, kind, retryable) in [
        (json!({}), Kind::Server, true),
        (json!({"status": 401}), Kind::Auth, false),
        (json!({"status": 404}), Kind::ModelNotFound, false),
        (json!({"status": 409}), Kind::InvalidRequest, true),
        (json!({"status": 429}), Kind::RateLimited, true),
        (json!({"status": 500}), Kind::Server, true),
        (json!({"status": 529}), Kind::Overloaded, true),
        (json!({"status": 400}), Kind::InvalidRequest, false),
        (json!({"kind": "quota_exhausted", "status": 429}), Kind::QuotaExhausted, false),
        (json!({"kind": "timeout"}), Kind::Timeout, true),
        (json!({"kind": "connection"}), Kind::Connection, true),
        (json!({"kind": "content_filter"}), Kind::ContentFilter, false),
        (json!({"status": 500, "retryable": false}), Kind::Server, false),
    ] {
        let err = ask(&script(json!([{ "error": error }])), &prompt("hi")).unwrap_err();
        assert_eq!((err.kind, err.retryable), (kind, retryable), "{error}");
    }
}

#[test]
fn times_are_counted_for_each_conversation_apart() {
    let script = script(json!([
        {"when": {"contains": "flaky"}, "times": 2, "text": "first"},
        {"when": {"contains": "flaky"}, "times": 1, "text": "second"},
        {"text": "always"},
    ]));
    for expected in ["first", "first", "second", "always", "always"] {
        assert_eq!(reply_text(&script, &prompt("flaky a")), expected);
    }
    assert_eq!(reply_text(&script, &prompt("flaky b")), "first");
    let other_model = Prompt { model: "m-2".into(), ..prompt("flaky a") };
    assert_eq!(reply_text(&script, &other_model), "first");
}

#[test]
fn a_conversation_keeps_its_count_while_it_goes_on() {
    let script = script(json!([
        {"times": 1, "toolCalls": [{"name": "f"}]},
        {"times": 1, "text": "one"},
        {"times": 1, "text": "two"},
    ]));
    let mut going = after_tool("f", "{}");
    let opening = conversation(going.messages[..2].to_vec());
    assert_eq!(ask(&script, &opening).unwrap().tool_calls.len(), 1);
    assert_eq!(reply_text(&script, &going), "one");
    going.messages.push(Message::new(Role::Assistant, "one"));
    going.messages.push(Message::new(Role::User, "more"));
    assert_eq!(reply_text(&script, &going), "two");
    assert_eq!(reply_text(&script, &going), "InvalidRequest");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrency_does_not_change_scripted_replies() {
    let client = Arc::new(client(json!({"scripted": {"replies": [
        {"times": 2, "error": {"status": 503, "retryAfterMs": 0}},
        {"text": "cured"},
    ]}})));
    let asking = (0..64).map(|index| {
        let client = Arc::clone(&client);
        tokio::spawn(async move {
            client.complete("scripted", &prompt(&format!("case {index}")), LONG, &Unlimited).await
        })
    });
    for asked in asking.collect::<Vec<_>>() {
        let reply = asked.await.unwrap().unwrap();
        assert_eq!((reply.text.as_str(), reply.attempts), ("cured", 3));
    }
}

#[test]
fn embeddings_have_replies_of_their_own() {
    let script = script(json!([
        {"text": "chat"},
        {"when": {"equals": "cat"}, "embedding": [1, 0.5]},
        {"embedding": [0, 1]},
    ]));
    assert_eq!(script.embedding("scripted", "e", "cat").result.unwrap(), [1.0, 0.5]);
    assert_eq!(script.embedding("scripted", "e", "dog").result.unwrap(), [0.0, 1.0]);
    assert_eq!(reply_text(&script, &prompt("cat")), "chat");
}

#[test]
fn a_request_that_nothing_fits_is_explained() {
    let script = script(json!([
        {"when": {"contains": "refund"}, "text": "a"},
        {"when": {"model": ["m-2", "m-3"]}, "text": "b"},
        {"times": 1, "text": "c"},
        {"when": {"toolResult": true}, "text": "d"},
    ]));
    assert_eq!(reply_text(&script, &prompt("hi\nthere")), "c");
    let err = ask(&script, &prompt("hi\nthere")).unwrap_err();
    assert_eq!((err.kind, err.retryable), (Kind::InvalidRequest, false));
    insta::assert_snapshot!(err.to_string());
    let none = script.embedding("scripted", "e", "cat").result.unwrap_err();
    insta::assert_snapshot!(none.to_string());
}

#[tokio::test]
async fn latency_is_waited_for_and_reported_exactly() {
    let client = client(json!({"scripted": {"replies": [{"text": "slow", "latencyMs": 50}]}}));
    let started = Instant::now();
    let reply = client.complete("scripted", &prompt("hi"), LONG, &Unlimited).await.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(50));
    assert!((reply.latency_ms - 50.0).abs() < f64::EPSILON);
    let err = client
        .complete("scripted", &prompt("hi"), Duration::from_millis(5), &Unlimited)
        .await
        .unwrap_err();
    assert_eq!((err.kind, err.attempts), (Kind::Timeout, 3));
}

#[tokio::test]
async fn replies_come_from_yaml_and_json_files() {
    let files = Memory(&[
        ("./list.yaml", "- { when: { contains: hi }, text: hello }\n- text: bye\n"),
        ("./map.yaml", "replies:\n  - text: hello\n"),
        ("./list.json", r#"[{"text": "hello"}]"#),
        ("./map.json", r#"{"replies": [{"text": "hello"}]}"#),
    ]);
    for file in ["./list.yaml", "./map.yaml", "./list.json", "./map.json"] {
        let providers = providers(json!({"scripted": {"file": file}}));
        let client = Client::new(&providers, &files, client_options()).unwrap();
        let reply = client.complete("scripted", &prompt("hi"), LONG, &Unlimited).await.unwrap();
        assert_eq!(reply.text, "hello", "{file}");
    }
}

#[test]
fn problems_of_a_reply_file_name_their_place() {
    let files = Memory(&[
        ("typo.yaml", "- when: { contans: hi }\n  text: hello\n"),
        ("type.yaml", "- when: { contains: { a: b } }\n  text: hello\n"),
        ("bool.yaml", "- when:\n    contains: true\n  text: hello\n"),
        ("broken.yaml", "- text: [\n"),
        ("broken.json", "[{\"text\": }]"),
        ("empty.yaml", ""),
        ("none.yaml", "[]"),
        ("silent.yaml", "- text: a\n- when: { contains: b }\n"),
        ("both.yaml", "- { text: a, json: 1 }\n- { embedding: [1], toolCalls: [{ name: f }] }\n"),
    ]);
    let names = files.0.iter().map(|(name, _)| *name).chain(["missing.yaml"]);
    let told: Vec<Vec<Problem>> = names
        .map(|name| {
            let config = Config { file: Some(name.to_owned()), replies: None };
            Script::load(&config, &files).unwrap_err()
        })
        .collect();
    assert!(told.iter().flatten().all(|it| it.pointer == "/file"));
    let messages: Vec<&str> = told.iter().flatten().map(|it| it.message.as_str()).collect();
    insta::assert_debug_snapshot!(messages);
}

#[test]
fn a_configuration_names_replies_exactly_once() {
    for (config, pointer) in [
        (json!({}), ""),
        (json!({"file": "a", "replies": [{"text": "b"}]}), "/replies"),
        (json!({"replies": []}), "/replies"),
        (json!({"replies": [{"text": "b"}, {"tex": "b"}]}), ""),
    ] {
        let found = Config::from_value(&config).unwrap_err();
        assert_eq!(found[0].pointer, pointer, "{config}");
    }
}
