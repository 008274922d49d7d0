//! The shared parts of the checks that compare texts by their embeddings.

use std::sync::Arc;

use kindlm_types::ask::EmbeddingQuestion;
use kindlm_types::{
    Answer, AssertionResult, Bound, FailureCode, Problem, Question, ResultEvidence, ecma,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::config::parse_config;
use crate::core::grade::Grade;
use crate::core::result_evidence::{measure, text_diff};
use crate::{Assertion, EntryOptions, Evidence, Setup, Traits};

/// The texts could not be embedded, or their embeddings cannot be compared.
pub(crate) const EMBEDDING_FAILED: FailureCode = FailureCode::new("EMBEDDING_FAILED");

/// The measure that compares two vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metric {
    /// The cosine of the angle between the vectors.
    Cosine,
    /// The dot product of the vectors.
    Dot,
    /// The Euclidean distance of the vectors.
    Euclidean,
}

/// The texts to compare the output with, and the embedding model.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SimilarConfig")]
pub(crate) struct Config {
    /// A text, or a list of texts of which one must be similar to the output.
    value: Texts,
    /// The id of the embedding model; the suite's default model if it is not given.
    #[serde(default)]
    model: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "SimilarTexts")]
enum Texts {
    /// A single text.
    One(String),
    /// Several texts, of which one must be similar to the output.
    Several(#[schemars(length(min = 1))] Vec<String>),
}

/// The default threshold: the lowest similarity, or the highest distance.
const THRESHOLD: f64 = 0.75;

/// A check of the similarity of the output to texts.
#[derive(Debug)]
pub(crate) struct Similar {
    id: &'static str,
    metric: Metric,
    texts: Vec<String>,
    model: Option<String>,
    threshold: f64,
    negate: bool,
}

impl Similar {
    /// Builds the check from its configuration. An unknown model is a problem.
    pub(crate) fn build(
        id: &'static str,
        metric: Metric,
        config: &Value,
        own: EntryOptions,
        setup: &Setup<'_>,
    ) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
        let config: Config = parse_config(config)?;
        if let Some(problem) =
            config.model.as_deref().and_then(|it| setup.check_model("/model", it))
        {
            return Err(vec![problem]);
        }
        let texts = match config.value {
            Texts::One(text) => vec![text],
            Texts::Several(texts) => texts,
        };
        let threshold = own.threshold.unwrap_or(THRESHOLD);
        Ok(Arc::new(Self { id, metric, texts, model: config.model, threshold, negate: own.negate }))
    }

    fn question(&self, text: &str) -> Question {
        Question::Embedding(EmbeddingQuestion::new(self.model.clone(), text))
    }

    fn label(&self) -> &'static str {
        match self.metric {
            Metric::Cosine => "Similarity",
            Metric::Dot => "Similarity (dot product)",
            Metric::Euclidean => "Distance",
        }
    }

    fn errored(&self, message: String) -> Box<AssertionResult> {
        Box::new(AssertionResult::errored(self.id, self.label(), EMBEDDING_FAILED, message))
    }

    /// Returns the embedding of a text, or the errored result of the check.
    fn vector<'a>(
        &self,
        evidence: &Evidence<'a>,
        text: &str,
    ) -> Result<&'a [f64], Box<AssertionResult>> {
        match evidence.answers.get(&self.question(text)) {
            Some(Ok(Answer::Vector { vector, .. })) => Ok(vector),
            Some(Err(err)) => {
                let errored = self.errored(format!("the embedding failed: {err}"));
                Err(Box::new(errored.with_cause(err.failure_code())))
            }
            Some(Ok(_)) | None => {
                let message = "the texts were not embedded";
                let code = FailureCode::INTERNAL_ERROR;
                Err(Box::new(AssertionResult::errored(self.id, self.label(), code, message)))
            }
        }
    }

    /// Returns the measure of a failure with its limit; without `not-`, also the difference of the texts.
    fn evidence(&self, actual: f64, text: &str, output: &str) -> Vec<ResultEvidence> {
        let is_far = self.metric == Metric::Euclidean;
        let bound = match (is_far, self.negate) {
            (true, false) => Bound::AtMost,
            (true, true) => Bound::MoreThan,
            (false, false) => Bound::AtLeast,
            (false, true) => Bound::LessThan,
        };
        let name = if is_far { "distance" } else { "similarity" };
        let mut evidence = vec![measure(name, actual, (self.threshold, bound), None)];
        if !self.negate {
            evidence.push(text_diff(text, output));
        }
        evidence
    }

    /// Returns the grade for the similarity of the output to one text, and the measure.
    ///
    /// The error is the errored result of the check.
    fn grade(
        &self,
        evidence: &Evidence<'_>,
        text: &str,
    ) -> Result<(Grade, f64), Box<AssertionResult>> {
        let wanted = self.vector(evidence, text)?;
        let output = self.vector(evidence, &evidence.execution.output)?;
        let measure = self.metric.measure(wanted, output).map_err(|it| self.errored(it))?;
        let shown = ecma::to_fixed(measure, 2);
        let threshold = ecma::number(self.threshold);
        let grade = if self.metric == Metric::Euclidean {
            // At the threshold itself, both the check and its negation hold, as in promptfoo.
            let (near, far) = (
                measure <= self.threshold + f64::EPSILON,
                measure >= self.threshold - f64::EPSILON,
            );
            let pass = if self.negate { far } else { near };
            let score = 1.0 / (1.0 + measure);
            let is = if pass == self.negate { "greater than" } else { "less than or equal to" };
            let reason = format!("Distance {shown} is {is} threshold {threshold}");
            Grade { pass, score: if self.negate { 1.0 - score } else { score }, reason }
        } else {
            let (near, far) = (
                measure >= self.threshold - f64::EPSILON,
                measure <= self.threshold + f64::EPSILON,
            );
            let pass = if self.negate { far } else { near };
            let is = if pass == self.negate { "less than" } else { "greater than or equal to" };
            let reason = format!("Similarity {shown} is {is} threshold {threshold}");
            Grade { pass, score: if self.negate { 1.0 - measure } else { measure }, reason }
        };
        Ok((grade, measure))
    }

    /// Returns the result of the first text that decides, else of the most similar text.
    ///
    /// The error is the errored result of the check: a text has no embedding, or two embeddings cannot be compared.
    fn of_all(&self, evidence: &Evidence<'_>) -> Result<AssertionResult, Box<AssertionResult>> {
        let result = |grade: Grade, measure: f64, text: &str| {
            grade
                .result(self.id, self.label())
                .with_failure_evidence(|| self.evidence(measure, text, &evidence.execution.output))
        };
        let mut decided: Option<(Grade, f64, &str)> = None;
        for text in &self.texts {
            let (grade, measure) = self.grade(evidence, text)?;
            // One similar text is enough. With `not-`, one similar text is too many.
            if grade.pass != self.negate || self.texts.len() == 1 {
                return Ok(result(grade, measure, text));
            }
            let better = decided.as_ref().is_none_or(|(it, ..)| {
                if self.negate { grade.score < it.score } else { grade.score > it.score }
            });
            if better {
                decided = Some((grade, measure, text));
            }
        }
        let (grade, measure, text) =
            decided.ok_or_else(|| self.errored("there is no text to compare with".to_owned()))?;
        if self.negate {
            return Ok(result(grade, measure, text));
        }
        let reason = "None of the provided values met the similarity threshold".to_owned();
        Ok(result(Grade { reason, ..grade }, measure, text))
    }
}

