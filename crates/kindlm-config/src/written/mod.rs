//! The types of the config file, for deserialization and for the JSON Schema.
//!
//! Editors show these doc comments when a user points at a key. Diagnostics show their first paragraph as help.

mod compliance;
mod judge;
mod model;
mod mutate;
mod repeat;
mod sets;
mod test;
mod trace;
mod workspace;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

pub(crate) use compliance::{ComplianceBlock, RiskLevel};
pub(crate) use judge::JudgeDefaults;
pub(crate) use model::{
    ContentEntry, Language, ModelEntry, ParamsBlock, PartEntry, PromptEntry, Speaker,
};
pub(crate) use mutate::MutateBlock;
pub(crate) use repeat::{EarlyEntry, RepeatEntry, UntilEntry};
pub(crate) use sets::AssertionSetEntry;
pub(crate) use test::{Response, TestEntry, Tool, ToolAnswer, Transforms};
pub(crate) use trace::{TraceBlock, UploadBlock};
pub(crate) use workspace::{HiddenEntry, HiddenTo, WorkspaceBlock};

/// The name and description of the suite.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SuiteBlock {
    /// The suite's name in reports.
    #[schemars(length(min = 1), extend("examples" = ["refund-agent"]))]
    pub(crate) name: String,
    /// The purpose of the suite.
    #[serde(default)]
    pub(crate) description: Option<String>,
    /// Labels for grouping suites in reports.
    #[serde(default)]
    pub(crate) tags: Vec<String>,
}

/// A number that reports compute from named scores.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DerivedEntry {
    /// The metric's name in reports, and in the formulas of later metrics.
    #[schemars(length(min = 1))]
    pub(crate) name: String,
    /// The formula, such as `2 * P * R / (P + R)`, `tone / __count` or `max(a, b)`. Each name of a score stands for its
    /// weighted sum over the executions of a model. `__count` is the number of executions.
    #[schemars(length(min = 1))]
    pub(crate) value: String,
}

/// The defaults of tests.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct DefaultsBlock {
    /// The number of repeats of each test on each model, or an object with `max` that ends the repeats early.
    /// Default: 1.
    pub(crate) repeat: RepeatEntry,
    /// The maximum number of requests and commands that run at the same time. Default: 4.
    #[schemars(range(min = 1, max = 4096))]
    pub(crate) concurrency: u32,
    /// The time limit of one request or command, in milliseconds. Default: 60000.
    #[schemars(range(min = 1))]
    pub(crate) timeout_ms: u64,
    /// The judge model: an id from `models`, or `provider:model`. Default: the first model. `judge.model` has the same
    /// effect.
    #[schemars(length(min = 1))]
    pub(crate) judge_model: Option<String>,
    /// The judge models, the number of samples, and the rule for combining verdicts.
    pub(crate) judge: JudgeDefaults,
    /// The share of a test's repeats that must pass, from 0 to 1. Default: 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) pass_rate_min: f64,
    /// The weighted mean score at which an execution passes, even if some checks fail. If absent, every check must
    /// pass.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) threshold: Option<f64>,
    /// The workspace of tests with a `command` or an `agent`: a new folder for each execution. Changes in this folder
    /// are evidence.
    pub(crate) workspace: Option<WorkspaceBlock>,
    /// The sampling parameters of the tested models that have no `params`. Judges that are written as `provider:model`
    /// and are not tested do not get them.
    pub(crate) params: ParamsBlock,
    /// The template language of the prompts that have no `template`. Default: plain.
    pub(crate) template: Language,
    /// The entries of each test that does not set them itself: `prompts`, `models`, `vars`, `expect` and so on. `vars`,
    /// `metadata` and `options` are merged by key, and the checks of `expect.assert` come first.
    pub(crate) test: Option<Map<String, Value>>,
}

impl Default for DefaultsBlock {
    fn default() -> Self {
        Self {
            repeat: RepeatEntry::Fixed(1),
            concurrency: 4,
            timeout_ms: 60_000,
            judge_model: None,
            judge: JudgeDefaults::default(),
            pass_rate_min: 1.0,
            threshold: None,
            workspace: None,
            params: ParamsBlock::default(),
            template: Language::default(),
            test: None,
        }
    }
}

/// Deserializes a value so that an explicit null differs from an absent key.
pub(crate) fn present<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(input).map(Some)
}
