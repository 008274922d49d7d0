//! Canaries: outputs from a judge's calibration that the judge judges again during a run.
//!
//! A different verdict is evidence that the judge has changed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A watch: during a run, a judge judges outputs from its calibration again. A different verdict is evidence that the
/// judge has changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryWatch {
    /// The judge, such as `judge (openai:gpt-4o-mini)`.
    pub judge: String,
    /// The id of the assertion that the judge was calibrated for.
    pub check: String,
    /// The number of outputs with a verdict; 0 if the judge was not asked.
    pub asked: u64,
    /// The number of outputs whose verdict differs from the verdict in the calibration.
    pub different: u64,
    /// The number of outputs without a readable verdict. They do not count as evidence.
    pub errored: u64,
    /// The number of watches since the calibration, including this one if the judge was asked.
    pub watches: u64,
    /// The e-value for a change of the judge after all watches: 1 is no evidence, and 20 raises the alarm. `null` if
    /// there is no calibration.
    pub evidence: Option<f64>,
    /// The reason why the judge counts as changed; absent without an alarm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm: Option<String>,
    /// The reason why these canaries are unlikely to detect a change of the judge; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// The reason why the judge was not asked; absent if the judge was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_asked: Option<String>,
    /// The cost in US dollars; `null` if a price is unknown. The run's cost of judges includes this cost.
    pub cost_usd: Option<f64>,
    /// The known part of the cost in US dollars.
    pub known_cost_usd: f64,
    /// The tokens that the judge used.
    pub tokens: u64,
}

impl CanaryWatch {
    /// Returns the watch of a judge before its first request: no outputs, and a cost of 0.
    pub fn new(judge: impl Into<String>, check: impl Into<String>) -> Self {
        let (judge, check) = (judge.into(), check.into());
        Self { judge, check, cost_usd: Some(0.0), ..Self::default() }
    }

    /// Returns the warning for the user: the alarm, the reason why the judge was not asked, or the number of outputs
    /// that could not be judged.
    ///
    /// Returns `None` if there is nothing to warn of.
    pub fn warning(&self) -> Option<String> {
        let Self { judge, check, errored, .. } = self;
        if let Some(alarm) = &self.alarm {
            return Some(format!("{judge} for `{check}`: {alarm}"));
        }
        if let Some(why) = &self.not_asked {
            return Some(format!("{judge} for `{check}` was not watched: {why}"));
        }
        let canaries = if *errored == 1 { "canary" } else { "canaries" };
        (*errored > 0)
            .then(|| format!("{judge} for `{check}`: {errored} {canaries} could not be judged"))
    }
}
