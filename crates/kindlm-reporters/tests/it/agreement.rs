//! All reports show the same result for a check.

use kindlm_reporters::{Style, Verbosity};
use kindlm_testing::sample_report;
use kindlm_types::{AssertionResult, Outcome, Verdict};
use serde_json::Value;

use crate::{render, style};

/// A check or a part of a check, with its expected mark and score.
struct ReportedCase {
    label: String,
    word: &'static str,
    mark: char,
    score: Option<f64>,
}

/// Returns all checks of the sample in report order, nested parts included.
fn expected_cases() -> Vec<ReportedCase> {
    let report = sample_report();
    let mut seen = Vec::new();
    for execution in report.cases.iter().flat_map(|it| &it.executions) {
        let mut open: Vec<&AssertionResult> = execution.results.iter().rev().collect();
        while let Some(result) = open.pop() {
            let is_soft = result.severity == kindlm_types::Severity::Soft;
            let (word, mark) = match (&result.verdict, is_soft) {
                (Verdict::Pass, false) => ("passed", '✓'),
                (Verdict::Pass, true) => ("passed", '·'),
                (Verdict::Fail { .. }, false) => ("failed", '✗'),
                (Verdict::Fail { .. }, true) => ("failed", '~'),
                (Verdict::Errored { .. }, _) => ("errored", '!'),
                (Verdict::Skipped { .. }, _) => ("skipped", '–'),
            };
            let score = result.score.map(kindlm_types::Score::get);
            seen.push(ReportedCase { label: result.label.clone(), word, mark, score });
            open.extend(result.components.iter().rev());
        }
    }
    assert!(seen.len() > 10, "the sample has checks of every kind");
    seen
}

/// Collects the results of a JSON report. The parts of a check follow the check.
fn results_of(json: &Value, found: &mut Vec<(String, String, Option<f64>)>) {
    for result in json.as_array().into_iter().flatten() {
        let text = |key: &str| result[key].as_str().unwrap().to_owned();
        found.push((text("label"), text("status"), result["score"].as_f64()));
        results_of(&result["componentResults"], found);
    }
}

#[test]
fn json_has_every_check_with_its_verdict_and_score() {
    let json: Value =
        serde_json::from_str(&render("json", &sample_report(), &Style::default())).unwrap();
    let mut found = Vec::new();
    for case in json["cases"].as_array().unwrap() {
        for execution in case["executions"].as_array().unwrap() {
            results_of(&execution["results"], &mut found);
        }
    }
    let expected: Vec<(String, String, Option<f64>)> =
        expected_cases().into_iter().map(|it| (it.label, it.word.to_owned(), it.score)).collect();
    assert_eq!(found, expected);
}

/// Returns true if the line shows the score, or if the mark implies the score.
fn shows(line: &str, it: &ReportedCase) -> bool {
    let Some(score) = it.score else { return true };
    let plain = (it.word == "passed" && score >= 1.0) || (it.word == "failed" && score <= 0.0);
    plain || line.contains(&format!("{score:.2}"))
}

#[test]
fn reports_for_people_show_the_same_mark_and_score() {
    let report = sample_report();
    let pretty = render("pretty", &report, &style(Verbosity::Verbose, false, 1_000));
    let html = render("html", &report, &Style::default());
    // Write each list entry of the page on a separate line.
    let html: String =
        html.replace("<li", "\n<li").split('\n').map(|it| text_of(it) + "\n").collect();
    for it in expected_cases() {
        let first = it.label.lines().next().unwrap_or_default();
        for (name, page) in [("pretty", &pretty), ("html", &html)] {
            let shown = page.lines().filter(|line| line.contains(first));
            let mut shown = shown.filter(|line| line.trim_start().starts_with(it.mark));
            assert!(
                shown.any(|line| shows(line, &it)),
                "{name} shows no `{} {first}` with {:?}",
                it.mark,
                it.score
            );
        }
    }
}

/// Returns the text of HTML without its tags.
fn text_of(html: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for it in html.chars() {
        match it {
            '<' => inside = true,
            '>' => inside = false,
            _ if !inside => text.push(it),
            _ => {}
        }
    }
    let text = text
        .replace("&quot;", "\"")
        .replace("&#34;", "\"")
        .replace("&#39;", "'")
        .replace("&#x27;", "'");
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&#x2f;", "/").replace("&amp;", "&")
}

#[test]
fn the_pull_request_comment_names_every_failed_case() {
    let markdown = render("markdown", &sample_report(), &Style::default());
    let is_bad = |it: Outcome| matches!(it, Outcome::Failed | Outcome::Errored);
    // Compare only letters and digits, because Markdown escapes other characters.
    let letters = |text: &str| {
        let mut pieces = text.split('&');
        let first = pieces.next().unwrap_or_default().to_owned();
        // Skip entities such as `&gt;`.
        let text = pieces.fold(first, |text, piece| match piece.split_once(';') {
            Some((entity, rest)) if entity.len() < 8 => text + rest,
            _ => text + piece,
        });
        text.chars().filter(|it| it.is_alphanumeric()).collect::<String>()
    };
    let (report, comment) = (sample_report(), letters(&markdown));
    for case in report.cases.iter().filter(|it| is_bad(it.outcome)) {
        assert!(comment.contains(&letters(&case.case)), "the comment leaves out `{}`", case.case);
    }
}

#[test]
fn a_case_of_which_nothing_was_checked_is_not_one_that_passed() {
    let mut report = sample_report();
    let case = report.cases.iter_mut().find(|it| it.outcome == Outcome::Skipped).unwrap();
    let result = AssertionResult::skipped("drift", "Baseline drift", "no baseline is there");
    case.executions[0].error = None;
    case.executions[0].results = vec![result];
    case.executions[0].outcome = Outcome::of(&case.executions[0].results);
    let name = case.case.clone();
    let why = "othing was checked: no baseline is there";
    for (id, style) in [
        ("pretty", style(Verbosity::Normal, false, 1_000)),
        ("junit", Style::default()),
        ("html", Style::default()),
    ] {
        let text = render(id, &report, &style);
        assert!(text.contains(&name) && text.contains(why), "{id}:\n{text}");
    }
}
