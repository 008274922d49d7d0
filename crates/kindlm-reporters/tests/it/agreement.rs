//! All reports show the same result for a check.

use std::collections::{BTreeMap, BTreeSet};

use kindlm_reporters::{Style, Verbosity};
use kindlm_testing::sample_report;
use kindlm_types::{
    AssertionChange, AssertionResult, CaseChange, CaseChangeKind, CaseResult, Condition,
    ConditionChange, MeasuredRate, Outcome, Quantity, Verdict,
};
use serde_json::Value;

use crate::{csv, github, gitlab, render, style, tap};

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
fn both_compliance_documents_have_the_same_text() {
    let report = sample_report();
    // Compare only letters and digits, because the formats mark and escape other characters.
    let letters = |text: &str| text.chars().filter(|it| it.is_alphanumeric()).collect::<String>();
    let content = |id: &str| {
        let text = render(id, &report, &Style::default());
        let lines = text.lines().skip_while(|it| !it.starts_with("<!--")).skip(1);
        let lines: Vec<String> =
            lines.take_while(|it| !it.starts_with("<!--")).map(str::to_owned).collect();
        lines.join("\n")
    };
    let markdown: Vec<String> = content("compliance")
        .lines()
        .map(|it| it.replace("<br>", "").replace("&nbsp;", "").replace("&#64;", "@"))
        .map(|it| it.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
        .filter(|it| it != "```text" && it != "```")
        .map(|it| letters(&it))
        .collect();
    assert_eq!(letters(&text_of(&content("compliance-html"))), markdown.concat());
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
    case.executions[0].outcome = Outcome::from_results(&case.executions[0].results);
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

/// Returns the share of cases that held as all reports show it.
fn held(rate: MeasuredRate) -> String {
    let interval = rate.interval.unwrap();
    let percent = |it: f64| format!("{:.1}", it * 100.0);
    let share = percent(rate.rate().unwrap());
    let (low, high) = (percent(interval.low), percent(interval.high));
    format!("{share}% ({} of {}; 95% CI {low} to {high})", rate.count, rate.total)
}

#[test]
fn all_reports_show_the_same_interval() {
    let report = sample_report();
    let summary = report.summary();
    let rendered = |id: &str| render(id, &report, &style(Verbosity::Normal, false, 1_000));
    let all = held(summary.totals.held());
    assert_eq!(all, "30.8% (4 of 13; 95% CI 12.7 to 57.6)");
    for id in ["sarif", "tap"] {
        assert!(rendered(id).contains(&all), "{id}");
    }
    assert!(rendered("compliance").contains(&format!("| Held, of the cases run | {all} |")));
    let html = text_of(&rendered("html"));
    assert!(html.contains("4 of 13 cases held (30.8%, 95% interval 12.7 to 57.6%)"), "{html}");
    let sentence = "4 of 13 held (30.8%, 95% CI 12.7 to 57.6)";
    assert!(rendered("markdown").contains(&format!("**{sentence}**")));
    assert!(rendered("github").replace("%25", "%").contains(sentence));
    let json: Value = serde_json::from_str(&rendered("json")).unwrap();
    for (at, model) in summary.models.iter().enumerate() {
        let rate = model.totals.held();
        for id in ["junit", "markdown", "pretty", "compliance"] {
            assert!(rendered(id).contains(&held(rate)), "{id} on {}", model.model);
        }
        let interval = rate.interval.unwrap();
        let wire = &json["modelTotals"][at]["held"];
        assert_eq!(
            (wire["low"].as_f64(), wire["high"].as_f64()),
            (Some(interval.low), Some(interval.high))
        );
    }
}

#[test]
fn all_reports_count_the_same_outcomes() {
    let report = sample_report();
    let totals = report.totals();
    let rendered = |id: &str| render(id, &report, &Style::default());
    let lines = rendered("jsonl");
    let cases: Vec<Value> = lines.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let of_lines =
        |outcome: &str| cases.iter().filter(|it| it["outcome"] == outcome).count() as u64;
    for (outcome, expected) in [
        ("passed", totals.passed),
        ("scored", totals.scored),
        ("failed", totals.failed),
        ("errored", totals.errored),
    ] {
        assert_eq!(of_lines(outcome), expected);
        assert!(rendered("markdown").contains(&format!("{expected} {outcome}")));
    }
    let expected = [
        (totals.passed, "passed"),
        (totals.scored, "scored"),
        (totals.failed, "failed"),
        (totals.errored, "errored"),
        (totals.skipped, "skipped"),
    ];
    let listed = expected.map(|(count, word)| format!("{count} {word}")).join(", ");
    assert!(rendered("pretty").contains(&format!("Cases   {listed}\n")), "{listed}");
    let html = text_of(&rendered("html"));
    for (count, word) in &expected[..4] {
        assert!(html.contains(&format!("{count} {word}")), "html: {count} {word}");
    }
    let json: Value = serde_json::from_str(&rendered("json")).unwrap();
    for (count, word) in expected {
        assert_eq!(json["totals"][word], count, "json: {word}");
    }
    let annotations = github::commands(&rendered("github"));
    let of_kind = |kind: &str| annotations.iter().filter(|it| it.kind == kind).count() as u64;
    assert_eq!(of_kind("error"), totals.failed);
    assert_eq!(of_kind("warning"), totals.errored + totals.scored);
    let points = tap::points(&rendered("tap"));
    let broken = report.violated_gates().count() as u64;
    let failed = points.iter().filter(|it| !it.ok).count() as u64;
    assert_eq!(failed, totals.failed + totals.errored + broken);
    let cost: f64 = csv::rows(&report).iter().filter_map(|it| it[6].parse::<f64>().ok()).sum();
    assert!((cost - totals.cost.known_usd).abs() < 1e-9, "{cost}");
    let tokens: u64 = csv::rows(&report)
        .iter()
        .filter(|it| !it[7].is_empty())
        .map(|it| it[7].parse::<u64>().unwrap())
        .sum();
    assert_eq!(tokens, totals.tokens);
}

#[test]
fn reports_with_models_count_the_same_outcomes() {
    let report = sample_report();
    let summary = report.summary();
    let rendered = |id: &str| render(id, &report, &Style::default());
    let (junit, compliance) = (rendered("junit"), rendered("compliance"));
    let json: Value = serde_json::from_str(&rendered("json")).unwrap();
    for (at, model) in summary.models.iter().enumerate() {
        let (name, it) = (&model.model, &model.totals);
        let suite = format!(
            "<testsuite name=\"{name}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"",
            it.listed(),
            it.failed,
            it.errored,
            it.skipped
        );
        assert!(junit.contains(&suite), "{suite}");
        let counts = [it.passed, it.scored, it.failed, it.errored, it.skipped];
        let row = counts.map(|it| it.to_string()).join(" | ");
        let row = format!("| {name} | {} | {row} |", it.listed());
        assert!(compliance.contains(&row), "{row}");
        let wire = &json["modelTotals"][at];
        assert_eq!(wire["held"]["count"], it.held().count);
        assert_eq!(wire["errored"], it.errored);
    }
    let rows = csv::rows(&report);
    let executions: usize = report.cases.iter().map(|it| it.executions.len()).sum();
    assert_eq!(rows.len(), executions);
}

#[test]
fn all_reports_have_the_same_causes() {
    // Repeated cases give the causes different numbers of cases.
    let mut report = sample_report();
    for (copies, at) in [(4, 1), (2, 2), (7, 5)] {
        for copy in 0..copies {
            let case = format!("{} {copy}", report.cases[at].case);
            let copied = CaseResult { case, ..report.cases[at].clone() };
            report.cases.push(copied);
        }
    }
    let summary = report.summary();
    let rendered = |id: &str| render(id, &report, &Style::default());
    let json: Value = serde_json::from_str(&rendered("json")).unwrap();
    let sarif: Value = serde_json::from_str(&rendered("sarif")).unwrap();
    let mut counted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    for result in results {
        let prints = &result["partialFingerprints"];
        let text = |key: &str| prints[key].as_str().unwrap();
        counted.entry(text("kindlmCause/v1")).or_default().insert(text("kindlmResult/v1"));
    }
    for (at, cause) in summary.causes.iter().enumerate() {
        assert_eq!(json["causes"][at]["cases"], cause.cases);
        assert_eq!(sarif["runs"][0]["properties"]["causes"][at]["cases"], cause.cases);
        let Some(code) = &cause.code else { continue };
        let found = counted.remove(cause.key.as_str()).unwrap_or_default();
        assert_eq!(found.len() as u64, cause.cases, "{}", cause.key);
        let row = format!("| {} | ", cause.cases);
        let markdown = rendered("markdown");
        let mut rows = markdown.lines().filter(|it| it.starts_with(&row));
        // A comment lists at most eight causes.
        assert!(at >= 8 || rows.any(|it| it.contains(code.as_str())), "{}", cause.key);
        let (html, title) = (text_of(&rendered("html")), &cause.title);
        // The page lists the causes of most cases first, and at most as many as fit.
        let is_shown = html.contains(&format!("{}{title} {code}", cause.cases));
        assert!(is_shown || at >= 8, "html: {}", cause.key);
        let pretty = render("pretty", &report, &style(Verbosity::Normal, false, 1_000));
        let line = format!("{:>6} × ", cause.cases);
        let mut lines = pretty.lines().filter(|it| it.starts_with(&line));
        let begin: String = title.chars().take(40).collect();
        // The terminal lists causes that several cases have, at most eight.
        let is_listed = cause.cases > 1 && at < 8;
        assert!(!is_listed || lines.any(|it| it.contains(&begin)), "pretty: {}", cause.key);
        let tap = rendered("tap");
        let mut comments =
            tap.lines().filter(|it| it.starts_with(&format!("# {} case", cause.cases)));
        assert!(comments.any(|it| it.contains(code.as_str())), "{}", cause.key);
        let findings = gitlab::findings(&report);
        let of_code = findings.iter().filter(|it| it["check_name"] == code.as_str());
        assert!(of_code.count() as u64 >= cause.cases, "{}", cause.key);
    }
    // The other results explain no failure, because the case held or the check is soft.
    let is_other = |it: &&Value| {
        let cause = it["partialFingerprints"]["kindlmCause/v1"].as_str().unwrap();
        counted.contains_key(cause)
    };
    assert!(results.iter().filter(is_other).all(|it| it["level"] == "warning"), "{counted:?}");
}

#[test]
fn all_reports_count_the_same_changes() {
    let report = sample_report();
    let comparison = report.comparison.as_ref().unwrap();
    let is_changed = |it: &&CaseChange| {
        use CaseChangeKind::{Changed, Fix, New, Regression};
        matches!(it.kind, Regression | Fix | Changed | New)
    };
    let changed: Vec<&CaseChange> = comparison.cases.iter().filter(is_changed).collect();
    assert!(!changed.is_empty());
    let html = text_of(&render("html", &report, &Style::default()));
    assert!(html.contains(&format!("Changed {}", changed.len())), "{html}");
    let json: Value = serde_json::from_str(&render("json", &report, &Style::default())).unwrap();
    let kinds = json["comparison"]["cases"].as_array().unwrap().iter();
    let kinds = kinds.filter(|it| {
        ["regression", "fix", "changed", "new"].contains(&it["kind"].as_str().unwrap())
    });
    assert_eq!(kinds.count(), changed.len());
    let markdown = render("markdown", &report, &Style::default());
    let pretty = kindlm_reporters::comparison_text(comparison);
    // The formats escape other characters in different ways.
    let is_plain = |it: &str| it.chars().all(|it| it.is_alphanumeric() || it == ' ');
    for it in changed.iter().filter(|it| is_plain(&it.case)) {
        for text in [&markdown, &pretty] {
            assert!(text.contains(&it.case), "{} is missing in {text}", it.case);
        }
    }
}

#[test]
fn changes_that_are_not_listed_are_counted() {
    let mut comparison = sample_report().comparison.unwrap();
    let change = comparison.pass_rate.unwrap();
    let assertion = |it| AssertionChange::new(format!("check-{it}"), None, change, 0.0);
    comparison.assertions = (0..23).map(assertion).collect();
    let condition = |it| ConditionChange {
        condition: Condition::Prompt,
        name: Some(format!("prompt-{it}")),
        before: None,
        after: Some("sha256:aa".to_owned()),
    };
    comparison.differences = (0..21).map(condition).collect();
    let text = kindlm_reporters::comparison_text(&comparison);
    assert!(text.contains(" check-19: ") && !text.contains(" check-20: "), "{text}");
    for line in ["  and 3 more assertions\n", "  and 1 more condition\n"] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn percentiles_agree_with_their_distributions() {
    let report = sample_report();
    let summary = report.summary();
    let html = render("html", &report, &Style::default());
    let json: Value = serde_json::from_str(&render("json", &report, &Style::default())).unwrap();
    let drawn = html.matches("class=\"spread\"").count();
    assert_eq!(drawn, summary.models.iter().map(|it| it.distributions.len()).sum::<usize>());
    assert!(drawn > 0);
    for (at, model) in summary.models.iter().enumerate() {
        for it in &model.distributions {
            let key = match it.quantity {
                Quantity::Latency => "latencyMs",
                Quantity::Tokens => "tokens",
                Quantity::Cost => "costUsd",
            };
            let wire = &json["modelTotals"][at][key];
            let percentiles = it.percentiles;
            assert_eq!(wire["p50"], percentiles.p50, "{key} of {}", model.model);
            assert_eq!(wire["p95"], percentiles.p95, "{key} of {}", model.model);
            let counts: Vec<String> = it.bins.iter().map(ToString::to_string).collect();
            assert!(html.contains(&format!("and above: {}\"", counts.join(", "))), "{counts:?}");
        }
    }
}

#[test]
fn reports_name_the_same_judges() {
    let report = sample_report();
    let names = "gpt-4o (openai gpt-4o), gemini-2.5-pro (gemini gemini-2.5-pro)";
    for id in ["html", "compliance", "compliance-html"] {
        assert!(text_of(&render(id, &report, &Style::default())).contains(names), "{id}");
    }
    // Reports of earlier versions have only the ids.
    let mut earlier = report.clone();
    earlier.suite.judges[0].identities.clear();
    let text = render("compliance", &earlier, &Style::default());
    assert!(text.contains("gpt-4o (provider and model not recorded)"), "{text}");
}

#[test]
fn reports_use_the_same_words_for_changes() {
    let report = sample_report();
    let comparison = report.comparison.as_ref().unwrap();
    let json: Value = serde_json::from_str(&render("json", &report, &Style::default())).unwrap();
    let kinds = json["comparison"]["cases"].as_array().unwrap();
    let (text, markdown) = (
        kindlm_reporters::comparison_text(comparison),
        render("markdown", &report, &Style::default()),
    );
    for kind in ["regression", "fix", "new", "gone"] {
        let of_kind = kinds.iter().filter(|it| it["kind"] == kind).count();
        assert!(of_kind > 0, "{kind}");
        let lines = text.lines().filter(|it| it.starts_with(&format!("{kind} "))).count();
        assert_eq!(lines, of_kind, "{kind}: {text}");
        let items = markdown.lines().filter(|it| it.starts_with(&format!("- **{kind}** ")));
        assert_eq!(items.count(), of_kind, "{kind}: {markdown}");
        let counted = format!("{of_kind} {kind}");
        assert!(text.lines().last().unwrap().contains(&counted), "{counted}: {text}");
    }
}

/// Returns the rows of the tables in the source of a PDF, each with ` | ` between its cells.
fn pdf_rows(source: &str) -> Vec<String> {
    let source: Value = serde_json::from_str(source).unwrap();
    let blocks = source["blocks"].as_array().unwrap().iter();
    let rows = blocks.flat_map(|it| it["rows"].as_array().into_iter().flatten());
    let text = |it: &Value| it["text"].as_str().or(it["code"].as_str()).unwrap().to_owned();
    let cells = |row: &Value| row.as_array().unwrap().iter().map(text).collect::<Vec<_>>();
    rows.map(|row| cells(row).join(" | ")).collect()
}

#[test]
fn the_pdf_and_junit_have_the_same_counts_and_intervals() {
    let report = sample_report();
    let summary = report.summary();
    let rendered = |id: &str| render(id, &report, &Style::default());
    let rows = pdf_rows(&rendered("compliance-pdf"));
    let all = format!("Held, of the cases run | {}", held(summary.totals.held()));
    assert!(rows.contains(&all), "{rows:?}");
    for model in &summary.models {
        let it = &model.totals;
        let counts = [it.listed(), it.passed, it.scored, it.failed, it.errored, it.skipped];
        let counts = counts.map(|it| it.to_string()).join(" | ");
        let row = format!("{} | {counts} | {}", model.model, held(it.held()));
        assert!(rows.contains(&row), "{row}: {rows:?}");
    }
    let junit = rendered("junit");
    // A violated gate is a failure, too.
    let failures = summary.totals.failed + report.violated_gates().count() as u64;
    let counts = format!("failures=\"{failures}\" errors=\"{}\"", summary.totals.errored);
    assert!(junit.lines().nth(1).unwrap().contains(&counts), "{counts}: {junit}");
}

#[test]
fn reports_have_the_same_agreement_of_judges() {
    let report = sample_report();
    let agreement = "κ 0.71 (95% CI 0.55 to 0.87); 87.0% of 120 labels agree (2026-10-02)";
    for id in ["html", "compliance", "compliance-html"] {
        let text = text_of(&render(id, &report, &Style::default()));
        assert!(text.contains(agreement), "{id}");
    }
    let json: Value = serde_json::from_str(&render("json", &report, &Style::default())).unwrap();
    let wire = &json["suite"]["judges"][0]["calibration"];
    assert_eq!((wire["kappa"].as_f64(), wire["labels"].as_u64()), (Some(0.712), Some(120)));
}

#[test]
fn the_overview_compares_models_with_the_first() {
    let report = sample_report();
    let differences = report.model_differences();
    assert!(!differences.is_empty());
    let html = text_of(&render("html", &report, &Style::default()));
    for it in differences {
        let signed = |share: f64| {
            let text = kindlm_types::percent(share.abs());
            match share {
                share if share < 0.0 && text != "0.0" => format!("−{text}"),
                share if share > 0.0 && text != "0.0" => format!("+{text}"),
                _ => text,
            }
        };
        let (mean, interval) = (signed(it.mean), it.interval);
        let text = format!(
            "{mean} pp (95% CI {} to {}) against {} in {} test",
            signed(interval.low),
            signed(interval.high),
            it.against,
            it.tests
        );
        assert!(html.contains(&text), "{text}: {html}");
    }
}

#[test]
fn the_costs_of_judges_add_up() {
    let report = sample_report();
    let summary = report.summary();
    let known: f64 = summary.judges.iter().map(|it| it.known_usd).sum();
    let canaries: f64 = report.canaries.iter().map(|it| it.known_cost_usd).sum();
    assert!(known > 0.0);
    assert!((known + canaries - summary.totals.judge_cost.known_usd).abs() < 1e-9);
    let html = text_of(&render("html", &report, &Style::default()));
    for it in &summary.judges {
        let row = format!("{}{}", it.judge, it.answers);
        assert!(html.contains(&row), "{row}: {html}");
    }
}
