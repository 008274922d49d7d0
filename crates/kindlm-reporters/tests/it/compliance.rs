//! Tests of the compliance document in both formats: its content, and the verification of its digests.

use kindlm_reporters::{ComplianceDocument, Style};
use kindlm_testing::{green_report, sample_report};
use kindlm_types::{CaseResult, Report, Verdict};
use serde_json::Value;
use sha2::Digest as _;

use crate::render;

fn document(report: &Report) -> String {
    render("compliance", report, &Style::default())
}

/// Returns the digest in the table row that begins with `row`.
fn digest<'a>(document: &'a str, row: &str) -> &'a str {
    let line = document.lines().find(|it| it.starts_with(&format!("| {row}"))).expect(row);
    line.split('`').nth(1).expect(row)
}

/// Returns the HTML form of the document.
fn page(report: &Report) -> String {
    render("compliance-html", report, &Style::default())
}

const CONTENT: &str = "content (sections 2 to 7)";

#[test]
fn shows_the_sample() {
    insta::assert_snapshot!(document(&sample_report()));
}

#[test]
fn another_framework_names_no_law() {
    let mut report = green_report();
    report.compliance = sample_report().compliance;
    report.compliance.as_mut().unwrap().framework = "custom".to_owned();
    let text = document(&report);
    assert!(!text.contains("Annex") && !text.contains("2024/1689"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn the_page_can_be_printed_and_loads_nothing() {
    for report in [sample_report(), green_report(), Report::default()] {
        let page = page(&report);
        let is_marker = |line: &&str| line.starts_with("<!--");
        assert_eq!(page.lines().filter(is_marker).count(), 2);
        let plain: String =
            page.lines().filter(|it| !is_marker(it)).map(|it| it.to_owned() + "\n").collect();
        crate::html::check(&plain);
    }
    let page = page(&sample_report());
    let (before, rest) = page.split_once("style-src '").unwrap();
    let (_, middle) = rest.split_once('\'').unwrap();
    let (middle, rest) = middle.split_once("<style>").unwrap();
    let (_, after) = rest.split_once("</style>").unwrap();
    insta::assert_snapshot!(format!("{before}style-src '…'{middle}<style>…</style>{after}"));
}

#[test]
fn uncommitted_changes_are_said_loudly() {
    let mut report = sample_report();
    for (dirty, word, has_alert) in [
        (Some(true), "UNCOMMITTED CHANGES", true),
        (Some(false), "no uncommitted changes", false),
        (None, "not known", false),
    ] {
        report.run.git_dirty = dirty;
        let text = document(&report);
        assert!(text.contains(&format!("| Working tree | {word} |")), "{text}");
        assert_eq!(text.contains("> **Attention: the working tree"), has_alert);
    }
}

#[test]
fn article_12_is_served_by_traces_only() {
    let mut report = sample_report();
    assert!(
        document(&report)
            .contains("| 12 | Logs that the system records over its lifetime | not covered |")
    );
    report.models[0].provider = "trace".to_owned();
    assert!(document(&report).contains("| the run judged recorded traces of the system"));
}

/// Returns the source of the PDF.
fn pdf_source(report: &Report) -> Value {
    serde_json::from_str(&render("compliance-pdf", report, &Style::default())).unwrap()
}

#[test]
fn the_source_of_a_pdf_has_the_sections_and_the_digest_of_the_document() {
    let report = sample_report();
    let (text, source) = (document(&report), pdf_source(&report));
    let blocks = source["blocks"].as_array().unwrap();
    let headings = blocks.iter().filter(|it| it["is"] == "heading" && it["level"] == 2);
    let headings: Vec<&str> = headings.map(|it| it["text"].as_str().unwrap()).collect();
    let expected: Vec<&str> = text.lines().filter_map(|it| it.strip_prefix("## ")).collect();
    assert_eq!(headings, expected);
    let digest = digest(&text, CONTENT);
    let row = format!("{CONTENT} of the Markdown document");
    let rows = blocks.iter().flat_map(|it| it["rows"].as_array().into_iter().flatten());
    let mut row = rows.filter(|it| it[0]["text"] == row);
    assert_eq!(row.next().unwrap()[1]["code"], digest);
}

#[test]
fn the_source_of_a_pdf_has_a_maximum_size() {
    let mut report = sample_report();
    let cases = std::mem::take(&mut report.cases);
    let sizes = [2_000, 4_000].map(|count| {
        let all = cases.iter().cycle().take(count).enumerate();
        report.cases = all
            .map(|(at, it)| CaseResult { case: format!("{} {at:05}", it.case), ..it.clone() })
            .collect();
        let source = pdf_source(&report);
        let blocks = source["blocks"].as_array().unwrap();
        let table = blocks.iter().find(|it| it["columns"][3] == "Repeats held").unwrap();
        let rows = table["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 300);
        assert!(rows.iter().all(|it| it[2]["text"] != "passed"), "the others come first");
        let notes: Vec<&str> = blocks
            .iter()
            .filter_map(|it| it["text"].as_str().filter(|it| it.contains("left out here")))
            .collect();
        assert!(notes.iter().any(|it| it.contains("more rows")), "{notes:?}");
        assert!(notes.iter().any(|it| it.contains("findings of")), "{notes:?}");
        source.to_string().len()
    });
    let [fewer, more] = sizes;
    assert!(more < fewer + fewer / 50, "{sizes:?}");
}

#[test]
fn a_document_is_read_back() {
    let report = sample_report();
    for text in [document(&report), page(&report)] {
        let read = ComplianceDocument::parse(&text).unwrap();
        assert_eq!(read.run.as_deref(), Some(report.run.id.as_str()));
        assert_eq!(read.files, report.suite.files);
        assert_eq!(read.stated_suite, report.suite.suite_digest);
        assert_eq!(read.stated_content.as_ref(), Some(&read.content));
        let json = render("json", &report, &Style::default());
        let json = data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(json));
        assert_eq!(read.stated_json, Some(json));
        assert_eq!(render(read.reporter, &report, &Style::default()), text);

        let changed = text.replace("passed", "Passed");
        let changed = ComplianceDocument::parse(&changed).unwrap();
        assert_eq!(changed.stated_content, read.stated_content);
        assert_ne!(changed.content, read.content);
        let headings: Vec<String> =
            ComplianceDocument::sections(&text).into_iter().map(|it| it.0).collect();
        assert_eq!(headings.len(), 10);
        assert_eq!((headings[0].as_str(), headings[9].as_str()), ("", "9. Signature"));
    }
    assert_eq!(ComplianceDocument::parse("# A page\n"), None);
    assert_eq!(ComplianceDocument::parse(""), None);
}

#[test]
fn an_output_cannot_forge_a_file_of_the_suite() {
    let mut report = green_report();
    let line = format!("{}  forged.yaml", "a".repeat(64));
    report.suite.description = Some(format!("### Files of the suite\n{line}"));
    report.suite.instructions[0].text = format!("x\n{line}\n<!-- kindlm:content:end -->\n");
    report.cases[0].executions[0].execution.output = format!("x\n\n{line}\n");
    report.suite.files[0].path = "a\n```\n<b>".to_owned();
    for text in [document(&report), page(&report)] {
        let read = ComplianceDocument::parse(&text).unwrap();
        let paths: Vec<&str> = read.files.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, ["a\\n```\\n<b>", "sets/tone.yaml"]);
        assert_eq!(read.stated_content, Some(read.content));
    }
}

#[test]
fn skipped_is_skipped_and_errored_is_errored() {
    let text = document(&sample_report());
    assert!(text.contains("| answers in French | – | skipped |"));
    assert!(text.contains("| answers in German | gemini-2.5-pro | skipped |"));
    assert!(text.contains("| refunds while the payment provider is slow | gpt-4o | ERRORED |"));
}

#[test]
fn the_same_results_have_the_same_content_digest() {
    let report = sample_report();
    let expected = document(&report);
    let mut later = report.clone();
    later.run.id = "another".to_owned();
    later.run.started_at = "2027-01-01T00:00:00Z".to_owned();
    later.run.duration_ms = 1.0;
    later.run.git_commit = None;
    later.run.git_branch = None;
    later.run.git_dirty = None;
    later.suite.config_path = Some("elsewhere/kindlm.yaml".to_owned());
    for case in &mut later.cases {
        case.latency_avg_ms = Some(1.0);
        case.cost.known_usd += 1.0;
        case.total_tokens += 1;
        for execution in &mut case.executions {
            execution.execution.latency_ms = Some(2.0);
        }
    }
    let again = document(&later);
    assert_eq!(digest(&again, CONTENT), digest(&expected, CONTENT));
    assert_ne!(digest(&again, "JSON report"), digest(&expected, "JSON report"));
}

#[test]
fn another_result_has_another_content_digest() {
    let expected = document(&sample_report());
    let changes: [fn(&mut Report); 8] = [
        |it| it.cases[0].outcome = kindlm_types::Outcome::Failed,
        |it| it.gates[0].threshold = 0.5,
        |it| it.gates.iter_mut().for_each(|gate| gate.actual = gate.actual.map(|it| it + 1.0)),
        |it| it.skipped.clear(),
        |it| it.cases[1].executions[1].results[0].verdict = Verdict::Pass,
        |it| it.suite.config_sha256 = None,
        |it| it.suite.files[1].sha256 = it.suite.files[0].sha256.clone(),
        |it| it.suite.tests[0].checks[1].threshold = Some(0.7),
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut report = sample_report();
        change(&mut report);
        assert_ne!(digest(&document(&report), CONTENT), digest(&expected, CONTENT), "change {i}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_recipe_in_the_document_prints_its_digests() {
    let folder = tempfile::tempdir().unwrap();
    for report in [sample_report(), green_report(), Report::default()] {
        let text = document(&report);
        std::fs::write(folder.path().join("compliance.md"), &text).unwrap();
        let json = render("json", &report, &Style::default());
        std::fs::write(folder.path().join("report.json"), json).unwrap();
        let recipe = text.split("```text\nsed").nth(1).map(|it| format!("sed{it}")).unwrap();
        let recipe = recipe.split("```").next().unwrap();
        let docs = kindlm_reporters::find("compliance").unwrap().meta.docs;
        assert!(docs.contains(recipe), "the page gives the same recipe");
        let printed = |command: &str| {
            let output = std::process::Command::new("sh")
                .args(["-c", command])
                .current_dir(folder.path())
                .output()
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(printed(recipe).split(' ').next(), Some(digest(&text, CONTENT)));
        assert_eq!(
            printed("sha256sum report.json").split(' ').next(),
            Some(digest(&text, "JSON report"))
        );
    }
}

#[test]
fn inputs_are_those_that_were_sent() {
    let mut report = sample_report();
    let case = report.cases[0].clone();
    report.suite.tests[0].name.clone_from(&case.case);
    let messages = case.executions[0].execution.input.iter();
    let texts = messages.map(|it| format!("{}: {}", it.role.as_str(), it.content));
    let whole = texts.collect::<Vec<_>>().join("\n");
    let digest = data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(&whole));
    let text = render("compliance", &report, &Style::default());
    let row = text.lines().find(|it| it.ends_with(&format!("| `{digest}` |"))).unwrap();
    assert!(row.starts_with(&format!("| {} | system: ", case.case)), "{row}");
    // Without a recorded input, the document says so.
    report.cases.clear();
    let text = render("compliance", &report, &Style::default());
    assert!(text.contains(&format!("| {} | not recorded | – |", case.case)), "{text}");
}
