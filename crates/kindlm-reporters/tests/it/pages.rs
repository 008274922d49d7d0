//! Writes reports for people who look at the page, and for the tests in `tests/browser`.

use std::path::Path;
use std::process::{Command, Stdio};

use kindlm_reporters::Style;
use kindlm_testing::{green_report, installed, not_run, sample_report};
use kindlm_types::{
    AssertionChange, CaseChange, CaseChangeKind, CaseResult, ComparedRun, Comparison,
    ComparisonVerdict, Condition, ConditionChange, Outcome, PassRate, RateChange, Report,
};

use crate::render;

/// Returns a text of `size` bytes or a little more, made of 2,000 different words. It depends only on `seed`.
///
/// gzip compresses it to about 35%, like English text.
pub(crate) fn random_words(seed: u64, size: usize) -> String {
    const SYLLABLES: &str = "thereinanderonatenoresttiveralishlesethoanaraseieronde";
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::with_capacity(size + 12);
    while text.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // As in a language, some words are more frequent than others.
        let rank = (state % 2_000) * (state / 2_000 % 2_000) / 2_000;
        let word = (rank + 1).wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16;
        for at in 0..=(word % 3) {
            let start = usize::try_from((word >> (2 + at * 5)) % 26).unwrap() * 2;
            text.push_str(&SYLLABLES[start..start + 2 + usize::from(at == 1)]);
        }
        text.push(if state.is_multiple_of(13) { '\n' } else { ' ' });
    }
    text
}

/// Returns a report of `tests` test cases on `models` models, with `size` bytes of text in each case.
///
/// About one case in `failing` fails.
pub(crate) fn many(tests: usize, models: usize, size: usize, failing: usize) -> Report {
    let mut report = sample_report();
    while report.models.len() < models {
        let mut model = report.models[0].clone();
        model.id = format!("model-{}", report.models.len());
        report.models.push(model);
    }
    let find = |outcome| {
        report.cases.iter().find(|it| it.outcome == outcome && it.executions.len() == 1).unwrap()
    };
    let (good, bad) = (find(Outcome::Passed).clone(), find(Outcome::Failed).clone());
    report.cases = (0..tests * models)
        .map(|at| {
            let (test, model) = (at / models, at % models);
            let fails = failing > 0 && (test * 7 + model * 3) % failing == 0;
            let mut case = if fails { bad.clone() } else { good.clone() };
            case.case = format!(
                "{test:05} {}",
                random_words(test as u64 + 1, 24).trim().replace('\n', " ")
            );
            case.model.clone_from(&report.models[model].id);
            case.latency_avg_ms = Some(f64::from(u32::try_from(at % 900).unwrap()) + 100.0);
            for it in &mut case.executions {
                it.execution.case.clone_from(&case.case);
                it.execution.model.clone_from(&case.model);
                it.execution.output = random_words(at as u64 + 99, size * 2 / 3);
                it.execution.input[1].content = random_words(at as u64 + 7, size / 3);
            }
            case
        })
        .collect();
    report
}

/// Returns the sample with a comparison that has every kind of change, and hostile texts.
fn compared() -> Report {
    let mut report = sample_report();
    let is_other = |it: &&mut CaseResult| {
        it.case == "looks up the order before it answers" && it.model == "gemini-2.5-pro"
    };
    let other = report.cases.iter_mut().find(is_other).unwrap();
    other.executions[0].execution.input[0].content.push_str("\nAnswer in one sentence.");
    let run = |id: &str, day: u8| ComparedRun {
        name: format!("run `{id}` </script><img src=x onerror=alert(1)>"),
        run_id: Some(id.to_owned()),
        git_commit: None,
        started_at: Some(format!("2026-11-{day:02}T10:00:00.000Z")),
    };
    let kinds = [
        CaseChangeKind::Regression,
        CaseChangeKind::Fix,
        CaseChangeKind::Changed,
        CaseChangeKind::Changed,
        CaseChangeKind::New,
        CaseChangeKind::Gone,
        CaseChangeKind::Unknown { reason: "2 repeats could not be judged after".to_owned() },
        CaseChangeKind::NotComparable { reason: "the prompt is another one".to_owned() },
    ];
    let rate = |passed| PassRate::from_counts(passed, 10);
    let changes = report
        .cases
        .iter()
        .zip(kinds.into_iter().chain(std::iter::repeat(CaseChangeKind::Unchanged)));
    let changes = changes.enumerate().map(|(at, (case, kind))| {
        let (before, after) = match at {
            1 | 3 => (rate(4), rate(9)),
            4 => (None, rate(8)),
            5 => (rate(8), None),
            0 | 2 => (rate(9), rate(4)),
            _ => (rate(10), rate(10)),
        };
        let p_value = (at < 4).then_some(0.0123);
        CaseChange {
            case: case.case.clone(),
            model: case.model.clone(),
            kind,
            before,
            after,
            p_value,
        }
    });
    let cases = changes.collect();
    let change = RateChange {
        before: rate(9).unwrap(),
        after: rate(4).unwrap(),
        cases: 8,
        clusters: 8,
        difference: -0.5,
        low: -0.7,
        high: -0.3,
        p_value: 0.0004,
    };
    report.comparison = Some(Comparison {
        before: run("20261101", 1),
        after: run("20261102", 2),
        verdict: ComparisonVerdict::Regression,
        alpha: 0.05,
        pass_rate: Some(change),
        cases,
        assertions: vec![AssertionChange::new("judge", None, change, 0.002)],
        differences: vec![ConditionChange {
            condition: Condition::Prompt,
            name: Some("support".to_owned()),
            before: Some("sha256:aa".to_owned()),
            after: None,
        }],
    });
    report
}

