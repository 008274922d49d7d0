//! Parses the output of `cargo test`. The output is written for people, but its counts reveal missing lines.

use std::collections::HashMap;

use kindlm_types::workspace::{TestRan, TestStatus};

use super::test;

pub(super) fn parse_tests(report: &str) -> Result<Vec<TestRan>, String> {
    let mut tests: Vec<TestRan> = Vec::new();
    let mut open: Vec<(String, TestStatus)> = Vec::new();
    let mut outputs: HashMap<String, String> = HashMap::new();
    let mut output_of: Option<String> = None;
    let (mut begun, mut ended, mut expected) = (0, 0, 0);
    for line in report.lines() {
        if let Some(count) = running(line) {
            (begun, expected, output_of) = (begun + 1, count, None);
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            ended += 1;
            let told = counts(rest).ok_or_else(|| format!("the line `{line}` has no counts"))?;
            let seen = [TestStatus::Passed, TestStatus::Failed, TestStatus::Skipped]
                .map(|status| open.iter().filter(|it| it.1 == status).count());
            if told != seen || open.len() != expected {
                return Err(format!(
                    "the line `{line}` counts other tests than the {} before it",
                    open.len()
                ));
            }
            tests.extend(open.drain(..).map(|(name, status)| {
                let message = outputs.remove(&name);
                test(name, status, message, None)
            }));
            output_of = None;
        } else if let Some(found) = result(line) {
            open.push(found);
        } else if let Some(name) = header(line) {
            output_of = Some(name.to_owned());
        } else if line == "failures:" {
            output_of = None;
        } else if let Some(name) = &output_of {
            let output = outputs.entry(name.clone()).or_default();
            output.push_str(line);
            output.push('\n');
        }
    }
    if begun == 0 || begun != ended {
        return Err(format!("{begun} test runs were started, but {ended} ended"));
    }
    Ok(tests)
}

/// Parses the count in a line such as `running 3 tests`.
///
/// Returns `None` for any other line.
fn running(line: &str) -> Option<usize> {
    let rest = line.strip_prefix("running ")?;
    let count = rest.strip_suffix(" tests").or_else(|| rest.strip_suffix(" test"))?;
    count.parse().ok()
}

/// Parses the name and status in a line such as `test cart::adds ... ok`.
///
/// Returns `None` for any other line.
fn result(line: &str) -> Option<(String, TestStatus)> {
    let (name, status) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let status = match status {
        "ok" => TestStatus::Passed,
        "FAILED" => TestStatus::Failed,
        it if it == "ignored" || it.starts_with("ignored, ") => TestStatus::Skipped,
        _ => return None,
    };
    // `- should panic` is a note and not a part of the name.
    Some((name.trim_end_matches(" - should panic").to_owned(), status))
}

/// Parses the name in a line such as `---- cart::adds stdout ----`.
///
/// Returns `None` for any other line.
fn header(line: &str) -> Option<&str> {
    let name = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
    name.strip_suffix(" stdout").or(Some(name))
}

/// Parses the counts in a text such as `ok. 3 passed; 0 failed; 1 ignored; …`.
///
/// Returns the passed, failed and ignored counts, or `None` if a count is missing.
fn counts(rest: &str) -> Option<[usize; 3]> {
    let of = |word: &str| {
        let part = rest.split([';', '.']).map(str::trim).find_map(|it| it.strip_suffix(word))?;
        part.trim().parse().ok()
    };
    Some([of("passed")?, of("failed")?, of("ignored")?])
}
