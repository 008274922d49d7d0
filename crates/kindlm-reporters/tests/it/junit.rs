//! Tests of JUnit XML against the schema `junit-10.xsd` of Jenkins and the requirements of other parsers.

use std::collections::{BTreeMap, HashSet};

use kindlm_reporters::Style;
use kindlm_testing::{green_report, sample_report};
use kindlm_types::{AssertionResult, FailureCode, Outcome, Report, ShardInfo};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::{placed_report, render};

/// A rule for an element, from `junit-10.xsd` and from other parsers.
///
/// It lists the allowed children, the allowed attributes and the required attributes, and states if text is allowed.
struct Rule {
    name: &'static str,
    children: &'static [&'static str],
    attributes: &'static [&'static str],
    required: &'static [&'static str],
    text: bool,
}

const RULES: [Rule; 11] = [
    Rule {
        name: "testsuites",
        children: &["testsuite"],
        attributes: &["name", "time", "tests", "failures", "disabled", "errors"],
        required: &["name", "time", "tests", "failures", "errors"],
        text: false,
    },
    Rule {
        name: "testsuite",
        children: &["testsuite", "properties", "testcase", "system-out", "system-err"],
        attributes: &[
            "name",
            "tests",
            "failures",
            "errors",
            "time",
            "disabled",
            "skipped",
            "skips",
            "timestamp",
            "hostname",
            "id",
            "package",
            "assertions",
            "file",
            "skip",
            "log",
            "url",
        ],
        required: &["name", "tests", "failures", "errors", "skipped", "time"],
        text: false,
    },
    Rule {
        name: "properties",
        children: &["property"],
        attributes: &[],
        required: &[],
        text: false,
    },
    Rule {
        name: "property",
        children: &[],
        attributes: &["name", "value"],
        required: &["name", "value"],
        text: false,
    },
    Rule {
        name: "testcase",
        children: &[
            "skipped",
            "error",
            "failure",
            "rerunFailure",
            "rerunError",
            "system-out",
            "system-err",
        ],
        attributes: &[
            "name",
            "assertions",
            "time",
            "timestamp",
            "classname",
            "status",
            "class",
            "file",
            "line",
            "log",
            "group",
            "url",
        ],
        required: &["name", "classname", "time"],
        text: false,
    },
    Rule {
        name: "failure",
        children: &[],
        attributes: &["type", "message"],
        required: &["type", "message"],
        text: true,
    },
    Rule {
        name: "error",
        children: &[],
        attributes: &["type", "message"],
        required: &["type", "message"],
        text: true,
    },
    Rule {
        name: "skipped",
        children: &[],
        attributes: &["type", "message"],
        required: &["message"],
        text: true,
    },
    Rule { name: "system-out", children: &[], attributes: &[], required: &[], text: true },
    Rule { name: "system-err", children: &[], attributes: &[], required: &[], text: true },
    Rule {
        name: "rerunFailure",
        children: &["system-out", "system-err"],
        attributes: &["type", "message"],
        required: &[],
        text: true,
    },
];

fn rule(name: &str) -> &'static Rule {
    RULES
        .iter()
        .find(|it| it.name == name)
        .unwrap_or_else(|| panic!("junit-10.xsd has no <{name}>"))
}

/// An XML element with its attributes, text and children.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    text: String,
    children: Vec<Element>,
}

impl Element {
    fn get(&self, attribute: &str) -> &str {
        self.attributes
            .get(attribute)
            .unwrap_or_else(|| panic!("<{}> has no {attribute}", self.name))
    }

    fn count(&self, attribute: &str) -> usize {
        self.get(attribute).parse().unwrap()
    }

    fn has(&self, child: &str) -> bool {
        self.children.iter().any(|it| it.name == child)
    }

    fn all<'a>(&'a self, child: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |it| it.name == child)
    }
}

fn element(start: &BytesStart<'_>) -> Element {
    let attributes = start.attributes().map(|it| {
        let it = it.unwrap();
        let value = quick_xml::escape::unescape(&it.value).unwrap().into_owned();
        (it.key.as_ref().to_owned(), value)
    });
    Element {
        name: start.name().as_ref().to_owned(),
        attributes: attributes.collect(),
        ..Element::default()
    }
}

