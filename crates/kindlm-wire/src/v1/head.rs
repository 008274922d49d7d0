//! The head of a run: its totals, without its cases.

use kindlm_types::CaseSource;
use serde::{Deserialize, Serialize};

use super::{Cost, GateStatus, Rate, Totals, VERSION, WireError, is_zero};

/// The maximum number of models and of rules in a head. The limit keeps heads of large runs small.
const LISTED: usize = 50;

/// The totals of a run for lists of runs and for trends.
///
/// The report of the run also has this data, but the size of a report grows with the number of cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunHead {
    /// The version of this format; 1.
    pub schema_version: u32,
    /// The run's id.
    pub run: String,
    /// The project of the suite.
    pub project: String,
    /// The suite's name.
    pub suite: String,
    /// The path of the config file, as the user wrote it; absent for a suite without a config file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_path: Option<String>,
    /// SHA-256 of the config file, in lower-case hex; absent for a suite without a config file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_sha256: Option<String>,
    /// The start time, RFC 3339 in UTC.
    pub started_at: String,
    /// The duration in milliseconds.
    pub duration_ms: f64,
    /// The git commit that was checked out; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<String>,
    /// The git branch that was checked out; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_branch: Option<String>,
    /// True if a file of the suite, or another tracked file, had changes that were not committed; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_dirty: Option<bool>,
    /// True if the run's options left out test cases of the suite, or models of test cases.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The exit code of the run.
    pub exit_code: u8,
    /// Totals over all cases.
    pub totals: Totals,
    /// The number of executions with an answer from the response store.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_executions: u64,
    /// The cases that held, out of the cases in which something was checked.
    pub held: Rate,
    /// The totals of the first 50 models.
    pub models: Vec<HeadModel>,
    /// The results of the first 50 rules of prompts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<HeadRule>,
    /// The gates, in their fixed order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<HeadGate>,
    /// The most frequent causes of failures, at most [`HEAD_CAUSES`]; absent in heads of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causes: Option<Vec<HeadCause>>,
}

/// The maximum number of causes in a [`RunHead`].
pub const HEAD_CAUSES: usize = 20;

/// A cause of failures in a [`RunHead`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HeadCause {
    /// The key of the cause, which is equal in all runs that have the cause.
    pub key: String,
    /// The number of cases with a failure of this cause.
    pub cases: u64,
}

/// The totals of a model in a [`RunHead`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HeadModel {
    /// The model's id in the suite.
    pub model: String,
    /// The number of cases that held.
    pub held: u64,
    /// The number of cases in which something was checked.
    pub cases: u64,
    /// The money spent on the model.
    pub cost: Cost,
}

/// The results of a rule in a [`RunHead`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HeadRule {
    /// The rule's id.
    pub rule: String,
    /// The number of results in which the rule held.
    pub kept: u64,
    /// The number of results in which the rule held or was violated.
    pub judged: u64,
}

/// The result of a gate in a [`RunHead`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HeadGate {
    /// The gate's id.
    pub gate: String,
    /// The status of the gate.
    pub status: GateStatus,
    /// The measured value; `null` if there was nothing to measure.
    pub actual: Option<f64>,
    /// The threshold.
    pub threshold: f64,
}

impl RunHead {
    /// Returns the head of a report.
    pub fn from_report<C: CaseSource + ?Sized>(report: &kindlm_types::Report<C>) -> Self {
        let summary = report.summary();
        let (run, suite) = (&report.run, &report.suite);
        let models = summary.models.iter().take(LISTED).map(|it| {
            let (held, cost) = (it.totals.held(), it.totals.cost.into());
            HeadModel { model: it.model.clone(), held: held.count, cases: held.total, cost }
        });
        let rules = summary.assertions.iter().take(LISTED).map(|it| HeadRule {
            rule: it.id.clone(),
            kept: it.kept.count,
            judged: it.kept.total,
        });
        let causes = summary.causes.iter().take(HEAD_CAUSES);
        let causes = causes.map(|it| HeadCause { key: it.key.clone(), cases: it.cases });
        let gates = report.gates.iter().map(|it| HeadGate {
            gate: it.gate.clone(),
            status: it.outcome.into(),
            actual: it.actual,
            threshold: it.threshold,
        });
        Self {
            schema_version: VERSION,
            run: run.id.clone(),
            project: suite.project.clone(),
            suite: suite.name.clone(),
            config_path: suite.config_path.clone(),
            config_sha256: suite.config_sha256.clone(),
            started_at: run.started_at.clone(),
            duration_ms: run.duration_ms,
            git_commit: run.git_commit.clone(),
            git_branch: run.git_branch.clone(),
            git_dirty: run.git_dirty,
            partial: run.partial,
            exit_code: summary.exit_status.code(),
            totals: summary.totals.into(),
            cached_executions: summary.cached_executions,
            held: summary.totals.held().into(),
            models: models.collect(),
            rules: rules.collect(),
            gates: gates.collect(),
            causes: Some(causes.collect()),
        }
    }

    /// Returns the number of cases with a failure of a cause; `None` if the head does not show this number.
    pub fn cases_of_cause(&self, key: &str) -> Option<u64> {
        let causes = self.causes.as_ref()?;
        match causes.iter().find(|it| it.key == key) {
            Some(found) => Some(found.cases),
            // A list of the maximum length may omit the cause.
            None => (causes.len() < HEAD_CAUSES).then_some(0),
        }
    }

    /// Parses the JSON text of a head. Fails if the text is not a head, or has an unsupported version.
    pub fn parse(json: &str) -> Result<Self, WireError> {
        // The other parsers of this crate take bytes, too. One kind of input is compiled once.
        let head: Self = serde_json::from_slice(json.as_bytes())?;
        if head.schema_version != VERSION {
            return Err(WireError::Version { found: head.schema_version.to_string() });
        }
        Ok(head)
    }
}
