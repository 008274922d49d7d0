//! Changing an assertion and judging again, without calling the model under test again.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use kindlm_testing::{MockReply, MockServer};
use serde_json::{Value, json};

use crate::binary;

const RULES: [(&str, &str); 4] = [
    ("cite_sources", "Always cite the data source when referencing specific metrics or facts"),
    (
        "acknowledge_gaps",
        "If required context is missing, acknowledge the gap rather than guessing",
    ),
    ("formal_tone", "Write for executives"),
    ("length_constraint", "Stay within 1000 tokens"),
];
const CASES: usize = 10;

/// Starts a model under test, and a judge that passes all rules after `latency`.
fn server(latency: Duration) -> MockServer {
    MockServer::answering(move |request| {
        let body = request.json();
        let text = body["messages"].to_string();
        if body["model"] != "judge" {
            return MockReply::text("Revenue was $1.2M (Salesforce). No call data is available.");
        }
        let asked = RULES.iter().filter(|(id, _)| text.contains(id));
        let results: Vec<Value> = asked
            .map(|(id, _)| json!({"id": id, "pass": true, "reasoning": "It is kept."}))
            .collect();
        MockReply::text(json!({ "results": results }).to_string()).after(latency)
    })
    .unwrap()
}

/// Writes the suite.
///
/// The assertions are either in the prompt (`prompt`) or in each test (`expect`).
fn suite(folder: &Path, url: &str, prompt: &str, expect: &str) {
    let mut yaml = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: iterated }}\n\
         providers: {{ openai: {{ apiKeyEnv: KEY, baseUrl: \"{url}/v1\" }} }}\n\
         models:\n\
         \x20 - {{ id: agent, provider: openai, model: agent }}\n\
         \x20 - {{ id: judge, provider: openai, model: judge }}\n\
         defaults: {{ judgeModel: judge }}\n\
         prompts: {{ p: {{ user: 'Sum up {{{{account}}}}.'{prompt} }} }}\n\
         tests:\n"
    );
    for case in 0..CASES {
        let _ = writeln!(
            yaml,
            "  - {{ name: case {case}, prompt: p, models: [agent], vars: {{ account: a{case} }}, expect: {{ {expect} }} }}"
        );
    }
    fs::write(folder.join("kindlm.yaml"), yaml).unwrap();
}

fn rule((id, instruction): &(&str, &str)) -> String {
    format!("{{ id: {id}, instruction: '{instruction}', criteria: ['Is it kept?'] }}")
}

fn of_prompt(rules: &[(&str, &str)]) -> String {
    let rules: Vec<String> = rules.iter().map(rule).collect();
    format!(", assertions: [{}]", rules.join(", "))
}

fn run(folder: &Path) -> Output {
    let mut command = Command::new(binary());
    command.args(["test", "--responses", "cache", "--reporter", "json"]);
    command.current_dir(folder).env("KEY", "k").stdin(Stdio::null()).output().unwrap()
}

fn asked(server: &MockServer, model: &str, from: usize) -> Vec<usize> {
    let requests = server.requests();
    let of_model = requests[from..].iter().filter(|it| it.json()["model"] == model);
    of_model.map(|it| it.body.len()).collect()
}

#[test]
fn a_changed_assertion_is_judged_without_a_model_request() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(Duration::from_secs(1));
    suite(folder.path(), &server.url(), &of_prompt(&RULES), "");
    assert_eq!(run(folder.path()).status.code(), Some(0));
    assert_eq!(asked(&server, "agent", 0).len(), CASES);
    assert_eq!(asked(&server, "judge", 0).len(), CASES, "one call for all four rules of a case");

    let before = server.count();
    let mut changed = RULES;
    changed[2].1 = "Write for the board";
    suite(folder.path(), &server.url(), &of_prompt(&changed), "");
    let started = Instant::now();
    let output = run(folder.path());
    // The duration is only printed, because it depends on the load of the machine.
    eprintln!("from change to verdict: {:.1} s for {CASES} cases", started.elapsed().as_secs_f64());
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(asked(&server, "agent", before), [0; 0]);
    assert_eq!(asked(&server, "judge", before).len(), CASES);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["assertionBreakdown"]["formal_tone"]["n"], CASES);
    assert_eq!(report["totals"]["averageScore"], 1.0);

    // Without a change, no requests are sent.
    let before = server.count();
    run(folder.path());
    assert_eq!(server.count(), before);
}

#[test]
fn one_call_for_a_set_sends_less_than_a_call_for_each_assertion() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(Duration::ZERO);
    suite(folder.path(), &server.url(), &of_prompt(&RULES), "");
    run(folder.path());
    let together = asked(&server, "judge", 0);
    let before = server.count();
    let entries: Vec<String> = RULES
        .iter()
        .map(|it| format!("{{ type: prompt-assertion, assertions: [{}] }}", rule(it)))
        .collect();
    suite(folder.path(), &server.url(), "", &format!("assert: [{}]", entries.join(", ")));
    run(folder.path());
    let apart = asked(&server, "judge", before);
    assert_eq!((together.len(), apart.len()), (CASES, RULES.len() * CASES));
    let per_case = |bodies: &[usize]| bodies.iter().sum::<usize>() / CASES;
    let (together, apart) = (per_case(&together), per_case(&apart));
    eprintln!(
        "bytes sent to the judge for a case with four assertions: {together} in one call, {apart} in four"
    );
    assert!(together * 2 < apart, "{together} {apart}");
    // The page contains the measured numbers. A token is about four bytes of English text.
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/judges.md");
    let page = fs::read_to_string(page).unwrap();
    for (calls, bytes) in [("one call for the set", together), ("one call for each rule", apart)] {
        let row = format!("| {calls} | {bytes} | {} |", bytes / 4);
        assert!(page.contains(&row), "docs/judges.md wants the row `{row}`");
    }
}
