//! Parses the JSON lines of libtest, from `cargo nextest run --message-format libtest-json`.

use std::collections::{BTreeMap, BTreeSet};

use kindlm_types::workspace::{TestRan, TestStatus};
use serde::Deserialize;

use super::test;

#[derive(Debug, Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    event: Option<String>,
    name: Option<String>,
    passed: Option<usize>,
    failed: Option<usize>,
    ignored: Option<usize>,
    test_count: Option<usize>,
    /// The number of tests that a filter excluded.
    ///
    /// If nextest counts an ignored test twice, the number underflows, and nextest reports a very large number.
    filtered_out: Option<u64>,
    exec_time: Option<f64>,
    stdout: Option<String>,
    message: Option<String>,
}

/// The sums of the counts that the suites report.
#[derive(Debug, Default)]
struct Counts {
    begun: usize,
    ended: usize,
    passed: usize,
    failed: usize,
    ignored: usize,
    /// The number of all tests and the number of excluded tests, by test binary.
    binaries: BTreeMap<String, (usize, usize)>,
}

pub(super) fn parse_tests(report: &str) -> Result<Vec<TestRan>, String> {
    let mut tests = Vec::new();
    let mut counts = Counts::default();
    let mut open: BTreeSet<String> = BTreeSet::new();
    // The number of tests and the name of the binary, for the current suite.
    let (mut expected, mut binary) = (0, None);
    for line in report.lines() {
        // Tests may print other lines, even lines of JSON. The counts at the end reveal a missing event.
        let Ok(line) = serde_json::from_str::<Line>(line) else { continue };
        match (line.kind.as_str(), line.event.as_deref()) {
            ("suite", Some("started")) => {
                counts.begun += 1;
                (expected, binary) = (line.test_count.unwrap_or_default(), None);
            }
            ("suite", Some("ok" | "failed")) => {
                counts.ended += 1;
                counts.passed += line.passed.unwrap_or_default();
                counts.failed += line.failed.unwrap_or_default();
                counts.ignored += line.ignored.unwrap_or_default();
                // Without nextest, each suite is one test binary, and the report does not name the binary.
                let name = binary.take().unwrap_or_else(|| format!("suite {}", counts.ended));
                let left_out = line.filtered_out.and_then(|it| u32::try_from(it).ok());
                let of = counts.binaries.entry(name).or_default();
                *of = (of.0.max(expected), of.1.max(left_out.unwrap_or_default() as usize));
            }
            ("test", Some(event)) => {
                match (event, &line.name) {
                    ("started", Some(name)) => {
                        open.insert(name.clone());
                    }
                    (_, Some(name)) => {
                        open.remove(name);
                    }
                    _ => {}
                }
                let name = line.name.as_deref().and_then(|it| it.split_once('$'));
                binary = binary.or(name.map(|(it, _)| it.to_owned()));
                tests.extend(one(&line, event)?);
            }
            _ => {}
        }
    }
    counts.fit(&tests, &open)?;
    // nextest starts ignored tests, but does not always report their end.
    tests.extend(open.iter().map(|it| test(full_name(it), TestStatus::Skipped, None, None)));
    Ok(tests)
}

impl Counts {
    /// Fails if the counts of the suites do not match the tests.
    ///
    /// `open` are the tests that started but did not end.
    ///
    /// When no test of a suite is running, nextest ends the suite, and starts it again later. Each time, nextest counts
    /// the ignored tests again.
    fn fit(&self, tests: &[TestRan], open: &BTreeSet<String>) -> Result<(), String> {
        let of = |status| tests.iter().filter(|it| it.status == status).count();
        let Self { begun, ended, passed, failed, ignored, .. } = *self;
        if begun == 0 || begun != ended {
            return Err(format!("{begun} suites were started, but {ended} ended"));
        }
        for (word, counted, listed) in
            [("passed", passed, of(TestStatus::Passed)), ("failed", failed, of(TestStatus::Failed))]
        {
            if counted != listed {
                return Err(format!(
                    "the suites count {counted} {word} tests, but {listed} are listed"
                ));
            }
        }
        let expected: usize =
            self.binaries.values().map(|(all, out)| all.saturating_sub(*out)).sum();
        let listed = tests.len() + open.len();
        // After a failure, nextest may stop early. The tests have failed anyway, so missing tests do not matter.
        if listed < expected && failed == 0 {
            return Err(format!("the suites have {expected} tests, but {listed} are listed"));
        }
        match open.first() {
            Some(name) if ignored < of(TestStatus::Skipped) + open.len() => {
                Err(format!("the test `{name}` was started, but did not end"))
            }
            _ => Ok(()),
        }
    }
}

fn one(line: &Line, event: &str) -> Result<Option<TestRan>, String> {
    let status = match event {
        "started" => return Ok(None),
        "ok" => TestStatus::Passed,
        "failed" | "timeout" => TestStatus::Failed,
        "ignored" => TestStatus::Skipped,
        other => return Err(format!("a test has the event `{other}`")),
    };
    let name = line.name.clone().ok_or("a test has no name")?;
    let name = full_name(&name);
    let words = [&line.message, &line.stdout].into_iter().flatten();
    let message = words.map(String::as_str).collect::<Vec<_>>().join("\n");
    Ok(Some(test(name, status, Some(message), line.exec_time.map(|it| it * 1000.0))))
}

/// Returns the full name of a test.
///
/// nextest writes the name of the binary before a `$`.
fn full_name(name: &str) -> String {
    name.replacen('$', " > ", 1)
}
