//! Tests of the HTML page: its content, and that the page loads and runs nothing.

use std::collections::BTreeMap;

use html5gum::{Token, Tokenizer};
use kindlm_reporters::Style;
use kindlm_testing::{green_report, sample_report};
use kindlm_types::{AssertionResult, NamedScore, Report, Score, Severity, Verdict};

use crate::render;

fn page(report: &Report) -> String {
    render("html", report, &Style::default())
}

/// The elements without an end tag.
const VOID: [&str; 3] = ["meta", "input", "rect"];

/// Checks the page like a browser.
///
/// Elements must be nested properly, ids must be unique, and nothing may be loaded or run.
#[track_caller]
pub(crate) fn check(page: &str) {
    let mut open: Vec<String> = Vec::new();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut ids = Vec::new();
    for token in Tokenizer::new(page) {
        match token.unwrap() {
            Token::StartTag(tag) => {
                let name = String::from_utf8(tag.name.to_vec()).unwrap();
                *seen.entry(name.clone()).or_default() += 1;
                for (attribute, value) in &tag.attributes {
                    let attribute = String::from_utf8(attribute.to_vec()).unwrap();
                    let value = String::from_utf8(value.to_vec()).unwrap();
                    let acts = attribute.starts_with("on")
                        || ["href", "src", "style", "action", "srcset"]
                            .contains(&attribute.as_str());
                    assert!(!acts, "<{name} {attribute}={value:?}>");
                    if attribute == "id" {
                        ids.push(value);
                    }
                }
                if !VOID.contains(&name.as_str()) && !tag.self_closing {
                    open.push(name);
                }
            }
            Token::EndTag(tag) => {
                let name = String::from_utf8(tag.name.to_vec()).unwrap();
                assert_eq!(open.pop().as_deref(), Some(name.as_str()), "</{name}>");
            }
            Token::Comment(_) => panic!("a comment"),
            Token::Error(err) => panic!("{err:?}"),
            Token::String(text) => {
                let text = String::from_utf8(text.to_vec()).unwrap();
                assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
                assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{feff}']), "{text:?}");
            }
            Token::Doctype(_) => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    for forbidden in ["script", "img", "iframe", "link", "object", "embed", "base", "form", "a"] {
        assert!(!seen.contains_key(forbidden), "<{forbidden}>");
    }
    for (once, number) in [("style", 1), ("main", 1), ("h1", 1), ("title", 1)] {
        assert_eq!(seen.get(once), Some(&number), "<{once}>");
    }
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id is there twice");
}

#[test]
fn the_sample_is_rendered_as_before() {
    let page = page(&sample_report());
    check(&page);
    // The style sheet is reviewed in a browser, so it is not a part of the snapshot.
    let (before, rest) = page.split_once("style-src '").unwrap();
    let (_, middle) = rest.split_once('\'').unwrap();
    let (middle, rest) = middle.split_once("<style>").unwrap();
    let (_, after) = rest.split_once("</style>").unwrap();
    insta::assert_snapshot!(format!("{before}style-src '…'{middle}<style>…</style>{after}"));
}

#[test]
fn every_report_is_a_page() {
    for report in [green_report(), Report::default()] {
        check(&page(&report));
    }
    let page = page(&Report::default());
    assert!(page.contains("No test case was run."), "{page}");
}

#[test]
fn a_model_that_writes_html_is_quoted() {
    let mut report = green_report();
    let hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>\u{202e}evil";
    report.cases[0].executions[0].execution.output = hostile.to_owned();
    report.cases[0].case = hostile.to_owned();
    let page = page(&report);
    check(&page);
    assert!(page.contains("&#60;script&#62;alert(1)&#60;/script&#62;"));
    assert!(page.contains("\\u{202e}evil"));
    assert!(page.contains("default-src &#39;none&#39;") || page.contains("default-src 'none'"));
}

#[test]
fn megabyte_outputs_are_cut_with_a_note() {
    let mut report = green_report();
    report.cases.truncate(1);
    report.cases[0].executions[0].execution.output = "<b>".repeat(350_000);
    let page = page(&report);
    check(&page);
    assert!(page.len() < 250_000, "{}", page.len());
    assert!(
        page.contains("The first 20,000 of 1,050,000 characters; the json report has all of them.")
    );
}

#[test]
fn parts_of_checks_are_nested_and_named_scores_are_shown() {
    let mut report = green_report();
    let score = |value| Score::clamped(value).unwrap();
    let part = |label: &str, parts| AssertionResult {
        components: parts,
        ..AssertionResult::pass("javascript", label)
    };
    let mut soft = AssertionResult::new(
        "judge",
        "Is witty",
        Verdict::Fail {
            code: kindlm_types::FailureCode::new("LOW"),
            message: "it is dry".to_owned(),
        },
    )
    .with_severity(Severity::Soft)
    .with_score(score(0.25))
    .with_metadata("minScore", 0.5);
    soft.metric = Some("humour".to_owned());
    let mut graded =
        part("graded", vec![part("first", vec![part("deep", vec![])]), part("second", vec![])]);
    graded.named_scores =
        vec![NamedScore { name: "clarity".to_owned(), score: score(0.75), weight: 1.0 }];
    report.cases[0].executions[0].results = vec![graded, soft];
    let page = page(&report);
    check(&page);
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    assert!(place(">graded<") < place(">first<") && place(">first<") < place(">deep<"));
    let between = &page[place(">deep<")..place(">second<")];
    assert_eq!(between.matches("</ul>").count(), 1, "{between}");
    for text in
        ["0.25 (wants 0.5)", "low score", "counts for humour", "<dt>clarity</dt><dd>0.75</dd>"]
    {
        place(text);
    }
}

#[test]
fn parts_that_lie_very_deep_do_not_break_the_page() {
    let mut report = green_report();
    let mut deep = AssertionResult::pass("javascript", "bottom");
    for level in 0..1_000 {
        let parts = vec![deep];
        deep = AssertionResult {
            components: parts,
            ..AssertionResult::pass("javascript", format!("{level}"))
        };
    }
    report.cases[0].executions[0].results = vec![deep];
    let page = page(&report);
    check(&page);
    assert!(page.contains("more parts, which the json report has"));
}
