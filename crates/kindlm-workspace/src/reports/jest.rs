//! Parses the JSON reports of Vitest and Jest.

use kindlm_types::workspace::{TestRan, TestStatus};
use serde::Deserialize;

use super::{below, test};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    num_total_tests: usize,
    num_failed_tests: Option<usize>,
    num_failed_test_suites: Option<usize>,
    success: Option<bool>,
    test_results: Vec<File>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    name: String,
    status: String,
    #[serde(default)]
    message: String,
    assertion_results: Vec<Test>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Test {
    #[serde(default)]
    ancestor_titles: Vec<String>,
    title: String,
    status: String,
    #[serde(default)]
    duration: Option<f64>,
    #[serde(default)]
    failure_messages: Option<Vec<String>>,
}

pub(super) fn parse_tests(report: &str, folder: &str) -> Result<Vec<TestRan>, String> {
    let report = parse(report)?;
    let mut tests = Vec::new();
    for file in &report.test_results {
        let name = below(&file.name, folder);
        let before = tests.len();
        for it in &file.assertion_results {
            tests.push(one(name, it)?);
        }
        let has_failed = tests[before..].iter().any(|it| it.status == TestStatus::Failed);
        // A file can fail although all its tests passed: the file could not be loaded, or a hook failed.
        if file.status == "failed" && !has_failed {
            let message = Some(file.message.clone());
            tests.push(test(name.to_owned(), TestStatus::Failed, message, None));
        }
    }
    let told: usize = report.test_results.iter().map(|it| it.assertion_results.len()).sum();
    if told != report.num_total_tests {
        let total = report.num_total_tests;
        return Err(format!("`numTotalTests` is {total}, but {told} are listed"));
    }
    check_failures(&report, &tests)?;
    Ok(tests)
}

/// Fails if the counts in the report do not match its tests.
///
/// The exit code is not enough, because a pipe in the command may hide it.
fn check_failures(report: &Report, tests: &[TestRan]) -> Result<(), String> {
    let told = report.test_results.iter().flat_map(|it| &it.assertion_results);
    let told = told.filter(|it| it.status == "failed").count();
    if let Some(failed) = report.num_failed_tests.filter(|it| *it != told) {
        return Err(format!("`numFailedTests` is {failed}, but {told} failed tests are listed"));
    }
    let has_failed = tests.iter().any(|it| it.status == TestStatus::Failed);
    if let Some(failed) = report.num_failed_test_suites.filter(|it| *it > 0 && !has_failed) {
        return Err(format!("`numFailedTestSuites` is {failed}, but nothing failed"));
    }
    match report.success {
        Some(false) if !has_failed => Err("`success` is false, but nothing failed".to_owned()),
        Some(true) if has_failed => Err("`success` is true, but a test failed".to_owned()),
        _ => Ok(()),
    }
}

fn one(file: &str, it: &Test) -> Result<TestRan, String> {
    let status = match it.status.as_str() {
        "passed" => TestStatus::Passed,
        "failed" => TestStatus::Failed,
        "pending" | "skipped" | "todo" | "disabled" => TestStatus::Skipped,
        other => return Err(format!("a test has the status `{other}`")),
    };
    let titles = it.ancestor_titles.iter().filter(|it| !it.is_empty());
    let mut names = vec![file];
    names.extend(titles.map(String::as_str));
    names.push(&it.title);
    let message = it.failure_messages.as_ref().map(|it| it.join("\n"));
    Ok(test(names.join(" > "), status, message, it.duration))
}

/// Parses a report, which may be between other lines of output.
///
/// Fails if the text has no report, or several reports.
fn parse(text: &str) -> Result<Report, String> {
    let whole = match serde_json::from_str(text) {
        Ok(report) => return Ok(report),
        Err(err) => err,
    };
    let starts = text.match_indices('{').map(|(at, _)| at);
    let starts = starts.filter(|at| *at == 0 || text.as_bytes().get(at - 1) == Some(&b'\n'));
    let found = starts.take(100).find_map(|at| {
        let mut stream = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Report>();
        let report = stream.next()?.ok()?;
        Some((report, at, at + stream.byte_offset()))
    });
    let (report, start, end) = found.ok_or_else(|| whole.to_string())?;
    if [&text[..start], &text[end..]].iter().any(|it| it.contains("\"numTotalTests\"")) {
        return Err("there is more than one report, and only one can be read".to_owned());
    }
    Ok(report)
}
