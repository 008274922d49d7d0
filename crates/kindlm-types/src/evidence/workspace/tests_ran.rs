//! The results of tests of an agent's work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CommandRan, TestFormat};

/// One run of tests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestsRan {
    /// The command that ran them.
    pub command: CommandRan,
    /// The format of the report.
    #[serde(default)]
    pub format: TestFormat,
    /// The file of the report, if it was not stdout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    /// Every single test, in the order of the report.
    #[serde(default)]
    pub tests: Vec<TestRan>,
    /// Why the report cannot be relied on, in words: there is none, it cannot be read, it names no test, or the exit code
    /// says something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// One test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestRan {
    /// Its name, with those of its groups before it: `cart > totals`.
    pub name: String,
    /// How it ended.
    pub status: TestStatus,
    /// Why it failed, in the runner's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TestStatus {
    /// It held.
    Passed,
    /// It did not hold, or broke off.
    #[default]
    Failed,
    /// It was left out.
    Skipped,
}
