//! Derived metrics, which a suite computes from its named scores, for each model.

mod formula;

use kindlm_types::{DerivedMetric, DerivedValue, ModelTotals};

pub use formula::{Formula, FormulaError};

/// The name in formulas for the number of a model's executions.
const COUNT: &str = "__count";

/// The definition of a derived metric.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Derivation {
    /// The metric's name in reports, and in later formulas.
    pub name: String,
    /// The formula over the names of scores; see [`Formula`].
    pub formula: String,
}

impl Derivation {
    /// Creates a metric from its name and its formula.
    pub fn new(name: impl Into<String>, formula: impl Into<String>) -> Self {
        Self { name: name.into(), formula: formula.into() }
    }
}

/// Computes derived metrics in order. Each metric may use earlier metrics.
///
/// As in promptfoo, the name of a score denotes the weighted sum of this score over the executions of the model.
/// `__count` denotes the number of executions. A metric that cannot be computed has the reason instead of a value.
pub fn derive(derivations: &[Derivation], models: &[ModelTotals]) -> Vec<DerivedMetric> {
    let mut metrics: Vec<DerivedMetric> = Vec::with_capacity(derivations.len());
    for Derivation { name, formula } in derivations {
        let parsed = Formula::parse(formula);
        let values = models.iter().enumerate().map(|(index, model)| {
            let value = match &parsed {
                Err(err) => Err(err.to_string()),
                Ok(parsed) => value(parsed, model, &before(&metrics, index)),
            };
            DerivedValue { model: model.model.clone(), value }
        });
        let values = values.collect();
        metrics.push(DerivedMetric { name: name.clone(), formula: formula.clone(), values });
    }
    metrics
}

/// Returns the earlier metrics for one model, latest first.
///
/// So a search by name finds the latest metric with this name.
fn before(metrics: &[DerivedMetric], model: usize) -> Vec<(&str, Result<f64, ()>)> {
    let of = |it: &DerivedMetric| {
        it.values.get(model).map_or(Err(()), |it| it.value.clone().map_err(drop))
    };
    metrics.iter().rev().map(|it| (it.name.as_str(), of(it))).collect()
}

fn value(
    formula: &Formula,
    model: &ModelTotals,
    before: &[(&str, Result<f64, ()>)],
) -> Result<f64, String> {
    let named = |name: &str| -> Option<f64> {
        if let Some((_, value)) = before.iter().find(|(it, _)| *it == name) {
            return value.ok();
        }
        if name == COUNT {
            return Some(f64::from(u32::try_from(model.totals.executions).unwrap_or(u32::MAX)));
        }
        model.named_scores.iter().find(|it| it.name == name).map(|it| it.sum)
    };
    let value = formula.evaluate(&named).map_err(|name| {
        if before.iter().any(|(it, _)| *it == name) {
            format!("`{name}` has no value")
        } else {
            format!("no check gave a score named `{name}`")
        }
    })?;
    if value.is_finite() { Ok(value) } else { Err("the result is not a finite number".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_types::{NamedTotal, SuiteTotals};

    #[test]
    fn formulas_see_sums_and_each_other() {
        let total = |name: &str, sum: f64, weight: f64| NamedTotal {
            name: name.to_owned(),
            sum,
            weight,
            count: 2,
        };
        let model = ModelTotals {
            model: "m".to_owned(),
            totals: SuiteTotals { executions: 2, ..SuiteTotals::default() },
            named_scores: vec![total("P", 1.5, 2.0), total("R", 2.5, 4.0)],
            ..ModelTotals::default()
        };
        let derivations = [
            ("F1", "2 * P * R / (P + R)"),
            ("avgP", "P / __count"),
            ("chain", "F1 * 2"),
            ("bad", "nope + 1"),
            ("worse", "bad + 1"),
            ("none", "1 / 0"),
            ("P", "P + 1"),
            ("again", "P"),
        ]
        .map(|(name, formula)| Derivation { name: name.into(), formula: formula.into() });
        let found: Vec<_> = derive(&derivations, &[model])
            .into_iter()
            .map(|it| it.values[0].value.clone())
            .collect();
        assert_eq!(
            found,
            [
                Ok(1.875),
                Ok(0.75),
                Ok(3.75),
                Err("no check gave a score named `nope`".to_owned()),
                Err("`bad` has no value".to_owned()),
                Err("the result is not a finite number".to_owned()),
                Ok(2.5),
                Ok(2.5),
            ]
        );
    }
}
