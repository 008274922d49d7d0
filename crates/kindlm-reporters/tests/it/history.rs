//! Tests of the history of a suite or a case.

use kindlm_reporters::history_text;
use kindlm_types::{Condition, ConditionChange, MeasuredRate, Outcome, RateCount};
use kindlm_wire::history::{
    ChangePoint, Entry, FileChange, Flip, FlippedCase, History, RunChanges, Series, Unit,
    ValueChange,
};
use kindlm_wire::v1::Rate;

fn entry(run: &str, outcome: &str, held: (u64, u64)) -> Entry {
    Entry {
        run: run.to_owned(),
        started_at: "2026-11-20T14:09:12.005Z".to_owned(),
        outcome: outcome.to_owned(),
        held: rate(held.0, held.1),
        errored: 0,
        score: None,
        cost: kindlm_types::Cost { known_usd: 0.0, unknown: 1 }.into(),
        latency_ms: None,
        duration_ms: None,
        git_commit: None,
        git_dirty: None,
        partial: false,
    }
}

fn rate(count: u64, total: u64) -> Rate {
    MeasuredRate::of_independent(RateCount { count, total }).into()
}

fn history() -> History {
    let value = |before: &str, after: &str| ValueChange {
        before: Some(before.to_owned()),
        after: Some(after.to_owned()),
    };
    let good = Entry {
        score: Some(1.0),
        cost: kindlm_types::Cost { known_usd: 0.0021, unknown: 0 }.into(),
        latency_ms: Some(850.0),
        git_commit: Some("0123456789abcdef".to_owned()),
        git_dirty: Some(true),
        ..entry("a", "passed", (5, 5))
    };
    let errored = Entry { errored: 5, ..entry("b", "errored", (0, 0)) };
    let bad = Entry { errored: 1, ..entry("c", "failed", (0, 4)) };
    let changes = RunChanges {
        git_commit: Some(ValueChange { before: Some("0123456789abcdef".to_owned()), after: None }),
        git_dirty: Some(true),
        config: Some(value("aaaaaaaaaa", "bbbbbbbbbb")),
        files: vec![FileChange {
            path: "sets/tone.yaml".to_owned(),
            sha256: value("1111111111", "2222222222"),
        }],
        conditions: vec![ConditionChange {
            condition: Condition::Rules,
            name: Some("tone".to_owned()),
            before: Some("digest 1".to_owned()),
            after: Some("digest 2".to_owned()),
        }],
    };
    let case = FlippedCase {
        case: "refund".to_owned(),
        model: "m".to_owned(),
        before: Outcome::Passed,
        after: Outcome::Failed,
        case_changed: Some(true),
        task_changed: Some(false),
    };
    let series = Series {
        model: Some("m".to_owned()),
        runs: vec![good, errored, bad],
        unit: Unit::Repeats,
        change_points: vec![ChangePoint {
            run: "c".to_owned(),
            before: rate(5, 5),
            after: rate(0, 4),
            p_value: 0.0079,
        }],
        since: Some("c".to_owned()),
        current: rate(0, 4),
        flaky: Some(false),
        flips: vec![Flip {
            before: "a".to_owned(),
            after: "c".to_owned(),
            cases: vec![case],
            changes,
        }],
    };
    History {
        schema_version: 1,
        project: "p".to_owned(),
        suite: "s".to_owned(),
        case: Some("refund\u{1b}[31m".to_owned()),
        series: vec![series],
        has_older: true,
    }
}

#[test]
fn shows_missing_values_as_missing() {
    insta::assert_snapshot!(history_text(&history()));
}

#[test]
fn names_the_flipped_cases_of_a_suite() {
    let mut history = history();
    history.case = None;
    let series = &mut history.series[0];
    (series.model, series.unit, series.flaky) = (None, Unit::Cases, None);
    series.change_points.clear();
    series.since = None;
    let flip = &mut series.flips[0];
    flip.changes = RunChanges::default();
    flip.cases[0].case_changed = None;
    flip.cases = vec![flip.cases[0].clone(); 21];
    let text = history_text(&history);
    assert!(text.contains("21 cases flipped in c; nothing recorded changed since a"), "{text}");
    assert!(text.contains("failed   refund · m  (was passed)\nfailed"), "{text}");
    assert!(text.ends_with("and 1 more case\n"), "{text}");
}

#[test]
fn partial_runs_are_marked_in_the_history_of_a_suite() {
    for (model, is_marked) in [(None, true), (Some("gpt-4o".to_owned()), false)] {
        let mut history = history();
        let series = &mut history.series[0];
        series.model = model;
        series.runs[0].partial = true;
        let text = history_text(&history);
        assert_eq!(text.contains("passed, part"), is_marked, "{text}");
    }
}
