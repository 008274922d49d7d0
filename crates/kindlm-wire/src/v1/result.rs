//! The results of checks and gates, in version 1 of the JSON report.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::WireError;
use kindlm_types::{
    Class, FailureCode, GateOutcome, GateResult, NamedScore, Score, Severity, Verdict,
};

/// A check's answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The expectation held.
    Passed,
    /// The expectation did not hold.
    Failed,
    /// It could not be found out.
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
pub struct AssertionResult {
    /// The assertion's id.
    #[serde(rename = "type")]
    pub assertion: String,
    /// Names this very check.
    pub label: String,
    /// The answer.
    pub status: Status,
    /// True if nothing speaks against the execution: passed or skipped.
    pub pass: bool,
    /// The score; `null` if nothing could be measured.
    #[serde(default)]
    pub score: Option<f64>,
    /// The meaning of a failure.
    #[serde(default)]
    pub severity: Severity,
    /// Whether a rule or a model judged.
    #[serde(default)]
    pub class: Class,
    /// The code of a failed or errored check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<FailureCode>,
    /// The code of the obstacle, where an errored check has a code of its own: that of a provider, for example.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<FailureCode>,
    /// The expected and the actual value, or the obstacle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// Why a skipped check does not apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<String>,
    /// The reason in words, whatever the verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// The turn of a conversation that was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The share of this check in the weighted mean score of the execution.
    #[serde(default = "one")]
    pub weight: f64,
    /// The named score that this check contributes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// The results of the parts, if a check has parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub component_results: Vec<AssertionResult>,
    /// Scores that the check gives by name, beside its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named_scores: Vec<NamedScore>,
    /// Everything else worth keeping.
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
        let (failure_code, failure_message, skip_reason) = match result.verdict {
            Verdict::Pass => (None, None, None),
            Verdict::Fail { code, message } | Verdict::Errored { code, message } => {
                (Some(code), Some(message), None)
            }
            Verdict::Skipped { reason } => (None, None, Some(reason)),
        };
        Self {
            assertion: result.assertion,
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
            metric: result.metric,
            component_results: result.components.into_iter().map(Self::from).collect(),
            named_scores: result.named_scores,
            metadata: result.metadata,
        }
    }
}

impl TryFrom<AssertionResult> for kindlm_types::AssertionResult {
    type Error = WireError;

    fn try_from(wire: AssertionResult) -> Result<Self, WireError> {
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
            label: wire.label,
            verdict,
            score,
            severity: wire.severity,
            class: wire.class,
            weight: wire.weight,
            metric: wire.metric,
            turn: wire.turn,
            reasoning: wire.reasoning,
            cause: wire.cause,
            components: wire
                .component_results
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            named_scores: wire.named_scores,
            metadata: wire.metadata,
        })
    }
}

/// Whether a gate held, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateStatus {
    /// The measured value meets the threshold.
    Held,
    /// The measured value does not meet the threshold.
    Broken,
    /// There was nothing to measure; the gate holds.
    NothingToMeasure,
}

/// One gate's threshold against what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    /// The gate's id.
    pub gate: String,
    /// True if it lets the run pass.
    pub passed: bool,
    /// Whether it held, broke, or had nothing to measure.
    pub status: GateStatus,
    /// The measured value; `null` if there was nothing to measure.
    #[serde(default)]
    pub actual: Option<f64>,
    /// The limit.
    pub threshold: f64,
    /// Both, in words.
    pub message: String,
}

impl From<&GateResult> for Gate {
    fn from(gate: &GateResult) -> Self {
        Self {
            gate: gate.gate.clone(),
            passed: gate.passed(),
            status: match gate.outcome {
                GateOutcome::Held => GateStatus::Held,
                GateOutcome::Broken => GateStatus::Broken,
                GateOutcome::NothingToMeasure => GateStatus::NothingToMeasure,
            },
            actual: gate.actual,
            threshold: gate.threshold,
            message: gate.message.clone(),
        }
    }
}

impl From<Gate> for GateResult {
    fn from(wire: Gate) -> Self {
        Self {
            gate: wire.gate,
            outcome: match wire.status {
                GateStatus::Held => GateOutcome::Held,
                GateStatus::Broken => GateOutcome::Broken,
                GateStatus::NothingToMeasure => GateOutcome::NothingToMeasure,
            },
            actual: wire.actual,
            threshold: wire.threshold,
            message: wire.message,
        }
    }
}
