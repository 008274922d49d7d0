//! Totals by model and by cause, in version 1 of the JSON report. This derived data is ignored when a report is loaded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::FailingCase;
use kindlm_types::{FailureCode, MeasuredRate};

/// A count out of a total, with its confidence interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Rate {
    /// The number of items that count, such as cases that held; at most `total`.
    pub count: u64,
    /// The number of all items, such as cases in which something was checked.
    pub total: u64,
    /// `count` / `total`, from 0 to 1; `null` if the total is 0.
    pub rate: Option<f64>,
    /// The lower end of the 95% confidence interval, which counts each cluster of cases once; `null` if the total is 0.
    pub low: Option<f64>,
    /// The upper end of the 95% confidence interval; `null` if the total is 0.
    pub high: Option<f64>,
}

impl From<MeasuredRate> for Rate {
    fn from(it: MeasuredRate) -> Self {
        let interval = it.interval;
        Self {
            count: it.count,
            total: it.total,
            rate: it.rate(),
            low: interval.map(|it| it.low),
            high: interval.map(|it| it.high),
        }
    }
}

/// The percentiles of a quantity, to three significant digits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
}

impl From<kindlm_types::Percentiles> for Percentiles {
    fn from(it: kindlm_types::Percentiles) -> Self {
        Self { p50: it.p50, p95: it.p95 }
    }
}

/// The totals of one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelTotals {
    /// The model's id in the suite; `command` for command tests, `transcript` for transcript tests.
    pub model: String,
    /// The cases that held, out of those in which something was checked.
    pub held: Rate,
    /// The cases that could not be executed or judged.
    pub errored: u64,
    /// The cases that held in some repeats and failed in others, out of the cases with several repeats.
    pub flaky: Rate,
    /// The latency of an execution, in milliseconds; absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<Percentiles>,
    /// The tokens of an execution; absent if none were reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Percentiles>,
    /// The cost of an execution, in US dollars; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Percentiles>,
}

impl From<&kindlm_types::ModelTotals> for ModelTotals {
    fn from(it: &kindlm_types::ModelTotals) -> Self {
        Self {
            model: it.model.clone(),
            held: it.totals.held().into(),
            errored: it.totals.errored,
            flaky: it.flaky.into(),
            latency_ms: it.latency_ms.map(Into::into),
            tokens: it.tokens.map(Into::into),
            cost_usd: it.cost_usd.map(Into::into),
        }
    }
}

/// Failures that have the same code, and the same label or error message. Numbers and quoted texts may differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Cause {
    /// The failure code; absent if executions were not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<FailureCode>,
    /// The label or error message that the failures share. `…` stands for the parts that differ.
    pub title: String,
    /// The number of cases (test cases × models) with a failure of this cause.
    pub cases: u64,
    /// The numbers of these cases by model, largest first.
    pub models: Vec<ModelCount>,
    /// The first of these cases, in the order of the plan; at most three.
    pub examples: Vec<FailingCase>,
}

/// A number of cases of one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelCount {
    /// The model's id in the suite.
    pub model: String,
    /// The number of cases.
    pub cases: u64,
}

impl From<kindlm_types::CauseTotals> for Cause {
    fn from(it: kindlm_types::CauseTotals) -> Self {
        let models = it.models.into_iter().map(|(model, cases)| ModelCount { model, cases });
        Self {
            code: it.code,
            title: it.title,
            cases: it.cases,
            models: models.collect(),
            examples: it.examples.into_iter().map(Into::into).collect(),
        }
    }
}
