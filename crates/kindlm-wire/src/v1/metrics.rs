//! Named scores over a whole run, and the suite's derived metrics.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use kindlm_types::ModelTotals;

/// The total of one named score of a model. This derived data is ignored when a report is loaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct NamedTotal {
    /// The model's id in the suite.
    pub model: String,
    /// The name of the score.
    pub name: String,
    /// The weighted mean of the score: `sum` divided by `weight`.
    pub score: f64,
    /// The sum of the scores, each multiplied by its weight.
    pub sum: f64,
    /// The sum of the weights.
    pub weight: f64,
    /// The number of executions that have the score.
    pub count: u64,
}

/// A metric that the suite computes from named scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DerivedMetric {
    /// The metric's name.
    pub name: String,
    /// The formula, as written in the suite.
    pub formula: String,
    /// The metric's value for each model.
    pub values: Vec<DerivedValue>,
}

/// The value of a derived metric for one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DerivedValue {
    /// The model's id in the suite.
    pub model: String,
    /// The value; `null` if it could not be computed.
    pub value: Option<f64>,
    /// The reason why the value is missing; absent if there is a value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Returns the totals of the named scores of all models.
pub(super) fn named(models: &[ModelTotals]) -> Vec<NamedTotal> {
    let of = |model: &ModelTotals| {
        let model_id = model.model.clone();
        let totals = model.named_scores.iter().map(move |it| NamedTotal {
            model: model_id.clone(),
            name: it.name.clone(),
            score: it.mean(),
            sum: it.sum,
            weight: it.weight,
            count: it.count,
        });
        totals.collect::<Vec<_>>()
    };
    models.iter().flat_map(of).collect()
}

impl From<&kindlm_types::DerivedMetric> for DerivedMetric {
    fn from(metric: &kindlm_types::DerivedMetric) -> Self {
        let values = metric.values.iter().map(|it| DerivedValue {
            model: it.model.clone(),
            value: it.value.as_ref().ok().copied(),
            error: it.value.as_ref().err().cloned(),
        });
        let values = values.collect();
        Self { name: metric.name.clone(), formula: metric.formula.clone(), values }
    }
}

impl From<DerivedMetric> for kindlm_types::DerivedMetric {
    fn from(wire: DerivedMetric) -> Self {
        let values = wire.values.into_iter().map(|it| {
            let value = it.value.ok_or_else(|| it.error.unwrap_or_default());
            kindlm_types::DerivedValue { model: it.model, value }
        });
        Self { name: wire.name, formula: wire.formula, values: values.collect() }
    }
}
