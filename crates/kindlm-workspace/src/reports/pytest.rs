//! The JSON of the pytest plugin `pytest-json-report`.

use kindlm_types::workspace::{TestRan, TestStatus};
use serde::Deserialize;
use serde_json::Value;

use super::test;

#[derive(Debug, Deserialize)]
struct Report {
    summary: Summary,
    #[serde(default)]
    collectors: Vec<Collector>,
    #[serde(default)]
    tests: Vec<Test>,
}

#[derive(Debug, Deserialize)]
struct Summary {
    total: usize,
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

pub(super) fn read(report: &str) -> Result<Vec<TestRan>, String> {
    let report: Report = serde_json::from_str(report).map_err(|err| err.to_string())?;
    if report.summary.total != report.tests.len() {
        let (total, told) = (report.summary.total, report.tests.len());
        return Err(format!("`summary.total` is {total}, and {told} tests are told"));
    }
    let broken = report.collectors.iter().filter(|it| it.outcome == "failed").map(|it| {
        let message = it.longrepr.as_ref().map(words);
        test(it.nodeid.replace("::", " > "), TestStatus::Failed, message, None)
    });
    let mut tests: Vec<TestRan> = broken.collect();
    for it in &report.tests {
        tests.push(one(it)?);
    }
    Ok(tests)
}

fn one(it: &Test) -> Result<TestRan, String> {
    let status = match it.outcome.as_str() {
        "passed" | "xpassed" => TestStatus::Passed,
        "failed" | "error" => TestStatus::Failed,
        "skipped" | "xfailed" => TestStatus::Skipped,
        other => return Err(format!("a test has the outcome `{other}`")),
    };
    let stages = || [&it.setup, &it.call, &it.teardown].into_iter().flatten();
    let failed = stages().filter(|it| it.outcome == "failed");
    let message: Vec<String> = failed.filter_map(|it| it.longrepr.as_ref().map(words)).collect();
    let seconds: f64 = stages().map(|it| it.duration).sum();
    let name = it.nodeid.replace("::", " > ");
    Ok(test(name, status, Some(message.join("\n")), Some(seconds * 1000.0)))
}

fn words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
