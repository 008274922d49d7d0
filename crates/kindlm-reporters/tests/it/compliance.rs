//! Tests of the compliance report: its content, and the verification of its digests.

use kindlm_reporters::Style;
use kindlm_testing::{green_report, sample_report};
use kindlm_types::{Report, Verdict};

use crate::render;

fn document(report: &Report) -> String {
    render("compliance", report, &Style::default())
}

/// Returns the digest in the row of the audit trail that begins with `row`.
fn digest<'a>(document: &'a str, row: &str) -> &'a str {
    let line = document.lines().find(|it| it.starts_with(&format!("| {row}"))).expect(row);
    line.split('`').nth(1).expect(row)
}

const CONTENT: &str = "content (sections 2 to 7)";

#[test]
fn shows_the_sample() {
    insta::assert_snapshot!(document(&sample_report()));
}

#[test]
fn another_framework_names_no_law() {
    let mut report = green_report();
    report.compliance = sample_report().compliance;
    report.compliance.as_mut().unwrap().framework = "custom".to_owned();
    let text = document(&report);
    assert!(!text.contains("Annex") && !text.contains("2024/1689"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn skipped_is_skipped_and_errored_is_errored() {
    let text = document(&sample_report());
    assert!(text.contains("| answers in French | – | skipped |"));
    assert!(text.contains("| answers in German | gemini-2.5-pro | skipped |"));
    assert!(text.contains("| refunds while the payment provider is slow | gpt-4o | ERRORED |"));
}

#[test]
fn the_same_results_have_the_same_content_digest() {
    let report = sample_report();
    let expected = document(&report);
    let mut later = report.clone();
    later.run.id = "another".to_owned();
    later.run.started_at = "2027-01-01T00:00:00Z".to_owned();
    later.run.duration_ms = 1.0;
    later.run.git_commit = None;
    later.suite.config_path = Some("elsewhere/kindlm.yaml".to_owned());
    for case in &mut later.cases {
        case.latency_avg_ms = Some(1.0);
        case.cost.known_usd += 1.0;
        case.total_tokens += 1;
        for execution in &mut case.executions {
            execution.execution.latency_ms = Some(2.0);
        }
    }
    let again = document(&later);
    assert_eq!(digest(&again, CONTENT), digest(&expected, CONTENT));
    assert_ne!(digest(&again, "JSON report"), digest(&expected, "JSON report"));
}

#[test]
fn another_result_has_another_content_digest() {
    let expected = document(&sample_report());
    let changes: [fn(&mut Report); 6] = [
        |it| it.cases[0].outcome = kindlm_types::Outcome::Failed,
        |it| it.gates[0].threshold = 0.5,
        |it| it.gates.iter_mut().for_each(|gate| gate.actual = gate.actual.map(|it| it + 1.0)),
        |it| it.skipped.clear(),
        |it| it.cases[1].executions[1].results[0].verdict = Verdict::Pass,
        |it| it.suite.config_sha256 = None,
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut report = sample_report();
        change(&mut report);
        assert_ne!(digest(&document(&report), CONTENT), digest(&expected, CONTENT), "change {i}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_recipe_in_the_document_prints_its_digests() {
    let folder = tempfile::tempdir().unwrap();
    for report in [sample_report(), green_report(), Report::default()] {
        let text = document(&report);
        std::fs::write(folder.path().join("compliance.md"), &text).unwrap();
        let json = render("json", &report, &Style::default());
        std::fs::write(folder.path().join("report.json"), json).unwrap();
        let recipe = text.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
        let docs = kindlm_reporters::find("compliance").unwrap().meta.docs;
        assert!(docs.contains(recipe), "the page gives the same recipe");
        let printed = |command: &str| {
            let output = std::process::Command::new("sh")
                .args(["-c", command])
                .current_dir(folder.path())
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(printed(recipe).split(' ').next(), Some(digest(&text, CONTENT)));
        assert_eq!(
            printed("sha256sum report.json").split(' ').next(),
            Some(digest(&text, "JSON report"))
        );
    }
}
