//! The totals of prompt assertions, in version 1 of the JSON report.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use kindlm_types::AssertionSummary;

/// The totals of one prompt assertion over all cases, models and repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AssertionBreakdown {
    /// The share of passes among passes and failures, from 0 to 1; `null` without passes and failures.
    pub pass_rate: Option<f64>,
    /// The lower end of the 95% confidence interval, which counts each cluster of cases once; `null` without passes and
    /// failures.
    #[serde(default)]
    pub low: Option<f64>,
    /// The upper end of the 95% confidence interval; `null` without passes and failures.
    #[serde(default)]
    pub high: Option<f64>,
    /// The number of passes and failures.
    pub n: u64,
    /// The number of passes.
    pub passed: u64,
    /// The number of failures.
    pub failed: u64,
    /// The number of results without a verdict of the judge.
    pub errored: u64,
    /// The number of results in which the rule did not apply.
    pub skipped: u64,
    /// The first cases that violated the rule.
    pub failing: Vec<FailingCase>,
    /// The number of further cases that violated the rule.
    pub more_failing: u64,
    /// The judge's reason for the first violation; without violations, the reason for the first missing verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}

/// A case that violates a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FailingCase {
    /// The test case's name.
    pub case: String,
    /// The model's id.
    pub model: String,
}

impl From<kindlm_types::FailingCase> for FailingCase {
    fn from(it: kindlm_types::FailingCase) -> Self {
        Self { case: it.case, model: it.model }
    }
}

impl From<AssertionSummary> for AssertionBreakdown {
    fn from(summary: AssertionSummary) -> Self {
        Self {
            pass_rate: summary.kept.rate(),
            low: summary.kept.interval.map(|it| it.low),
            high: summary.kept.interval.map(|it| it.high),
            n: summary.kept.total,
            passed: summary.kept.count,
            failed: summary.kept.total.saturating_sub(summary.kept.count),
            errored: summary.errored,
            skipped: summary.skipped,
            more_failing: summary.unnamed(),
            failing: summary.failing.into_iter().map(Into::into).collect(),
            example: summary.example,
        }
    }
}

pub(super) fn by_id(summaries: Vec<AssertionSummary>) -> BTreeMap<String, AssertionBreakdown> {
    summaries.into_iter().map(|it| (it.id.clone(), it.into())).collect()
}
