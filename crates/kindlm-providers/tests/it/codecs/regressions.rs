//! Tests of requests and answers that a codec can easily encode or read wrongly.

use kindlm_providers::pricing;
use kindlm_types::{ActionStatus, Event, MalformedKind, ProviderErrorKind as Kind, Usage};
use serde_json::{Value, json};

use super::{codec, hi, prompt, raw, response, usual};

/// Vendors send the wait before a retry in a header, not in the body. The codec only marks the error as retryable,
/// because the transport reads the header.
#[test]
fn a_rate_limit_is_retried_by_its_header() {
    let body = json!({"error": {"message": "slow down", "retry_after": 3}});
    let err = usual("openai").decode(&hi(), &response(429, &body)).expect_err("a rate limit");
    assert_eq!((err.kind, err.retryable, err.retry_after), (Kind::RateLimited, true, None));
}

/// A dated name may begin with several known names, such as `gpt-4o` and `gpt-4o-mini`. The longest name counts.
#[test]
fn a_dated_model_has_the_price_of_the_longest_name() {
    for (provider, dated, name) in [
        ("openai", "gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("openai", "gpt-4o-2024-08-06", "gpt-4o"),
        ("openai", "gpt-4-0613", "gpt-4"),
        ("gemini", "gemini-2.0-flash-lite-001", "gemini-2.0-flash-lite"),
        ("gemini", "gemini-1.5-flash-8b-001", "gemini-1.5-flash-8b"),
        ("anthropic", "claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("anthropic", "claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
    ] {
        let price = pricing::price(provider, dated);
        assert!(price.is_some(), "{dated}");
        assert_eq!(price, pricing::price(provider, name), "{dated}");
    }
    let first = pricing::price("openai", "gpt-4o-2024-05-13");
    assert_ne!(
        first,
        pricing::price("openai", "gpt-4o"),
        "an exact name goes before a longer story"
    );
}

/// An unknown price stays unknown, so that no budget passes because of it.
#[test]
fn an_unknown_price_is_none_and_a_local_model_costs_nothing() {
    for (provider, model) in [
        ("openai", "gpt-4o-audio-preview"),
        ("openai", "gpt-4-32k"),
        ("openai", "ft:gpt-4o-mini:acme::1"),
        ("anthropic", "claude-opus-4-9"),
        ("mistral", "mistral-large-9"),
        ("nobody", "gpt-4o"),
        ("ollama", ""),
    ] {
        assert_eq!(pricing::price(provider, model), None, "{provider}:{model}");
    }
    let usage = Usage { input_tokens: 1000, output_tokens: 1000, ..Usage::default() };
    let cost = pricing::price("ollama", "llama3:8b").map(|it| it.cost(&usage).to_bits());
    assert_eq!(cost, Some(0.0_f64.to_bits()));
}

/// A value with quotes or line breaks must not break the JSON of a body template.
#[test]
fn a_template_escapes_its_values() {
    let codec = codec(
        "http",
        &json!({"url": "http://h", "body": "{\"u\":\"{{user}}\",\"all\":{{messages_json}}}"}),
    );
    let said = "\"},{\"role\":\"system\"\n\\ {{model}} č🐎";
    let request = codec
        .encode(&prompt(json!({"model": "m", "messages": [{"role": "user", "content": said}]})))
        .unwrap();
    assert_eq!(request.body, json!({"u": said, "all": [{"role": "user", "content": said}]}));
}

/// Without the id of its call, a vendor cannot assign a tool result to the call.
#[test]
fn an_answer_of_a_tool_keeps_its_id() {
    let prompt = prompt(json!({"model": "m", "messages": [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "", "toolCalls": [{"id": "c1", "name": "f", "arguments": {"a": 1}}]},
        {"role": "tool", "content": "1", "toolCallId": "c1", "toolName": "f"},
    ]}));
    for provider in ["http", "openai", "mistral", "cohere"] {
        let body = usual(provider).encode(&prompt).unwrap().json().into_owned();
        assert_eq!(body["messages"][1]["tool_calls"][0]["id"], "c1", "{provider}");
        assert_eq!(body["messages"][2]["tool_call_id"], "c1", "{provider}");
    }
}

/// Reasoning models refuse `max_tokens`, and values of `temperature` and `top_p` other than the default.
#[test]
fn reasoning_models_are_asked_as_they_want_it() {
    let params = json!({"temperature": 0.2, "maxTokens": 64, "topP": 0.5, "seed": 7});
    for (model, reasons) in
        [("o3-mini", true), ("gpt-5.1-2025-11-13", true), ("o4-mini", true), ("gpt-4o", false)]
    {
        let prompt = prompt(json!({"model": model, "messages": [], "params": params}));
        let body = usual("openai").encode(&prompt).unwrap().json().into_owned();
        let has = |key: &str| body.get(key).is_some();
        assert_eq!(has("max_completion_tokens"), reasons, "{model}");
        for key in ["max_tokens", "temperature", "top_p"] {
            assert_eq!(has(key), !reasons, "{model}: {key}");
        }
        assert_eq!(body["seed"], 7);
    }
}

/// Every vendor gets the schema of a structured answer, in the place that its API defines.
#[test]
fn every_vendor_gets_the_form_of_the_answer() {
    let schema = json!({"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]});
    let prompt = prompt(json!({
        "model": "m", "messages": [{"role": "user", "content": "u"}], "responseFormat": {"name": "judge", "schema": schema},
    }));
    for (provider, pointer) in [
        ("openai", "/response_format/json_schema/schema"),
        ("anthropic", "/tools/0/input_schema"),
        ("gemini", "/generationConfig/responseSchema"),
        ("mistral", "/response_format/json_schema/schema"),
        ("cohere", "/response_format/json_schema"),
        ("ollama", "/format"),
    ] {
        let body = usual(provider).encode(&prompt).unwrap().json().into_owned();
        assert_eq!(body.pointer(pointer), Some(&schema), "{provider}: {body}");
    }
}

/// Error responses of vendors: provider, status, expected kind, retryable or not, and body.
const ERRORS: &str = r#"
openai    401 auth               no  {"error":{"message":"no","code":"invalid_api_key"}}
openai    403 auth               no  {"error":{"message":"no","type":"insufficient_permissions"}}
openai    403 invalid_request    no  {"error":{"message":"no","code":"unsupported_country_region_territory"}}
openai    403 model_not_found    no  {"error":{"message":"no","code":"model_not_found"}}
openai    429 quota_exhausted    no  {"error":{"message":"no","code":"insufficient_quota"}}
openai    429 rate_limited       yes {"error":{"message":"no","code":"rate_limit_exceeded"}}
openai    400 context_length     no  {"error":{"message":"no","code":"context_length_exceeded"}}
openai    400 content_filter     no  {"error":{"message":"no","code":"content_filter"}}
openai    400 content_filter     no  {"error":{"message":"no","code":"invalid_prompt"}}
openai    402 quota_exhausted    no  {"error":{"message":"no"}}
openai    408 timeout            yes {"error":{"message":"no"}}
openai    409 server             yes {"error":{"message":"no"}}
openai    503 overloaded         yes {"error":{"message":"no"}}
anthropic 403 auth               no  {"type":"error","error":{"type":"permission_error","message":"no"}}
anthropic 400 context_length     no  {"error":{"type":"invalid_request_error","message":"no, prompt is too long: 2 > 1"}}
anthropic 400 quota_exhausted    no  {"error":{"message":"no, your credit balance is too low"}}
anthropic 429 rate_limited       yes {"error":{"message":"no, input tokens per minute, context length aside"}}
anthropic 529 overloaded         yes {"type":"error","error":{"type":"overloaded_error","message":"no"}}
gemini    400 auth               no  {"error":{"message":"no, API key not valid.","status":"INVALID_ARGUMENT"}}
gemini    403 auth               no  {"error":{"message":"no","status":"PERMISSION_DENIED"}}
gemini    400 context_length     no  {"error":{"message":"no, the input token count (9) exceeds the maximum"}}
mistral   400 model_not_found    no  {"object":"error","message":"no","type":"invalid_model"}
mistral   422 invalid_request    no  {"detail":[{"loc":["body","messages"],"msg":"no"}]}
cohere    400 context_length     no  {"message":"no, too many tokens"}
cohere    498 auth               no  {"message":"no"}
cohere    429 quota_exhausted    no  {"message":"no, 1000 API calls / month"}
ollama    404 model_not_found    no  {"error":"no"}
http      504 server             yes {"error":"no"}
http      200 malformed_response no  {"error":"no"}
"#;

/// The kind of an error decides whether a request is sent again, and which advice the user gets.
#[test]
fn errors_keep_their_kind_and_their_words() {
    for line in ERRORS.trim().lines() {
        let mut words = line.split_whitespace();
        let [provider, status, kind, retryable] = std::array::from_fn(|_| words.next().unwrap());
        let (status, body) = (status.parse().unwrap(), &line[line.find('{').unwrap()..]);
        let err = usual(provider).decode(&hi(), &raw(status, body)).expect_err(line);
        let found = (json!(err.kind), err.retryable, err.status);
        assert_eq!(found, (json!(kind), retryable == "yes", Some(status)), "{line}");
        assert!(err.message.contains("no"), "the vendor's words are kept: {}", err.message);
    }
}

/// An unreadable answer is an error that shows its beginning.
#[test]
fn an_unreadable_answer_shows_its_beginning() {
    let long = format!("<html>{}", "x".repeat(500));
    for (body, expected) in [
        ("", "the answer is empty".to_owned()),
        ("{\"choices\":[{\"mess", "the answer is not JSON: `{\"choices\":[{\"mess`".to_owned()),
        ("[1]", "the answer is not a JSON object: `[1]`".to_owned()),
        (&long, format!("the answer is not JSON: `<html>{}…`", "x".repeat(194))),
    ] {
        let err = usual("openai").decode(&hi(), &raw(200, body)).expect_err("an error");
        assert_eq!((err.kind, err.retryable), (Kind::MalformedResponse, false));
        assert_eq!(err.malformed, MalformedKind::Unknown);
        assert_eq!(err.message, expected);
    }
    let err = usual("openai").decode(&hi(), &raw(502, "<html>bad gateway")).expect_err("an error");
    assert_eq!((err.kind, err.retryable), (Kind::Server, true));
    assert_eq!(err.message, "status 502 and a body that is not JSON: `<html>bad gateway`");
}

/// An address that answers with unrelated JSON would pass every `not-contains` check.
#[test]
fn an_answer_in_which_no_model_speaks_is_an_error() {
    for provider in ["openai", "anthropic", "gemini", "mistral", "cohere", "ollama", "http"] {
        for body in [json!({}), json!({"status": "ok"}), json!({"choices": [], "candidates": []})] {
            let err = usual(provider).decode(&hi(), &response(200, &body)).expect_err(provider);
            assert_eq!(err.kind, Kind::MalformedResponse, "{provider}: {body}");
        }
    }
    for (provider, silent) in [
        ("openai", json!({"choices": [{"finish_reason": "content_filter"}]})),
        ("anthropic", json!({"content": [], "stop_reason": "end_turn"})),
        ("gemini", json!({"promptFeedback": {"blockReason": "SAFETY"}})),
        ("gemini", json!({"candidates": [{"finishReason": "SAFETY"}]})),
        ("cohere", json!({"message": {"content": []}, "finish_reason": "COMPLETE"})),
        ("ollama", json!({"message": {"content": ""}})),
    ] {
        let reply = usual(provider).decode(&hi(), &response(200, &silent)).expect(provider);
        assert_eq!(reply.text, "", "{provider}");
    }
}

/// A message without content would pass every `not-contains` check. promptfoo counts it as a failure, too.
#[test]
fn a_message_without_any_content_is_an_error() {
    let call = json!([{"id": "c", "function": {"name": "f", "arguments": "{}"}}]);
    for provider in ["openai", "mistral", "cohere", "ollama"] {
        let decode = |finish: &str, message: serde_json::Value| {
            let body = match (provider, finish) {
                ("cohere", "length") => json!({"finish_reason": "MAX_TOKENS", "message": message}),
                ("cohere", "content_filter") => {
                    json!({"finish_reason": "ERROR_TOXIC", "message": message})
                }
                ("cohere", _) => json!({"finish_reason": "COMPLETE", "message": message}),
                // Ollama has no other finish reason for a cut answer.
                ("ollama", "content_filter") => {
                    json!({"done_reason": "length", "message": message})
                }
                ("ollama", _) => json!({"done_reason": finish, "message": message}),
                _ => json!({"choices": [{"finish_reason": finish, "message": message}]}),
            };
            usual(provider).decode(&hi(), &response(200, &body))
        };
        for message in
            [json!({"content": null}), json!({}), json!({"content": null, "tool_calls": []})]
        {
            let err = decode("stop", message.clone()).expect_err(provider);
            assert_eq!(err.kind, Kind::MalformedResponse, "{provider}: {message}");
            assert!(err.message.starts_with("the message of the model has no content"), "{err:?}");
        }
        for (finish, message) in [
            ("stop", json!({"content": ""})),
            ("stop", json!({"content": null, "refusal": "no"})),
            ("tool_calls", json!({"content": null, "tool_calls": call})),
            ("length", json!({"content": null})),
            ("content_filter", json!({"content": null})),
        ] {
            let reply = decode(finish, message.clone());
            assert!(reply.is_ok(), "{provider}: {finish} {message}: {reply:?}");
        }
    }
}

/// Some gateways report errors with status 200.
#[test]
fn an_error_with_status_200_is_an_error() {
    let body = json!({"error": {"message": "upstream failed", "code": 502}});
    let err = usual("openai").decode(&hi(), &response(200, &body)).expect_err("an error");
    assert_eq!((err.kind, err.retryable, err.status), (Kind::Server, true, Some(502)));
}

/// A path without a match is an error: an empty answer would pass every `not-contains` check.
#[test]
fn a_path_that_finds_nothing_is_an_error() {
    let codec = codec("http", &json!({"url": "http://h", "responsePath": "data.text"}));
    let err = codec.decode(&hi(), &response(200, &json!({"text": "x"}))).expect_err("an error");
    assert_eq!(err.kind, Kind::MalformedResponse);
    assert_eq!(
        err.message,
        "`responsePath` `data.text` finds nothing in the answer: `{\"text\":\"x\"}`"
    );
    let none = codec.decode(&hi(), &response(200, &json!({"data": {"text": null}}))).unwrap();
    assert_eq!(none.text, "");
}

/// Many JSON writers emit a space after the brace. A tool call in this form must not become text.
#[test]
fn a_protocol_line_may_have_a_space_after_its_brace() {
    let output = kindlm_providers::command::protocol::parse(
        "{ \"kindlm\": \"tool_call\", \"name\": \"f\" }\nok",
    );
    assert_eq!((output.tool_calls.len(), output.text.as_str()), (1, "ok"));
}

/// Checks that arguments in a JSON text are preserved as malformed arguments.
#[test]
fn odd_arguments_of_a_command_are_kept() {
    let line = r#"{"kindlm":"tool_call","name":"f","arguments":"{\"a\":1}"}"#;
    let output = kindlm_providers::command::protocol::parse(line);
    assert_eq!(output.tool_calls[0].malformed_arguments.as_deref(), Some("{\"a\":1}"));
}

/// Checks the advice for a base address without `/v1`. This is a common mistake with compatible servers.
#[test]
fn a_missing_v1_is_pointed_out() {
    let codec = codec("openai", &json!({"apiKeyEnv": "K", "baseUrl": "http://localhost:8000"}));
    let err =
        codec.decode(&hi(), &response(404, &json!({"detail": "Not Found"}))).expect_err("an error");
    assert_eq!(
        err.message,
        "Not Found; most compatible servers answer below `/v1`: try `baseUrl: http://localhost:8000/v1`"
    );
}

/// Content of a wrong type must not be read as an empty answer, which would pass every `not-contains` check.
#[test]
fn content_of_a_wrong_type_is_an_error() {
    let openai = |content: &str| {
        format!(r#"{{"choices":[{{"finish_reason":"stop","message":{{"content":{content}}}}}]}}"#)
    };
    let number = "the content of the message is a number, not a text";
    for (provider, body, expected) in [
        ("openai", openai("42"), number),
        ("openai", openai("[42]"), number),
        ("openai", openai(r#"[{"type":"text","text":42}]"#), number),
        ("openai", openai("true"), "the content of the message is a boolean, not a text"),
        ("openai", openai(r#"{"a":1}"#), "the content of the message is an object, not a text"),
        ("mistral", openai("42"), number),
        ("anthropic", r#"{"content":42,"stop_reason":"end_turn"}"#.to_owned(), number),
        (
            "anthropic",
            r#"{"content":[{"type":"text","text":42}],"stop_reason":"end_turn"}"#.to_owned(),
            number,
        ),
        (
            "gemini",
            r#"{"candidates":[{"finishReason":"STOP","content":{"parts":[{"text":42}]}}]}"#.to_owned(),
            number,
        ),
        ("cohere", r#"{"message":{"content":42},"finish_reason":"COMPLETE"}"#.to_owned(), number),
        ("ollama", r#"{"message":{"content":42},"done_reason":"stop"}"#.to_owned(), number),
        (
            "openai",
            r#"{"choices":[{"finish_reason":"stop","message":{"content":"bad","content":"good"}}]}"#
                .to_owned(),
            "the answer has the duplicate key \"content\" in one object",
        ),
        (
            "anthropic",
            r#"{"content":[{"type":"text","text":"bad","text":"good"}]}"#.to_owned(),
            "the answer has the duplicate key \"text\" in one object",
        ),
    ] {
        let err = usual(provider).decode(&hi(), &raw(200, &body)).expect_err(&body);
        assert_eq!(err.kind, Kind::MalformedResponse, "{provider}: {body}");
        assert!(err.message.starts_with(expected), "{provider}: {body}: {}", err.message);
    }
    let twice = openai("\"x\"").replacen('{', r#"{"id":"1","id":"2","#, 1);
    assert!(usual("openai").decode(&hi(), &raw(200, &twice)).is_ok(), "an id decides nothing");
}

/// Lines with a provider, an unreadable part of an answer, and the expected error. The original skipped such parts, so
/// that negative checks passed wrongly.
const LOST_PARTS: &str = r#"
openai    {"tool_calls":{"id":"c","function":{"name":"pay"}}}        | `tool_calls` is an object, not a list
openai    {"tool_calls":"pay()"}                                     | `tool_calls` is a text, not a list
openai    {"tool_calls":["pay()"]}                                   | a call in the answer is a text, not an object
openai    {"tool_calls":[{"id":"c","function":"pay"}]}               | a call in the answer is a text, not an object
openai    {"tool_calls":[{"id":"c","function":{"arguments":"{}"}}]}  | a call in the answer has no `name`
openai    {"tool_calls":[{"id":"c","function":{"name":7}}]}          | a call in the answer has no `name`
openai    {"function_call":"pay()"}                                  | a call in the answer is a text, not an object
openai    {"content":[{"type":"weird","weird":"sorry"}]}             | the answer has a part of the type "weird", which is unsupported
openai    {"content":[{"type":7,"text":"sorry"}]}                    | the `type` of a part is a number, not a text
openai    {"content":[{"type":"text"}]}                              | the content of the message is null, not a text
mistral   {"tool_calls":"pay()"}                                     | `tool_calls` is a text, not a list
cohere    {"tool_calls":"pay()"}                                     | `tool_calls` is a text, not a list
ollama    {"tool_calls":[{"function":{}}]}                           | a call in the answer has no `name`
http      {"tool_calls":["pay()"]}                                   | a call in the answer is a text, not an object
http      {"tool_calls":{"name":"pay"}}                              | `toolCallsPath` `choices.0.message.tool_calls` finds `
http      {"tool_calls":"pay()"}                                     | `toolCallsPath` `choices.0.message.tool_calls` finds `
anthropic {"text":"sorry"}                                           | the `type` of a block is null, not a text
anthropic "sorry"                                                    | a block of the answer is a text, not an object
anthropic {"type":"tool_use","id":"c","input":{}}                    | a call in the answer has no `name`
anthropic {"type":"server_tool_use","name":"pay"}                    | the answer has a part of the type "server_tool_use"
anthropic {"type":"text"}                                            | the content of the message is null, not a text
gemini    {"functionCall":"pay()"}                                   | a call in the answer is a text, not an object
gemini    {"functionCall":{"args":{}}}                               | a call in the answer has no `name`
gemini    {"codeExecutionResult":{"outcome":"OUTCOME_OK"}}           | a `codeExecutionResult` has no `executableCode`
gemini    "sorry"                                                    | a part of the answer is a text, not an object
"#;

#[test]
fn a_part_that_cannot_be_read_is_an_error() {
    for line in LOST_PARTS.lines().filter(|it| !it.is_empty()) {
        let (written, expected) = line.split_once('|').unwrap();
        let (provider, part) = written.trim().split_once(' ').unwrap();
        let part: Value = serde_json::from_str(part.trim()).unwrap();
        let mut message = json!({"content": "Done."});
        if let (Value::Object(message), Value::Object(part)) = (&mut message, &part) {
            message.extend(part.clone());
        }
        let text = json!({"type": "text", "text": "Done."});
        let body = match provider {
            "anthropic" => json!({"content": [text, part], "stop_reason": "end_turn"}),
            "gemini" => {
                json!({"candidates": [{"content": {"parts": [{"text": "Done."}, part]}, "finishReason": "STOP"}]})
            }
            "cohere" | "ollama" => json!({"message": message, "done_reason": "stop"}),
            _ => json!({"choices": [{"message": message, "finish_reason": "stop"}]}),
        };
        let err = usual(provider).decode(&hi(), &response(200, &body)).expect_err(line);
        assert_eq!(err.kind, Kind::MalformedResponse, "{line}");
        let malformed = match expected {
            it if it.contains("has a part of the type") => MalformedKind::Unsupported,
            it if it.contains("toolCallsPath") => MalformedKind::Unknown,
            _ => MalformedKind::Faulty,
        };
        assert_eq!(err.malformed, malformed, "{line}");
        assert!(err.message.starts_with(expected.trim()), "{line}: {}", err.message);
    }
}

/// Executed code without a result, and code that failed, is not a completed action. Generated ids differ between
/// rounds.
#[test]
fn executed_code_has_the_status_of_its_outcome() {
    let code = json!({"executableCode": {"code": "pay()"}});
    let call = json!({"functionCall": {"name": "pay"}});
    for (outcome, expected) in [
        (None, None),
        (Some("OUTCOME_OK"), Some(ActionStatus::Completed)),
        (Some("OUTCOME_FAILED"), Some(ActionStatus::Failed)),
        (Some("OUTCOME_DEADLINE_EXCEEDED"), Some(ActionStatus::Failed)),
    ] {
        let result =
            outcome.map(|it| json!({"codeExecutionResult": {"outcome": it, "output": "x"}}));
        let mut parts = vec![code.clone()];
        parts.extend(result);
        parts.extend([call.clone(), json!({"text": "Done."})]);
        let body = json!({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]});
        let reply = usual("gemini").decode(&hi(), &response(200, &body)).unwrap();
        let ids: Vec<&str> = reply.tool_calls.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(
            ids,
            [format!("gemini_code_{}_0", hi().messages.len()).as_str(), "gemini_call_0"]
        );
        let results = reply.events.iter().filter_map(|it| match it {
            Event::ActionResult { call_id, status, .. } => Some((call_id.as_str(), *status)),
            _ => None,
        });
        let expected: Vec<_> = expected.map(|it| (ids[0], it)).into_iter().collect();
        assert_eq!(results.collect::<Vec<_>>(), expected, "{outcome:?}");
        let called = reply.events.iter().filter(|it| matches!(it, Event::ActionCalled { .. }));
        assert_eq!(called.count(), 2, "{outcome:?}");
        assert!(matches!(reply.events.last(), Some(Event::Message { .. })), "{outcome:?}");
    }
}

/// A call counts even if other content is beside it in the message.
#[test]
fn a_call_beside_other_parts_is_read() {
    let called = |name: &str| json!({"name": name, "arguments": "{}"});
    let both = |name: &str| json!({"choices": [{"message": {"tool_calls": [called("pay")], "function_call": called(name)}}]});
    let thought = json!({"thought": true, "text": "hm", "functionCall": {"name": "pay"}});
    for (provider, body, expected) in [
        ("gemini", json!({"candidates": [{"content": {"parts": [thought]}}]}), &["pay"][..]),
        ("openai", both("pay"), &["pay"]),
        ("openai", both("refund"), &["pay", "refund"]),
    ] {
        let reply = usual(provider).decode(&hi(), &response(200, &body)).unwrap();
        let names: Vec<&str> = reply.tool_calls.iter().map(|it| it.name.as_str()).collect();
        assert_eq!((names.as_slice(), reply.text.as_str()), (expected, ""), "{body}");
    }
}

/// With a `?` in `toolCallsPath`, the list may be absent, but a list in another format is an error.
#[test]
fn calls_of_an_agent_are_read_or_refused() {
    let path = json!({"url": "http://h", "responsePath": "text", "toolCallsPath": "calls?"});
    let codec = codec("http", &path);
    let decode = |calls: Value| {
        codec.decode(&hi(), &response(200, &json!({"text": "Done.", "calls": calls})))
    };
    for (calls, expected) in [
        (json!({"name": "pay"}), "`toolCallsPath` `calls` finds `{\"name\":\"pay\"}`, not a list"),
        (json!("pay()"), "`toolCallsPath` `calls` finds `\"pay()\"`, not a list"),
        (json!([{"id": "c"}]), "a call in the answer has no `name`"),
        (
            json!([{"name": "pay", "is_error": "yes"}]),
            "`is_error` of a call is a text, not a boolean",
        ),
        (json!([{"name": "pay", "status": "lost"}]), "a call has the unknown `status` `lost`"),
    ] {
        let err = decode(calls.clone()).expect_err(expected);
        assert!(err.message.starts_with(expected), "{calls}: {}", err.message);
    }
    assert!(decode(Value::Null).unwrap().tool_calls.is_empty());
    for (mark, expected) in [
        (json!({}), ActionStatus::Completed),
        (json!({"is_error": false, "error": null}), ActionStatus::Completed),
        (json!({"is_error": true}), ActionStatus::Failed),
        (json!({"is_error": true, "error": null}), ActionStatus::Failed),
        (json!({"isError": true, "status": "completed"}), ActionStatus::Failed),
        (json!({"error": "no money"}), ActionStatus::Failed),
        (json!({"is_error": true, "status": "rejected"}), ActionStatus::Rejected),
    ] {
        let mut call = json!({"name": "pay", "output": "x"});
        call.as_object_mut().unwrap().extend(mark.as_object().unwrap().clone());
        let reply = decode(json!([call])).unwrap();
        let status = reply.events.iter().find_map(|it| match it {
            Event::ActionResult { status, .. } => Some(*status),
            _ => None,
        });
        assert_eq!(status, Some(expected), "{mark}");
    }
}

/// An answer with half of a surrogate pair comes from the right address. So the error names the exact reason, not
/// only that the answer is no JSON.
#[test]
fn answers_that_are_not_json_name_the_reason() {
    let answer = r#"{"choices":[{"finish_reason":"stop","message":{"content":"he\ud800llo"}}]}"#;
    for (body, expected) in [
        (answer, "the answer holds half of a surrogate pair"),
        (
            r#"{"choices": nope}"#,
            "the answer is not valid JSON (expected ident at line 1 column 14)",
        ),
        ("hello", "the answer is not JSON: `hello`"),
    ] {
        let err = usual("openai").decode(&hi(), &raw(200, body)).expect_err(body);
        assert!(err.message.starts_with(expected), "{}", err.message);
    }
}

/// A negative or implausibly large count is a missing count. As a real count, it would give a wrong cost.
#[test]
fn a_count_of_tokens_that_cannot_be_is_none() {
    for (prompt, completion, total, expected) in [
        ("-1000000", "5", "15", Usage::counted(Some(10), Some(5), Some(15), None)),
        ("-1", "5", "null", Usage::counted(None, Some(5), None, None)),
        ("1e300", "5", "null", Usage::counted(None, Some(5), None, None)),
        ("-3", "-4", "-7", Usage::default()),
        ("10.0", "5", "15", Usage::counted(Some(10), Some(5), Some(15), None)),
    ] {
        let body = format!(
            r#"{{"choices":[{{"finish_reason":"stop","message":{{"content":"x"}}}}],
               "usage":{{"prompt_tokens":{prompt},"completion_tokens":{completion},"total_tokens":{total}}}}}"#
        );
        let reply = usual("openai").decode(&hi(), &raw(200, &body)).unwrap();
        assert_eq!(reply.usage, expected, "{body}");
    }
}
