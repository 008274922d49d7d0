//! Tests of the Code Quality format of GitLab.

use std::collections::BTreeSet;

use kindlm_reporters::Style;
use kindlm_testing::{green_report, sample_report};
use kindlm_types::Report;
use serde_json::Value;

use crate::{placed_report, render};

/// Returns the findings. Panics if GitLab would not accept one of them.
pub(crate) fn findings(report: &Report) -> Vec<Value> {
    let json = render("gitlab", report, &Style::default());
    let findings: Vec<Value> = serde_json::from_str(&json).unwrap();
    let mut fingerprints = BTreeSet::new();
    for it in &findings {
        let text = |key: &str| it[key].as_str().unwrap();
        assert!(!text("description").is_empty() && !text("check_name").is_empty());
        assert!(["info", "minor", "major", "critical", "blocker"].contains(&text("severity")));
        assert!(it["location"]["path"].is_string());
        assert!(it["location"]["lines"]["begin"].as_u64().unwrap() > 0);
        assert!(fingerprints.insert(text("fingerprint").to_owned()), "GitLab drops duplicates");
    }
    findings
}

#[test]
fn shows_the_sample() {
    insta::assert_snapshot!(render("gitlab", &placed_report(), &Style::default()));
}

#[test]
fn every_finding_is_accepted() {
    let mut report = sample_report();
    for case in &mut report.cases {
        "the same".clone_into(&mut case.case);
        "m".clone_into(&mut case.model);
    }
    assert!(findings(&report).len() > 9);
    assert!(findings(&green_report()).is_empty());
    assert_eq!(render("gitlab", &Report::default(), &Style::default()), "[]\n");
}

#[test]
fn fingerprints_stay_the_same_if_lines_move() {
    let prints = |report: &Report| -> Vec<String> {
        findings(report).iter().map(|it| it["fingerprint"].to_string()).collect()
    };
    assert_eq!(prints(&sample_report()), prints(&placed_report()));
}
