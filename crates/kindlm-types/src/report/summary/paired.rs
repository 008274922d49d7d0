//! Compares the models of a run on the same tests.

use std::collections::BTreeMap;

use kindlm_stats::{Confidence, Difference, Interval, Tally, mean_difference};

use crate::{CaseResult, Outcome};

/// The difference between two models in the share of tests that held, on their common tests.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelDifference {
    /// The model's id in the suite.
    pub model: String,
    /// The id of the other model.
    pub against: String,
    /// The share of tests that held on the model, minus the share on the other model; from -1 to 1.
    pub mean: f64,
    /// The 95% confidence interval of the mean. It counts each cluster of tests as one observation.
    pub interval: Interval,
    /// The number of tests that both models ran.
    pub tests: u64,
}

/// The outcomes of each test by model.
#[derive(Clone, Debug, Default)]
pub(super) struct Pairs {
    models: Vec<String>,
    tests: BTreeMap<String, TestOutcomes>,
}

#[derive(Clone, Debug, Default)]
struct TestOutcomes {
    cluster: Option<String>,
    /// The positions of models in [`Pairs::models`], each with true if the test held on the model.
    held: Vec<(usize, bool)>,
}

impl Pairs {
    /// Adds a case, unless it was skipped.
    pub(super) fn observe(&mut self, case: &CaseResult) {
        if case.outcome == Outcome::Skipped {
            return;
        }
        let known = self.models.iter().position(|it| *it == case.model);
        let model = known.unwrap_or_else(|| {
            self.models.push(case.model.clone());
            self.models.len() - 1
        });
        if !self.tests.contains_key(&case.case) {
            let cluster = case.cluster.clone();
            self.tests.insert(case.case.clone(), TestOutcomes { cluster, held: Vec::new() });
        }
        if let Some(test) = self.tests.get_mut(&case.case) {
            test.held.push((model, case.outcome.held()));
        }
    }

    /// Returns the difference between each other model and the model `against`. A model without common tests is left
    /// out.
    pub(super) fn differences(&self, against: &str) -> Vec<ModelDifference> {
        let Some(reference) = self.models.iter().position(|it| it == against) else {
            return Vec::new();
        };
        let others = self.models.iter().enumerate().filter(|(at, _)| *at != reference);
        others
            .filter_map(|(at, model)| self.difference((reference, against), (at, model)))
            .collect()
    }

    fn difference(
        &self,
        (reference, against): (usize, &str),
        (at, model): (usize, &str),
    ) -> Option<ModelDifference> {
        let common = self.tests.iter().filter_map(|(name, test)| {
            let held = |model| test.held.iter().find(|(it, _)| *it == model).map(|it| it.1);
            let tally = |held: bool| Tally::new(held.into(), 1).ok();
            let (before, after) = (tally(held(reference)?)?, tally(held(at)?)?);
            Some(Difference::new(test.cluster.as_deref().unwrap_or(name), before, after))
        });
        let common: Vec<Difference<'_>> = common.collect();
        let (mean, interval) = mean_difference(&common, Confidence::P95).ok()?;
        let (model, against) = (model.to_owned(), against.to_owned());
        Some(ModelDifference { model, against, mean, interval, tests: common.len() as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_compared_on_common_tests() {
        let case = |test: usize, model: &str, outcome| CaseResult {
            case: format!("test {test}"),
            ..crate::report::summary::tally::tests::case(model, outcome)
        };
        let mut pairs = Pairs::default();
        for test in 0..20 {
            pairs.observe(&case(test, "a", Outcome::Passed));
            let outcome = if test < 5 { Outcome::Failed } else { Outcome::Scored };
            pairs.observe(&case(test, "b", outcome));
        }
        // Only one of the models ran these tests.
        pairs.observe(&case(20, "b", Outcome::Failed));
        pairs.observe(&case(21, "a", Outcome::Failed));
        pairs.observe(&case(21, "b", Outcome::Skipped));
        pairs.observe(&case(22, "c", Outcome::Passed));
        let found = pairs.differences("a");
        let [only] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((only.model.as_str(), only.against.as_str(), only.tests), ("b", "a", 20));
        assert!((only.mean + 0.25).abs() < 1e-12, "{only:?}");
        assert!(only.interval.low < -0.4 && only.interval.high < 0.0, "{only:?}");
        assert_eq!(pairs.differences("unknown"), []);
    }
}
