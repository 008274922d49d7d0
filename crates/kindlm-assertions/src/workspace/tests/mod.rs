//! `tests`: runs tests on the agent's workspace, and treats each test as a check.

use std::sync::Arc;

use std::time::Duration;

use kindlm_types::workspace::{
    FileChange, Gather, TestFormat, TestRan, TestStatus, TestsRan, Workspace,
};
use kindlm_types::{
    AssertionResult, Class, FailedTest, FailureCode, ResultEvidence, Severity, schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::ExpectPath;
use crate::core::behaviour::names;
use crate::core::codes::EVIDENCE_MISSING;
use crate::core::config;
use crate::core::range::Range;
use crate::core::result_evidence::{self, absent_in, last_lines, other, trajectory};
use crate::core::workspace::{Paths, missing, stays_inside, workspace};
use crate::{
    Assertion, Build, Built, Code, Evidence, Meta, PassEvidence, Registration, Setup, Traits,
};

/// A test failed.
const TEST_FAILED: FailureCode = FailureCode::new("TEST_FAILED");
/// An expected test did not run, or the number of tests is not the expected number.
const TEST_MISSING: FailureCode = FailureCode::new("TEST_MISSING");
/// The agent changed a protected file.
const PROTECTED_FILE_CHANGED: FailureCode = FailureCode::new("PROTECTED_FILE_CHANGED");
/// The test run as a whole is not reliable.
const TESTS_UNRELIABLE: FailureCode = FailureCode::new("TESTS_UNRELIABLE");
const ID: &str = "tests";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: Some(ExpectPath { pointer: "/tests", list: true }),
        summary: "Tests run in the workspace after the agent, and each test is a check.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code { code: TEST_FAILED, summary: "A test failed." },
            Code {
                code: TEST_MISSING,
                summary: "A test of `names` did not run, or the number of tests differs from `count`.",
            },
            Code {
                code: PROTECTED_FILE_CHANGED,
                summary: "The agent changed a file that `protect` names.",
            },
            Code {
                code: TESTS_UNRELIABLE,
                summary: "There is no report, it cannot be read, it names no test that ran, or the exit code contradicts it.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The test case has no `workspace`, or the tests did not run in it.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Plain(build),
};

/// The tests to run, and their report.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "TestsConfig")]
struct Config {
    /// The command line that runs the tests, which `sh -c` runs in the workspace.
    #[schemars(length(min = 1))]
    run: String,
    /// The format of the report.
    format: TestFormat,
    /// The file to which the tests write the report, from the top of the workspace.
    ///
    /// The default is stdout, and `.report.json` for `pytest-json`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    report: Option<String>,
    /// The time limit in milliseconds; by default, the time limit of the agent.
    #[serde(default)]
    #[schemars(range(min = 1))]
    timeout_ms: Option<u64>,
    /// Names of tests that must run, as in the results. A missing or skipped test is a failure.
    #[serde(default)]
    #[schemars(inner(length(min = 1)))]
    names: Vec<String>,
    /// The number of tests that must run. Skipped tests do not count.
    #[serde(default)]
    #[schemars(range(min = 1))]
    count: Option<usize>,
    /// Files, folders and globs that the agent must not change; a change is a failure.
    ///
    /// The tests run with the original version of these files. They also run with the original settings of test
    /// runners, unless this list is empty.
    #[schemars(inner(length(min = 1)))]
    protect: Option<Vec<String>>,
}

#[derive(Debug)]
struct Tests {
    label: String,
    gather: Gather,
    names: Vec<String>,
    count: Option<usize>,
    protect: Vec<Paths>,
    /// The settings of test runners, which are restored before the tests run.
    settings: Vec<Paths>,
}

/// The files that test runners load automatically. A change of such a file can change the result of every test.
///
/// `package.json`, `pyproject.toml` and `Cargo.toml` are not in the list, because agents change them to add
/// dependencies.
const SETTINGS: [&str; 14] = [
    "**/conftest.py",
    "pytest.ini",
    "pytest.py",
    "sitecustomize.py",
    "usercustomize.py",
    ".npmrc",
    ".mocharc.*",
    "jest.config.*",
    "vite.config.*",
    "vitest.config.*",
    "vitest.workspace.*",
    ".cargo/",
    ".config/nextest.toml",
    "nextest.toml",
];

fn build(value: &Value, _setup: &Setup<'_>) -> Built {
    let Config { run, format, report, timeout_ms, names, count, protect } =
        config::parse_config(value)?;
    if let Some(report) = &report {
        stays_inside(report, "/report")?;
    }
    let is_open = protect.as_ref().is_some_and(Vec::is_empty);
    let paths = |(at, it): (usize, &str)| Paths::new(it, &format!("/protect/{at}"));
    let protect = protect.iter().flatten().map(String::as_str).enumerate();
    let protect: Vec<Paths> = protect.map(paths).collect::<Result<_, _>>()?;
    let settings = SETTINGS.into_iter().filter(|_| !is_open).enumerate();
    let settings: Vec<Paths> = settings.map(paths).collect::<Result<_, _>>()?;
    let label = format!("Tests: {run}");
    let timeout = timeout_ms.map(Duration::from_millis);
    let globs = protect.iter().chain(&settings).flat_map(Paths::globs).collect();
    let gather = Gather::Tests { run, format, report, timeout, protect: globs };
    Ok(Arc::new(Tests { label, gather, names, count, protect, settings }))
}

impl Assertion for Tests {
    fn traits(&self) -> Traits {
        let gather = self.gather.clone();
        let of_pass = PassEvidence::new(move |evidence| {
            let workspace = evidence.execution.workspace.as_deref();
            let ran = workspace.and_then(|it| it.tests.iter().find(|it| it.answers(&gather)));
            let passed = ran.map(|it| passed(&it.tests));
            passed
                .map(|passed| ResultEvidence::Tests { passed, failed: Vec::new() })
                .into_iter()
                .collect()
        });
        Traits {
            gathers: vec![self.gather.clone()],
            evidence_of_pass: Some(of_pass),
            ..Traits::OF_WORKSPACE
        }
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
        let passed = passed(&ran.tests);
        let mut results: Vec<AssertionResult> =
            ran.tests.iter().map(|it| one(it, passed)).collect();
        results.extend(self.names.iter().filter_map(|it| missing_test(it, &ran.tests)));
        results.extend(self.count.map(|it| counted(it, &ran.tests)));
        results.extend(self.protect.iter().flat_map(|it| protected(it, workspace)));
        results.extend(self.restored(workspace));
        let problem = ran.problem.clone();
        let none = || ran.tests.is_empty().then(|| "no test was run".to_owned());
        if let Some(problem) = problem.or_else(none) {
            let message = format!("{problem}{}", last_output_lines(ran));
            results.push(AssertionResult::errored(ID, label, TESTS_UNRELIABLE, message));
        }
        results
    }
}

/// Returns the number of tests that passed.
fn passed(tests: &[TestRan]) -> u64 {
    tests.iter().filter(|it| it.status == TestStatus::Passed).count() as u64
}

fn one(test: &TestRan, passed: u64) -> AssertionResult {
    match test.status {
        TestStatus::Passed => AssertionResult::pass(ID, &test.name),
        TestStatus::Skipped => AssertionResult::skipped(ID, &test.name, "the runner skipped it"),
        TestStatus::Failed => {
            let message = test.message.as_deref().unwrap_or("it failed, and does not say why");
            let (name, message_of) = (test.name.clone(), test.message.as_deref());
            let failed = vec![FailedTest::new(name, message_of.map(last_lines))];
            AssertionResult::fail(ID, &test.name, TEST_FAILED, message)
                .with_evidence(ResultEvidence::Tests { passed, failed })
        }
    }
}

/// Returns a failure if no test of this name ran; a skipped test did not run.
fn missing_test(name: &str, tests: &[TestRan]) -> Option<AssertionResult> {
    // Two test files may have tests of the same name.
    let mut found = tests.iter().filter(|it| it.name == name).peekable();
    let is_absent = found.peek().is_none();
    let why = match found.find(|it| it.status != TestStatus::Skipped) {
        Some(_) => return None,
        None if !is_absent => "the test must run (`names`), and it was skipped".to_owned(),
        None => {
            let has = match tests {
                [] => "no tests".to_owned(),
                tests => names(tests.iter().map(|it| it.name.as_str())),
            };
            format!("the test must run (`names`), and the report does not have it; it has {has}")
        }
    };
    let label = format!("Test ran: {name}");
    let absent = absent_in(other("the test report"), [name]);
    Some(AssertionResult::fail(ID, label, TEST_MISSING, why).with_evidence(absent))
}

/// Checks that the expected number of tests ran.
fn counted(expected: usize, tests: &[TestRan]) -> AssertionResult {
    let label = format!("Tests run: {expected}");
    let skipped = tests.iter().filter(|it| it.status == TestStatus::Skipped).count();
    let ran = tests.len() - skipped;
    if ran == expected {
        return AssertionResult::pass(ID, label);
    }
    let skipped =
        if skipped == 0 { String::new() } else { format!(", and {skipped} were skipped") };
    let why = format!("{expected} tests must run (`count`); {ran} ran{skipped}");
    let range = Range { min: Some(expected as u64), max: Some(expected as u64) };
    AssertionResult::fail(ID, label, TEST_MISSING, why)
        .with_evidence(result_evidence::counted("tests", ran, range, false))
}

impl Tests {
    /// Returns a note about changed test runner settings, if the agent changed any.
    ///
    /// The tests ran with the original settings, so the change did not affect the tests.
    fn restored(&self, workspace: &Workspace) -> Option<AssertionResult> {
        let is_meant = |it: &&FileChange| {
            let of = |paths: &[Paths]| paths.iter().any(|paths| paths.is_meant(&it.path));
            of(&self.settings) && !of(&self.protect)
        };
        let changed: Vec<String> =
            workspace.changes.iter().filter(is_meant).map(FileChange::marked).collect();
        if changed.is_empty() {
            return None;
        }
        let changed = names(changed.iter().map(String::as_str));
        let why = format!(
            "the tests did not see this change of the agent: {changed}; `protect: []` lets settings of runners change"
        );
        Some(AssertionResult::skipped(ID, "Settings of the runner", why))
    }
}

/// Checks that protected files did not change.
fn protected(paths: &Paths, workspace: &Workspace) -> Vec<AssertionResult> {
    let label = format!("Protected: {paths}");
    if let Err(results) = paths.check_recorded(workspace, ID, &label) {
        return results;
    }
    let changed: Vec<String> = workspace
        .changes
        .iter()
        .filter(|it| paths.is_meant(&it.path))
        .map(FileChange::marked)
        .collect();
    if changed.is_empty() {
        return vec![AssertionResult::pass(ID, label)];
    }
    let evidence = trajectory([""; 0], changed.iter().map(String::as_str));
    let changed = names(changed.iter().map(String::as_str));
    let why = format!("the agent changed what it may not change (`protect`): {changed}");
    vec![AssertionResult::fail(ID, label, PROTECTED_FILE_CHANGED, why).with_evidence(evidence)]
}

/// Returns the last ten lines of the test runner's stderr, else of its stdout, for an error message.
///
/// The output is cut after 2000 characters. The text is empty without output.
fn last_output_lines(ran: &TestsRan) -> String {
    let command = &ran.command;
    let text = if command.stderr.trim().is_empty() { &command.stdout } else { &command.stderr };
    let lines: Vec<&str> = text.trim().lines().collect();
    let last = lines[lines.len().saturating_sub(10)..].join("\n");
    let last: String = last.chars().take(2000).collect();
    if last.is_empty() { String::new() } else { format!("; it wrote: {last}") }
}
