//! Tests of the report for people, by snapshots.

use kindlm_reporters::{Style, Verbosity};
use kindlm_testing::{green_report, sample_report};
use kindlm_types::{
    AssertionResult, Class, FailureCode, GateOutcome, Outcome, Report, Score, ScoreSummary, SetRule,
};

use crate::{render, style, styles};

#[test]
fn shows_the_sample() {
    for (name, verbosity, color, width) in [
        ("normal_80", Verbosity::Normal, false, 80),
        ("normal_60", Verbosity::Normal, false, 60),
        ("normal_120", Verbosity::Normal, false, 120),
        ("normal_80_color", Verbosity::Normal, true, 80),
        ("quiet_80", Verbosity::Quiet, false, 80),
        ("quiet_80_color", Verbosity::Quiet, true, 80),
        ("verbose_80", Verbosity::Verbose, false, 80),
        ("verbose_60", Verbosity::Verbose, false, 60),
    ] {
        let text = render("pretty", &sample_report(), &style(verbosity, color, width));
        // Make the escape character visible in the snapshots.
        insta::assert_snapshot!(format!("sample_{name}"), text.replace('\u{1b}', "␛"));
    }
}

#[test]
fn shows_a_green_run() {
    insta::assert_snapshot!(render("pretty", &green_report(), &Style::default()));
    insta::assert_snapshot!(
        "green_quiet",
        render("pretty", &green_report(), &style(Verbosity::Quiet, false, 80))
    );
}

#[test]
fn shows_an_empty_run() {
    insta::assert_snapshot!(render("pretty", &Report::default(), &Style::default()));
}

#[test]
fn notes_gates_that_hold_despite_failed_cases() {
    let mut report = sample_report();
    report.cases.retain(|case| matches!(case.outcome, Outcome::Passed | Outcome::Failed));
    report.gates.iter_mut().for_each(|gate| gate.outcome = GateOutcome::Held);
    let text = render("pretty", &report, &Style::default());
    assert!(text.contains("PASSED  every gate held, although 5 cases did not\n"), "{text}");
    report.gates[0].outcome = GateOutcome::NothingToMeasure;
    let text = render("pretty", &report, &Style::default());
    let held = report.gates.len() - 1;
    let words =
        format!("PASSED  {held} gates held, 1 had nothing to measure; 5 cases did not hold\n");
    assert!(text.contains(&words), "{text}");
    report.gates.iter_mut().for_each(|gate| gate.outcome = GateOutcome::NothingToMeasure);
    let text = render("pretty", &report, &Style::default());
    assert!(text.contains("had anything to measure; 5 cases did not hold\n"), "{text}");
}

#[test]
fn notes_an_interrupted_run() {
    let mut report = green_report();
    report.run.interrupted = true;
    let text = render("pretty", &report, &Style::default());
    assert!(
        text.contains("INTERRUPTED  the run was stopped by a signal; the gate held; exit code 130"),
        "{text}"
    );
}

#[test]
fn notes_that_only_a_judge_failed() {
    let mut report = green_report();
    let code = FailureCode::new("JUDGE_EVAL_ERROR");
    let lost = AssertionResult::errored("judge", "Judge: polite", code, "the judge failed");
    let lost = lost.with_cause(FailureCode::PROVIDER_TIMEOUT);
    report.cases[0].executions[0].results.push(lost);
    let text = render("pretty", &report, &Style::default());
    let sentence = "ERROR  no answer from a provider that should judge; the gate held; exit code 3";
    assert!(text.contains(sentence), "{text}");
}

#[test]
fn the_mean_of_a_turns_check_is_that_of_the_turn() {
    let mut report = green_report();
    let case = &mut report.cases[0];
    let summary = |label: &str, mean: f64| ScoreSummary {
        assertion: "judge".to_owned(),
        label: label.to_owned(),
        class: Class::Probabilistic,
        mean,
        min: 0.1,
        max: 0.9,
        count: 2,
    };
    case.scores = vec![summary("polite", 0.88), summary("greeting: polite", 0.44)];
    let failed = |turn: Option<&str>| AssertionResult {
        turn: turn.map(str::to_owned),
        score: Some(Score::new(0.4).unwrap()),
        ..AssertionResult::fail("judge", "polite", FailureCode::new("LOW"), "rude")
    };
    case.executions[0].results = vec![failed(Some("greeting")), failed(None)];
    let text = render("pretty", &report, &style(Verbosity::Normal, false, 120));
    let means: Vec<_> = ["0.44 on average", "0.88 on average"].map(|it| text.find(it)).into();
    assert!(means.iter().all(Option::is_some) && means.is_sorted(), "{text}");
}

