//! The result of `kindlm plan`, version 1: the run sizes at which a comparison detects a fall of the pass rate.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The `schemaVersion` of this format.
pub const VERSION: u32 = 1;

/// A power analysis: the run sizes at which a comparison detects a given fall of the pass rate, estimated from past
/// runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "KindLM plan")]
#[non_exhaustive]
pub struct PlanReport {
    /// The version of this format: 1.
    pub schema_version: u32,
    /// The ids of the past runs, newest first.
    pub runs: Vec<String>,
    /// The name of the suite.
    pub suite: String,
    /// A summary of the past runs.
    pub pilot: PilotSummary,
    /// The fall to detect.
    pub goal: PlanGoal,
    /// The mean cost of one call in US dollars, with judges; `null` if it is unknown.
    pub cost_per_call_usd: Option<f64>,
    /// The reason why the cost is unknown; absent if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_unknown: Option<String>,
    /// The planned sizes, by number of repeats.
    pub sizes: Vec<PlannedSize>,
    /// Remarks about the past runs that limit the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl PlanReport {
    /// Creates a plan without notes. The cost is unknown, without a reason.
    pub fn new(
        runs: Vec<String>,
        suite: impl Into<String>,
        pilot: PilotSummary,
        goal: PlanGoal,
        sizes: Vec<PlannedSize>,
    ) -> Self {
        Self {
            schema_version: VERSION,
            runs,
            suite: suite.into(),
            pilot,
            goal,
            cost_per_call_usd: None,
            cost_unknown: None,
            sizes,
            notes: Vec::new(),
        }
    }
}

/// A summary of the past runs. A test case on one model is one case.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PilotSummary {
    /// The number of cases with a judged repeat.
    pub cases: u64,
    /// The number of clusters of cases that depend on each other.
    pub clusters: u64,
    /// The number of judged repeats of all cases.
    pub judged: u64,
    /// The mean pass rate of the cases, from 0 to 1.
    pub pass_rate: f64,
}

/// The fall to detect, with the power and the significance level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanGoal {
    /// The fall of the pass rate to detect, from 0 to 1.
    pub effect: f64,
    /// The power: the probability that a comparison detects the fall, from 0 to 1.
    pub power: f64,
    /// The significance level: the rate of false alarms, from 0 to 1.
    pub alpha: f64,
    /// The way in which the cases fall.
    pub shape: PlanShape,
}

/// The way in which the pass rates of the cases fall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PlanShape {
    /// All cases fall by the same amount.
    #[default]
    Spread,
    /// Some cases fail always, and the others do not change.
    Break,
}

/// The size of one run. A comparison needs two runs of this size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PlannedSize {
    /// The number of repeats of each case.
    pub repeats: u32,
    /// The number of cases; `null` if more cases are needed than can be planned.
    pub cases: Option<u64>,
    /// The number of clusters; `null` if `cases` is `null`.
    pub clusters: Option<u64>,
    /// The number of calls of a run: cases × repeats; `null` if `cases` is `null`.
    pub calls: Option<u64>,
    /// The cost of a run in US dollars; `null` if it is unknown.
    pub cost_usd: Option<f64>,
    /// The power: the share of simulated comparisons that detected the fall, from 0 to 1; `null` if `cases` is `null`.
    pub power: Option<f64>,
    /// The minimum detectable fall with these repeats and the number of cases of the past runs, from 0 to 1; `null` if
    /// no fall is detectable.
    pub detectable: Option<f64>,
}

impl PlannedSize {
    /// Creates a size without a number of cases: with these repeats, more cases are needed than can be planned.
    pub fn new(repeats: u32) -> Self {
        Self {
            repeats,
            cases: None,
            clusters: None,
            calls: None,
            cost_usd: None,
            power: None,
            detectable: None,
        }
    }
}

/// Returns the JSON Schema (draft 2020-12) of [`PlanReport`].
pub fn schema() -> Value {
    SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<PlanReport>()
        .into()
}
