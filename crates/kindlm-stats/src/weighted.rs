//! Cohen's weighted kappa, for answers with scores.

use crate::Undefined;

/// The weight of a disagreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// All disagreements have the same weight.
    Equal,
    /// The weight is the absolute difference of the scores.
    Linear,
    /// The weight is the square of the difference.
    Quadratic,
}

impl Weights {
    fn disagreement(self, a: f64, b: f64) -> f64 {
        let apart = (a - b).abs();
        match self {
            Self::Equal => f64::from(u8::from(apart > 0.0)),
            Self::Linear => apart,
            Self::Quadratic => apart * apart,
        }
    }
}

/// Returns Cohen's weighted kappa: `1 - observed / expected` of the weighted disagreement.
///
/// The formula is from Cohen (1968), *Psychol. Bull.* 70:213. Each pair has the scores of two raters for the same
/// output.
///
/// Fails:
/// - without pairs ([`Undefined::Empty`]);
/// - if a score is not finite, or the weights are too large for an `f64` ([`Undefined::OutOfRange`]);
/// - if both raters gave one score to all outputs ([`Undefined::OneAnswer`]).
///
/// The time is quadratic in the number of distinct scores.
pub fn weighted_kappa(pairs: &[(f64, f64)], weights: Weights) -> Result<f64, Undefined> {
    if pairs.is_empty() {
        return Err(Undefined::Empty);
    }
    if pairs.iter().any(|(a, b)| !a.is_finite() || !b.is_finite()) {
        return Err(Undefined::OutOfRange);
    }
    let seen: f64 = pairs.iter().map(|&(a, b)| weights.disagreement(a, b)).sum();
    let (first, second) =
        (shares(pairs.iter().map(|it| it.0)), shares(pairs.iter().map(|it| it.1)));
    let expected: f64 = first
        .iter()
        .flat_map(|&(a, m)| second.iter().map(move |&(b, n)| m * n * weights.disagreement(a, b)))
        .sum();
    let count: f64 = first.iter().map(|it| it.1).sum();
    let (seen, expected) = (seen / count, expected / (count * count));
    if !seen.is_finite() || !expected.is_finite() {
        return Err(Undefined::OutOfRange);
    }
    let kappa = 1.0 - seen / expected;
    if kappa.is_finite() { Ok(kappa) } else { Err(Undefined::OneAnswer) }
}

/// Returns each distinct score with its frequency.
fn shares(scores: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
    let mut all: Vec<f64> = scores.collect();
    all.sort_by(f64::total_cmp);
    let mut counts: Vec<(f64, f64)> = Vec::new();
    for score in all {
        match counts.last_mut() {
            // The scores are sorted, so equal scores are adjacent.
            Some((last, count)) if last.to_bits() == score.to_bits() => *count += 1.0,
            _ => counts.push((score, 1.0)),
        }
    }
    counts
}
