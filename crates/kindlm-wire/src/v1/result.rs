//! The results of checks and gates, in version 1 of the JSON report.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{SourcePlace, WireError, facts};
use kindlm_types::{
    Class, FailureCode, GateOutcome, GateResult, NamedScore, ResultEvidence, Score, Severity,
    Verdict,
};

/// The status of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The expectation held.
    Passed,
    /// The expectation did not hold.
    Failed,
    /// The check could not be decided.
    Errored,
    /// The check does not apply.
    Skipped,
}

impl From<&Verdict> for Status {
    fn from(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Pass => Self::Passed,
            Verdict::Fail { .. } => Self::Failed,
            Verdict::Errored { .. } => Self::Errored,
            Verdict::Skipped { .. } => Self::Skipped,
        }
    }
}

/// The result of one check of one execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AssertionResult {
    /// The assertion's id.
    #[serde(rename = "type")]
    pub assertion: String,
    /// True if the check must not hold, as with `not-contains`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub negated: bool,
    /// A label that identifies the check.
    pub label: String,
    /// The status.
    pub status: Status,
    /// True if the check passed or was skipped.
    pub pass: bool,
    /// The score, from 0 to 1 unless a script returned it; `null` if nothing was measured.
    #[serde(default)]
    pub score: Option<f64>,
    /// The effect of a failure on the execution.
    #[serde(default)]
    pub severity: Severity,
    /// The class of the check: judged by a rule or by a model.
    #[serde(default)]
    pub class: Class,
    /// The code of a failed or errored check; absent for other checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<FailureCode>,
    /// The failure code of the error behind an errored check, such as the code of a provider error; otherwise absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<FailureCode>,
    /// The message of a failed check with the expected and the actual value, or the error message of an errored check;
    /// absent for other checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// The reason why a skipped check does not apply; absent for other checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<String>,
    /// The reason for the verdict, such as a judge's reasoning; absent if none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The turn of a conversation that was checked; absent for the whole execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The weight of the check in the mean score of the execution; 1 if absent.
    #[serde(default = "one")]
    pub weight: f64,
    /// True for a comparison that decides the score of the execution.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub decides_score: bool,
    /// The name of the score that this check contributes to; absent without a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// The results of the check's parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub component_results: Vec<AssertionResult>,
    /// Further named scores of the check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named_scores: Vec<NamedScore>,
    /// The evidence of the verdict: differences, marks in texts, lists of errors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<ResultEvidence>,
    /// The place of the check in the suite; absent if the check holds, or if the place is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourcePlace>,
    /// Other data.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

fn one() -> f64 {
    1.0
}

impl From<&kindlm_types::AssertionResult> for AssertionResult {
    fn from(result: &kindlm_types::AssertionResult) -> Self {
        result.clone().into()
    }
}

impl From<kindlm_types::AssertionResult> for AssertionResult {
    fn from(result: kindlm_types::AssertionResult) -> Self {
        let (status, pass) = (Status::from(&result.verdict), result.verdict.held());
        let metadata = match facts::metadata(&result) {
            Cow::Owned(with_facts) => Some(with_facts),
            Cow::Borrowed(_) => None,
        };
        let (failure_code, failure_message, skip_reason) = match result.verdict {
            Verdict::Pass => (None, None, None),
            Verdict::Fail { code, message } | Verdict::Errored { code, message } => {
                (Some(code), Some(message), None)
            }
            Verdict::Skipped { reason } => (None, None, Some(reason)),
        };
        Self {
            assertion: result.assertion,
            negated: result.is_negated,
            label: result.label,
            status,
            pass,
            score: result.score.map(Score::get),
            severity: result.severity,
            class: result.class,
            failure_code,
            cause: result.cause,
            failure_message,
            skip_reason,
            reasoning: result.reasoning,
            turn: result.turn,
            weight: result.weight,
            decides_score: result.decides_score,
            metric: result.metric,
            component_results: result.components.into_iter().map(Self::from).collect(),
            named_scores: result.named_scores,
            evidence: result.evidence,
            source: result.source.as_ref().map(SourcePlace::from),
            metadata: metadata.unwrap_or(result.metadata),
        }
    }
}

impl TryFrom<AssertionResult> for kindlm_types::AssertionResult {
    type Error = WireError;

    fn try_from(mut wire: AssertionResult) -> Result<Self, WireError> {
        let judging = facts::take_judging(&wire.assertion, wire.class, &mut wire.metadata);
        let parts = wire.component_results.len();
        let set = facts::take_set(&wire.assertion, parts, &mut wire.metadata);
        let invalid = |message: &str| WireError::Invalid {
            place: format!("result `{}`", wire.label),
            message: message.to_owned(),
        };
        let code = || {
            wire.failure_code
                .clone()
                .ok_or_else(|| invalid("a failed or errored result needs a `failureCode`"))
        };
        let message = wire.failure_message.clone().unwrap_or_default();
        let verdict = match wire.status {
            Status::Passed => Verdict::Pass,
            Status::Failed => Verdict::Fail { code: code()?, message },
            Status::Errored => Verdict::Errored { code: code()?, message },
            Status::Skipped => {
                Verdict::Skipped { reason: wire.skip_reason.clone().unwrap_or_default() }
            }
        };
        let score =
            wire.score.map(Score::new).transpose().map_err(|err| invalid(&err.to_string()))?;
        Ok(Self {
            assertion: wire.assertion,
            is_negated: wire.negated,
            label: wire.label,
            verdict,
            score,
            severity: wire.severity,
            class: wire.class,
            weight: wire.weight,
            decides_score: wire.decides_score,
            metric: wire.metric,
            turn: wire.turn,
            reasoning: wire.reasoning,
            cause: wire.cause,
            judging,
            set,
            components: wire
                .component_results
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            named_scores: wire.named_scores,
            evidence: wire.evidence,
            source: wire.source.map(Into::into),
            metadata: wire.metadata,
        })
    }
}

/// The status of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateStatus {
    /// The measured value meets the threshold.
    Held,
    /// The measured value does not meet the threshold.
    Violated,
    /// There was nothing to measure; the gate holds.
    NothingToMeasure,
}

/// The threshold of one gate, with the measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Gate {
    /// The gate's id.
    pub gate: String,
    /// True unless the gate is violated.
    pub passed: bool,
    /// The status of the gate.
    pub status: GateStatus,
    /// The measured value; `null` if there was nothing to measure.
    #[serde(default)]
    pub actual: Option<f64>,
    /// The threshold.
    pub threshold: f64,
    /// The result as text: the measured value and the threshold, or the reason why nothing was measured.
    pub message: String,
}

impl From<GateOutcome> for GateStatus {
    fn from(outcome: GateOutcome) -> Self {
        match outcome {
            GateOutcome::Held => Self::Held,
            GateOutcome::Violated => Self::Violated,
            GateOutcome::NothingToMeasure => Self::NothingToMeasure,
        }
    }
}

impl From<&GateResult> for Gate {
    fn from(gate: &GateResult) -> Self {
        Self {
            gate: gate.gate.clone(),
            passed: gate.passed(),
            status: gate.outcome.into(),
            actual: gate.actual,
            threshold: gate.threshold,
            message: gate.message.clone(),
        }
    }
}

impl From<Gate> for GateResult {
    fn from(wire: Gate) -> Self {
        let outcome = match wire.status {
            GateStatus::Held => GateOutcome::Held,
            GateStatus::Violated => GateOutcome::Violated,
            GateStatus::NothingToMeasure => GateOutcome::NothingToMeasure,
        };
        Self::new(wire.gate, outcome, wire.threshold, wire.message).with_actual(wire.actual)
    }
}
