//! Answers that are evidence for the absence of events.

use std::fs;
use std::process::{Command, Stdio};

use kindlm_testing::{MockReply, MockServer};
use kindlm_types::{Outcome, Report};
use kindlm_wire::parse_report;
use serde_json::json;

use crate::binary;

#[test]
fn an_http_answer_proves_no_absence_until_the_suite_declares_it() {
    let server =
        MockServer::answering(|_| MockReply::json(&json!({"text": "Done.", "actions": []})))
            .unwrap();
    let provider = |name: &str, keys: &str| {
        format!(
            "  {name}: {{ type: http, url: \"{}\", body: {{ q: \"{{{{user}}}}\" }}, responsePath: text{keys} }}\n",
            server.url()
        )
    };
    let providers = [
        provider("bare", ""),
        provider("with-calls", ", toolCallsPath: actions"),
        provider("declared", ", toolCallsPath: actions, evidence: { complete: [actions] }"),
        provider("lost", ", toolCallsPath: calls"),
    ];
    let suite = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: s }}\nproviders:\n{}models:\n{}prompts: {{ go: {{ user: Go. }} }}\n\
         tests:\n  - {{ name: t, prompt: go, expect: {{ assert: [{{ type: not-called-tool, value: delete_account }}] }} }}\n",
        providers.concat(),
        ["bare", "with-calls", "declared", "lost"]
            .map(|it| format!("  - {{ id: {it}, provider: {it}, model: x }}\n"))
            .concat(),
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kindlm.yaml"), suite).unwrap();
    let output = Command::new(binary())
        .args(["test", "--reporter", "json"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Report =
        parse_report(&output.stdout).unwrap_or_else(|err| panic!("{err}: {stderr}"));
    let outcomes: Vec<_> =
        report.cases.iter().map(|it| (it.model.as_str(), it.executions[0].outcome)).collect();
    assert_eq!(
        outcomes,
        [
            ("bare", Outcome::Errored),
            ("with-calls", Outcome::Errored),
            ("declared", Outcome::Passed),
            ("lost", Outcome::Errored),
        ]
    );
    let declared = &report.cases[2].executions[0].execution;
    assert!(declared.declared_note().is_some_and(|it| it.contains("declared")), "{declared:?}");
    assert!(report.cases[0].executions[0].execution.declared_note().is_none());
}