#[test]
fn colour_changes_nothing_but_the_colour() {
    for style in styles().into_iter().filter(|it| it.color) {
        let colored = render("pretty", &sample_report(), &style);
        let plain = render("pretty", &sample_report(), &Style { color: false, ..style });
        assert_eq!(without_colors(&colored), plain);
        assert!(!plain.contains('\u{1b}'));
    }
}

/// Removes the escape sequences of colors, `ESC [ … m`.
fn without_colors(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(part.split_once('m').unwrap().1);
    }
    out
}

#[test]
fn lines_stay_within_the_width() {
    use unicode_width::UnicodeWidthStr as _;
    for style in styles().into_iter().filter(|it| !it.color) {
        let room = style.width.clamp(40, 120);
        for line in render("pretty", &sample_report(), &style).lines() {
            assert!(line.width() <= room, "{} > {room}: {line}", line.width());
        }
    }
}

#[test]
fn long_names_stay_within_the_width() {
    use unicode_width::UnicodeWidthStr as _;
    let mut report = sample_report();
    let (id, long) = (report.models[0].id.clone(), "m".repeat(70));
    report.models[0].id.clone_from(&long);
    for case in report.cases.iter_mut().filter(|it| it.model == id) {
        case.model.clone_from(&long);
    }
    // As a string, the sign has two columns; its characters alone have one.
    for case in &mut report.cases {
        case.case = format!("{} {}", "⚠️ ".repeat(60), case.case);
    }
    let text = render("pretty", &report, &style(Verbosity::Normal, false, 80));
    assert!(text.contains("⚠️ ⚠️ ") && text.contains("mmmmmmmm"), "{text}");
    for line in text.lines() {
        assert!(line.width() <= 80, "{}: {line}", line.width());
    }
}

#[test]
fn a_model_cannot_write_to_the_terminal_or_to_ci() {
    for style in styles() {
        let text = render("pretty", &sample_report(), &style);
        let plain = without_colors(&text);
        let acts = |c: char| c.is_control() && c != '\n' || matches!(c, '\u{202a}'..='\u{202e}');
        assert!(!plain.contains(acts));
        assert!(!plain.lines().any(|line| line.trim_start().starts_with("::")));
    }
}

#[test]
fn a_verbose_report_shows_the_parts_of_a_result() {
    let scored = |id: &str, label: &str, score: f64| {
        AssertionResult::pass(id, label).with_score(Score::new(score).unwrap())
    };
    let deep = (0..9).fold(scored("javascript", "Part 1", -2.0), |part, _| AssertionResult {
        components: vec![part],
        ..AssertionResult::pass("javascript", "Part 1")
    });
    let code = FailureCode::new("ASSERTION_FAILED");
    let bye = AssertionResult::fail("equals", "Says bye", code, "Expected \"Hi\" to equal \"Bye\"");
    let script = AssertionResult {
        components: vec![deep, scored("javascript", "Part 2", 7.0).with_reasoning("seven words")],
        metric: Some("tone".to_owned()),
        ..scored("javascript", "Script: tone.js", 0.5)
    };
    let rule = SetRule { checks: 2, threshold: Some(0.25), ..SetRule::default() };
    let set = AssertionResult {
        set: Some(rule),
        components: vec![AssertionResult { weight: 3.0, ..bye }, script],
        ..scored("assert-set", "Set", 0.375).with_reasoning("Aggregate score 0.38 ≥ 0.25 threshold")
    };
    let mut report = green_report();
    report.cases.truncate(1);
    report.cases[0].executions.truncate(1);
    report.cases[0].executions[0].results = vec![set];
    let text = render("pretty", &report, &style(Verbosity::Verbose, false, 80));
    insta::assert_snapshot!("made_of_parts", text);
    let normal = render("pretty", &report, &Style::default());
    assert!(!normal.contains("Part 1"), "{normal}");
}

