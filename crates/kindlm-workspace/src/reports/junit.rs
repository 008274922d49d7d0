//! Parses JUnit XML reports.

use kindlm_types::workspace::{TestRan, TestStatus};
use roxmltree::{Document, Node};

use super::test;

pub(super) fn parse_tests(report: &str) -> Result<Vec<TestRan>, String> {
    let document = Document::parse(report.trim_start()).map_err(|err| err.to_string())?;
    let root = document.root_element();
    if !matches!(root.tag_name().name(), "testsuites" | "testsuite") {
        return Err(format!("the root element is `{}`, not `testsuites`", root.tag_name().name()));
    }
    let mut tests = Vec::new();
    // Some runners write tests directly in the root element, without a suite.
    let is_suite = |it: &Node<'_, '_>| matches!(it.tag_name().name(), "testsuites" | "testsuite");
    for suite in root.descendants().filter(is_suite) {
        let cases = cases_of(suite);
        let before = tests.len();
        for case in &cases {
            tests.push(one(*case)?);
        }
        let more = not_run(suite, &cases, &mut tests[before..]);
        tests.extend(more);
        tests.extend(of_suite(suite));
        check_count(suite, cases.len())?;
        check_failures(suite)?;
    }
    Ok(tests)
}

/// Returns the error of a suite as a failed test with the suite's name.
///
/// An example is an error in the setup. Returns `None` without an error.
fn of_suite(suite: Node<'_, '_>) -> Option<TestRan> {
    let bad: Vec<String> = suite.children().filter(is_bad).map(failure_message).collect();
    let name = suite.attribute("name").map(str::trim).filter(|it| !it.is_empty());
    let name = name.unwrap_or(suite.tag_name().name()).to_owned();
    (!bad.is_empty()).then(|| test(name, TestStatus::Failed, Some(bad.join("\n")), None))
}

/// Returns the number of tests that a suite lists in excess of its attribute `tests`.
///
/// Jest (`jest-junit`) lists a `todo` in the same way as a passed test. Returns 0 if fewer listed tests may be a
/// `todo`.
fn uncounted(suite: Node<'_, '_>, cases: &[Node<'_, '_>]) -> usize {
    let counted: Option<usize> = suite.attribute("tests").and_then(|it| it.trim().parse().ok());
    let more = counted.map_or(0, |it| cases.len().saturating_sub(it));
    if more <= cases.iter().filter(|it| may_be_todo(**it)).count() { more } else { 0 }
}

/// Returns true if a test may not have run.
///
/// Such a test took no time, and has no status and no child element.
fn may_be_todo(case: Node<'_, '_>) -> bool {
    let time = case.attribute("time").map(str::trim);
    let took_no_time = time.is_none_or(|it| it.parse() == Ok(0.0_f64));
    took_no_time && !case.children().any(|it| it.is_element()) && !case.has_attribute("status")
}

/// Marks as skipped the tests that the suite does not count.
///
/// If these tests cannot be distinguished from fast tests, the fast tests are marked too. Then the function returns one
/// passed test, with the suite's name, in place of the fast tests. Otherwise it returns `None`.
fn not_run(suite: Node<'_, '_>, cases: &[Node<'_, '_>], tests: &mut [TestRan]) -> Option<TestRan> {
    let uncounted = uncounted(suite, cases);
    if uncounted == 0 {
        return None;
    }
    let mut all = 0;
    for (_, test) in cases.iter().zip(tests).filter(|(case, _)| may_be_todo(**case)) {
        test.status = TestStatus::Skipped;
        all += 1;
    }
    let name = suite.attribute("name").unwrap_or_default();
    let name = format!("{name}: {} of {all} tests that took no time", all - uncounted);
    (all > uncounted).then(|| test(name, TestStatus::Passed, None, None))
}

/// Fails if the suite's count does not match its tests.
///
/// Some runners count the tests of nested suites too.
fn check_count(suite: Node<'_, '_>, own: usize) -> Result<(), String> {
    let Some(told) = suite.attribute("tests") else { return Ok(()) };
    let told: usize = told.trim().parse().map_err(|_| format!("`tests` is `{told}`"))?;
    let all = suite.descendants().filter(|it| it.has_tag_name("testcase")).count();
    let own_bad = suite.children().any(|it| is_bad(&it));
    let suites = suite.descendants().filter(|it| it.has_tag_name("testsuite"));
    let uncounted: usize = suites.map(|it| uncounted(it, &cases_of(it))).sum();
    let fits = |it| told == it || told + uncounted == it;
    // A suite with an error may count this error as a test.
    if fits(own) || fits(all) || (own_bad && (told == own + 1 || told == all + 1)) {
        return Ok(());
    }
    let name = suite.attribute("name").unwrap_or_default();
    Err(format!("the suite `{name}` declares {told} tests, but {all} are listed"))
}

