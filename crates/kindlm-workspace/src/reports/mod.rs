//! Parses the reports of test runners.
//!
//! The parsers only look at the text. An incomplete report is an error, and never a shorter list of tests.

mod cargo_test;
mod go;
mod jest;
mod junit;
mod libtest;
mod pytest;
mod tap;

use std::collections::{HashMap, HashSet};

use kindlm_types::workspace::{TestFormat, TestRan, TestStatus};

/// The maximum number of characters that are stored of a failure message.
const MESSAGE: usize = 4000;

/// Parses a report, and returns its tests.
///
/// The path `folder` is removed from names and messages. `is_file` returns true if a path in `folder` is a file. This
/// check is needed because Node.js reports a test with the name of the file if no test ran in the file.
///
/// # Errors
///
/// Fails if the report is empty, incomplete or contradictory.
pub fn parse_tests(
    format: TestFormat,
    report: &str,
    folder: &str,
    is_file: impl Fn(&str) -> bool,
) -> Result<Vec<TestRan>, String> {
    let report = report.trim_start_matches('\u{feff}');
    if report.trim().is_empty() {
        return Err("there is no report: the tests wrote nothing".to_owned());
    }
    let read = match format {
        TestFormat::Vitest => jest::parse_tests(report, folder),
        TestFormat::Junit => junit::parse_tests(report),
        TestFormat::Tap => tap::parse_tests(report, folder, is_file),
        TestFormat::CargoNextest if report.trim_start().starts_with('<') => {
            junit::parse_tests(report)
        }
        TestFormat::CargoNextest => libtest::parse_tests(report),
        TestFormat::CargoTest => cargo_test::parse_tests(report),
        TestFormat::GoTestJson => go::parse_tests(report),
        TestFormat::PytestJson => pytest::parse_tests(report),
    };
    let mut tests = read.map_err(|why| {
        let why = why.replace(&format!("{folder}/"), "");
        format!("the report is not a readable `{}`: {why}", format.as_str())
    })?;
    finish(&mut tests, folder);
    Ok(tests)
}

/// Returns the reason why the results are not credible; `None` if they are credible.
///
/// The reason is that no test ran, or that the exit code contradicts the tests.
pub fn contradiction(exit_code: Option<i32>, tests: &[TestRan]) -> Option<String> {
    let failed = tests.iter().filter(|it| it.status == TestStatus::Failed).count();
    let skipped = tests.iter().filter(|it| it.status == TestStatus::Skipped).count();
    if tests.is_empty() {
        return Some("no test was run: the report lists none".to_owned());
    }
    if skipped == tests.len() {
        return Some(format!("no test was run: all {skipped} in the report were skipped"));
    }
    match exit_code {
        Some(0) if failed > 0 => {
            Some(format!("the exit code is 0, but the report lists {failed} failed tests"))
        }
        Some(code) if code != 0 && failed == 0 => {
            Some(format!("the exit code is {code}, but the report lists no failed test"))
        }
        _ => None,
    }
}

/// Makes the names of tests unique, and shortens long messages.
///
/// Removes the path of the folder from names and messages, because the path differs in each run.
fn finish(tests: &mut [TestRan], folder: &str) {
    let folder = format!("{folder}/");
    for test in tests.iter_mut() {
        test.name = test.name.replace(&folder, "");
    }
    let mut taken: HashSet<String> = tests.iter().map(|it| it.name.clone()).collect();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for test in tests {
        let count = seen.entry(test.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            let name = std::mem::take(&mut test.name);
            loop {
                test.name = format!("{name} ({count})");
                if taken.insert(test.name.clone()) {
                    break;
                }
                *count += 1;
            }
        }
        let message = test.message.take().map(|it| it.replace(&folder, ""));
        test.message = message.map(|it| shortened(it.trim())).filter(|it| !it.is_empty());
    }
}

/// Returns a path relative to the folder; unchanged if the path is not below the folder.
fn below<'p>(path: &'p str, folder: &str) -> &'p str {
    let rest = path.strip_prefix(folder).filter(|it| it.starts_with('/'));
    rest.map_or(path, |it| it.trim_start_matches('/'))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MESSAGE) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Creates a test. The message is only kept for a failed test.
fn test(name: String, status: TestStatus, message: Option<String>, ms: Option<f64>) -> TestRan {
    let message = message.filter(|_| status == TestStatus::Failed);
    TestRan { name, status, message, duration_ms: ms }
}

#[cfg(test)]
mod tests;
