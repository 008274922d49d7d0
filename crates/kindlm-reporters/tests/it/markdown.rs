//! Tests of the comment on a pull request: its content, its limits and its escaping.

use kindlm_reporters::Style;
use kindlm_testing::{green_report, sample_report};
use kindlm_types::{CaseResult, Outcome, Report, Verdict};
use proptest::prelude::*;

use crate::hostile::{hostile_text, poisoned};
use crate::{placed_report, render};

/// The maximum number of characters in a GitHub comment.
const MOST: usize = 65_536;

/// The maximum number of lines of the comment of a passing run.
const PASSING_LINES: usize = 15;

fn comment(report: &Report) -> String {
    render("markdown", report, &Style::default())
}

fn failing_cases(report: &Report) -> Vec<CaseResult> {
    let failed = |it: &&CaseResult| matches!(it.outcome, Outcome::Failed | Outcome::Errored);
    report.cases.iter().filter(failed).cloned().collect()
}

/// Returns a report with this number of failing cases.
fn large(cases: usize) -> Report {
    let mut report = sample_report();
    let failing = failing_cases(&report);
    report.cases = (0..cases)
        .map(|at| CaseResult { case: format!("case {at}"), ..failing[at % failing.len()].clone() })
        .collect();
    report
}

#[test]
fn shows_the_sample() {
    insta::assert_snapshot!(comment(&placed_report()));
}

#[test]
fn shows_a_green_run() {
    insta::assert_snapshot!(comment(&green_report()));
}

#[test]
fn any_run_fits_and_omissions_are_named() {
    let mut before = (usize::MAX, usize::MAX);
    for cases in [1, 20, 60, 300, 2_000] {
        let report = large(cases);
        let text = comment(&report);
        assert!(text.encode_utf16().count() <= MOST, "{cases}: {}", text.len());
        let outputs = text.matches("\nOutput:\n").count();
        let named = text.matches("case ").count();
        assert!(outputs > 0 || cases >= 300, "{cases}");
        let cut = text.lines().find(|it| it.starts_with("*Left out to fit a comment: "));
        assert_eq!(cut.is_some(), cases >= 300, "{cases}: {cut:?}");
        if cases >= 300 {
            // The comment uses nearly all of the available space.
            assert!(text.encode_utf16().count() > MOST - 5_000, "{cases}: {}", text.len());
            assert!(outputs <= before.0 && named > 0);
            before = (outputs, named);
        }
        assert!(text.contains("### Violated gates") && text.contains("piiFailuresMax"));
        assert!(text.ends_with("KindLM 0.1.0</sub>\n"));
    }
    let text = comment(&large(8_000));
    assert!(text.encode_utf16().count() <= MOST);
    let cut = text.lines().find(|it| it.starts_with("*Left out")).unwrap();
    let unnamed = cut.rsplit(", ").next().unwrap();
    assert!(unnamed.contains("case"), "{cut}");
}

#[test]
fn many_assertions_gates_and_warnings_leave_room_for_the_cases() {
    let mut report = sample_report();
    report.warnings = (0..500).map(|it| format!("warning {it} {}", "x".repeat(400))).collect();
    let gates = report.gates.clone();
    report.gates = (0..500).flat_map(|_| gates.clone()).collect();
    for case in &mut report.cases {
        for it in &mut case.executions {
            let rule = it.results.iter().find(|it| it.assertion == "prompt-assertion").cloned();
            let Some(rule) = rule else { continue };
            it.results.extend((0..500).map(|at| {
                let mut rule = rule.clone();
                rule.metadata.insert("id".to_owned(), format!("rule_{at}").into());
                rule.verdict = Verdict::Fail {
                    code: kindlm_types::FailureCode::new("PROMPT_ASSERTION_FAILED"),
                    message: "@team ".repeat(200),
                };
                rule.reasoning = None;
                rule
            }));
        }
    }
    let text = comment(&report);
    assert!(text.encode_utf16().count() <= MOST);
    for part in ["more prompt assertions.", "more gates.", "more warnings."] {
        assert!(text.contains(part), "{part}");
    }
    assert!(text.matches("<details>").count() > 3);
}

