//! Tests of the annotations of GitHub Actions.

use std::collections::BTreeMap;

use kindlm_reporters::Style;
use kindlm_testing::{green_report, sample_report};
use kindlm_types::{CaseResult, Outcome, Report};

use crate::{placed_report, render};

/// A workflow command, decoded.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) kind: String,
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) message: String,
}

/// Parses workflow commands as GitHub does. Panics if a line is no command.
pub(crate) fn commands(text: &str) -> Vec<Command> {
    let command = |line: &str| {
        let (head, message) = line.strip_prefix("::").unwrap().split_once("::").unwrap();
        let (kind, properties) = head.split_once(' ').unwrap();
        let property = |it: &str| {
            let (key, value) = it.split_once('=').unwrap();
            (key.to_owned(), decoded(value))
        };
        Command {
            kind: kind.to_owned(),
            properties: properties.split(',').map(property).collect(),
            message: decoded(message),
        }
    };
    text.lines().map(command).collect()
}

fn decoded(text: &str) -> String {
    let text = text.replace("%3A", ":").replace("%2C", ",").replace("%0D", "\r");
    text.replace("%0A", "\n").replace("%25", "%")
}

fn annotations(report: &Report) -> Vec<Command> {
    commands(&render("github", report, &Style::default()))
}

#[test]
fn shows_the_sample() {
    insta::assert_snapshot!(render("github", &placed_report(), &Style::default()));
}

#[test]
fn each_failure_is_at_the_line_of_its_test() {
    let report = placed_report();
    let annotations = annotations(&report);
    for case in report.cases.iter().filter(|it| it.outcome == Outcome::Failed) {
        let source = case.source.as_ref().unwrap();
        let line = source.line.to_string();
        let found = annotations.iter().find(|it| it.properties.get("line") == Some(&line)).unwrap();
        assert_eq!(
            (found.kind.as_str(), found.properties["file"].as_str()),
            ("error", &*source.file)
        );
        assert!(found.message.contains(case.failure_codes[0].as_str()), "{found:?}");
    }
}

#[test]
fn no_more_are_written_than_github_shows() {
    let mut report = sample_report();
    let of = |outcome: Outcome| report.cases.iter().find(|it| it.outcome == outcome).unwrap();
    let kinds = [of(Outcome::Failed).clone(), of(Outcome::Errored).clone()];
    report.cases = (0..50)
        .map(|at| CaseResult { case: format!("case {at}"), ..kinds[at % 2].clone() })
        .collect();
    let annotations = annotations(&report);
    for (kind, expected) in [("error", 10), ("warning", 10), ("notice", 1)] {
        assert_eq!(annotations.iter().filter(|it| it.kind == kind).count(), expected);
    }
    let notice = &annotations.last().unwrap().message;
    let rest = "15 more errors and 15 more warnings are not shown as annotations";
    assert!(notice.contains(rest), "{notice}");
    let green = self::annotations(&green_report());
    assert_eq!(green.len(), 1);
    assert_eq!(
        green[0].message,
        "PASSED: 2 of 2 held (100.0%, 95% CI 34.2 to 100.0)\nthe gate held"
    );
}

#[test]
fn paths_are_relative_to_the_repository() {
    let style = Style { folder: "shop".to_owned(), ..Style::default() };
    for id in ["github", "gitlab", "sarif"] {
        let text = render(id, &placed_report(), &style);
        assert!(text.contains("shop/agents/support/kindlm.yaml"), "{id}: {text}");
        assert!(!text.contains("\"agents/support") && !text.contains("=agents/support"), "{id}");
    }
}
