//! The results of test runs that score an agent's work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CommandRan, TestFormat};

/// One run of tests that score an agent's work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestsRan {
    /// The command that ran the tests.
    pub command: CommandRan,
    /// The format of the report.
    #[serde(default)]
    pub format: TestFormat,
    /// The report file; absent if the tests wrote the report to stdout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    /// The individual tests, in the order of the report.
    #[serde(default)]
    pub tests: Vec<TestRan>,
    /// The reason why the report is not reliable; absent if the report is reliable.
    ///
    /// An unreliable report is missing or unreadable, names no test, or contradicts the exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// One test of a test run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestRan {
    /// The test's name, preceded by the names of its groups: `cart > totals`.
    pub name: String,
    /// The status of the test.
    pub status: TestStatus,
    /// The failure message of the test runner; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The duration in milliseconds; absent if the report has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
}

/// The status of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TestStatus {
    /// The test passed.
    Passed,
    /// The test failed or was aborted.
    #[default]
    Failed,
    /// The test was skipped.
    Skipped,
}
