//! Runs the same configs with promptfoo and with KindLM, against the same server, and compares the results.
//!
//! The configs are in `fixtures/promptfoo/differential`. promptfoo must be on the `PATH`
//! (`npm install --prefix DIR promptfoo@0.123.1`, then `DIR/node_modules/.bin`). Without it, the test prints `NOT RUN`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kindlm_testing::mock::{Dialect, MockRequest, dialect_body};
use kindlm_testing::{MockReply, MockServer, installed};
use serde_json::{Map, Value, json};

use crate::ran::rows;

/// Differences on purpose: the config, the row or `requests`, and the reason.
const ON_PURPOSE: &[(&str, &str, &str)] = &[
    ("graded", "requests", "KindLM has its own prompts for graders"),
    ("select-best", "requests", "KindLM has its own prompts for graders"),
    ("select-best", "alone · long on echo", "without a weight, a row has no score (promptfoo: 0)"),
    ("vendors", "t on gpt-image", "the report has a label in place of an image's data"),
];

/// The result of each row, by its name: the output, the verdict, the scores, and the verdicts of the checks.
type Rows = BTreeMap<String, Value>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/promptfoo/differential")
}

/// Answers as a model, as a model with tools, and as a grader.
fn answer(request: &MockRequest) -> MockReply {
    let body = request.json();
    let dialect = Dialect::at(&request.path);
    let asked = body["messages"].to_string();
    if let Some(reply) = vendor(&request.path) {
        return MockReply::json(&reply);
    }
    if body["model"] == "grader" {
        return MockReply::text(graded(&asked));
    }
    let last = body["messages"].as_array().and_then(|it| it.last());
    let text = last.map(|it| match &it["content"] {
        Value::Array(parts) => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
        text => text.as_str().unwrap_or_default().to_owned(),
    });
    let text = text.unwrap_or_default();
    if body["tools"].is_null() {
        return MockReply::json(&dialect_body(dialect, &text));
    }
    let said = if text.contains("aloud") { "On it." } else { "" };
    let mut reply = dialect_body(dialect, said);
    let call = json!({"name": "delete_account", "arguments": "{\"id\":7}"});
    match dialect {
        Dialect::Anthropic => {
            let block = json!({"type": "tool_use", "id": "c1", "name": "delete_account", "input": {"id": 7}});
            let text = (!said.is_empty()).then(|| json!({"type": "text", "text": said}));
            reply["content"] = text.into_iter().chain([block]).collect();
            reply["stop_reason"] = json!("tool_use");
        }
        Dialect::Ollama => {
            reply["message"]["tool_calls"] =
                json!([{"function": {"name": "delete_account", "arguments": {"id": 7}}}]);
        }
        _ => {
            let content = if said.is_empty() { Value::Null } else { json!(said) };
            reply["choices"][0]["message"] = json!({"role": "assistant", "content": content,
                "tool_calls": [{"id": "c1", "type": "function", "function": call}]});
            reply["choices"][0]["finish_reason"] = json!("tool_calls");
        }
    }
    MockReply::json(&reply)
}