impl Metric {
    /// Returns the measure of two vectors, or the reason why they cannot be compared.
    ///
    /// A vector of zeros has no direction, so it has no angle to another vector.
    pub(crate) fn measure(self, a: &[f64], b: &[f64]) -> Result<f64, String> {
        if a.len() != b.len() {
            let (a, b) = (a.len(), b.len());
            return Err(format!(
                "the embeddings cannot be compared: one has {a} numbers, the other {b}"
            ));
        }
        let pairs = || a.iter().zip(b);
        let dot: f64 = pairs().map(|(a, b)| a * b).sum();
        let length = |it: &[f64]| it.iter().map(|it| it * it).sum::<f64>().sqrt();
        let measure = match self {
            Self::Cosine => dot / (length(a) * length(b)),
            Self::Dot => dot,
            Self::Euclidean => pairs().map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt(),
        };
        let why = "the embeddings cannot be compared: one of them contains only zeros, or numbers that are too large";
        if measure.is_finite() { Ok(measure) } else { Err(why.to_owned()) }
    }
}

impl Assertion for Similar {
    fn traits(&self) -> Traits {
        Traits {
            threshold: {
                let own = EntryOptions { negate: self.negate, threshold: Some(self.threshold) };
                own.wants().filter(|_| self.metric != Metric::Euclidean)
            },
            measures: self.metric != Metric::Cosine,
            ..Traits::OF_OUTPUT
        }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        let output = [evidence.execution.output.as_str()];
        output
            .into_iter()
            .chain(self.texts.iter().map(String::as_str))
            .map(|it| self.question(it))
            .collect()
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        vec![match self.of_all(evidence) {
            Ok(result) => result,
            Err(errored) => *errored,
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_as_defined() {
        for (metric, a, b, expected) in [
            (Metric::Cosine, [3.0, 4.0], [6.0, 8.0], 1.0),
            (Metric::Cosine, [1.0, 0.0], [0.0, 1.0], 0.0),
            (Metric::Cosine, [1.0, 0.0], [-1.0, 0.0], -1.0),
            (Metric::Dot, [1.0, 2.0], [3.0, 4.0], 11.0),
            (Metric::Euclidean, [0.0, 0.0], [3.0, 4.0], 5.0),
            (Metric::Cosine, [1.0, 0.0], [0.7, 0.714_142_842_854_285], 0.7),
        ] {
            let measure = metric.measure(&a, &b).unwrap();
            assert!((measure - expected).abs() < 1e-12, "{metric:?} {a:?} {b:?}");
        }
    }

    #[test]
    fn vectors_without_direction_or_of_two_lengths_have_no_cosine() {
        let none = "the embeddings cannot be compared: one of them contains only zeros, or numbers that are too large";
        let lengths = "the embeddings cannot be compared: one has 1 numbers, the other 2";
        for (a, b, why) in [
            (&[0.0, 0.0][..], &[0.0, 0.0][..], none),
            (&[0.0, 0.0], &[1.0, 0.0], none),
            (&[f64::NAN], &[1.0], none),
            (&[], &[], none),
            (&[1.0], &[1.0, 2.0], lengths),
        ] {
            assert_eq!(Metric::Cosine.measure(a, b), Err(why.to_owned()), "{a:?} {b:?}");
        }
    }
}