/// Returns a case with `count` executions, of which the second execution failed if `is_flaky`.
fn repeated(report: &Report, count: u32, is_flaky: bool) -> kindlm_types::CaseResult {
    let mut case = report.cases[0].clone();
    let first = case.executions[0].clone();
    case.executions = (0..count)
        .map(|repeat| {
            let mut it = first.clone();
            it.execution.repeat = repeat;
            if is_flaky && repeat == 1 {
                it.results =
                    vec![AssertionResult::fail("equals", "Equals", FailureCode::new("X"), "no")];
                it.outcome = Outcome::Failed;
            }
            it
        })
        .collect();
    case.repeats = count;
    case
}

#[test]
fn flaky_cases_that_held_are_named_in_a_long_report() {
    let mut report = green_report();
    let (stable, flaky) = (repeated(&report, 3, false), repeated(&report, 3, true));
    report.cases = vec![stable; 40];
    report.cases[7] = kindlm_types::CaseResult { case: "is unsure".to_owned(), ..flaky };
    let text = render("pretty", &report, &Style::default());
    let line = text.lines().find(|it| it.contains("is unsure")).unwrap_or_default();
    assert!(line.contains("~ is unsure") && line.ends_with("flaky 2/3"), "{text}");
}

#[test]
fn columns_of_the_matrix_are_aligned() {
    let mut report = green_report();
    let case = repeated(&report, 12, false);
    let model = report.models[0].clone();
    report.models = ["a", "b"]
        .map(|id| {
            let mut it = model.clone();
            it.id = id.to_owned();
            it
        })
        .into();
    report.cases = report
        .models
        .iter()
        .map(|it| kindlm_types::CaseResult { model: it.id.clone(), ..case.clone() })
        .collect();
    let text = render("pretty", &report, &Style::default());
    let lines: Vec<&str> = text.lines().collect();
    let row = lines.iter().position(|it| it.contains("✓ 12/12  ✓ 12/12")).unwrap();
    let column = lines[row].rfind('✓').map(|at| lines[row][..at].chars().count());
    let head = lines[row - 1];
    assert_eq!(head.find('b'), column, "{text}");
}

#[test]
fn a_long_failure_is_cut_and_shown_once() {
    let mut report = green_report();
    let (expected, actual) = ("a short answer", "words and words ".repeat(1_000));
    let message = format!("Expected output \"{actual}\" to equal \"{expected}\"");
    let failed = AssertionResult::fail("equals", "Equals", FailureCode::new("X"), &*message);
    let case = &mut report.cases[0];
    case.outcome = Outcome::Failed;
    case.executions[0].outcome = Outcome::Failed;
    case.executions[0].results = vec![failed.with_evidence(kindlm_types::ResultEvidence::Diff {
        format: kindlm_types::DiffFormat::Text,
        expected: expected.to_owned(),
        actual: actual.clone(),
    })];
    let text = render("pretty", &report, &Style::default());
    assert!(text.contains("Expected output \"…\" to equal \"…\"\n"), "{text}");
    assert_eq!(text.matches("- a short answer").count(), 1, "{text}");
    assert!(text.matches("words and words").count() < 30, "{text}");
    let whole = render("pretty", &report, &style(Verbosity::Verbose, false, 120));
    assert!(whole.matches("words").count() >= 4_000, "{}", whole.len());
}

/// Returns a report of one failed case with this evidence.
fn failed_with(evidence: kindlm_types::ResultEvidence) -> Report {
    let mut report = green_report();
    let failed = AssertionResult::fail("is-json", "JSON", FailureCode::new("X"), "first error");
    report.cases.truncate(1);
    let case = &mut report.cases[0];
    case.outcome = Outcome::Failed;
    case.executions[0].outcome = Outcome::Failed;
    case.executions[0].results = vec![failed.with_evidence(evidence)];
    report
}

#[test]
fn all_schema_errors_are_shown() {
    let error =
        |pointer: &str, expected: &str| kindlm_types::Mismatch::new(pointer, expected, None);
    let errors = (0..14).map(|it| error(&format!("/{it}"), "must be string")).collect();
    let report = failed_with(kindlm_types::ResultEvidence::Schema { errors });
    let text = render("pretty", &report, &Style::default());
    assert!(text.contains("- /11: must be string\n") && !text.contains("/12:"), "{text}");
    assert!(text.contains("… 2 more; -v shows all\n"), "{text}");
    let whole = render("pretty", &report, &style(Verbosity::Verbose, false, 80));
    assert!(whole.contains("- /13: must be string\n"), "{whole}");
    for id in ["junit", "github", "gitlab", "sarif"] {
        let text = render(id, &report, &Style::default());
        assert!(text.contains("/1: must be string") || text.contains("/1%3A"), "{id}: {text}");
    }
}

