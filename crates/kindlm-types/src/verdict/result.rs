//! The results of checks.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    CheckedText, Class, FailureCode, Judging, ResultEvidence, Score, Severity, SourcePlace, Verdict,
};

/// The id of the assertion that groups several checks into one.
pub const ASSERT_SET: &str = "assert-set";

/// The id of the result that compares the mean score with the test's threshold.
pub const AGGREGATE_SCORE: &str = "threshold";

/// The metadata key of the id of the rule that a result is about.
const RULE_ID: &str = "id";

/// The prefix of the id of a negated check.
pub const NOT: &str = "not-";

/// The result of one check of one execution.
#[derive(Clone, Debug, PartialEq)]
pub struct AssertionResult {
    /// The assertion's id, such as `tool-calls`; `type` in JSON.
    pub assertion: String,
    /// True if the check must not hold, as with `not-tool-calls`.
    pub is_negated: bool,
    /// A label that identifies the check, such as `Tool called: lookup_order`.
    pub label: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The score, from 0 to 1 unless a script returned it; `None` if nothing was measured.
    pub score: Option<Score>,
    /// The effect of a failure on the execution.
    pub severity: Severity,
    /// The class of the check: judged by a rule or by a model.
    pub class: Class,
    /// The weight of the check in the mean score of the execution; 1 by default.
    pub weight: f64,
    /// True for a comparison that decides the score of the execution; see [`deciding_score`](Self::deciding_score).
    ///
    /// Scripts cannot set this field.
    pub decides_score: bool,
    /// The name of the score that this check contributes to; `None` without a name.
    pub metric: Option<String>,
    /// The turn of a conversation that was checked; `None` for the whole execution.
    pub turn: Option<String>,
    /// The reason for the verdict, such as a judge's reasoning; `None` if none was given.
    pub reasoning: Option<String>,
    /// The failure code of the error behind an errored check, such as the code of a provider error; `None` without such
    /// an error.
    pub cause: Option<FailureCode>,
    /// The facts about the judgement, if a model judged. Boxed, because most results have no such facts.
    pub judging: Option<Box<Judging>>,
    /// The rule of the set, if the check is a set of checks.
    pub set: Option<SetRule>,
    /// The results of the parts: the checks of a set, or the components that a script reports.
    pub components: Vec<AssertionResult>,
    /// Further named scores of the check.
    pub named_scores: Vec<NamedScore>,
    /// The evidence of the verdict, for reports; may be empty.
    pub evidence: Vec<ResultEvidence>,
    /// The place of the check in the suite, if it is known. Only results that do not hold have it.
    pub source: Option<SourcePlace>,
    /// Other data: matches, differences, thresholds.
    pub metadata: Map<String, Value>,
}

/// The rule of a set of checks. The set counts as one check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetRule {
    /// True if the set must not hold.
    pub is_negated: bool,
    /// The number of checks in the set.
    pub checks: usize,
    /// The mean score that the set must reach; `None` if every check must hold.
    pub threshold: Option<f64>,
}

/// A user-defined score with a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct NamedScore {
    /// The name.
    pub name: String,
    /// The score: any finite number.
    pub score: Score,
    /// The weight in the mean of all scores with this name; 1 if absent.
    #[serde(default = "one")]
    pub weight: f64,
}

impl NamedScore {
    /// Creates a score with its weight in the mean of all scores with this name.
    pub fn new(name: impl Into<String>, score: Score, weight: f64) -> Self {
        Self { name: name.into(), score, weight }
    }
}

fn one() -> f64 {
    1.0
}

impl AssertionResult {
    /// Creates a result with a verdict: score 1 for a pass, score 0 for a failure, otherwise no score.
    pub fn new(assertion: impl Into<String>, label: impl Into<String>, verdict: Verdict) -> Self {
        let score = match verdict {
            Verdict::Pass => Some(Score::ONE),
            Verdict::Fail { .. } => Some(Score::ZERO),
            Verdict::Errored { .. } | Verdict::Skipped { .. } => None,
        };
        Self {
            assertion: assertion.into(),
            is_negated: false,
            label: label.into(),
            verdict,
            score,
            severity: Severity::Gate,
            class: Class::Deterministic,
            weight: 1.0,
            decides_score: false,
            metric: None,
            turn: None,
            reasoning: None,
            cause: None,
            judging: None,
            set: None,
            components: Vec::new(),
            named_scores: Vec::new(),
            evidence: Vec::new(),
            source: None,
            metadata: Map::new(),
        }
    }

    /// Creates the result of a passed check; score 1.
    pub fn pass(assertion: impl Into<String>, label: impl Into<String>) -> Self {
        Self::new(assertion, label, Verdict::Pass)
    }

    /// Creates the result of a failed check; score 0.
    pub fn fail(
        assertion: impl Into<String>,
        label: impl Into<String>,
        code: FailureCode,
        message: impl Into<String>,
    ) -> Self {
        Self::new(assertion, label, Verdict::Fail { code, message: message.into() })
    }

