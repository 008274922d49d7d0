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
    let value = |before: &str, after: &str| {
        ValueChange::new(Some(before.to_owned()), Some(after.to_owned()))
    };
    let mut good = entry("a", "passed", (5, 5));
    good.score = Some(1.0);
    good.cost = kindlm_types::Cost { known_usd: 0.0021, unknown: 0 }.into();
    good.latency_ms = Some(850.0);
    good.git_commit = Some("0123456789abcdef".to_owned());
    good.git_dirty = Some(true);
    let mut errored = entry("b", "errored", (0, 0));
    errored.errored = 5;
    let mut bad = entry("c", "failed", (0, 4));
    bad.errored = 1;
    let changes = RunChanges {
        git_commit: Some(ValueChange::new(Some("0123456789abcdef".to_owned()), None)),
        git_dirty: Some(true),
        config: Some(value("aaaaaaaaaa", "bbbbbbbbbb")),
        files: vec![FileChange::new("sets/tone.yaml", value("1111111111", "2222222222"))],
        conditions: vec![ConditionChange {
            condition: Condition::Rules,
            name: Some("tone".to_owned()),
            before: Some("digest 1".to_owned()),
            after: Some("digest 2".to_owned()),
        }],
    };
    let mut case = FlippedCase::new("refund", "m", Outcome::Passed, Outcome::Failed);
    case.case_changed = Some(true);
    case.task_changed = Some(false);
    let mut series = Series::new(vec![good, errored, bad], Unit::Repeats, rate(0, 4));
    series.model = Some("m".to_owned());
    series.change_points = vec![ChangePoint::new("c", rate(5, 5), rate(0, 4), 0.0079)];
    series.since = Some("c".to_owned());
    series.flaky = Some(false);
    series.flips = vec![Flip::new("a", "c", vec![case], changes)];
    let mut history = History::new("p", "s", vec![series]);
    history.case = Some("refund\u{1b}[31m".to_owned());
    history.has_older = true;
    history
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