#[test]
fn the_marker_is_unique_to_a_suite_and_cannot_be_closed() {
    let marker = |project: &str, name: &str| {
        let mut report = green_report();
        (report.suite.project, report.suite.name) = (project.to_owned(), name.to_owned());
        comment(&report).lines().next().unwrap().to_owned()
    };
    assert_eq!(marker("acme", "support_1.0"), "<!-- kindlm:report acme/support_1.0 -->");
    assert_eq!(marker("a/b", "c--> d"), "<!-- kindlm:report a%2fb/c%2d%2d%3e%20d -->");
    assert_ne!(marker("a", "b/c"), marker("a/b", "c"));
}

/// Returns the number of unescaped bars in a row of a table.
fn bars(line: &str) -> usize {
    let mut escaped = false;
    let mut count = 0;
    for c in line.chars() {
        count += usize::from(c == '|' && !escaped);
        escaped = c == '\\' && !escaped;
    }
    count
}

/// Returns the Markdown of a comment without its fenced code blocks. In these blocks, Markdown, mentions and links have
/// no effect.
///
/// Panics if a block has no end, or if a line in it would end it too early.
fn without_fences(comment: &str) -> String {
    let mut rest = String::new();
    let mut open: Option<&str> = None;
    for line in comment.lines() {
        let ticks = line.len() - line.trim_start_matches('`').len();
        match open {
            Some(fence) if line == fence => open = None,
            // A line of at least as many backticks, and nothing else, would end the block, too.
            Some(fence) => assert!(ticks < fence.len() || line.len() > ticks, "{line}"),
            None if ticks >= 3 && ["text", "sh", "diff"].contains(&&line[ticks..]) => {
                open = Some(&line[..ticks]);
            }
            None => rest.extend([line, "\n"]),
        }
    }
    assert_eq!(open, None, "a block of code has no end");
    rest
}

/// The only HTML tags in a comment. All other angle brackets are escaped.
const OURS: [&str; 8] = [
    "<details>",
    "</details>",
    "<summary>",
    "</summary>",
    "<sub>",
    "</sub>",
    "<br>",
    "<!-- kindlm:report ",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_breaks_out_of_the_comment(text in hostile_text(), tail in "[@#!:/a-z0-9. -]{0,40}") {
        let text = format!("{text} @octocat #12 https://evil.example www.evil.example ``` {tail}");
        let comment = comment(&poisoned(&text));
        prop_assert!(comment.encode_utf16().count() <= MOST);
        let comment = without_fences(&comment);
        let mut rest = comment.clone();
        for ours in OURS {
            rest = rest.replace(ours, "");
        }
        prop_assert!(!rest.contains('<'), "{}", rest);
        prop_assert!(!comment.contains(|c: char| c.is_control() && c != '\n'));
        for (at, _) in comment.match_indices('@') {
            prop_assert!(comment[at + 1..].starts_with("&#8203;"), "{}", &comment[at..]);
        }
        for (at, _) in comment.match_indices("://") {
            prop_assert!(comment[at + 1..].starts_with("&#8203;"), "{}", &comment[at..]);
        }
        // All other backticks are escaped, so that no code block or code span begins.
        for (at, _) in comment.match_indices('`') {
            prop_assert!(comment[..at].ends_with('\\') || comment[at..].starts_with("`kindlm merge`"));
        }
        let tables = |it: &str| -> Vec<usize> {
            it.lines().filter(|line| line.starts_with('|')).map(bars).collect()
        };
        let plain = tables(&without_fences(&self::comment(&poisoned("x"))));
        prop_assert!(tables(&comment).iter().all(|it| plain.contains(it)));
    }
}

