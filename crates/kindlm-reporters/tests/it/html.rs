//! Tests of the HTML page: its content, and that text of a report never acts.

use std::collections::BTreeMap;
use std::io::Read as _;

use data_encoding::BASE64;
use flate2::read::GzDecoder;

use html5gum::{Token, Tokenizer};
use kindlm_reporters::Style;
use kindlm_testing::{green_report, sample_report};
use kindlm_types::{AssertionResult, NamedScore, Outcome, Report, Score, Severity, Verdict};
use kindlm_wire::v1;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::render;

fn page(report: &Report) -> String {
    render("html", report, &Style::default())
}

/// The elements without an end tag.
const VOID: [&str; 4] = ["meta", "input", "rect", "br"];
/// The types of the only scripts: two kinds of data, the script of the page, and the script for comparisons, which has
/// no type.
const SCRIPTS: [&str; 4] = ["application/json", "application/x-gzip+base85", "module", ""];

/// Checks the page like a browser.
///
/// Elements must be nested properly, ids must be unique, links must stay in the page, and nothing may be loaded. Only
/// the scripts of the page may run.
#[track_caller]
pub(crate) fn check(page: &str) {
    let mut open: Vec<String> = Vec::new();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut ids = Vec::new();
    // The scripts are the same on every page. The tokenizer would read them as HTML.
    let mut page = page.to_owned();
    for tag in ["<script>", "<script type=\"module\">"] {
        if let Some((start, end)) = page.split_once(tag) {
            page = format!("{start}{tag}</script>{}", end.split_once("</script>").unwrap().1);
        }
    }
    for token in Tokenizer::new(&page) {
        match token.unwrap() {
            Token::StartTag(tag) => {
                let name = String::from_utf8(tag.name.to_vec()).unwrap();
                *seen.entry(name.clone()).or_default() += 1;
                for (attribute, value) in &tag.attributes {
                    let attribute = String::from_utf8(attribute.to_vec()).unwrap();
                    let value = String::from_utf8(value.to_vec()).unwrap();
                    let acts = attribute.starts_with("on")
                        || ["src", "style", "action", "srcset"].contains(&attribute.as_str())
                        || (attribute == "href" && !value.starts_with('#'));
                    assert!(!acts, "<{name} {attribute}={value:?}>");
                    if attribute == "id" {
                        ids.push(value);
                    }
                }
                if name == "script" {
                    let kind = tag.attributes.get(&b"type"[..]);
                    let kind =
                        kind.map_or(String::new(), |it| String::from_utf8(it.to_vec()).unwrap());
                    assert!(SCRIPTS.contains(&kind.as_str()), "{kind}");
                    *seen.entry(kind).or_default() += 1;
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
    for forbidden in ["img", "iframe", "link", "object", "embed", "base"] {
        assert!(!seen.contains_key(forbidden), "<{forbidden}>");
    }
    // Only a page with a script has the form of the filter.
    let scripts = u32::from(page.contains("<script"));
    let comparisons = u32::from(ids.iter().any(|it| it == "compare"));
    for (once, number) in [
        ("style", 1),
        ("main", 1),
        ("h1", 1),
        ("title", 1),
        ("module", scripts),
        ("form", scripts),
        ("", comparisons),
    ] {
        assert_eq!(seen.get(once).copied().unwrap_or(0), number, "<{once}>");
    }
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id is there twice");
}

/// Returns the text of the element that starts with `start`.
fn part<'a>(page: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = page.split_once(start).unwrap_or_else(|| panic!("{start}"));
    rest.split_once(end).unwrap().0
}

/// Decodes bytes like the script of the page.
fn base85(text: &str) -> Vec<u8> {
    let value = |c: u8| u32::from(if c == b'!' { b'<' } else { c }) - u32::from(b'*');
    let mut bytes = Vec::new();
    for group in text.as_bytes().chunks(5) {
        let digits = group.iter().copied().chain([b'~'; 5]).take(5);
        let number = digits.fold(0_u32, |all, it| all.wrapping_mul(85).wrapping_add(value(it)));
        bytes.extend(&number.to_be_bytes()[..group.len() - 1]);
    }
    bytes
}

/// Decodes a data block of the page.
fn block(page: &str, id: &str) -> Value {
    let start = format!("<script type=\"application/x-gzip+base85\" id=\"{id}\">");
    let bytes = base85(part(page, &start, "</script>"));
    let mut json = String::new();
    GzDecoder::new(&bytes[..]).read_to_string(&mut json).unwrap();
    serde_json::from_str(&json).unwrap()
}

/// Returns the page without its style sheet, its script and its data.
fn visible_part(page: &str) -> String {
    let (before, rest) = page.split_once("<meta http-equiv").unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    let (middle, rest) = rest.split_once("<style>").unwrap();
    let (_, rest) = rest.split_once("</head>").unwrap();
    let (body, _) = rest.split_once("<script type=").unwrap();
    format!("{before}{middle}</head>{body}")
}

#[test]
fn the_sample_is_rendered_as_before() {
    let page = page(&sample_report());
    check(&page);
    // The style sheet and the script are reviewed in a browser, and other tests decode the data.
    insta::assert_snapshot!(visible_part(&page));
}

#[test]
fn the_policy_allows_only_the_scripts_of_the_page() {
    let hash = |text: &str| format!("'sha256-{}'", BASE64.encode(&Sha256::digest(text)));
    let with = sample_report();
    let without = Report { comparison: None, ..sample_report() };
    for report in [with, without] {
        let page = page(&report);
        let style = hash(part(&page, "<style>", "</style>"));
        let mut scripts = hash(part(&page, "<script type=\"module\">", "</script>"));
        if report.comparison.is_some() {
            scripts = format!("{scripts} {}", hash(part(&page, "<script>", "</script>")));
        }
        let policy = format!(
            "default-src 'none'; style-src {style}; script-src {scripts}; base-uri 'none'; form-action 'none'; \
             require-trusted-types-for 'script'"
        );
        assert!(page.contains(&format!("content=\"{policy}\"")), "{policy}");
    }
}

#[test]
fn chunks_have_the_cases_of_the_json_report() {
    let report = crate::pages::many(400, 2, 1_500, 7);
    let page = page(&report);
    let index = block(&page, "index");
    let chunks: Vec<Value> = (0..index["chunks"].as_u64().unwrap())
        .map(|at| block(&page, &format!("chunk-{at}")))
        .collect();
    assert!(chunks.len() > 3, "{}", chunks.len());
    let columns = &index["columns"];
    for (at, case) in report.cases.iter().enumerate() {
        let place = &columns["at"][at];
        let found = &chunks[usize::try_from(place[0].as_u64().unwrap()).unwrap()]
            [usize::try_from(place[1].as_u64().unwrap()).unwrap()];
        assert_eq!(found["case"], serde_json::to_value(v1::Case::from(case)).unwrap());
        let name = |list: &str, column: &str| {
            let place = usize::try_from(columns[column][at].as_u64().unwrap()).unwrap();
            index[list][place].as_str().unwrap().to_owned()
        };
        assert_eq!(
            (name("tests", "test"), name("models", "model")),
            (case.case.clone(), case.model.clone())
        );
        let is_failed = case.outcome == Outcome::Failed;
        assert_eq!(columns["outcome"][at] == 2, is_failed);
        assert_eq!(columns["causes"][at] != json!([]), is_failed, "{:?}", case.case);
    }
}

#[test]
fn unreported_tokens_are_not_shown_as_0() {
    let mut report = sample_report();
    for case in &mut report.cases {
        case.total_tokens = 0;
        let judges = case.executions.iter_mut().flat_map(|it| &mut it.judge_spending);
        judges.for_each(|it| it.tokens = 0);
    }
    let page = page(&report);
    let index = block(&page, "index");
    let tokens = index["columns"]["tokens"].as_array().unwrap();
    assert!(!tokens.is_empty() && tokens.iter().all(Value::is_null), "{tokens:?}");
    assert!(page.contains("<td class=\"num\">not reported</td>"));
}

#[test]
fn cases_have_their_differences_marks_and_command() {
    let page = page(&crate::rich::report());
    check(&page);
    assert!(visible_part(&page).contains("Total 78.<mark>90</mark> EUR"));
    let cases = block(&page, "chunk-0");
    let view = |name: &str| {
        let found = cases.as_array().unwrap().iter().find(|it| it["case"]["case"] == name);
        found.unwrap()["view"].clone()
    };
    let receipt = view("prints the exact receipt");
    let changed: Vec<&Value> =
        receipt["diffs"]["0/0/0"].as_array().unwrap().iter().filter(|it| it[0] != " ").collect();
    let expected =
        [json!(["-", "Total 78.", "90", " EUR"]), json!(["+", "Total 78.", "80", " EUR"])];
    assert_eq!(changed, expected.iter().collect::<Vec<_>>());
    let refund = view("refunds what the mug cost");
    assert_eq!(
        refund["marks"]["0/output"][0],
        json!([
            8,
            24,
            "quote",
            "quoted by the judge: Judge: The customer gets back what the mug cost"
        ])
    );
    assert_eq!(refund["marks"]["0/output"][1], json!([61, 65, "bad", "card number"]));
    assert_eq!(refund["marks"]["0/turn/0"][0][2], "var");
    assert_eq!(refund["rows"]["0/3"]["score"], "0.57 (wants 0.8)");
    assert_eq!(
        refund["command"],
        "kindlm test --test 'refunds what the mug cost' --models gpt-4o -c agents/support/kindlm.yaml"
    );
}

#[test]
fn cases_read_without_the_script() {
    let page = visible_part(&page(&crate::rich::report()));
    for text in [
        "<p class=\"command\"><code>kindlm test --test &#39;refunds what the mug cost&#39; --models gpt-4o -c agents/support/kindlm.yaml</code></p>",
        "<span>agents/support/kindlm.yaml:41</span>",
        "agents/support/kindlm.yaml:48",
        "<span class=\"pill\">failed 0.35</span> <b>strict</b><p dir=\"auto\">The answer says",
    ] {
        assert!(page.contains(text), "{text}\n{page}");
    }
    // Each call stands below the message of its turn.
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    assert!(place("<b>lookup_order</b>") < place("Please refund the mug."));
    assert!(place("Please refund the mug.") < place("<b>issue_refund</b>"));
}

#[test]
fn a_cause_names_the_models_of_a_repeated_case() {
    let page = visible_part(&page(&crate::rich::report()));
    for text in
        [">prints the exact receipt (gpt-4o)</a> ·", ">prints the exact receipt (claude)</a>"]
    {
        assert!(page.contains(text), "{text}");
    }
    // A case that is listed once has no model.
    assert!(page.contains(">refunds what the mug cost</a>"));
}

#[test]
fn the_page_answers_without_its_script() {
    let page = visible_part(&page(&sample_report()));
    for text in [
        "4 of 13 cases held (30.8%, 95% interval 12.7 to 57.6%)",
        "Pass rate: 30.8% (min: 95.0%)",
        "PII: card number",
        "formal_tone",
        "never shows a card number",
        "Found 1 PII match",
        "no price is known",
        "answers in French",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn only_the_first_cases_are_html() {
    let page = visible_part(&page(&crate::pages::many(300, 1, 200, 3)));
    assert_eq!(page.matches("<details class=\"card case failed").count(), 20);
    assert_eq!(page.matches("<span aria-hidden=\"true\">✗ </span>failed</span></td>").count(), 80);
    assert!(page.contains("… and 100 cases more are shown only with script"), "{page}");
}

#[test]
fn the_head_is_small_and_has_the_summary() {
    let mut report = crate::pages::many(2_000, 3, 20, 2);
    report.warnings = vec!["x".repeat(10_000); 100];
    let page = page(&report);
    let head = part(&page, "id=\"head\">", "</script>");
    assert!(head.len() <= 50_000, "{}", head.len());
    let head: Value = serde_json::from_str(head).unwrap();
    assert_eq!(
        head["totals"]["failed"],
        head["totals"]["cases"].as_u64().unwrap() - head["totals"]["passed"].as_u64().unwrap()
    );
    assert_eq!(head["gates"][0]["gate"], "passRateMin");
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
    graded.named_scores = vec![NamedScore::new("clarity", score(0.75), 1.0)];
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

#[test]
fn a_large_page_cuts_texts_of_passed_cases_first() {
    // Outputs have 4,000 characters, and every second case fails.
    let report = crate::pages::many(60, 1, 6_000, 2);
    let limited = |html_limit| render("html", &report, &Style { html_limit, ..Style::default() });
    let whole = limited(usize::MAX).len();
    for (limit, passed, failed, note) in [
        (usize::MAX, 4_000, 4_000, ""),
        (whole + 1_000, 4_000, 4_000, ""),
        (whole - 10_000, 2_000, 4_000, "Texts of passed cases are cut to 2,000 characters. So"),
        (whole - 50_000, 200, 4_000, "Texts of passed cases are cut to 200 characters. So"),
        (whole - 90_000, 200, 2_000, "characters, and those of other cases to 2,000. So"),
        (1_000, 200, 200, "The page is larger than its limit of 0 MB"),
    ] {
        let page = limited(limit);
        check(&page);
        assert!(page.len() <= limit || limit == 1_000, "{} of {limit}", page.len());
        assert_eq!(page.contains("--html-limit"), !note.is_empty());
        assert!(page.contains(note), "{note}");
        let index = block(&page, "index");
        for (at, outcome) in index["columns"]["outcome"].as_array().unwrap().iter().enumerate() {
            let place = &index["columns"]["at"][at];
            let chunk = block(&page, &format!("chunk-{}", place[0]));
            let case = &chunk[usize::try_from(place[1].as_u64().unwrap()).unwrap()]["case"];
            let output = case["executions"][0]["output"].as_str().unwrap();
            let most = if outcome == 2 { failed } else { passed };
            let size = output.split("… [cut: 4,0").next().unwrap().chars().count();
            assert!((most..most + 12).contains(&size), "{size} of {most}");
        }
    }
}

#[test]
fn cut_texts_that_differ_stay_different() {
    let mut report = green_report();
    report.cases.truncate(1);
    let first = report.cases[0].executions[0].clone();
    report.cases[0].executions = (0..2)
        .map(|repeat| {
            let mut it = first.clone();
            it.execution.repeat = repeat;
            it.execution.output = format!("{}{repeat}", crate::pages::random_words(1, 60_000));
            it
        })
        .collect();
    let page = render("html", &report, &Style { html_limit: 1_000, ..Style::default() });
    let executions = &block(&page, "chunk-0")[0]["case"]["executions"];
    assert_ne!(executions[0]["output"], executions[1]["output"]);
}