#[test]
fn differences_have_paths_or_marked_gaps() {
    let diff = |format, expected: &str, actual: &str| {
        let (expected, actual) = (expected.to_owned(), actual.to_owned());
        failed_with(kindlm_types::ResultEvidence::Diff { format, expected, actual })
    };
    let json = diff(
        kindlm_types::DiffFormat::Json,
        r#"{"items": [{"sku": "mug", "qty": 2}]}"#,
        r#"{"items": [{"sku": "mug", "qty": 3}]}"#,
    );
    let text = render("pretty", &json, &Style::default());
    assert!(text.contains("/items/0/qty  - 2  + 3\n"), "{text}");
    let lines = diff(kindlm_types::DiffFormat::Text, "a\n1\n2\n3\n4\nb", "x\n1\n2\n3\n4\ny");
    let text = render("pretty", &lines, &Style::default());
    let shown: Vec<&str> = text.lines().map(str::trim).collect();
    let all = ["- a", "+ x", "1", "…", "4", "- b", "+ y"];
    assert!(shown.windows(all.len()).any(|it| it == all), "{text}");
    // Equal lines beside the changes do not count as lines that differ.
    let of = |word: &str| {
        let pairs: Vec<String> = (0..8).map(|it| format!("{word} {it}\nequal {it}\n")).collect();
        pairs.concat()
    };
    let long = diff(kindlm_types::DiffFormat::Text, &of("one"), &of("other"));
    let text = render("pretty", &long, &Style::default());
    assert!(text.contains("… 8 more lines differ\n"), "{text}");
}

#[test]
fn a_long_report_ends_with_commands_and_names_other_failures_in_one_line() {
    let mut report = failed_with(kindlm_types::ResultEvidence::Reason { text: String::new() });
    let template = report.cases[0].clone();
    report.cases = (0..25)
        .map(|at| kindlm_types::CaseResult { case: format!("case-{at}"), ..template.clone() })
        .collect();
    let text = render("pretty", &report, &style(Verbosity::Normal, false, 120));
    let end = text.split("Did not hold\n").nth(1).unwrap();
    assert_eq!(end.matches("kindlm test --test case-").count(), 10, "{text}");
    assert!(end.contains("… 15 more; all again: kindlm test --failed"), "{text}");
    let named = text.lines().position(|it| it.contains("✗ case-20  JSON")).unwrap();
    assert!(text.lines().nth(named + 1).unwrap().contains("✗ case-21  JSON"), "{text}");
}

#[test]
fn each_juror_has_its_reason() {
    let mut report = failed_with(kindlm_types::ResultEvidence::Reason { text: String::new() });
    let result = &mut report.cases[0].executions[0].results[0];
    result.reasoning = Some("It is rude.".to_owned());
    result.judging = serde_json::from_value(serde_json::json!({
        "panel": {"votes": [
            {"judge": "a", "status": "failed", "reasoning": "It is rude."},
            {"judge": "b", "status": "passed", "reasoning": "It is short."},
        ]},
    }))
    .unwrap();
    let text = render("pretty", &report, &Style::default());
    assert!(text.contains("vote     a fail: It is rude.\n"), "{text}");
    assert!(text.contains("vote     b pass: It is short.\n"), "{text}");
    assert_eq!(text.matches("It is rude.").count(), 1, "{text}");
}

#[test]
fn a_failed_turn_shows_the_message_of_the_user() {
    let mut report = failed_with(kindlm_types::ResultEvidence::Reason { text: String::new() });
    let execution = &mut report.cases[0].executions[0];
    execution.results[0].turn = Some("refund".to_owned());
    execution.execution.turns = vec![kindlm_types::Turn {
        label: "refund".to_owned(),
        user: Some("Yes do the mug now.".to_owned()),
        ..kindlm_types::Turn::default()
    }];
    let text = render("pretty", &report, &Style::default());
    assert!(text.contains("turn   refund: Yes do the mug now.\n"), "{text}");
}