/// Returns a report of the suite in `fixtures/cli/prompt-assertions-batch`: 25 cases, of which two fail.
fn batch() -> Report {
    let mut report = kindlm_wire::parse_report(include_bytes!("batch.json")).unwrap();
    let (good, bad) = (report.cases[0].clone(), report.cases[1].clone());
    let cases = (1..=25).map(|number| {
        let mut case = if [7, 19].contains(&number) { bad.clone() } else { good.clone() };
        case.case = format!("account {number:02}");
        case
    });
    report.cases = cases.collect();
    report
}

/// Writes the pages that `tests/browser` opens.
fn write(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let few = {
        let mut report = many(25, 1, 600, 0);
        report.comparison = None;
        for (case, mut bad) in report.cases[3..5].iter_mut().zip(many(2, 1, 600, 1).cases) {
            bad.case.clone_from(&case.case);
            *case = bad;
        }
        report
    };
    for (name, report) in [
        ("sample", sample_report()),
        ("rich", crate::rich::report()),
        ("conversations", crate::rich::conversations()),
        ("compared", compared()),
        ("green", green_report()),
        ("empty", Report::default()),
        ("hostile", crate::hostile::poisoned(crate::hostile::ACTING)),
        ("few", few),
        ("batch", batch()),
        ("huge", many(10_000, 1, 1_500, 20)),
        ("wide", many(600, 5, 1_500, 20)),
    ] {
        let page = render("html", &report, &Style::default());
        std::fs::write(folder.join(format!("{name}.html")), page).unwrap();
        if !["huge", "wide", "hostile"].contains(&name) {
            write_comment(folder, name, &report);
        }
    }
    let document = render("compliance-html", &sample_report(), &Style::default());
    std::fs::write(folder.join("compliance.html"), document).unwrap();
    let hostile = format!("{} {}", crate::hostile::ACTING, crate::hostile::MENTIONING);
    write_comment(folder, "hostile", &crate::hostile::poisoned(&hostile));
}

fn write_comment(folder: &Path, name: &str, report: &Report) {
    let comment = render("markdown", report, &Style::default());
    std::fs::write(folder.join(format!("{name}.md")), comment).unwrap();
}

#[test]
#[ignore = "writes pages to look at, into the folder `KINDLM_PAGES`"]
fn writes_pages() {
    let folder = std::env::var("KINDLM_PAGES").unwrap_or_else(|_| "/tmp/pages".into());
    write(Path::new(&folder));
}

#[test]
fn the_page_works_in_a_browser() {
    if !["node", "npm", "chromium"].into_iter().all(installed) {
        return;
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser");
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&tests);
    let has_packages = tests.join("node_modules/.package-lock.json").exists();
    if !has_packages && !npm.stdout(Stdio::null()).status().unwrap().success() {
        not_run("chromium", "npm cannot install the packages of tests/browser");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    for script in ["page.test.mjs", "pages.test.mjs", "markdown.test.mjs"] {
        let mut node = Command::new("node");
        node.arg(script).current_dir(&tests).env("KINDLM_PAGES", folder.path());
        let output = node.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn only_a_comparison_has_the_second_script() {
    let page = |report: &Report| render("html", report, &Style::default());
    let plain = page(&Report { comparison: None, ..sample_report() });
    let with = page(&compared());
    for part in ["id=\"comparison\"", "id=\"compare\"", "href=\"#compare\"", "/* more.js "] {
        assert!(!plain.contains(part) && with.contains(part), "{part}");
    }
    assert!(!with.contains("<img src=x"));
    // The page that a server sends first has the same scripts, so its Content-Security-Policy has the same hashes.
    let shell = kindlm_reporters::html_shell();
    let policy = with.split("content=\"default-src").nth(1).unwrap().split('"').next().unwrap();
    assert!(
        shell.policy.starts_with(&format!("default-src{policy}; connect-src 'self'")),
        "{}",
        shell.policy
    );
}