/// Returns the answer of a vendor with a request of its own. Returns `None` for other paths.
fn vendor(path: &str) -> Option<Value> {
    let said = json!({"type": "message", "role": "assistant",
        "content": [{"type": "output_text", "text": "hi"}]});
    Some(match path.split('?').next()? {
        "/webhook/text" => json!([{"json": {"output": "from n8n", "sessionId": "s"}}]),
        "/webhook/calls" => {
            json!({"response": "done", "actions": [{"tool": "look", "input": {"a": 1}}]})
        }
        "/webhook/error" => json!({"json": {"error": {"message": "no"}}}),
        "/v1/responses" => {
            json!({"id": "r1", "object": "response", "status": "completed", "model": "m",
            "output": [said], "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}})
        }
        "/v1/images/generations" => json!({"created": 1,
            "data": [{"b64_json": "iVBORw0KGgo=", "url": "https://a.example/x.png"}],
            "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}}),
        "/entities" => {
            json!([{"entity_group": "NAME", "score": 0.5}, {"entity_group": "NAME", "score": 0.875},
            {"entity_group": "CITY", "score": 0.25}])
        }
        "/labels" => json!([[{"label": "good", "score": 0.75}, {"label": "bad", "score": 0.25}]]),
        "/vectors" => json!([[0.6, 0.8]]),
        "/status" => json!({"text": "read anyway"}),
        _ => return None,
    })
}

/// Returns the reply of a grader, in a form that both tools read.
fn graded(asked: &str) -> String {
    if asked.contains("A second fact.") {
        let sentence = "A second fact.";
        // Only the prompts of KindLM ask for JSON.
        let is_own = asked.contains("sentences\\\": [");
        return if is_own {
            json!({"sentences": [sentence]}).to_string()
        } else {
            sentence.to_owned()
        };
    }
    if asked.contains("the longer one") {
        // KindLM asks in both orders.
        let best = i32::from(asked.rfind("and more of it") > asked.find("BEGIN output 1"));
        let is_own = asked.contains("BEGIN output 1");
        let own = || json!({"best": best, "reason": "because"}).to_string();
        return if is_own { own() } else { "Output 1 is the best.".to_owned() };
    }
    let letter = ["A", "B", "D"].into_iter().find(|it| asked.contains(&format!("Answer: {it}")));
    json!({"category": letter.unwrap_or("D"), "reason": "because"}).to_string()
}

/// The environment of both tools.
const ENV: [(&str, &str); 11] = [
    ("ANTHROPIC_API_KEY", "k"),
    ("KEY", "k"),
    ("OPENAI_API_KEY", "k"),
    ("OLLAMA_API_KEY", ""),
    ("HF_TOKEN", "k"),
    ("XAI_API_KEY", "k"),
    ("PROMPTFOO_DISABLE_TELEMETRY", "1"),
    ("PROMPTFOO_DISABLE_UPDATE", "1"),
    ("PROMPTFOO_DISABLE_REMOTE_GENERATION", "1"),
    ("PROMPTFOO_CACHE_ENABLED", "false"),
    ("NO_COLOR", "1"),
];

/// Runs promptfoo in a folder, and returns its rows by description and provider.
fn by_promptfoo(folder: &Path, config: &str, url: &str) -> Rows {
    let mut command = Command::new("promptfoo");
    command.args(["eval", "-c", config, "--no-cache", "--no-write", "--no-table", "-j", "1"]);
    command.args(["-o", "out.json"]).current_dir(folder).envs(ENV);
    command
        .env("OLLAMA_BASE_URL", url)
        .env("HOME", folder)
        .env("PROMPTFOO_CONFIG_DIR", folder.join("settings"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let text =
        std::fs::read(folder.join("out.json")).unwrap_or_else(|_| panic!("{config}: {said}"));
    let report: Value = serde_json::from_slice(&text).unwrap();
    let results = report["results"]["results"].as_array().unwrap();
    let prompts: BTreeSet<&str> =
        results.iter().filter_map(|it| it["prompt"]["label"].as_str()).collect();
    let row = |it: &Value| {
        let provider = it["provider"]["label"].as_str().filter(|it| !it.is_empty());
        let provider = provider.or(it["provider"]["id"].as_str()).unwrap_or_default();
        // KindLM names the prompt in the test if there are several.
        let prompt = it["prompt"]["label"].as_str().filter(|_| prompts.len() > 1);
        let prompt = prompt.map(|it| format!(" · {it}")).unwrap_or_default();
        let about = it["testCase"]["description"].as_str().unwrap_or_default();
        let name = format!("{about}{prompt} on {provider}");
        let checks = it["gradingResult"]["componentResults"].as_array().into_iter().flatten();
        // KindLM names the type without `not-`.
        let kind = |it: &Value| {
            let kind = it["assertion"]["type"].as_str()?;
            Some(kind.strip_prefix("not-").unwrap_or(kind).to_owned())
        };
        let checks: Vec<Value> = checks.map(|it| json!([kind(it), it["pass"]])).collect();
        // A test that checks nothing has a score in promptfoo only.
        let score = if checks.is_empty() { &Value::Null } else { &it["score"] };
        let mut result = result(it["success"] == true, score, &it["namedScores"], checks);
        result["output"] = comparable(&it["response"]["output"]);
        (name, result)
    };
    results.iter().map(row).collect()
}

/// Runs KindLM in a folder, and returns its rows by description and model.
fn by_kindlm(folder: &Path, config: &str) -> Rows {
    let (ran, rows) = rows(folder, config, &ENV);
    assert!(!rows.is_empty(), "{config}: {ran:?}");
    let row = |it: &Value| {
        let test = it["test"].as_str().unwrap();
        let test = test.split(" (").next().unwrap();
        // A prompt with settings has a model of its own, which is named after both.
        let model = it["model"].as_str().unwrap().split(" · ").next().unwrap();
        let name = format!("{test} on {model}");
        // The threshold of a test has a result of its own in KindLM only.
        let parts = it["results"].as_array().unwrap().iter().filter(|it| it["type"] != "threshold");
        let parts = parts.map(|it| json!([it["type"], it["status"] == "passed"]));
        let parts = parts.collect();
        let mut result = result(it["status"] == "passed", &it["score"], &it["namedScores"], parts);
        // Calls of tools are the output in promptfoo only. KindLM reports them beside the text, and checks see both.
        if let Some(calls) = it["toolCalls"].as_array().filter(|it| !it.is_empty()) {
            let calls = calls.iter().map(|it| json!([it["name"], it["arguments"]]));
            result["calls"] = calls.collect();
        } else {
            let of_json = Some(&it["outputJson"]).filter(|it| !it.is_null());
            result["output"] = comparable(of_json.unwrap_or(&it["output"]));
        }
        (name, result)
    };
    rows.iter().map(row).collect()
}

/// Puts the calls in place of an output of promptfoo, for a row with calls in KindLM. Removes both for an output without
/// calls, such as the result of a callback.
fn compare_calls(theirs: &mut Value, ours: &mut Value) {
    let Some(theirs) = theirs.as_object_mut() else { return };
    let calls = calls_in(&theirs.remove("output").unwrap_or_default());
    if calls.is_empty() {
        ours.as_object_mut().and_then(|it| it.remove("calls"));
    } else {
        theirs.insert("calls".to_owned(), Value::Array(calls));
    }
}

/// Returns the names and arguments of the calls in an output of promptfoo: a list of calls, a message with calls, or
/// blocks of JSON between texts.
fn calls_in(output: &Value) -> Vec<Value> {
    let blocks: Vec<Value> = match output {
        Value::String(text) => {
            text.split("\n\n").filter_map(|it| serde_json::from_str(it).ok()).collect()
        }
        Value::Array(calls) => calls.clone(),
        message => match message["tool_calls"].as_array() {
            Some(calls) => calls.clone(),
            None => vec![message.clone()],
        },
    };
    let call = |block: &Value| {
        let function = if block["function"].is_object() { &block["function"] } else { block };
        let key = if block["type"] == "tool_use" { "input" } else { "arguments" };
        let arguments = function.get(key).map(comparable)?;
        Some(json!([function["name"].as_str()?, arguments]))
    };
    blocks.iter().filter_map(call).collect()
}

/// Returns an output in the same form for a text that is JSON and for its value. An empty text is as no output.
fn comparable(value: &Value) -> Value {
    let Some(text) = value.as_str() else { return value.clone() };
    if text.is_empty() {
        return Value::Null;
    }
    serde_json::from_str(text).unwrap_or_else(|_| value.clone())
}

#[test]
fn calls_are_found_in_each_form_of_an_output() {
    let call = json!({"id": "c", "function": {"name": "f", "arguments": "{\"id\":7}"}});
    let block = json!({"type": "tool_use", "id": "c", "name": "f", "input": {"id": 7}});
    for (output, expected) in [
        (json!([call]), vec![json!(["f", {"id": 7}])]),
        (json!({"content": "On it.", "tool_calls": [call]}), vec![json!(["f", {"id": 7}])]),
        (block.clone(), vec![json!(["f", {"id": 7}])]),
        (
            json!(format!("On it.\n\n{block}\n\n{block}")),
            vec![json!(["f", {"id": 7}]), json!(["f", {"id": 7}])],
        ),
        (json!({"deleted": 7}), vec![]),
        (json!(8), vec![]),
    ] {
        assert_eq!(calls_in(&output), expected, "{output}");
    }
}

fn result(passed: bool, score: &Value, named: &Value, parts: Vec<Value>) -> Value {
    let rounded = |it: &Value| json!((it.as_f64().unwrap_or(f64::NAN) * 1e6).round() / 1e6);
    let named: Map<String, Value> = named
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, it)| (name.clone(), rounded(it)))
        .collect();
    // The checks of a set have results of their own in promptfoo only.
    let parts: Vec<Value> = if parts.iter().any(|it| it[0] == "assert-set" || it[0].is_null()) {
        Vec::new()
    } else {
        parts
    };
    json!({"passed": passed, "score": rounded(score), "named": named, "checks": parts})
}

/// Returns the paths and bodies of a range of requests, sorted, with equivalent values in the same form.
///
/// `stream: false` and null count as no setting, and a list of one text part as the text.
fn requests(server: &MockServer, range: Range<usize>) -> Vec<String> {
    fn plain(value: Value) -> Value {
        match value {
            Value::Number(it) if it.as_f64().is_some_and(|it| it.fract() == 0.0) => {
                json!(it.as_f64().unwrap_or_default().round().to_string())
            }
            Value::Array(items) => match items.as_slice() {
                [part] if part["type"] == "text" && part["text"].is_string() => {
                    part["text"].clone()
                }
                _ => items.into_iter().map(plain).collect(),
            },
            Value::Object(map) => {
                let is_unset = |key: &str, it: &Value| {
                    it.is_null() || (key == "stream" && *it == Value::Bool(false))
                };
                let map: BTreeMap<String, Value> = map
                    .into_iter()
                    .filter(|(key, it)| !is_unset(key, it))
                    .map(|(key, it)| (key, plain(it)))
                    .collect();
                json!(map)
            }
            other => other,
        }
    }
    let sent = server.requests();
    let mut requests: Vec<String> =
        sent[range].iter().map(|it| format!("{} {}", it.path, plain(it.json()))).collect();
    requests.sort();
    requests
}

#[test]
fn configs_have_the_same_results_in_promptfoo() {
    if !installed("promptfoo") {
        return;
    }
    let mut differences = Vec::new();
    let mut unused: BTreeSet<(&str, &str, &str)> = ON_PURPOSE.iter().copied().collect();
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|it| it.unwrap().path()).collect();
    names.retain(|it| it.extension().is_some_and(|it| it == "yaml" || it == "js"));
    names.sort();
    assert!(names.len() > 10, "{names:?}");
    for path in names {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let server = MockServer::answering(answer).unwrap();
        let work = tempfile::tempdir().unwrap();
        let text = std::fs::read_to_string(&path).unwrap().replace("URL", &server.url());
        let text = text.replace("HOST", &server.address().to_string());
        let config = path.extension().unwrap().to_str().unwrap();
        let config = format!("promptfooconfig.{config}");
        std::fs::write(work.path().join(&config), text).unwrap();
        for file in ["table.csv", "workbook.xlsx"] {
            std::fs::copy(folder().join(file), work.path().join(file)).unwrap();
        }
        let mut theirs = by_promptfoo(work.path(), &config, &server.url());
        let sent = server.count();
        let mut ours = by_kindlm(work.path(), &config);
        for (row, ours) in ours.iter_mut().filter(|(_, it)| it.get("calls").is_some()) {
            if let Some(theirs) = theirs.get_mut(row) {
                compare_calls(theirs, ours);
            }
        }
        let mut found: Vec<(String, String)> = Vec::new();
        for row in theirs.keys().chain(ours.keys().filter(|it| !theirs.contains_key(*it))) {
            if theirs.get(row) != ours.get(row) {
                let both =
                    format!("promptfoo {:?}\n  kindlm    {:?}", theirs.get(row), ours.get(row));
                found.push((row.clone(), both));
            }
        }
        let (first, own) = (requests(&server, 0..sent), requests(&server, sent..server.count()));
        if first != own {
            found.push((
                "requests".to_owned(),
                format!("promptfoo {first:#?}\n  kindlm    {own:#?}"),
            ));
        }
        for (row, both) in found {
            let meant = ON_PURPOSE.iter().find(|it| it.0 == name && it.1 == row);
            if meant.is_none_or(|it| !unused.remove(it)) {
                differences.push(format!("{name}: {row}\n  {both}"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(unused.is_empty(), "these differences no longer exist: {unused:?}");
}
