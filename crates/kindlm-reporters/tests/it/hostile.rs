//! Tests of reports in which every text is hostile.

use kindlm_reporters::Style;
use kindlm_testing::sample_report;
use kindlm_types::{ExecutionError, Report, ResultEvidence, SourcePlace, SuiteInfo, Verdict};
use kindlm_wire::parse_report;
use proptest::prelude::*;

use crate::{csv, github, gitlab, html, junit, render, sarif, tap};

/// A text that acts in a browser if it becomes part of a page.
pub(crate) const ACTING: &str = "</script><script>document.title='hit';alert(1)</script><img src=x onerror=\"fetch('//evil.example')\"><a href=javascript:alert(1)>x</a></noscript></style>\u{202e}{{7*7}}${1} <!--";

/// A text that mentions people and issues, and loads a picture, if it becomes part of a comment.
pub(crate) const MENTIONING: &str = "@octocat fixes #12 and acme/shop#7 ![i](https://evil.example/i.png) [l](javascript:alert(1)) <details open>";

/// Returns texts with many characters that have a special meaning in some format.
pub(crate) fn hostile_text() -> impl Strategy<Value = String> {
    let special = prop::sample::select(
        "\u{0}\u{1b}\u{7f}\u{85}\u{9b}\u{202e}\u{2028}\u{fffe}\u{ffff}\n\r\t ]]><&'\"|`*_[](){}#$\\:;%-".chars().collect::<Vec<_>>(),
    );
    let word = prop::sample::select(vec![
        "]]>",
        "<!--",
        "-->",
        "::error::",
        "##[error]",
        "<!-- kindlm:content:end -->",
        "\u{1b}[2J",
        "\n\n",
        "- ",
        "1. ",
        "    ",
        "{{ x }}",
        "&#0;",
        "<script>alert(1)</script>",
        "</style>",
        "\" onload=\"alert(1)",
        "漢字",
        "👩\u{200d}🚀",
    ]);
    prop::collection::vec(
        prop_oneof![
            any::<char>().prop_map(String::from),
            special.prop_map(String::from),
            word.prop_map(str::to_owned)
        ],
        0..24,
    )
    .prop_map(|parts| parts.concat())
}

/// Returns the sample report with every text replaced by `text`.
pub(crate) fn poisoned(text: &str) -> Report {
    let mut report = sample_report();
    let put = |place: &mut String| text.clone_into(place);
    let put_some = |place: &mut Option<String>| *place = Some(text.to_owned());
    put(&mut report.run.id);
    put(&mut report.run.version);
    put(&mut report.run.started_at);
    put(&mut report.run.platform);
    put_some(&mut report.run.git_commit);
    put_some(&mut report.run.git_branch);
    poison_suite(&mut report.suite, text);
    for model in &mut report.models {
        put(&mut model.id);
        put(&mut model.provider);
        put(&mut model.name);
        model.params.stop_sequences = vec![text.to_owned()];
    }
    for gate in &mut report.gates {
        put(&mut gate.gate);
        put(&mut gate.message);
    }
    for skipped in &mut report.skipped {
        put(&mut skipped.case);
        put(&mut skipped.reason);
        skipped.tags = vec![text.to_owned()];
    }
    report.warnings = vec![text.to_owned()];
    let info = report.compliance.as_mut().unwrap();
    put_some(&mut info.system_name);
    put_some(&mut info.system_version);
    put_some(&mut info.risk_level);
    put_some(&mut info.operator);
    put_some(&mut info.provider);
    put_some(&mut info.deployer);
    put_some(&mut info.intended_purpose);
    put_some(&mut info.data_governance_notes);
    for case in &mut report.cases {
        put(&mut case.case);
        put(&mut case.model);
        case.source = Some(SourcePlace::new(text, 7, 3));
        case.tags = vec![text.to_owned()];
        for it in &mut case.executions {
            put(&mut it.execution.output);
            if let Some(command) = &mut it.execution.command {
                put(&mut command.stderr);
            }
            for call in &mut it.execution.tool_calls {
                put(&mut call.name);
                put_some(&mut call.malformed_arguments);
            }
            match &mut it.error {
                Some(ExecutionError::Provider(err)) => {
                    put(&mut err.message);
                    put(&mut err.provider);
                }
                Some(
                    ExecutionError::NotRun { reason: place }
                    | ExecutionError::Internal { message: place },
                ) => put(place),
                None => {}
            }
            for result in &mut it.results {
                put(&mut result.label);
                put_some(&mut result.turn);
                put_some(&mut result.reasoning);
                result.metadata.insert(text.to_owned(), text.into());
                result.evidence = vec![ResultEvidence::Trajectory {
                    expected: vec![text.to_owned(), "a".to_owned()],
                    actual: vec![text.to_owned()],
                }];
                match &mut result.verdict {
                    Verdict::Fail { message: place, .. }
                    | Verdict::Errored { message: place, .. }
                    | Verdict::Skipped { reason: place } => put(place),
                    Verdict::Pass => {}
                }
            }
        }
    }
    report
}

