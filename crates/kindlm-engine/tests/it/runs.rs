//! Whole runs of the original KindLM, repeated by this engine.
//!
//! The parser here reads only these test files; the parser of config files is in `kindlm-config`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kindlm_assertions::Setup;
use kindlm_engine::{
    Baseline, Filter, Model, Run, RunOptions, Suite, TestCase, execute, gates, plan, report,
};
use kindlm_types::{
    CommandOutput, FileError, Files, Outcome, Price, ProviderErrorKind, Reply, Report, RunInfo,
    ToolCall, Usage,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::support::{Fake, edit, failure, last_user, model, reply, vectors};

/// The runs that intentionally differ from the original KindLM, with the reasons.
const DIFFERENT: &[(&str, &str)] = &[
    ("no-models", "a case without models is listed as skipped, not dropped in silence"),
    ("throw-and-pass-models", "a provider error keeps its code"),
    ("tags-skip-still-listed", "a skipped case that the filter leaves out is left out"),
    ("missing-var", "found when the file is read, before anything is sent"),
    ("cost-unknown-passes", "an unknown price is not a cost of 0"),
    ("budget-mid-run", "what was not sent is reported as not run, not as failed"),
    (
        "tools-loop",
        "`maxTurns` has a code of its own, and a check sees the model's text without a note of the original",
    ),
    ("judge-null-crash", "an unreadable judge reply is that check's error"),
    ("baseline-missing-entry", "drift without a baseline is skipped"),
    ("schema-file-missing", "found when the file is read, before anything is sent"),
    ("command", "what a command costs is not known"),
    ("command-timeout", "a timeout keeps its code"),
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    prompts: HashMap<String, Map<String, Value>>,
    #[serde(default)]
    defaults: Map<String, Value>,
    #[serde(default)]
    gates: Map<String, Value>,
    tests: Vec<WrittenTest>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenTest {
    name: String,
    prompt: Option<String>,
    command: Option<String>,
    #[serde(default)]
    vars: Map<String, Value>,
    models: Option<Vec<String>>,
    repeat: Option<u32>,
    max_turns: Option<u32>,
    #[serde(default)]
    tools: Vec<Value>,
    #[serde(default)]
    skip: bool,
    #[serde(default)]
    tags: Vec<String>,
    expect: Value,
}

struct InMemory(Map<String, Value>);

impl Files for InMemory {
    fn read_file(&self, path: &str) -> Result<Arc<str>, FileError> {
        match self.0.get(&format!("/cfg/{path}")).and_then(Value::as_str) {
            Some(text) => Ok(Arc::from(text)),
            None => Err(FileError::NotFound { path: path.to_owned(), folder: "/cfg".to_owned() }),
        }
    }

    fn glob(&self, _pattern: &str) -> Result<Vec<String>, FileError> {
        Ok(Vec::new())
    }
}

/// Parses the suite; `None` if the file is invalid.
fn parse_suite(input: &Value) -> Option<Suite> {
    let written: Written = serde_yaml::from_str(input["yaml"].as_str().unwrap()).unwrap();
    let files = InMemory(input["files"].as_object().cloned().unwrap_or_default());
    let ids = ["a".to_owned(), "b".to_owned()];
    let setup = Setup::new(&files, Some(&ids));
    let gpt = Some(Price::new(2.5, 10.0));
    let mut suite = Suite {
        models: vec![
            Model { name: "gpt-4o".to_owned(), price: gpt, ..model("a") },
            Model { name: "unknown-model".to_owned(), price: None, ..model("b") },
        ],
        gates: gates::compile(&written.gates).0,
        ..Suite::default()
    };
    let default_repeat = written.defaults.get("repeat").and_then(Value::as_u64).unwrap_or(1);
    for test in written.tests {
        let fill = |text: &str| {
            let mut text = text.to_owned();
            for (key, value) in &test.vars {
                text = text.replace(&format!("{{{{{key}}}}}"), value.as_str().unwrap());
            }
            text
        };
        let models = test.models.as_deref().unwrap_or(&ids);
        let models: Vec<&str> = models.iter().map(String::as_str).collect();
        let mut case = match (&test.prompt, &test.command) {
            (Some(prompt), _) => {
                let user = fill(written.prompts[prompt]["user"].as_str().unwrap());
                if user.contains("{{m}}") {
                    return None;
                }
                TestCase::prompt(&test.name, user, &models)
            }
            (None, command) => TestCase::command(&test.name, fill(command.as_ref().unwrap())),
        };
        let (checks, problems) = kindlm_assertions::compile(&test.expect, &setup);
        if !problems.is_empty() {
            return None;
        }
        edit(&mut case, |it| it.checks = checks.into());
        case.repeat = test.repeat.unwrap_or(u32::try_from(default_repeat).unwrap());
        edit(&mut case, |it| it.max_turns = test.max_turns.unwrap_or(10));
        edit(&mut case, |it| {
            it.tools = test.tools.iter().map(crate::conversations::tool).collect();
        });
        case.skip = test.skip.then(|| "skip: true".into());
        case.tags = test.tags.into();
        suite.cases.push(case);
    }
    Some(suite)
}

/// Builds the test double of the original KindLM: replies by the last user message, `ok` by default.
///
/// The judge prompt of the original KindLM differs from ours. So every judge gives the reply whose key contains
/// `## Criteria`.
fn backend(input: &Value) -> Fake {
    let replies = input["replies"].as_object().cloned().unwrap_or_default();
    let commands = input["commands"].as_object().cloned().unwrap_or_default();
    let turns = Mutex::new(0);
    Fake::new(move |_, prompt| {
        let judge = || replies.iter().find(|(key, _)| key.contains("## Criteria"));
        let reply = replies
            .get(last_user(prompt))
            .or_else(|| (prompt.messages.len() > 1).then(judge).flatten().map(|(_, reply)| reply));
        match reply {
            None => Ok(counted("ok")),
            Some(Value::String(text)) => Ok(counted(text)),
            Some(Value::Array(script)) => {
                let mut turn = turns.lock().unwrap();
                *turn += 1;
                Ok(scripted(&script[*turn - 1]))
            }
            Some(it) if it.get("throw").is_some() => Err(failure(ProviderErrorKind::Auth)),
            Some(it) => Ok(scripted(it)),
        }
    })
    .running(move |command| match &commands[&command.command_line] {
        Value::String(stdout) => {
            let (text, call) = stdout.split_once('\n').unwrap();
            let call: Value = serde_json::from_str(call).unwrap();
            let name = call["name"].as_str().unwrap().to_owned();
            Ok(CommandOutput {
                text: text.to_owned(),
                tool_calls: vec![ToolCall { name, ..ToolCall::default() }],
                ..CommandOutput::default()
            })
        }
        _ => Err(failure(ProviderErrorKind::Timeout)),
    })
}

fn counted(text: &str) -> Reply {
    let usage =
        Usage { input_tokens: 1000, output_tokens: 500, total_tokens: 1500, ..Usage::default() };
    Reply { usage, ..reply(text) }
}

fn scripted(it: &Value) -> Reply {
    let calls = it["toolCalls"].as_array().into_iter().flatten().map(|call| ToolCall {
        name: call["name"].as_str().unwrap().to_owned(),
        arguments: call["arguments"].clone(),
        ..ToolCall::default()
    });
    Reply { tool_calls: calls.collect(), ..counted(it["text"].as_str().unwrap()) }
}

fn baseline(input: &Value) -> Baseline {
    let mut baseline = Baseline::default();
    for (key, entry) in input["baseline"]["results"].as_object().into_iter().flatten() {
        let (case, model) = key.split_once("::").unwrap();
        baseline.insert(case, model, entry["outputText"].as_str().unwrap());
    }
    baseline
}

async fn run(suite: &Suite, input: &Value, fake: &Fake) -> Report {
    let tags = serde_json::from_value(input["options"]["tags"].clone()).unwrap_or_default();
    let filter = Filter { tags, ..Filter::default() };
    let options = RunOptions { concurrency: Some(1), filter, ..RunOptions::default() };
    let plan = plan(suite, &options).unwrap();
    let baseline = baseline(input);
    let run = Run { baseline: Some(&baseline), ..Run::new(suite, &plan, &options, fake) };
    report(suite, &plan, execute(run).await.cases, RunInfo::default())
}

/// Returns the facts of a run that this engine and the original KindLM report, under the names of the original KindLM.
fn facts(report: &Report, fake: &Fake) -> Value {
    let cases = report.cases.iter().map(|case| {
        json!({
            "testCaseName": case.case,
            "modelId": case.model,
            "runCount": case.repeats,
            "passed": case.passed(),
            "errored": case.outcome == Outcome::Errored,
            "passRate": case.pass_rate,
            "failureCodes": case.failure_codes,
            "totalTokens": case.total_tokens,
        })
    });
    let prompts = fake.prompts.lock().unwrap();
    let called: Vec<&str> = prompts.iter().map(|it| it.model.as_str()).collect();
    let gates = report.gates.iter().map(|it| json!({ "gateName": it.gate, "passed": it.passed() }));
    json!({
        "aggregated": cases.collect::<Value>(),
        "modelsCalled": called,
        "skipped": report.skipped.len(),
        "gates": gates.filter(|it| !NEW.iter().any(|id| it["gateName"] == *id)).collect::<Value>(),
    })
}

/// Gates that the original KindLM lacks.
const NEW: [&str; 2] = ["erroredMax", "providerErrorsMax"];

fn expected(expect: &Value) -> Value {
    let gates = expect["gates"]["gates"].as_array().into_iter().flatten();
    let gates = gates.map(|it| json!({ "gateName": it["gateName"], "passed": it["passed"] }));
    json!({
        "aggregated": expect["aggregated"],
        "modelsCalled": expect["modelsCalled"],
        "skipped": expect["summary"]["skipped"],
        "gates": gates.collect::<Value>(),
    })
}

/// Converts every number to a double, so that `1` equals `1.0`.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(it) => json!(it.as_f64()),
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(map) => map.iter().map(|(key, it)| (key.clone(), plain(it))).collect(),
        other => other.clone(),
    }
}

#[tokio::test(start_paused = true)]
async fn agree_with_the_original() {
    let vectors = vectors("kindlm-core/runner.jsonl");
    let mut different = Vec::new();
    for vector in &vectors {
        let id = vector["id"].as_str().unwrap();
        let fake = backend(&vector["input"]);
        let agrees = match parse_suite(&vector["input"]) {
            None => false,
            Some(suite) => {
                let report = run(&suite, &vector["input"], &fake).await;
                let (ours, theirs) = (facts(&report, &fake), expected(&vector["expect"]));
                let agrees = plain(&ours) == plain(&theirs);
                let listed = DIFFERENT.iter().any(|(known, _)| *known == id);
                assert!(agrees || listed, "{id}\nours   {ours}\ntheirs {theirs}");
                agrees
            }
        };
        if !agrees {
            different.push(id);
        }
    }
    let listed: Vec<&str> = DIFFERENT.iter().map(|(id, _)| *id).collect();
    assert_eq!(different, listed);
    assert_eq!(vectors.len(), 28);
}