    /// Creates the result of a check that could not be decided; no score.
    pub fn errored(
        assertion: impl Into<String>,
        label: impl Into<String>,
        code: FailureCode,
        message: impl Into<String>,
    ) -> Self {
        Self::new(assertion, label, Verdict::Errored { code, message: message.into() })
    }

    /// Creates the result of a check that does not apply; no score.
    pub fn skipped(
        assertion: impl Into<String>,
        label: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self::new(assertion, label, Verdict::Skipped { reason: reason.into() })
    }

    /// Returns the id of the check as the suite writes it: `contains`, or `not-contains` if it is negated.
    pub fn written_id(&self) -> Cow<'_, str> {
        if self.is_negated {
            Cow::Owned(format!("{NOT}{}", self.assertion))
        } else {
            Cow::Borrowed(&self.assertion)
        }
    }

    /// Returns the checks of a set; empty for all other results.
    ///
    /// The list is also empty for a negated set, because a failure of one of its parts has no clear meaning. The
    /// components that a script reports are not checks, regardless of their types.
    pub fn parts(&self) -> &[AssertionResult] {
        let is_set = self.set.as_ref().is_some_and(|it| !it.is_negated);
        if is_set { &self.components } else { &[] }
    }

    /// Returns the findings to report.
    ///
    /// A result that failed or is errored is itself the finding. In a set that holds, only soft checks that failed or
    /// are errored are findings.
    pub fn findings(&self) -> Vec<&Self> {
        if !self.verdict.held() {
            return vec![self];
        }
        let told =
            self.parts().iter().filter(|it| it.severity == Severity::Soft || it.verdict.held());
        told.flat_map(Self::findings).collect()
    }

    /// Marks the result as a comparison that decides the score of the execution.
    ///
    /// The comparison then has no share in the mean score. An output that the comparison does not select fails and
    /// scores 0, regardless of the test's threshold.
    #[must_use]
    pub fn deciding_score(self) -> Self {
        Self { weight: 0.0, decides_score: true, ..self }
    }

    /// Returns true if the comparison decides the score, and did not select the output.
    pub(super) fn rejects_output(&self) -> bool {
        self.decides_score && matches!(self.verdict, Verdict::Fail { .. })
    }

    /// Returns true for the result of a check, and false for the aggregate of all scores.
    pub fn is_check(&self) -> bool {
        self.assertion != AGGREGATE_SCORE
    }

    /// Returns true if a provider failure, after all retries, made the check undecidable.
    ///
    /// The code or the `cause` of the errored result shows the provider failure. In an errored set, the code or `cause`
    /// of a check in the set can also show the failure.
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

    /// Sets the failure code of the error behind an errored check.
    #[must_use]
    pub fn with_cause(mut self, cause: FailureCode) -> Self {
        self.cause = Some(cause);
        self
    }

    /// Returns a mutable reference to the facts about the judgement. Adds empty facts if the result has none.
    pub fn judging_mut(&mut self) -> &mut Judging {
        self.judging.get_or_insert_default()
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

    /// Sets the reason for the verdict.
    #[must_use]
    pub fn with_reasoning(mut self, reasoning: impl Into<String>) -> Self {
        self.reasoning = Some(reasoning.into());
        self
    }

    /// Adds a piece of evidence.
    #[must_use]
    pub fn with_evidence(mut self, evidence: ResultEvidence) -> Self {
        self.evidence.push(evidence);
        self
    }

    /// Adds the evidence of a failure. Other results stay unchanged, and `evidence` is not called for them.
    #[must_use]
    pub fn with_failure_evidence<I>(mut self, evidence: impl FnOnce() -> I) -> Self
    where
        I: IntoIterator<Item = ResultEvidence>,
    {
        if matches!(self.verdict, Verdict::Fail { .. }) {
            self.evidence.extend(evidence());
        }
        self
    }

    /// Names the text that the check was evaluated on instead of the output.
    ///
    /// All evidence about the output, including the evidence of the components, is then about this text.
    pub fn set_checked_text(&mut self, text: &CheckedText) {
        for evidence in &mut self.evidence {
            if let ResultEvidence::Matches { of, .. } | ResultEvidence::Absent { of, .. } = evidence
                && *of == CheckedText::Output
            {
                of.clone_from(text);
            }
        }
        self.components.iter_mut().for_each(|it| it.set_checked_text(text));
    }

    /// Returns the id of the rule that the result is about; `None` if the metadata has no such id.
    pub fn rule_id(&self) -> Option<&str> {
        self.metadata.get(RULE_ID).and_then(Value::as_str)
    }

    /// Sets the id of the rule that the result is about, in the metadata.
    #[must_use]
    pub fn with_rule_id(self, id: &str) -> Self {
        self.with_metadata(RULE_ID, id)
    }

    /// Adds one entry to the metadata.
    #[must_use]
    pub fn with_metadata(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }
}
