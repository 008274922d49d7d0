//! `tests`: tests score what the agent left behind, each test by itself.

use std::sync::Arc;

use std::time::Duration;

use kindlm_types::workspace::{Gather, TestFormat, TestRan, TestStatus, TestsRan};
use kindlm_types::{AssertionResult, Class, FailureCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::codes::EVIDENCE_MISSING;
use crate::registry::ExpectPath;
use crate::workspace::{missing, stays_inside, workspace};
use crate::{Assertion, Build, Built, Code, Evidence, Meta, Registration, Setup, config};

/// A test failed.
const TEST_FAILED: FailureCode = FailureCode::new("TEST_FAILED");
/// The tests as a whole cannot be relied on.
const TESTS_UNRELIABLE: FailureCode = FailureCode::new("TESTS_UNRELIABLE");
const ID: &str = "tests";

/// Takes tests for checks.
pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: Some(ExpectPath { pointer: "/tests", list: true }),
        summary: "Tests run in the workspace after the agent, and every single one of them is a check.",
        since: "0.1.0",
        class: Class::Deterministic,
        codes: &[
            Code { code: TEST_FAILED, summary: "A test failed." },
            Code {
                code: TESTS_UNRELIABLE,
                summary: "There is no report, it cannot be read, it names no test that was run, or the exit code contradicts it.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The test case has no `workspace`, or the tests were not run in it.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: Config::json_schema,
    build: Build::Plain(build),
};

/// Which tests, and how they report.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "TestsConfig")]
struct Config {
    /// The command line that runs them, for `sh -c` in the workspace.
    #[schemars(length(min = 1))]
    run: String,
    /// How they report.
    format: TestFormat,
    /// The file that they write the report to, from the top of the workspace; stdout if absent (`pytest-json`:
    /// `.report.json`).
    #[serde(default)]
    #[schemars(length(min = 1))]
    report: Option<String>,
    /// How long they may take, in milliseconds; as long as the agent if absent.
    #[serde(default)]
    #[schemars(range(min = 1))]
    timeout_ms: Option<u64>,
}

#[derive(Debug)]
struct Tests {
    label: String,
    gather: Gather,
}

fn build(value: &Value, _setup: &Setup<'_>) -> Built {
    let Config { run, format, report, timeout_ms } = config::read(value)?;
    if let Some(report) = &report {
        stays_inside(report, "/report")?;
    }
    let label = format!("Tests: {run}");
    let timeout = timeout_ms.map(Duration::from_millis);
    Ok(Arc::new(Tests { label, gather: Gather::Tests { run, format, report, timeout } }))
}

impl Assertion for Tests {
    fn sees_output(&self) -> bool {
        false
    }

    fn gathers(&self) -> Vec<Gather> {
        vec![self.gather.clone()]
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let label = &self.label;
        let workspace = match workspace(evidence, ID, label) {
            Ok(workspace) => workspace,
            Err(results) => return results,
        };
        let Some(ran) = workspace.tests.iter().find(|it| it.answers(&self.gather)) else {
            return missing(ID, label, "the tests were not run when the agent had finished");
        };
        let mut results: Vec<AssertionResult> = ran.tests.iter().map(one).collect();
        let problem = ran.problem.clone();
        let none = || ran.tests.is_empty().then(|| "no test was run".to_owned());
        if let Some(problem) = problem.or_else(none) {
            let message = format!("{problem}{}", said(ran));
            results.push(AssertionResult::errored(ID, label, TESTS_UNRELIABLE, message));
        }
        results
    }
}

fn one(test: &TestRan) -> AssertionResult {
    match test.status {
        TestStatus::Passed => AssertionResult::pass(ID, &test.name),
        TestStatus::Skipped => AssertionResult::skipped(ID, &test.name, "the runner skipped it"),
        TestStatus::Failed => {
            let message = test.message.as_deref().unwrap_or("it failed, and does not say why");
            AssertionResult::fail(ID, &test.name, TEST_FAILED, message)
        }
    }
}

/// The last lines of what the runner wrote.
fn said(ran: &TestsRan) -> String {
    let command = &ran.command;
    let text = if command.stderr.trim().is_empty() { &command.stdout } else { &command.stderr };
    let lines: Vec<&str> = text.trim().lines().collect();
    let last = lines[lines.len().saturating_sub(10)..].join("\n");
    let last: String = last.chars().take(2000).collect();
    if last.is_empty() { String::new() } else { format!("; it wrote: {last}") }
}
