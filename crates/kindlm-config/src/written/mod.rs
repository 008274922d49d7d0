//! The configuration as it is written: types that serde reads, and from whose schemas editors help.
//!
//! Doc comments here are what a user sees as a hover in the editor and as help under a diagnostic.

mod compliance;
mod model;
mod sets;
mod test;
mod trace;
mod workspace;

use kindlm_assertions::JudgeBlock;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub(crate) use compliance::{ComplianceBlock, RiskLevel};
pub(crate) use model::{Language, ModelEntry, ParamsBlock, PromptEntry, Speaker};
pub(crate) use sets::AssertionSetEntry;
pub(crate) use test::{Response, TestEntry, Tool, ToolAnswer, Transforms};
pub(crate) use trace::{TraceBlock, UploadBlock};
pub(crate) use workspace::{HiddenEntry, HiddenTo, WorkspaceBlock};

/// The description of the suite.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SuiteBlock {
    /// The suite's name in reports.
    #[schemars(length(min = 1), extend("examples" = ["refund-agent"]))]
    pub(crate) name: String,
    /// The purpose of the suite.
    #[serde(default)]
    pub(crate) description: Option<String>,
    /// Words to group suites by.
    #[serde(default)]
    pub(crate) tags: Vec<String>,
}

/// A number that reports make out of named scores.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DerivedEntry {
    /// Its name in reports, and in the formulas after it.
    #[schemars(length(min = 1))]
    pub(crate) name: String,
    /// A formula over the names of scores, each of which stands for its weighted sum over the executions of a model;
    /// `__count` is the number of executions. `2 * P * R / (P + R)`, `tone / __count`, `max(a, b)`.
    #[schemars(length(min = 1))]
    pub(crate) value: String,
}

/// The defaults of tests.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct DefaultsBlock {
    /// The number of runs of each test on each model.
    #[schemars(range(min = 1, max = 10_000))]
    pub(crate) repeat: u32,
    /// The number of requests and commands that run at once.
    #[schemars(range(min = 1, max = 4096))]
    pub(crate) concurrency: u32,
    /// The time limit of one request or command, in milliseconds.
    #[schemars(range(min = 1))]
    pub(crate) timeout_ms: u64,
    /// The model that judges: an id from `models`, or `provider:model`; the first model if absent. The same as
    /// `judge.model`.
    #[schemars(length(min = 1))]
    pub(crate) judge_model: Option<String>,
    /// The judges, the number of samples, and the rule that joins several judgements.
    pub(crate) judge: JudgeBlock,
    /// The share of a test's repeats that must pass, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) pass_rate_min: f64,
    /// The weighted mean score from which an execution passes, whichever of its checks failed; every check must hold if absent.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) threshold: Option<f64>,
    /// A folder of its own for each execution of a test with a `command` or an `agent`; what changes in it is evidence.
    pub(crate) workspace: Option<WorkspaceBlock>,
}

impl Default for DefaultsBlock {
    fn default() -> Self {
        Self {
            repeat: 1,
            concurrency: 4,
            timeout_ms: 60_000,
            judge_model: None,
            judge: JudgeBlock::default(),
            pass_rate_min: 1.0,
            threshold: None,
            workspace: None,
        }
    }
}

/// Reads a value that may be null and is still there.
pub(crate) fn present<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(input).map(Some)
}
