//! The distance between two texts as the distance between their embeddings.

use kindlm_types::ask::EmbeddingQuestion;
use kindlm_types::{Answer, AskError, AssertionResult, FailureCode, Question};

use crate::Evidence;
use crate::judging::JUDGE_EVAL_ERROR;

/// Why there is no distance.
pub(super) enum Obstacle<'a> {
    /// A text could not be embedded.
    Unanswered(Option<&'a AskError>),
    /// The two vectors do not have the same length.
    Lengths(usize, usize),
}

pub(super) fn question(model: Option<&String>, text: &str) -> Question {
    Question::Embedding(EmbeddingQuestion { model: model.cloned(), text: text.to_owned() })
}

/// The drift of the output from the baseline: 0 for the same direction, 1 for no common one or the opposite.
pub(super) fn drift<'a>(
    evidence: &Evidence<'a>,
    model: Option<&String>,
    baseline: &str,
) -> Result<f64, Obstacle<'a>> {
    let vector = |text| match evidence.answers.get(&question(model, text)) {
        Some(Ok(Answer::Vector(vector))) => Ok(vector.as_ref()),
        Some(Err(err)) => Err(Obstacle::Unanswered(Some(err))),
        Some(Ok(Answer::Text { .. } | Answer::Script(_))) | None => Err(Obstacle::Unanswered(None)),
    };
    let (old, new) = (vector(baseline)?, vector(&evidence.execution.output)?);
    if old.len() != new.len() {
        return Err(Obstacle::Lengths(old.len(), new.len()));
    }
    Ok(distance(old, new))
}

/// 1 − cosine similarity, clamped to 0..=1. A zero vector is equal to itself and has nothing in common with
/// any other.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    if a == b {
        return 0.0;
    }
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
    };
    let cosine = dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt());
    if cosine.is_finite() { (1.0 - cosine).clamp(0.0, 1.0) } else { 1.0 }
}

impl Obstacle<'_> {
    pub(super) fn result(&self, assertion: &str, label: &str) -> AssertionResult {
        let errored = |code: FailureCode, message: String| {
            AssertionResult::errored(assertion, label, code, message)
        };
        match self {
            Self::Unanswered(Some(err @ AskError::Provider(_))) => {
                errored(JUDGE_EVAL_ERROR.code.clone(), format!("The embedding failed: {err}"))
                    .with_metadata("cause", err.failure_code().as_str())
            }
            Self::Unanswered(Some(err)) => errored(err.failure_code(), err.to_string()),
            Self::Unanswered(None) => errored(
                FailureCode::INTERNAL_ERROR,
                "The texts have not been given to any embedding model".to_owned(),
            ),
            Self::Lengths(old, new) => errored(
                JUDGE_EVAL_ERROR.code.clone(),
                format!(
                    "The embeddings cannot be compared: one has {old} numbers, the other {new}"
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_distance_is_zero_for_the_same_and_one_for_nothing_in_common() {
        for (a, b, expected) in [
            (&[1.0, 0.0][..], &[2.0, 0.0][..], 0.0),
            (&[1.0, 0.0], &[0.0, 1.0], 1.0),
            (&[1.0, 0.0], &[-1.0, 0.0], 1.0),
            (&[0.0, 0.0], &[0.0, 0.0], 0.0),
            (&[0.0, 0.0], &[1.0, 0.0], 1.0),
            (&[1.0, 0.0], &[1.0, 1.0], 1.0 - 0.5f64.sqrt()),
            (&[], &[], 0.0),
            (&[f32::NAN], &[1.0], 1.0),
            (&[f32::MAX, f32::MAX], &[f32::MAX, f32::MAX], 0.0),
        ] {
            assert!((distance(a, b) - expected).abs() < 1e-9, "{a:?} {b:?}");
        }
    }

    proptest! {
        #[test]
        fn the_distance_is_symmetric_and_in_range(
            pairs in prop::collection::vec((-1e3f32..1e3, -1e3f32..1e3), 0..20),
        ) {
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            prop_assert!((0.0..=1.0).contains(&distance(&a, &b)));
            prop_assert!((distance(&a, &b) - distance(&b, &a)).abs() < 1e-12);
            prop_assert!(distance(&a, &a) == 0.0);
        }
    }
}
