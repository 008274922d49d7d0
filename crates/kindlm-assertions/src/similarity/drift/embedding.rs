//! The distance between two texts, as the distance between their embeddings.

use kindlm_types::ask::EmbeddingQuestion;
use kindlm_types::{Answer, AskError, AssertionResult, FailureCode, Question};

use crate::Evidence;
use crate::core::judging::JUDGE_EVAL_ERROR;
use crate::core::nearness::Metric;

/// The reason why there is no distance.
pub(super) enum Obstacle<'a> {
    /// A text could not be embedded.
    Unanswered(Option<&'a AskError>),
    /// The two vectors cannot be compared, for this reason.
    Incomparable(String),
}

pub(super) fn question(model: Option<&String>, text: &str) -> Question {
    Question::Embedding(EmbeddingQuestion::new(model.cloned(), text))
}

/// Returns the drift of the output from the baseline, from 0 to 1, or the obstacle.
///
/// The drift is 0 for vectors of the same direction, and 1 for perpendicular or opposite vectors.
pub(super) fn drift<'a>(
    evidence: &Evidence<'a>,
    model: Option<&String>,
    baseline: &str,
) -> Result<f64, Obstacle<'a>> {
    let vector = |text| match evidence.answers.get(&question(model, text)) {
        Some(Ok(Answer::Vector { vector, .. })) => Ok(vector.as_ref()),
        Some(Err(err)) => Err(Obstacle::Unanswered(Some(err))),
        Some(Ok(Answer::Text { .. } | Answer::Script(_))) | None => Err(Obstacle::Unanswered(None)),
    };
    let (old, new) = (vector(baseline)?, vector(&evidence.execution.output)?);
    let cosine = Metric::Cosine.measure(old, new).map_err(Obstacle::Incomparable)?;
    Ok((1.0 - cosine).clamp(0.0, 1.0))
}

impl Obstacle<'_> {
    pub(super) fn result(&self, assertion: &str, label: &str) -> AssertionResult {
        let errored = |code: FailureCode, message: String| {
            AssertionResult::errored(assertion, label, code, message)
        };
        match self {
            Self::Unanswered(Some(err @ AskError::Provider(_))) => {
                errored(JUDGE_EVAL_ERROR.code.clone(), format!("the embedding failed: {err}"))
                    .with_cause(err.failure_code())
            }
            Self::Unanswered(Some(err)) => errored(err.failure_code(), err.to_string()),
            Self::Unanswered(None) => {
                errored(FailureCode::INTERNAL_ERROR, "the texts were not embedded".to_owned())
            }
            Self::Incomparable(why) => errored(JUDGE_EVAL_ERROR.code.clone(), why.clone()),
        }
    }
}
