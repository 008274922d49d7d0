//! Waits that providers demand, and lost answers: the number of requests, and the messages.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use kindlm_testing::{MockReply, MockServer};
use kindlm_types::ask::mark_in;
use serde_json::json;

use crate::binary;

/// Writes a suite with this number of tests on one model.
fn suite(folder: &Path, server: &MockServer, tests: usize) {
    let url = server.url();
    let tests = (0..tests).map(|it| {
        format!("  - {{ name: t{it}, prompt: p, vars: {{ n: {it} }}, expect: {{ output: {{ contains: [ok] }} }} }}\n")
    });
    let yaml = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: s }}\n\
         providers: {{ openai: {{ apiKeyEnv: KEY, baseUrl: \"{url}/v1\" }} }}\n\
         models: [{{ id: m, provider: openai, model: gpt, params: {{ maxTokens: 1000 }}, price: {{ input: 1, output: 1 }} }}]\n\
         prompts: {{ p: {{ user: \"say {{{{n}}}}\" }} }}\n\
         tests:\n{}",
        tests.collect::<String>()
    );
    fs::write(folder.join("kindlm.yaml"), yaml).unwrap();
}

fn test(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("test").args(args).current_dir(folder).stdin(Stdio::null()).env("KEY", "key-4711");
    command.output().unwrap()
}

fn output_text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{out}{err}")
}

#[test]
fn all_requests_to_a_model_wait_together() {
    let folder = tempfile::tempdir().unwrap();
    // After the first request, the server rejects requests for a while, and reports the remaining wait.
    let (since, closed) = (OnceLock::new(), Duration::from_millis(600));
    let server = MockServer::answering(move |_| {
        let left = closed.saturating_sub(since.get_or_init(Instant::now).elapsed());
        if left.is_zero() {
            return MockReply::text("ok");
        }
        let left = (left.as_millis() + 1).to_string();
        MockReply::error(429, "Slow down.").with_header("retry-after-ms", &left)
    })
    .unwrap();
    suite(folder.path(), &server, 12);
    let output = test(folder.path(), &["--concurrency", "4"]);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    // While the server rejects requests, only the first request and at most one from each other worker arrive.
    assert!(
        (13..=12 + 4).contains(&server.count()),
        "{}: {}",
        server.count(),
        output_text(&output)
    );
}

#[test]
fn a_wait_that_is_too_long_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let refused = || MockReply::error(429, "Come back later.").with_header("retry-after", "3600");
    let server = MockServer::answering(move |_| refused()).unwrap();
    suite(folder.path(), &server, 20);
    let output = test(folder.path(), &["--concurrency", "2"]);
    assert_eq!(output.status.code(), Some(3), "{}", output_text(&output));
    assert!(server.count() <= 2, "{} were sent", server.count());
    let said = output_text(&output);
    for part in [
        "openai:gpt asks to wait 3600 s, which is too long: requests to it until then are errored",
        "the provider asks to wait 3600 s, longer than the limit of 60 s",
        "19 more with the error of `t0`",
    ] {
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(part), "{part}: {said}");
    }
}

#[test]
fn an_answer_that_is_lost_is_paid_for() {
    for (budget, requests, code, part) in [
        ("1", 2, 0, "1 answer was lost: the provider may charge for the attempt"),
        ("0.002", 1, 3, "not sent again: of the run's budget of $0.0020"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let server = MockServer::answering(|_| MockReply::text("ok")).unwrap();
        server.push(MockReply::text("ok").reset_in_body());
        suite(folder.path(), &server, 1);
        let output = test(folder.path(), &["--budget-usd", budget]);
        let words = output_text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(part), "{}", output_text(&output));
        assert_eq!((server.count(), output.status.code()), (requests, Some(code)), "{words}");
    }
}

#[test]
fn a_judge_that_refuses_json_schema_is_asked_with_a_tool() {
    let folder = tempfile::tempdir().unwrap();
    let server = MockServer::answering(|request| {
        let body = request.json();
        if body["response_format"].is_object() {
            return MockReply::error(400, "This response_format type is unavailable now");
        }
        if !body["tools"].is_array() {
            return MockReply::text(body["messages"][0]["content"].to_string());
        }
        let question = body["messages"][1]["content"].as_str().unwrap_or_default();
        let verdict = json!({"mark": mark_in(question), "score": 1, "reasoning": "It is."}).to_string();
        let name = &body["tools"][0]["function"]["name"];
        let call = json!({"id": "c", "type": "function", "function": {"name": name, "arguments": verdict}});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        MockReply::json(&json!({
            "model": "gpt",
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
        }))
    })
    .unwrap();
    suite(folder.path(), &server, 5);
    let path = folder.path().join("kindlm.yaml");
    let yaml = fs::read_to_string(&path).unwrap();
    let yaml = yaml.replace("output: { contains: [ok] }", "judge: [{ criteria: Is polite }]");
    fs::write(&path, yaml).unwrap();
    let output = test(folder.path(), &["--concurrency", "1"]);
    let said = output_text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(0), "{said}");
    // One request for each test, one for each verdict, and the rejected request.
    assert!((11..=12).contains(&server.count()), "{}: {said}", server.count());
    assert_eq!(said.matches("openai:gpt rejects the format of judge answers").count(), 1);
    assert!(said.contains("`structuredOutput: tool`"), "{said}");
}