#[test]
fn sarif_of_hostile_texts_conforms_to_the_schema() {
    let texts = ["\u{0}\u{1b}]]><!-- {0} [link](x)", "a b/../ü%zz:?#", "", "\n\r\t", "{{ x }} %s"];
    let logs = texts.map(|it| {
        let text = render("sarif", &poisoned(it), &Style::default());
        serde_json::from_str(&text).unwrap()
    });
    sarif::check(&logs);
}

/// Replaces every text of the suite's data by `text`.
fn poison_suite(suite: &mut SuiteInfo, text: &str) {
    let put = |place: &mut String| text.clone_into(place);
    let put_some = |place: &mut Option<String>| *place = Some(text.to_owned());
    put(&mut suite.project);
    put(&mut suite.name);
    put_some(&mut suite.description);
    put_some(&mut suite.config_path);
    put_some(&mut suite.config_sha256);
    put_some(&mut suite.suite_digest);
    for file in &mut suite.files {
        put(&mut file.path);
        put(&mut file.sha256);
    }
    for test in &mut suite.tests {
        put(&mut test.name);
        put_some(&mut test.prompt);
        for check in &mut test.checks {
            put(&mut check.label);
            put_some(&mut check.config);
        }
    }
    for judge in &mut suite.judges {
        judge.models = vec![text.to_owned()];
    }
    suite.instructions.iter_mut().for_each(|it| put(&mut it.text));
}

/// Returns the number of unescaped bars in a Markdown table row.
fn bars(line: &str) -> usize {
    let mut escaped = false;
    let mut count = 0;
    for c in line.chars() {
        count += usize::from(c == '|' && !escaped);
        escaped = c == '\\' && !escaped;
    }
    count
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn json_keeps_every_text(text in hostile_text()) {
        let report = poisoned(&text);
        let json = render("json", &report, &Style::default());
        prop_assert_eq!(parse_report(json.as_bytes()).unwrap(), report);
    }

    #[test]
    fn junit_stays_well_formed_and_within_its_schema(text in hostile_text()) {
        junit::check(&render("junit", &poisoned(&text), &Style::default()));
    }

    #[test]
    fn pretty_shows_nothing_that_acts(text in hostile_text()) {
        use unicode_width::UnicodeWidthStr as _;
        for style in crate::styles().into_iter().filter(|it| !it.color) {
            let page = render("pretty", &poisoned(&text), &style);
            for line in page.lines() {
                prop_assert!(!line.contains(char::is_control), "{:?}", line);
                prop_assert!(!line.trim_start().starts_with("::"), "{:?}", line);
                prop_assert!(!line.contains("##["), "{:?}", line);
                // A joined emoji may be narrower than the sum of its parts, but never wider.
                let wide = line.chars().count() == line.width();
                prop_assert!(!wide || line.width() <= style.width.clamp(40, 120), "{:?}", line);
            }
        }
    }

    #[test]
    fn compliance_keeps_its_tables_and_its_markers(text in hostile_text()) {
        let document = render("compliance", &poisoned(&text), &Style::default());
        let plain = render("compliance", &poisoned("x"), &Style::default());
        let markers = |it: &str| it.lines().filter(|line| line.starts_with("<!--")).count();
        prop_assert_eq!(markers(&document), 2);
        let tables = |it: &str| -> Vec<usize> {
            it.lines().filter(|line| line.starts_with('|')).map(bars).collect()
        };
        // In both reports, all names are equal, so the same rows are merged.
        prop_assert_eq!(tables(&document), tables(&plain));
        prop_assert!(!document.contains(|c: char| c.is_control() && c != '\n'));
    }

    #[test]
    fn formats_of_ci_systems_stay_valid(text in hostile_text()) {
        let report = poisoned(&text);
        let rendered = |id: &str| render(id, &report, &Style::default());
        for it in github::commands(&rendered("github")) {
            prop_assert!(["error", "warning", "notice"].contains(&it.kind.as_str()));
            prop_assert!(!it.message.contains(|c: char| c.is_control() && c != '\n'));
        }
        tap::points(&rendered("tap"));
        gitlab::findings(&report);
        for row in csv::rows(&report) {
            for cell in row {
                prop_assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r']), "{:?}", cell);
                prop_assert!(!cell.contains(char::is_control), "{:?}", cell);
            }
        }
        let lines = rendered("jsonl");
        prop_assert_eq!(lines.lines().count(), report.cases.len());
        for id in ["github", "tap", "gitlab", "sarif"] {
            let text = rendered(id);
            prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{}", id);
            prop_assert!(!text.contains("##["), "{}", id);
        }
    }

    #[test]
    fn the_compliance_page_shows_text_and_nothing_else(text in hostile_text()) {
        let page = render("compliance-html", &poisoned(&text), &Style::default());
        let is_marker = |line: &&str| *line == "<!-- kindlm:content:begin -->" || *line == "<!-- kindlm:content:end -->";
        prop_assert_eq!(page.lines().filter(is_marker).count(), 2);
        let plain: Vec<&str> = page.lines().filter(|it| !is_marker(it)).collect();
        html::check(&(plain.join("\n") + "\n"));
    }

    #[test]
    fn html_shows_text_and_nothing_else(text in hostile_text()) {
        html::check(&render("html", &poisoned(&text), &Style::default()));
    }
}
