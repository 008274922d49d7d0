//! Parses the JSON reports of the pytest plugin `pytest-json-report`.

use kindlm_types::workspace::{TestRan, TestStatus};
use serde::Deserialize;
use serde_json::Value;

use super::test;

#[derive(Debug, Deserialize)]
struct Report {
    exitcode: Option<i64>,
    summary: Summary,
    #[serde(default)]
    collectors: Vec<Collector>,
    #[serde(default)]
    tests: Vec<Test>,
}

#[derive(Debug, Deserialize)]
struct Summary {
    total: usize,
    failed: Option<usize>,
    error: Option<usize>,
    /// The number of collected tests, including deselected tests.
    collected: Option<usize>,
    #[serde(default)]
    deselected: usize,
}

#[derive(Debug, Deserialize)]
struct Collector {
    nodeid: String,
    outcome: String,
    longrepr: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Test {
    nodeid: String,
    outcome: String,
    setup: Option<Stage>,
    call: Option<Stage>,
    teardown: Option<Stage>,
}

#[derive(Debug, Deserialize)]
struct Stage {
    #[serde(default)]
    duration: f64,
    #[serde(default)]
    outcome: String,
    longrepr: Option<Value>,
}

pub(super) fn parse_tests(report: &str) -> Result<Vec<TestRan>, String> {
    let report: Report = serde_json::from_str(report).map_err(|err| err.to_string())?;
    if report.summary.total != report.tests.len() {
        let (total, told) = (report.summary.total, report.tests.len());
        return Err(format!("`summary.total` is {total}, but {told} tests are listed"));
    }
    check_failures(&report)?;
    let broken = report.collectors.iter().filter(|it| it.outcome == "failed").map(|it| {
        let message = it.longrepr.as_ref().map(to_text);
        test(it.nodeid.replace("::", " > "), TestStatus::Failed, message, None)
    });
    let mut tests: Vec<TestRan> = broken.collect();
    for it in &report.tests {
        tests.push(one(it)?);
    }
    Ok(tests)
}

/// Fails if the counts in the report do not match its tests.
///
/// The exit code is not enough, because a pipe in the command may hide it.
fn check_failures(report: &Report) -> Result<(), String> {
    let told = |outcome: &str| report.tests.iter().filter(|it| it.outcome == outcome).count();
    let (failed, error) = (told("failed"), told("error"));
    for (outcome, counted, told) in
        [("failed", report.summary.failed, failed), ("error", report.summary.error, error)]
    {
        if let Some(counted) = counted.filter(|it| *it != told) {
            return Err(format!("`summary.{outcome}` is {counted}, but {told} are listed"));
        }
    }
    let has_broken = report.collectors.iter().any(|it| it.outcome == "failed");
    let has_failed = failed + error > 0 || has_broken;
    // After a failure, the session may stop early (`-x`). The tests have failed anyway, so missing tests do not matter.
    let total = report.summary.total;
    match report.summary.collected.map(|it| it.saturating_sub(report.summary.deselected)) {
        Some(selected) if selected > total && !has_failed => {
            return Err(format!(
                "{selected} tests were collected, and the session ended after {total} of them"
            ));
        }
        _ => {}
    }
    // See https://docs.pytest.org/en/stable/reference/exit-codes.html. If a file cannot be collected, the code is 2.
    let fits = match report.exitcode {
        None => true,
        Some(0) => !has_failed,
        Some(1) => has_failed,
        Some(2) => has_broken,
        Some(5) => report.tests.is_empty(),
        Some(_) => false,
    };
    match report.exitcode {
        Some(code) if !fits => {
            let tests = report.tests.len();
            let failed = failed + error;
            Err(format!("`exitcode` is {code}, but of {tests} listed tests {failed} failed"))
        }
        _ => Ok(()),
    }
}

fn one(it: &Test) -> Result<TestRan, String> {
    let was_called = it.call.as_ref().is_some_and(|it| it.outcome == "passed");
    let stages = || [&it.setup, &it.call, &it.teardown].into_iter().flatten();
    let is_clean = stages().all(|it| it.outcome == "passed");
    let status = match it.outcome.as_str() {
        "passed" | "xpassed" if was_called && is_clean => TestStatus::Passed,
        "passed" | "xpassed" if was_called => TestStatus::Failed,
        "passed" | "xpassed" => {
            let name = it.nodeid.replace("::", " > ");
            let message = "it was set up, but not called before the session ended";
            return Ok(test(name, TestStatus::Failed, Some(message.to_owned()), None));
        }
        "failed" | "error" => TestStatus::Failed,
        "skipped" | "xfailed" => TestStatus::Skipped,
        other => return Err(format!("a test has the outcome `{other}`")),
    };
    let failed = stages().filter(|it| it.outcome == "failed");
    let message: Vec<String> = failed.filter_map(|it| it.longrepr.as_ref().map(to_text)).collect();
    let seconds: f64 = stages().map(|it| it.duration).sum();
    let name = it.nodeid.replace("::", " > ");
    Ok(test(name, status, Some(message.join("\n")), Some(seconds * 1000.0)))
}

fn to_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