/// Parses XML strictly. Panics if the XML is invalid.
fn parse(xml: &str) -> Element {
    let mut reader = Reader::from_str(xml);
    reader.config_mut().check_end_names = true;
    let mut open = vec![Element::default()];
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => open.push(element(&start)),
            Event::Empty(start) => open.last_mut().unwrap().children.push(element(&start)),
            Event::End(_) => {
                let done = open.pop().unwrap();
                open.last_mut().unwrap().children.push(done);
            }
            Event::Text(text) => open.last_mut().unwrap().text.push_str(&text),
            Event::GeneralRef(name) => {
                let text = format!("&{};", &*name);
                open.last_mut()
                    .unwrap()
                    .text
                    .push_str(&quick_xml::escape::unescape(&text).unwrap());
            }
            Event::Decl(_) => {}
            Event::Eof => break,
            other => panic!("unexpected {other:?}"),
        }
    }
    assert_eq!(open.len(), 1, "every element is closed");
    let root = open.pop().unwrap();
    assert_eq!(root.children.len(), 1, "one root");
    root.children.into_iter().next().unwrap()
}

fn check_element(element: &Element) {
    let rule = rule(&element.name);
    for name in element.attributes.keys() {
        assert!(rule.attributes.contains(&name.as_str()), "<{}> may not have {name}", rule.name);
    }
    for name in rule.required {
        assert!(element.attributes.contains_key(*name), "<{}> must have {name}", rule.name);
    }
    assert!(
        rule.text || element.text.trim().is_empty(),
        "stray text in <{}>: {}",
        rule.name,
        element.text
    );
    assert!(element.attributes.values().all(|it| it.len() <= 4096 || rule.name != "failure"));
    for child in &element.children {
        assert!(
            rule.children.contains(&child.name.as_str()),
            "<{}> in <{}>",
            child.name,
            rule.name
        );
        check_element(child);
    }
}

fn check_time(element: &Element) {
    let (whole, decimals) = element.get("time").split_once('.').expect("a dot");
    assert!(decimals.len() == 3 && whole.parse::<u64>().is_ok() && decimals.parse::<u64>().is_ok());
}

