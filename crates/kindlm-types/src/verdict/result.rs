//! The results of checks, the aggregates of repeats, and the results of gates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Class, FailureCode, Score, Severity, Verdict};

/// The id of the assertion that counts several checks as one.
pub const ASSERT_SET: &str = "assert-set";
/// The type of a set that must not hold, in its metadata.
pub const NOT_ASSERT_SET: &str = "not-assert-set";

/// The id of the result that compares the mean score of all checks with the threshold of a test.
pub const AGGREGATE_SCORE: &str = "threshold";

/// The result of one check of one execution.
#[derive(Clone, Debug, PartialEq)]
pub struct AssertionResult {
    /// The assertion's id, such as `tool-calls`; `type` in JSON.
    pub assertion: String,
    /// Names this very check, such as `Tool called: lookup_order`.
    pub label: String,
    /// The answer.
    pub verdict: Verdict,
    /// The score from 0 to 1; `None` if nothing could be measured.
    pub score: Option<Score>,
    /// The meaning of a failure.
    pub severity: Severity,
    /// The class of the check: judged by a rule or by a model.
    pub class: Class,
    /// The share of this check in the weighted mean score of the execution; 1 unless configured.
    pub weight: f64,
    /// The named score that this check contributes to.
    pub metric: Option<String>,
    /// The turn of a conversation that was checked; `None` for the whole execution.
    pub turn: Option<String>,
    /// The reason in words, whatever the verdict: a judge's reasoning, for example.
    pub reasoning: Option<String>,
    /// The code of the obstacle, where the check is errored with a code of its own: that of a provider, for example.
    pub cause: Option<FailureCode>,
    /// The results of the parts, if a check has parts: a set of checks, or a script that graded
    /// several things.
    pub components: Vec<AssertionResult>,
    /// Scores that the check gives by name, beside its own.
    pub named_scores: Vec<NamedScore>,
    /// Further data: matches, differences, thresholds.
    pub metadata: Map<String, Value>,
}

/// A score with a name, which users define.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedScore {
    /// The name.
    pub name: String,
    /// Any finite number.
    pub score: Score,
    /// The share in the weighted mean of this name.
    #[serde(default = "one")]
    pub weight: f64,
}

fn one() -> f64 {
    1.0
}

impl AssertionResult {
    /// A result with the given verdict: score 1 for a pass, 0 for a failure, none otherwise.
    pub fn new(assertion: impl Into<String>, label: impl Into<String>, verdict: Verdict) -> Self {
        let score = match verdict {
            Verdict::Pass => Some(Score::ONE),
            Verdict::Fail { .. } => Some(Score::ZERO),
            Verdict::Errored { .. } | Verdict::Skipped { .. } => None,
        };
        Self {
            assertion: assertion.into(),
            label: label.into(),
            verdict,
            score,
            severity: Severity::Gate,
            class: Class::Deterministic,
            weight: 1.0,
            metric: None,
            turn: None,
            reasoning: None,
            cause: None,
            components: Vec::new(),
            named_scores: Vec::new(),
            metadata: Map::new(),
        }
    }

    /// The expectation held; score 1.
    pub fn pass(assertion: impl Into<String>, label: impl Into<String>) -> Self {
        Self::new(assertion, label, Verdict::Pass)
    }

    /// The expectation did not hold; score 0.
    pub fn fail(
        assertion: impl Into<String>,
        label: impl Into<String>,
        code: FailureCode,
        message: impl Into<String>,
    ) -> Self {
        Self::new(assertion, label, Verdict::Fail { code, message: message.into() })
    }

    /// The check could not be decided; no score.
    pub fn errored(
        assertion: impl Into<String>,
        label: impl Into<String>,
        code: FailureCode,
        message: impl Into<String>,
    ) -> Self {
        Self::new(assertion, label, Verdict::Errored { code, message: message.into() })
    }

    /// The check does not apply; no score.
    pub fn skipped(
        assertion: impl Into<String>,
        label: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self::new(assertion, label, Verdict::Skipped { reason: reason.into() })
    }

    /// The checks of a set. Empty for every other result, and for a negated set, because the failure of one of its
    /// parts has no clear meaning.
    ///
    /// The components that a script reports for its verdict are no checks, whatever types they have.
    pub fn parts(&self) -> &[AssertionResult] {
        let about = self.metadata.get("assertionSet").and_then(|it| it.get("type"));
        let is_set = self.assertion == ASSERT_SET && about.is_none_or(|it| it != NOT_ASSERT_SET);
        if is_set { &self.components } else { &[] }
    }

    /// The findings to report: the result itself if it did not hold, else the soft checks of a set that are below
    /// their thresholds. No other part of a set that holds is a finding.
    pub fn findings(&self) -> Vec<&Self> {
        if !self.verdict.held() {
            return vec![self];
        }
        let told =
            self.parts().iter().filter(|it| it.severity == Severity::Soft || it.verdict.held());
        told.flat_map(Self::findings).collect()
    }

    /// True if it is the result of a check, and not the aggregate of all scores.
    pub fn is_check(&self) -> bool {
        self.assertion != AGGREGATE_SCORE
    }

    /// True if the check could not be made because a provider failed, after retries.
    ///
    /// The code shows it; else `cause` in the metadata, if the check uses a code of its own; else a check of the set.
    pub fn failed_by_provider(&self) -> bool {
        const CODES: [FailureCode; 3] = [
            FailureCode::PROVIDER_TIMEOUT,
            FailureCode::PROVIDER_AUTH_FAILED,
            FailureCode::PROVIDER_ERROR,
        ];
        let Verdict::Errored { code, .. } = &self.verdict else { return false };
        CODES.iter().any(|it| it == code || self.cause.as_ref() == Some(it))
            || self.parts().iter().any(Self::failed_by_provider)
    }

    /// Names the obstacle.
    #[must_use]
    pub fn with_cause(mut self, cause: FailureCode) -> Self {
        self.cause = Some(cause);
        self
    }

    /// Replaces the score.
    #[must_use]
    pub fn with_score(mut self, score: Score) -> Self {
        self.score = Some(score);
        self
    }

    /// Replaces the severity.
    #[must_use]
    pub fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Adds the reason in words.
    #[must_use]
    pub fn with_reasoning(mut self, reasoning: impl Into<String>) -> Self {
        self.reasoning = Some(reasoning.into());
        self
    }

    /// Adds one entry to the metadata.
    #[must_use]
    pub fn with_metadata(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }
}