/// Returns the tests of a suite, without the tests of nested suites.
fn cases_of<'a, 'i>(suite: Node<'a, 'i>) -> Vec<Node<'a, 'i>> {
    suite.children().filter(|it| it.has_tag_name("testcase")).collect()
}

/// Fails if a suite counts more failures than its tests show.
///
/// The exit code is not enough, because a pipe in the command may hide it.
fn check_failures(suite: Node<'_, '_>) -> Result<(), String> {
    let mut counted = 0;
    for key in ["failures", "errors"] {
        let Some(told) = suite.attribute(key).map(str::trim).filter(|it| !it.is_empty()) else {
            continue;
        };
        let told: usize = told.parse().map_err(|_| format!("`{key}` is `{told}`"))?;
        counted += told;
    }
    let is_suite = |it: &Node<'_, '_>| !it.has_tag_name("testcase");
    let mut told = suite
        .descendants()
        .filter(|it| is_bad(it) && it.parent().is_some_and(|it| is_suite(&it)))
        .count();
    for case in suite.descendants().filter(|it| it.has_tag_name("testcase")) {
        // A test that failed, and then had an error in its cleanup, counts twice.
        let bad = case.children().filter(is_bad).count();
        told += if bad == 0 { usize::from(in_words(case)? == TestStatus::Failed) } else { bad };
    }
    if counted <= told {
        return Ok(());
    }
    let name = suite.attribute("name").unwrap_or_default();
    Err(format!("the suite `{name}` counts {counted} failures and errors, but {told} are listed"))
}

/// Returns true if the element is supported inside a test.
///
/// Maven tools add some of these elements for repeated tests.
fn is_known(it: &Node<'_, '_>) -> bool {
    const KNOWN: [&str; 12] = [
        "failure",
        "error",
        "skipped",
        "system-out",
        "system-err",
        "properties",
        "property",
        "flakyFailure",
        "flakyError",
        "rerunFailure",
        "rerunError",
        "attachments",
    ];
    KNOWN.contains(&it.tag_name().name())
}

fn is_bad(it: &Node<'_, '_>) -> bool {
    matches!(it.tag_name().name(), "failure" | "error")
}

fn one(case: Node<'_, '_>) -> Result<TestRan, String> {
    let name = case.attribute("name").ok_or("a `testcase` has no `name`")?;
    let class = case.attribute("classname").unwrap_or_default();
    let name = match class {
        "" => name.to_owned(),
        class if class == name => name.to_owned(),
        class => format!("{class} > {name}"),
    };
    if let Some(it) = case.children().find(|it| it.is_element() && !is_known(it)) {
        let tag = it.tag_name().name();
        return Err(format!("the test `{name}` has an unsupported element `{tag}`"));
    }
    let bad = case.children().filter(is_bad).map(failure_message).collect::<Vec<_>>();
    let is_skipped = case.children().any(|it| it.has_tag_name("skipped"));
    let status = match (bad.is_empty(), is_skipped) {
        (false, _) => TestStatus::Failed,
        (true, true) => TestStatus::Skipped,
        (true, false) => in_words(case)?,
    };
    let seconds = case.attribute("time").and_then(|it| it.replace(',', "").parse::<f64>().ok());
    Ok(test(name, status, Some(bad.join("\n")), seconds.map(|it| it * 1000.0)))
}

/// Returns the status that the attributes of a test give.
///
/// Some C++ test runners mark a skipped test only with an attribute. An unknown word is an error.
fn in_words(case: Node<'_, '_>) -> Result<TestStatus, String> {
    let mut status = TestStatus::Passed;
    for key in ["status", "result"] {
        let Some(word) = case.attribute(key) else { continue };
        match word.trim().to_ascii_lowercase().as_str() {
            "" | "run" | "completed" | "finished" | "passed" | "pass" | "ok" | "success"
            | "successful" => {}
            "notrun" | "not run" | "disabled" | "suppressed" | "skipped" | "skip" | "ignored"
            | "pending" => status = TestStatus::Skipped,
            "fail" | "failed" | "failure" | "error" | "broken" | "panicked" | "aborted"
            | "interrupted" | "timedout" | "timeout" => return Ok(TestStatus::Failed),
            _ => return Err(format!("a `testcase` has the {key} `{word}`")),
        }
    }
    Ok(status)
}

/// Returns the message of a failure, joined with the element's text.
///
/// If one of the two is empty, or the text contains the message, only the longer one is returned.
fn failure_message(bad: Node<'_, '_>) -> String {
    let message = bad.attribute("message").unwrap_or_default().trim();
    let text = bad.text().unwrap_or_default().trim();
    match (message, text) {
        ("", text) => text.to_owned(),
        (message, "") => message.to_owned(),
        (message, text) if text.contains(message) => text.to_owned(),
        (message, text) => format!("{message}\n{text}"),
    }
}
