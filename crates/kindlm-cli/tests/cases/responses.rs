//! Stored answers, which are used again without requests.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use kindlm_testing::{MockReply, MockServer};
use serde_json::{Value, json};

use crate::binary;

const KEY: &str = "key-nobody-may-see-4711";

/// Starts a model that reveals its key on request, a judge, and an embedding model.
fn server() -> MockServer {
    MockServer::answering(|request| {
        let body = request.body.as_slice();
        let has = |text: &str| body.windows(text.len()).any(|it| it == text.as_bytes());
        if request.path.ends_with("/embeddings") {
            return MockReply::json(&json!({
                "data": [{ "index": 0, "embedding": [0.6, 0.8] }],
                "model": "vectors", "usage": { "prompt_tokens": 3, "total_tokens": 3 },
            }));
        }
        MockReply::text(if has("Is it kind?") {
            r#"{"score": 0.9, "reasoning": "It is."}"#
        } else if has("What is your key?") {
            KEY
        } else {
            "Your order has been shipped."
        })
    })
    .unwrap()
}

fn suite(folder: &Path, url: &str, question: &str) {
    let yaml = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: recorded }}\n\
         providers: {{ openai: {{ apiKeyEnv: KEY, baseUrl: \"{url}/v1\" }} }}\n\
         models: [{{ id: m, provider: openai, model: gpt-4o }}]\n\
         prompts: {{ p: {{ user: \"{question}\" }}, key: {{ user: What is your key? }} }}\n\
         gates: {{ costMaxUsd: 1 }}\n\
         tests:\n\
         \x20 - name: ships\n    prompt: p\n    repeat: 2\n    expect:\n\
         \x20     judge: [{{ criteria: Is it kind?, minScore: 0.8 }}]\n\
         \x20     baseline: {{ drift: {{ method: embedding, maxScore: 0.5 }} }}\n\
         \x20 - name: talks\n    prompt: key\n    expect: {{ output: {{ maxLength: 99 }} }}\n"
    );
    fs::write(folder.join("kindlm.yaml"), yaml).unwrap();
}

fn kindlm(folder: &Path, args: &[&str], key: Option<&str>) -> Output {
    let mut command = Command::new(binary());
    command.args(args).current_dir(folder).stdin(Stdio::null()).env_remove("KEY");
    if let Some(key) = key {
        command.env("KEY", key);
    }
    command.output().unwrap()
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|err| panic!("{err}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn a_replay_sends_nothing_and_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = server();
    suite(folder, &server.url(), "Where is my order?");
    // Set a baseline first, because drift is measured from a baseline.
    assert_eq!(kindlm(folder, &["test", "-q"], Some(KEY)).status.code(), Some(0));
    assert!(kindlm(folder, &["baseline", "set"], None).status.success());

    let args = ["test", "--reporter", "json", "--responses"];
    let before = server.count();
    let recorded = kindlm(folder, &[&args[..], &["record"]].concat(), Some(KEY));
    let said = String::from_utf8_lossy(&recorded.stderr).into_owned();
    assert_eq!(recorded.status.code(), Some(0), "{said}");
    let asked = server.count() - before;
    assert!(said.contains("secrets were removed from 1 stored answer"), "{said}");
    // Three answers, one reply of the judge for both repeats, and one vector, because the outputs are equal.
    assert_eq!(asked, 5);
    assert!(server.requests()[before..].iter().any(|it| it.path.ends_with("/embeddings")));
    let kept = fs::read_dir(folder.join(".kindlm/responses")).unwrap();
    let kept = kept.flat_map(|it| fs::read_dir(it.unwrap().path()).unwrap());
    let kept: Vec<String> =
        kept.map(|it| fs::read_to_string(it.unwrap().path()).unwrap()).collect();
    assert_eq!(kept.len(), asked);
    assert!(kept.iter().all(|it| !it.contains(KEY)), "{kept:?}");

    let before = server.count();
    // The key is not set, because no request is sent.
    let replayed = kindlm(folder, &[&args[..], &["replay"]].concat(), None);
    let said = String::from_utf8_lossy(&replayed.stderr).into_owned();
    let shown = String::from_utf8_lossy(&replayed.stdout);
    assert_eq!(replayed.status.code(), Some(0), "{said}{shown}");
    assert_eq!(server.count(), before, "the network was used");
    assert!(!said.contains("warning"), "{said}");

    let (then, now) = (report(&recorded), report(&replayed));
    let execution = |report: &Value| report["cases"][0]["executions"][0].clone();
    assert_eq!(execution(&then)["cached"], false);
    assert!(execution(&then)["judgeCostUsd"].as_f64().unwrap() > 0.0);
    assert!(then["cases"][0]["latencyAvgMs"].is_number());
    assert_eq!(execution(&now)["cached"], true);
    assert_eq!(execution(&now)["costUsd"], execution(&then)["costUsd"]);
    assert_eq!(execution(&now)["spentUsd"], 0.0);
    assert_eq!(execution(&now)["judgeCostUsd"], 0.0);
    assert_eq!(now["cases"][0]["latencyAvgMs"], Value::Null);
    let outcomes = |report: &Value| report["cases"][0]["outcome"].clone();
    assert_eq!(outcomes(&then), outcomes(&now));
}

#[test]
fn a_missing_recording_is_an_error_and_is_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = server();
    suite(folder, &server.url(), "Where is my order?");
    let recorded = kindlm(folder, &["test", "-q", "--responses", "cache"], Some(KEY));
    assert_eq!(recorded.status.code(), Some(0), "{}", String::from_utf8_lossy(&recorded.stderr));
    let before = server.count();
    suite(folder, &server.url(), "Where is my parcel?");
    let args = ["test", "--reporter", "json", "--responses", "replay"];
    let replayed = kindlm(folder, &args, Some(KEY));
    assert_eq!(replayed.status.code(), Some(3));
    assert_eq!(server.count(), before, "the network was used");
    let error = report(&replayed)["cases"][0]["executions"][0]["error"].clone();
    assert_eq!(error["reason"], "not_recorded", "{error}");
    assert_eq!(error["attempts"], 0, "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("the nearest recording `"), "{message}");
    assert!(message.contains(r#"recorded "Where is my order?", asked "Where is my parcel?""#));
}

#[test]
fn judges_of_outputs_that_exist_are_recorded_too() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = server();
    suite(folder, &server.url(), "Where is my order?");
    let record = json!({
        "agent_output": "Shipped.", "expect": { "judge": [{ "criteria": "Is it kind?", "minScore": 0.8 }] },
    });
    fs::write(folder.join("record.json"), record.to_string()).unwrap();
    let args = ["evaluate", "-c", "kindlm.yaml", "record.json", "--responses"];
    let first = kindlm(folder, &[&args[..], &["record"]].concat(), Some(KEY));
    assert_eq!(first.status.code(), Some(0), "{}", String::from_utf8_lossy(&first.stderr));
    assert_eq!(server.count(), 1);
    let again = kindlm(folder, &[&args[..], &["replay"]].concat(), None);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(0), "{said}");
    assert_eq!((server.count(), &again.stdout), (1, &first.stdout));
    assert!(said.contains("responses: 1 answer from `.kindlm/responses`"), "{said}");
}

#[test]
fn provider_settings_are_part_of_a_stored_request() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = MockServer::start().unwrap();
    let write = |more: &str| {
        let yaml = format!(
            "kindlm: 1\nproject: p\nsuite: {{ name: recorded }}\n\
             providers: {{ openai: {{ apiKeyEnv: KEY, baseUrl: \"{}/v1\"{more} }} }}\n\
             models: [{{ id: m, provider: openai, model: gpt-4o }}]\n\
             prompts: {{ p: {{ user: hello }} }}\n\
             tests: [{{ name: t, prompt: p, expect: {{ output: {{ maxLength: 999 }} }} }}]\n",
            server.url()
        );
        fs::write(folder.join("kindlm.yaml"), yaml).unwrap();
    };
    let run = |mode: &str| {
        let output = kindlm(folder, &["test", "--responses", mode], Some(KEY));
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        // The lines of a report are wrapped.
        (output.status.code(), said.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    write("");
    assert_eq!(run("record").0, Some(0));
    // Settings that do not affect the answers keep the stored answers valid.
    for same in ["", ", body: {}, logprobs: false", ", organization: us"] {
        write(same);
        assert_eq!(run("replay").0, Some(0), "{same}");
    }
    write(", body: { reasoning_effort: high }");
    let (code, said) = run("replay");
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("/settings/body/reasoning_effort: not recorded, asked \"high\""),
        "{said}"
    );
    assert_eq!(run("cache").0, Some(0));
    assert_eq!(server.count(), 2);
    write(", body: { reasoning_effort: low }");
    assert!(run("replay").1.contains("recorded \"high\", asked \"low\""));
    write(", logprobs: true");
    let (code, said) = run("replay");
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("/settings/logprobs: not recorded, asked true"), "{said}");
    assert_eq!(server.count(), 2);
}

#[test]
fn a_run_that_goes_on_takes_answers_from_where_it_took_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = server();
    suite(folder, &server.url(), "Where is my order?");
    let run = |args: &[&str]| {
        let output = kindlm(folder, &[&["test"], args].concat(), Some(KEY));
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(&["--responses", "cache", "--test", "talks", "-q"]).0, Some(0));
    let asked = server.count();
    let (code, said) = run(&["--responses", "replay"]);
    assert_eq!(code, Some(3), "{said}");
    let (code, said) = run(&["--resume"]);
    assert_eq!(code, Some(3), "{said}");
    assert_eq!(server.count(), asked, "what was to be replayed was asked for");
    let (code, said) = run(&["--resume", "--responses", "live"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(server.count() > asked);
}
