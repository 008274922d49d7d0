//! The results of prompt assertions, in version 1 of the JSON report.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use kindlm_types::AssertionSummary;

/// The counts of one prompt assertion over all cases, models and repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssertionBreakdown {
    /// The share of its judgements in which the rule was kept, from 0 to 1; `null` if it was never judged.
    pub pass_rate: Option<f64>,
    /// The number of judgements: passed or failed.
    pub n: u64,
    /// The number of passes.
    pub passed: u64,
    /// The number of failures.
    pub failed: u64,
    /// The number of times without a verdict of the judge.
    pub errored: u64,
    /// The number of times that it did not apply.
    pub skipped: u64,
    /// The first cases that broke it.
    pub failing: Vec<FailingCase>,
    /// The number of further cases that broke it.
    pub more_failing: u64,
    /// Why the first of them broke it, in the judge's words; or, if none did, why there was no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}

/// A case in which a rule was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailingCase {
    /// The test case's name.
    pub case: String,
    /// The model's id.
    pub model: String,
}

impl From<AssertionSummary> for AssertionBreakdown {
    fn from(summary: AssertionSummary) -> Self {
        Self {
            pass_rate: summary.kept.rate(),
            n: summary.kept.total,
            passed: summary.kept.count,
            failed: summary.kept.total.saturating_sub(summary.kept.count),
            errored: summary.errored,
            skipped: summary.skipped,
            more_failing: summary.unnamed(),
            failing: summary
                .failing
                .into_iter()
                .map(|it| FailingCase { case: it.case, model: it.model })
                .collect(),
            example: summary.example,
        }
    }
}

pub(super) fn by_id(summaries: Vec<AssertionSummary>) -> BTreeMap<String, AssertionBreakdown> {
    summaries.into_iter().map(|it| (it.id.clone(), it.into())).collect()
}