#[test]
fn ties_and_split_votes_that_hold_are_shown() {
    let mut report = green_report();
    let result = |label: &str, judging: serde_json::Value| {
        let mut result = kindlm_types::AssertionResult::pass("llm-rubric", label);
        result.judging = Some(serde_json::from_value(judging).unwrap());
        result
    };
    let split = serde_json::json!({
        "panel": {"votes": [{"judge": "a", "status": "passed"}, {"judge": "b", "status": "failed"}], "borderline": true},
        "borderline": true,
    });
    let tie = result("Best", serde_json::json!({"tie": true, "borderline": true}))
        .with_metadata("scores", serde_json::json!({"a": 1, "b": 1}));
    let mut set = kindlm_types::AssertionResult::pass("assert-set", "Set");
    set.set = Some(kindlm_types::SetRule { checks: 1, ..kindlm_types::SetRule::default() });
    set.components = vec![result("In a set", split.clone())];
    let before = comment(&report);
    assert!(!before.contains("judges differ"));
    let executions = &mut report.cases[0].executions;
    executions[0].results.extend([result("By a jury", split), tie, set]);
    let text = comment(&report);
    let line =
        text.lines().find(|it| it.starts_with("- Held, but judges differ: 1 case: ")).unwrap();
    for part in [
        "By a jury (1 of 2 pass, borderline)",
        "Best (a tie: several have the highest score)",
        "In a set (1 of 2 pass, borderline)",
    ] {
        assert!(line.contains(part), "{line}");
    }
    // With any number of cases, the comment fits, and gives the number of dropped cases.
    let case = report.cases[0].clone();
    report.cases =
        (0..400).map(|it| CaseResult { case: format!("case {it}"), ..case.clone() }).collect();
    let text = comment(&report);
    assert!(text.encode_utf16().count() <= MOST);
    let total = report.cases.len();
    assert!(text.contains(&format!("- Held, but judges differ: {total} cases: ")));
    assert!(text.contains("; 397 more cases\n") && text.lines().count() <= PASSING_LINES);
    // In the comment of a failed run, the cases on which judges disagree have a separate section.
    report.cases.extend(failing_cases(&sample_report()));
    report.gates[0].outcome = kindlm_types::GateOutcome::Violated;
    let text = comment(&report);
    assert!(text.encode_utf16().count() <= MOST);
    assert!(text.contains(&format!("### Held, but judges differ: {total} cases")));
    assert!(text.contains(" more cases.*"));
}

#[test]
fn a_passing_run_has_few_lines() {
    let mut report = sample_report();
    report.cases.retain(|it| matches!(it.outcome, Outcome::Passed | Outcome::Scored));
    report.gates.retain(kindlm_types::GateResult::passed);
    report.warnings = vec!["a warning".to_owned(); 40];
    let template = report.cases.clone();
    for models in [1, 2, 3, 5, 40] {
        report.cases = (0..models)
            .flat_map(|at| template.iter().map(move |it| (format!("model {at}"), it.clone())))
            .map(|(model, case)| CaseResult { model, ..case })
            .collect();
        let text = comment(&report);
        assert!(text.lines().count() <= PASSING_LINES, "{models}:\n{text}");
        for part in ["gates held", "more warnings", "Scores below their thresholds", "model 0"] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }
}

#[test]
fn a_failed_case_has_what_explains_it() {
    let text = comment(&placed_report());
    let of = |name: &str| {
        let found = text.split("<details>").skip(1).find(|it| it.contains(name));
        found.and_then(|it| it.split("</details>").next()).unwrap().to_owned()
    };
    let case = of("looks up the order before it answers · claude");
    for part in [
        "2/5 repeats held (40.0%, 95% CI 11.8 to 76.9) · agents/support/kindlm.yaml:",
        "\nEvidence:\n\n```diff\n- lookup_order\n+ search_faq\n+ track_parcel\n```\n",
        "\nRequest:\n\n```text\nWhere is my order 12345?\n```\n",
        "search_faq({\"query\":\"order status\",\"limit\":3})",
        "kindlm test --test 'looks up the order before it answers' --models claude -c agents/support/kindlm.yaml\n",
    ] {
        assert!(case.contains(part), "{part}:\n{case}");
    }
    let case = of("never shows a card number");
    // The evidence masks personal data; the output does not.
    let masked = format!("+ card number: Your card is 4{}. Of course!", "•".repeat(18));
    assert!(case.contains(&masked), "{case}");
}