/// Checks all requirements that apply to every file.
pub(crate) fn check(xml: &str) {
    let is_char = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    assert!(xml.chars().all(is_char), "only characters of XML 1.0");
    assert!(xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites "));
    assert!(!xml.contains("]]>"));
    let root = parse(xml);
    assert_eq!(root.name, "testsuites");
    check_element(&root);
    check_time(&root);
    let (mut tests, mut failures, mut errors) = (0, 0, 0);
    let mut identities = HashSet::new();
    for suite in root.all("testsuite") {
        check_time(suite);
        let cases: Vec<&Element> = suite.all("testcase").collect();
        let with = |child: &str| cases.iter().filter(|it| it.has(child)).count();
        assert_eq!(suite.count("tests"), cases.len());
        assert_eq!(suite.count("failures"), with("failure"));
        assert_eq!(suite.count("errors"), with("error"));
        assert_eq!(suite.count("skipped"), with("skipped"));
        assert!(!cases.is_empty(), "some readers fail on a suite without tests");
        for case in cases {
            check_time(case);
            let ending =
                |it: &&Element| ["failure", "error", "skipped"].contains(&it.name.as_str());
            let endings = case.children.iter().filter(ending).count();
            assert!(endings <= 1, "readers look at the first only");
            assert!(case.all("system-out").count() <= 1 && case.children.len() <= endings + 1);
            assert!(endings == 0 || case.children.first().is_some_and(|it| ending(&it)));
            let identity = (case.get("classname").to_owned(), case.get("name").to_owned());
            assert!(identities.insert(identity), "readers drop the second of two equal names");
        }
        tests += suite.count("tests");
        failures += suite.count("failures");
        errors += suite.count("errors");
    }
    assert_eq!(
        (root.count("tests"), root.count("failures"), root.count("errors")),
        (tests, failures, errors)
    );
}

fn junit(report: &Report) -> String {
    render("junit", report, &Style::default())
}

#[test]
fn shows_the_sample() {
    insta::assert_snapshot!(junit(&sample_report()));
}

#[test]
fn tests_have_their_line_tags_and_properties() {
    let report = placed_report();
    let xml = junit(&report);
    check(&xml);
    let root = parse(&xml);
    for case in &report.cases {
        let suite = root.all("testsuite").find(|it| it.get("name") == case.model).unwrap();
        let found = suite.all("testcase").find(|it| it.get("name") == case.case).unwrap();
        let source = case.source.as_ref().unwrap();
        assert_eq!((found.get("file"), found.count("line")), (&*source.file, source.line as usize));
        assert_eq!(found.attributes.get("group").cloned().unwrap_or_default(), case.tags.join(" "));
        let printed: String = found.all("system-out").map(|it| it.text.as_str()).collect();
        let tokens = format!("[[PROPERTY|tokens={}]]", case.total_tokens);
        assert_eq!(printed.contains(&tokens), case.total_tokens > 0, "{printed}");
    }
}

#[test]
fn missing_tokens_are_left_out() {
    let mut report = green_report();
    let is_written = |it: &Report| {
        let xml = junit(it);
        (xml.contains("name=\"tokens\""), xml.contains("[[PROPERTY|tokens="))
    };
    assert_eq!(is_written(&report), (true, true));
    for case in &mut report.cases {
        case.total_tokens = 0;
        for result in &mut case.executions {
            result.execution.usage.total_tokens = 0;
        }
    }
    assert_eq!(is_written(&report), (false, false));
}

#[test]
fn a_property_cannot_be_ended_by_its_value() {
    let mut report = sample_report();
    report.cases[0].tags = vec!["a]]\n[[PROPERTY|cost_usd=0".to_owned()];
    let xml = junit(&report);
    check(&xml);
    assert!(xml.contains("[[PROPERTY|tags=a] ]\\n[[PROPERTY|cost_usd=0]]"), "{xml}");
}

#[test]
fn keeps_to_the_rules_of_jenkins() {
    for report in [sample_report(), placed_report(), green_report(), Report::default()] {
        check(&junit(&report));
    }
}

#[test]
fn outcomes_become_outcomes_of_junit() {
    let report = sample_report();
    let root = parse(&junit(&report));
    for case in &report.cases {
        let suite = root.all("testsuite").find(|it| it.get("name") == case.model).unwrap();
        let found = suite.all("testcase").find(|it| it.get("name") == case.case).unwrap();
        let expected = match case.outcome {
            Outcome::Passed | Outcome::Scored => None,
            Outcome::Failed => Some("failure"),
            Outcome::Errored => Some("error"),
            Outcome::Skipped => Some("skipped"),
        };
        let ending = ["failure", "error", "skipped"].into_iter().find(|it| found.has(it));
        assert_eq!(ending, expected, "{} on {}", case.case, case.model);
        assert_eq!(found.get("file"), "agents/support/kindlm.yaml");
    }
}

#[test]
fn a_broken_gate_is_a_failure_and_an_idle_one_is_skipped() {
    let root = parse(&junit(&sample_report()));
    let gates = root.all("testsuite").find(|it| it.get("name") == "quality gates").unwrap();
    let gate = |id: &str| gates.all("testcase").find(|it| it.get("name") == id).unwrap();
    assert!(gate("passRateMin").has("failure"));
    assert!(gate("driftScoreMax").has("skipped"));
    assert!(!gate("judgeAvgMin").has("failure"));
}

#[test]
fn equal_names_get_numbers() {
    let mut report = sample_report();
    for case in &mut report.cases {
        "the same".clone_into(&mut case.case);
        "m".clone_into(&mut case.model);
    }
    // These names become equal when invalid characters are removed.
    "the same\u{1}".clone_into(&mut report.cases[1].case);
    check(&junit(&report));
}

#[test]
fn a_very_long_message_is_cut() {
    let mut report = sample_report();
    for result in
        report.cases.iter_mut().flat_map(|it| &mut it.executions).flat_map(|it| &mut it.results)
    {
        if let kindlm_types::Verdict::Fail { message, .. } = &mut result.verdict {
            *message = "ü".repeat(100_000);
        }
    }
    let xml = junit(&report);
    check(&xml);
    assert!(xml.len() < 200_000, "{}", xml.len());
}

#[test]
fn the_gates_of_a_shard_are_left_out() {
    let mut report = sample_report();
    assert!(render("junit", &report, &Style::default()).contains("quality gates"));
    report.shard = Some(ShardInfo { index: 1, count: 2, ..ShardInfo::default() });
    assert!(!render("junit", &report, &Style::default()).contains("quality gates"));
    let document = render("compliance", &report, &Style::default());
    assert!(document.contains("a shard has no gates") && !document.contains("VIOLATED"));
}

#[test]
fn a_reason_inside_the_message_is_not_repeated() {
    let mut report = green_report();
    let message = "It is rude. (borderline: 1 of 3 votes pass)";
    let failed = AssertionResult::fail("judge", "polite", FailureCode::new("X"), message);
    report.cases[0].outcome = Outcome::Failed;
    report.cases[0].executions[0].outcome = Outcome::Failed;
    report.cases[0].executions[0].results = vec![failed.with_reasoning("It is rude.")];
    let text = render("junit", &report, &Style::default());
    let body = text.split("X: polite").nth(1).unwrap();
    assert_eq!(body.matches("It is rude.").count(), 1, "{text}");
}
