//! The weighted mean of the scores of checks, in total and by name.

use crate::{AssertionResult, NamedScore, Score};

/// Returns the mean score, weighted by the weights of the checks.
///
/// Returns `None` if no check has a score, all weights are 0, or the sum overflows. Skipped and errored checks have no
/// score.
///
/// The mean is 0 if a comparison that [decides the score](AssertionResult::decides_score) did not select the output.
pub fn weighted_score(results: &[AssertionResult]) -> Option<f64> {
    if results.iter().any(AssertionResult::rejects_output) {
        return Some(0.0);
    }
    let mut mean = Mean::default();
    for result in results {
        if let Some(score) = result.score {
            mean.add(score.get(), result.weight);
        }
    }
    mean.get()
}

/// Returns the weighted mean of each named score, in order of first appearance.
///
/// In each returned score, `weight` is the sum of the weights.
///
/// A check contributes its score to its `metric`. The check also contributes its named scores, each with its own weight
/// times the weight of the check. A named score that has the name of the metric is ignored. A name without a finite
/// mean, for example if all weights are 0, is left out.
pub fn named_scores(results: &[AssertionResult]) -> Vec<NamedScore> {
    let mut names: Vec<(&str, Mean)> = Vec::new();
    let mut add = |name, score: Score, weight: f64| {
        let index = names.iter().position(|(it, _)| *it == name).unwrap_or_else(|| {
            names.push((name, Mean::default()));
            names.len() - 1
        });
        if let Some((_, mean)) = names.get_mut(index) {
            mean.add(score.get(), weight);
        }
    };
    for result in results {
        let metric = result.metric.as_deref();
        if let (Some(metric), Some(score)) = (metric, result.score) {
            add(metric, score, result.weight);
        }
        for it in result.named_scores.iter().filter(|it| Some(it.name.as_str()) != metric) {
            add(&it.name, it.score, it.weight * result.weight);
        }
    }
    let scored = |(name, mean): (&str, Mean)| {
        let score = Score::new(mean.get()?).ok()?;
        Some(NamedScore { name: name.to_owned(), score, weight: mean.weights })
    };
    names.into_iter().filter_map(scored).collect()
}

/// A weighted mean that is being computed.
#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f64,
    weights: f64,
}

impl Mean {
    fn add(&mut self, score: f64, weight: f64) {
        self.sum += score * weight;
        self.weights += weight;
    }

    fn get(self) -> Option<f64> {
        let mean = (self.weights > 0.0).then(|| self.sum / self.weights);
        // A sum that overflows has no finite mean. `None` ensures that no check passes because of the overflow.
        mean.filter(|it| it.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailureCode;

    #[test]
    fn overflowing_sums_have_no_mean() {
        for (score, weight) in [(1.0, 1e308), (1e308, 1.0), (1e308, 10.0), (-1e308, 10.0)] {
            let results = [score, score, -score].map(|it| scored(it, weight, Some("m")));
            assert_eq!(weighted_score(&results[..2]), None, "{score} {weight}");
            assert_eq!(named_scores(&results[..2]), [], "{score} {weight}");
        }
    }

    fn scored(score: f64, weight: f64, metric: Option<&str>) -> AssertionResult {
        AssertionResult {
            weight,
            metric: metric.map(str::to_owned),
            ..AssertionResult::pass("judge", "Judge: tone").with_score(Score::new(score).unwrap())
        }
    }

    fn named(results: &[AssertionResult]) -> Vec<(String, f64, f64)> {
        named_scores(results).into_iter().map(|it| (it.name, it.score.get(), it.weight)).collect()
    }

    #[test]
    fn scores_are_weighted_and_named() {
        let skipped = AssertionResult::skipped("drift", "Drift", "no baseline");
        let results = [
            scored(1.0, 3.0, Some("tone")),
            scored(0.0, 1.0, Some("tone")),
            scored(0.5, 4.0, Some("facts")),
            AssertionResult { weight: 100.0, ..skipped },
        ];
        assert_eq!(weighted_score(&results), Some(0.625));
        assert_eq!(
            named(&results),
            [("tone".to_owned(), 0.75, 4.0), ("facts".to_owned(), 0.5, 4.0)]
        );
    }

    #[test]
    fn a_deciding_comparison_has_no_share_in_the_mean() {
        let selected = scored(1.0, 5.0, None).deciding_score();
        let checks = [scored(0.25, 1.0, None)];
        let score = |it: &AssertionResult| weighted_score(&[checks[0].clone(), it.clone()]);
        assert_eq!(score(&selected), Some(0.25));
        let failed = AssertionResult::fail("max-score", "x", FailureCode::new("F"), "not selected");
        assert_eq!(score(&failed), Some(0.125));
        // A script can return this metadata, which has no effect on the score.
        assert_eq!(score(&failed.clone().with_metadata("decidesScore", true)), Some(0.125));
        let failed = failed.deciding_score();
        assert_eq!(score(&failed), Some(0.0));
        assert_eq!(
            crate::Outcome::against(0.0, &[checks[0].clone(), failed]),
            crate::Outcome::Failed
        );
        assert_eq!(
            crate::Outcome::against(0.2, &[checks[0].clone(), selected]),
            crate::Outcome::Passed
        );
    }

    #[test]
    fn a_mean_of_nothing_is_absent() {
        let weightless = [scored(1.0, 0.0, Some("tone"))];
        assert_eq!((weighted_score(&weightless), named(&weightless)), (None, Vec::new()));
        assert_eq!(weighted_score(&[]), None);
    }

    #[test]
    fn the_metric_wins_over_the_same_name_and_weights_multiply() {
        let given = |name: &str, score: f64, weight| NamedScore {
            name: name.to_owned(),
            score: Score::new(score).unwrap(),
            weight,
        };
        let result = AssertionResult {
            named_scores: vec![given("m", 0.0, 1.0), given("a", 0.5, 2.0)],
            ..scored(1.0, 3.0, Some("m"))
        };
        assert_eq!(named(&[result]), [("m".to_owned(), 1.0, 3.0), ("a".to_owned(), 0.5, 6.0)]);
    }
}
