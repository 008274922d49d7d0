//! Tests for the reasons why a run cannot be resumed, and for their wording.

use kindlm_store::Digest;
use kindlm_store::journal::{Header, PlannedCase};

fn header() -> Header<'static> {
    let mut header = Header::new("r1", "0.1.0", "2026-11-20T14:09:12.001Z", "support");
    for name in ["strict", "baseline"] {
        header.settings.insert(name.into(), Digest::from_content(name));
    }
    for name in ["gpt", "claude"] {
        header.models.insert(name.into(), Digest::from_content(name));
        for case in ["a", "b", "c", "d", "e"] {
            header.cases.push(PlannedCase::new(case, name, 1));
        }
    }
    header
}

/// Returns the text of the differences after a change of the header.
fn differences_text(change: impl Fn(&mut Header<'_>)) -> String {
    let mut now = header();
    change(&mut now);
    let differences = header().compare(&now);
    assert_eq!(differences.is_empty(), differences.to_string().is_empty());
    differences.to_string()
}

#[test]
fn names_changes() {
    let other = Digest::from_content("other");
    for (expected, actual) in [
        ("", differences_text(|_| {})),
        (
            "the suite was `support` and is `sales`",
            differences_text(|it| it.suite = "sales".into()),
        ),
        (
            "the setting `strict` changed",
            differences_text(|it| {
                it.settings.insert("strict".into(), other);
            }),
        ),
        (
            "the settings `baseline` and `judge` changed",
            differences_text(|it| {
                it.settings.remove("baseline");
                it.settings.insert("judge".into(), other);
            }),
        ),
        (
            "the model `gpt` changed; the model `new` is new; the model `claude` is gone",
            differences_text(|it| {
                it.models.insert("gpt".into(), other);
                it.models.insert("new".into(), other);
                it.models.remove("claude");
            }),
        ),
        (
            "the prompt and vars of `a` changed; the checks of `b` changed",
            differences_text(|it| {
                it.cases[0].prompt = other;
                it.cases[5].vars = other;
                it.cases[1].checks = other;
                it.cases[6].checks = other;
            }),
        ),
        ("the number of repeats of `e` changed", differences_text(|it| it.cases[9].repeats = 2)),
        (
            "the tools of `a` changed; the tools of `b` changed; the tools of `c` changed; 2 more tests changed",
            differences_text(|it| it.cases.iter_mut().for_each(|it| it.tools = other)),
        ),
        (
            "the test `f` on `gpt` is new; the tests `c` on `gpt`, `d` on `gpt`, `e` on `gpt` and 5 more are gone",
            differences_text(|it| {
                it.cases.truncate(2);
                it.cases.push(PlannedCase::new("f", "gpt", 1));
            }),
        ),
    ] {
        assert_eq!(actual, expected);
    }
}

#[test]
fn a_new_comment_in_the_file_or_a_new_kindlm_is_only_a_remark() {
    let mut now = header();
    now.suite_digest = Some("other".into());
    now.version = "0.2.0".into();
    now.run = "r2".into();
    now.started_at = "2026-11-21T00:00:00Z".into();
    let differences = header().compare(&now);
    assert!(differences.is_empty());
    assert!(differences.file);
    assert_eq!(differences.version, Some(("0.1.0".to_owned(), "0.2.0".to_owned())));
}

#[test]
fn the_order_of_the_plan_does_not_matter() {
    assert_eq!(differences_text(|it| it.cases.reverse()), "");
}

#[test]
fn a_large_suite_is_compared_at_once() {
    let mut then = header();
    then.cases = (0..50_000).map(|it| PlannedCase::new(format!("case {it}"), "gpt", 1)).collect();
    let mut now = then.clone();
    now.cases.iter_mut().for_each(|it| it.vars = Digest::from_content("other"));
    let differences = then.compare(&now);
    assert_eq!(differences.cases_changed.len(), 50_000);
    assert!(differences.to_string().ends_with("; 49997 more tests changed"));
}
