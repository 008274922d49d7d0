//! Valid and invalid replies of judges.
//!
//! `judge-replies.jsonl` contains replies in the format of two APIs, with the expected result in each of three checks.
//! The judge repeats its reply if it is asked again.

use std::collections::BTreeMap;
use std::process::Command;

use kindlm_testing::{MockReply, MockRequest, MockServer};
use kindlm_types::ask::mark_in;
use serde_json::{Value, json};

use crate::binary;

/// Returns the checks: the name, the `expect` block, a passing and a failing verdict.
fn checks() -> Vec<(&'static str, Value, Value, Value)> {
    let rule = |pass: bool| json!({"results": [{"id": "a", "pass": pass, "reasoning": "x"}]});
    let rules = json!({"assert": [{"type": "prompt-assertion", "assertions": [{"id": "a", "instruction": "Be kind."}]}]});
    vec![
        ("prompt-assertion", rules, rule(true), rule(false)),
        (
            "judge",
            json!({"judge": [{"criteria": "Is kind"}]}),
            json!({"score": 1, "reasoning": "x"}),
            json!({"score": 0, "reasoning": "x"}),
        ),
        (
            "llm-rubric",
            json!({"assert": [{"type": "llm-rubric", "value": "Is kind"}]}),
            json!({"reason": "x", "pass": true, "score": 1}),
            json!({"reason": "x", "pass": false, "score": 0}),
        ),
    ]
}

fn rows() -> Vec<Value> {
    let lines = include_str!("../judge-replies.jsonl").lines();
    lines.map(|it| serde_json::from_str(it).unwrap()).collect()
}

/// Returns the verdict with a mark, as judges write it.
fn marked(verdict: &Value, mark: &str) -> Value {
    let mut whole = json!({ "mark": mark });
    whole.as_object_mut().unwrap().extend(verdict.as_object().unwrap().clone());
    whole
}

/// Replaces the placeholders in a reply by the verdicts and the mark.
///
/// If `objects` is true, a string that consists of one placeholder becomes the verdict as an object.
fn filled(reply: &Value, mark: &str, (passes, fails): (&Value, &Value), objects: bool) -> Value {
    let verdicts = [
        ("NOMARK_PASS", passes.clone()),
        ("NOMARK_FAIL", fails.clone()),
        ("WRONG_PASS", marked(passes, "0123456789abcdef01234567")),
        ("PASS", marked(passes, mark)),
        ("FAIL", marked(fails, mark)),
    ];
    match reply {
        Value::String(text) => {
            if let Some((_, verdict)) = verdicts.iter().find(|(name, _)| objects && text == name) {
                return verdict.clone();
            }
            let text = text.replace("MARK\"", &format!("{mark}\"")).replace("mark: MARK", mark);
            let fill = |text: String, (name, verdict): &(&str, Value)| {
                text.replace(name, &verdict.to_string())
            };
            verdicts.iter().fold(text, fill).into()
        }
        Value::Array(items) => {
            items.iter().map(|it| filled(it, mark, (passes, fails), objects)).collect()
        }
        Value::Object(entries) => {
            let entry = |(key, it): (&String, &Value)| {
                let objects = key == "input";
                (key.clone(), filled(it, mark, (passes, fails), objects))
            };
            Value::Object(entries.iter().map(entry).collect())
        }
        other => other.clone(),
    }
}

/// Returns the number of the row that a request is about, the mark that it requires, and its body.
fn asked(request: &MockRequest) -> (usize, String, Value) {
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let content = &messages.last().unwrap()["content"];
    let question = match content {
        Value::String(text) => text.clone(),
        parts => parts.as_array().unwrap().iter().filter_map(|it| it["text"].as_str()).collect(),
    };
    let number = question.split("row ").nth(1).unwrap();
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    (digits.parse().unwrap(), mark_in(&question).unwrap().to_owned(), body)
}

fn reply(row: &Value, mark: &str, verdicts: (&Value, &Value), request: &Value) -> MockReply {
    if row["form"] == "anthropic" {
        let tool = request["tools"][0]["name"].as_str().unwrap();
        assert_eq!(request["tool_choice"]["disable_parallel_tool_use"], true);
        let mut content = filled(&row["content"], mark, verdicts, false);
        for block in content.as_array_mut().unwrap() {
            if block["name"] == "TOOL" {
                block["name"] = tool.into();
            }
        }
        return MockReply::json(&json!({
            "id": "m", "type": "message", "role": "assistant", "model": "mock-1", "content": content,
            "stop_reason": row["stop"], "usage": {"input_tokens": 10, "output_tokens": 5},
        }));
    }
    if let Some(body) = row.get("body") {
        return MockReply::json(body);
    }
    let message = match row.get("message") {
        Some(message) => filled(message, mark, verdicts, false),
        None => json!({"content": filled(&row["text"], mark, verdicts, false)}),
    };
    MockReply::json(&json!({
        "id": "c", "model": "mock-1",
        "choices": [{"index": 0, "finish_reason": row["finish"], "message": message}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }))
}

/// Judges all rows of a format with a check, and returns the outcome of each row.
fn outcomes(form: &str, expect: &Value, verdicts: (Value, Value)) -> BTreeMap<usize, String> {
    let rows = rows();
    let numbers: Vec<usize> = (0..rows.len()).filter(|it| rows[*it]["form"] == form).collect();
    let server = MockServer::answering(move |request| {
        let (number, mark, body) = asked(request);
        reply(&rows[number], &mark, (&verdicts.0, &verdicts.1), &body)
    })
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let address = if form == "openai" { "/v1" } else { "" };
    let yaml = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: s }}\n\
         providers: {{ {form}: {{ apiKeyEnv: KEY, baseUrl: \"{}{address}\" }} }}\n\
         models: [{{ id: m, provider: {form}, model: mock-1 }}]\n\
         prompts: {{ p: {{ user: hi }} }}\n\
         tests: [{{ name: one, prompt: p, expect: {{ output: {{ contains: [x] }} }} }}]\n",
        server.url()
    );
    std::fs::write(folder.path().join("kindlm.yaml"), yaml).unwrap();
    let record = |number: &usize| json!({"id": number, "agent_output": format!("row {number} end"), "expect": expect});
    let records: Vec<String> = numbers.iter().map(|it| record(it).to_string()).collect();
    std::fs::write(folder.path().join("records.jsonl"), records.join("\n")).unwrap();
    let output = Command::new(binary())
        .args(["evaluate", "--jsonl", "records.jsonl", "-c", "kindlm.yaml"])
        .current_dir(folder.path())
        .env("KEY", "k")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let evaluations = text.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
    let outcome = |it: Value| {
        let number = usize::try_from(it["id"].as_u64().unwrap()).unwrap();
        (number, it["results"][0]["status"].as_str().unwrap().to_owned())
    };
    evaluations.map(outcome).collect()
}

#[test]
fn no_reply_passes_that_is_no_verdict() {
    let (rows, mut judged, mut wrong) = (rows(), 0, Vec::new());
    for (check, expect, passes, fails) in checks() {
        for form in ["openai", "anthropic"] {
            for (number, outcome) in outcomes(form, &expect, (passes.clone(), fails.clone())) {
                let row = &rows[number];
                judged += 1;
                if row["expect"] != outcome.as_str() {
                    let name = row["name"].as_str().unwrap();
                    wrong
                        .push(format!("{check}, {form}, {name}: {outcome}, not {}", row["expect"]));
                }
            }
        }
    }
    assert_eq!(judged, 300);
    assert!(wrong.is_empty(), "{} of {judged}: {wrong:#?}", wrong.len());
}