#[test]
fn failures_within_the_gates_are_summed_up() {
    let mut report = sample_report();
    report.cases.retain(|it| matches!(it.outcome, Outcome::Passed | Outcome::Failed));
    report.gates.retain(kindlm_types::GateResult::passed);
    let template = report.cases.clone();
    for copies in [1, 30, 300] {
        report.cases = (0..copies)
            .flat_map(|at| template.iter().map(move |it| (at, it.clone())))
            .map(|(at, case)| CaseResult { case: format!("case {at} {}", case.case), ..case })
            .collect();
        let text = comment(&report);
        assert!(text.lines().count() <= PASSING_LINES, "{copies}:\n{text}");
        let failed = kindlm_reporters::count(report.summary().totals.failed);
        for part in
            [format!("- Did not hold: {failed} cases: "), "- To run these cases again: ".to_owned()]
        {
            assert!(text.contains(&part), "{part}:\n{text}");
        }
    }
}

#[test]
fn the_worst_cases_come_first() {
    let mut report = placed_report();
    let failed = |it: &&CaseResult| it.outcome == Outcome::Failed && it.executions.len() == 5;
    let template = report.cases.iter().find(failed).unwrap().clone();
    let case = |name: &str, held: usize| {
        let mut case = CaseResult { case: name.to_owned(), ..template.clone() };
        for (at, it) in case.executions.iter_mut().enumerate() {
            it.outcome = if at < held { Outcome::Passed } else { Outcome::Failed };
        }
        case
    };
    let errored = CaseResult { outcome: Outcome::Errored, ..case("errored", 0) };
    report.cases = vec![errored, case("mild", 4), case("severe", 1), case("regressed", 4)];
    let changes = &mut report.comparison.as_mut().unwrap().cases;
    changes.retain(|it| it.kind == kindlm_types::CaseChangeKind::Regression);
    changes.truncate(1);
    (changes[0].case, changes[0].model) = ("regressed".to_owned(), template.model.clone());
    let text = comment(&report);
    let names = ["regressed", "severe", "mild", "errored"];
    let places = names.map(|it| text.find(&format!(" {it} · {}", template.model)).unwrap());
    assert!(places.is_sorted(), "{places:?}:\n{text}");
}

#[test]
fn the_same_error_is_shown_once() {
    let mut report = sample_report();
    let mut template = report.cases[0].clone();
    template.outcome = Outcome::Errored;
    template.executions.truncate(1);
    let execution = &mut template.executions[0];
    execution.outcome = Outcome::Errored;
    execution.results.clear();
    execution.execution.requests = 0;
    report.cases = (0..60)
        .map(|at| {
            let mut case = CaseResult { case: format!("case {at}"), ..template.clone() };
            let prefix = if at == 0 {
                ""
            } else {
                "not sent, because an earlier request failed permanently: "
            };
            let message = format!("{prefix}the server is not reachable");
            case.executions[0].error = Some(kindlm_types::ExecutionError::Internal { message });
            case
        })
        .collect();
    assert_eq!(report.summary().causes.len(), 1);
    let text = comment(&report);
    assert_eq!(text.matches("<details>").count(), 1, "{text}");
    assert!(text.contains("- ⚠️ 59 more cases with the same error as case 0 · "), "{text}");
    assert!(!text.contains("Left out"), "{text}");
}
