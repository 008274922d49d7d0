//! Tests of the Test Anything Protocol.

use kindlm_reporters::Style;
use kindlm_testing::{green_report, sample_report};
use kindlm_types::{GateOutcome, Outcome, Report, ShardInfo};

use crate::{placed_report, render};

/// A test point of a TAP document.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) ok: bool,
    pub(crate) skipped: bool,
}

/// Parses a TAP document strictly. Panics if it is invalid.
pub(crate) fn points(tap: &str) -> Vec<Point> {
    let mut lines = tap.lines();
    assert_eq!(lines.next(), Some("TAP version 14"));
    let plan: usize = lines.next().unwrap().strip_prefix("1..").unwrap().parse().unwrap();
    let mut points = Vec::new();
    let mut in_yaml = false;
    for line in lines {
        match (in_yaml, line) {
            (false, "  ---") => in_yaml = true,
            (true, "  ...") => in_yaml = false,
            (true, line) => yaml(line),
            (false, line) if line.starts_with("# ") => {}
            (false, line) => points.push(point(line, points.len() + 1)),
        }
    }
    assert!(!in_yaml, "a YAML block has no end");
    assert_eq!(points.len(), plan);
    points
}

fn point(line: &str, number: usize) -> Point {
    let (ok, rest) = match line.strip_prefix("not ") {
        Some(rest) => (false, rest),
        None => (true, line),
    };
    let description = rest.strip_prefix(&format!("ok {number} - "));
    let description = description.unwrap_or_else(|| panic!("{line}")).replace("\\\\", "");
    let plain = description.replace("\\#", "");
    let skipped =
        plain.contains(" # SKIP ") || plain.starts_with("# SKIP ") || plain.ends_with("# SKIP");
    assert!(skipped || !plain.contains('#'), "an unescaped directive: {line}");
    Point { ok, skipped }
}

/// Panics unless the line is a key with a JSON value, or the key of a list.
fn yaml(line: &str) {
    let entry = line.strip_prefix("  ").unwrap_or_else(|| panic!("{line}"));
    let entry = entry.trim_start().trim_start_matches("- ");
    let (key, value) = entry.split_once(':').unwrap();
    assert!(key.chars().all(|it| it.is_ascii_lowercase()), "{line}");
    assert!(value.is_empty() || serde_json::from_str::<serde_json::Value>(value).is_ok(), "{line}");
}

#[test]
fn shows_the_sample() {
    insta::assert_snapshot!(render("tap", &placed_report(), &Style::default()));
}

#[test]
fn every_document_is_valid() {
    for report in [sample_report(), green_report(), Report::default()] {
        points(&render("tap", &report, &Style::default()));
    }
}

#[test]
fn outcomes_become_test_points() {
    let report = sample_report();
    let points = points(&render("tap", &report, &Style::default()));
    for (case, point) in report.cases.iter().zip(&points) {
        let is_ok = !matches!(case.outcome, Outcome::Failed | Outcome::Errored);
        assert_eq!((point.ok, point.skipped), (is_ok, case.outcome == Outcome::Skipped));
    }
    let gates = &points[points.len() - report.gates.len()..];
    for (gate, point) in report.gates.iter().zip(gates) {
        assert_eq!(point.ok, gate.outcome != GateOutcome::Violated);
        assert_eq!(point.skipped, gate.outcome == GateOutcome::NothingToMeasure);
    }
}

#[test]
fn the_gates_of_a_shard_are_left_out() {
    let mut report = sample_report();
    report.shard = Some(ShardInfo { index: 1, count: 2, ..ShardInfo::default() });
    let points = points(&render("tap", &report, &Style::default()));
    assert_eq!(points.len(), report.cases.len() + report.skipped.len());
}
