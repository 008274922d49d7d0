//! The specification of a run: the files, tests, checks and judges that results are measured against.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Class, Severity};

/// The maximum number of tests whose checks a report lists.
///
/// A larger run has no list of tests, because the list would be as large as the suite. The files and the suite digest
/// then specify the tests, and each result names its check.
pub const MAX_SPECIFIED_TESTS: usize = 1_000;

/// A file of the suite with its digest.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FileDigest {
    /// The path relative to the suite's folder, with `/` between folders.
    pub path: String,
    /// SHA-256 of the file's bytes, in lower-case hex.
    pub sha256: String,
}

impl FileDigest {
    /// Creates the digest of a file from its path and the SHA-256 of its bytes.
    pub fn new(path: impl Into<String>, sha256: impl Into<String>) -> Self {
        Self { path: path.into(), sha256: sha256.into() }
    }
}

/// The specification of a test case, for all its models.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestInfo {
    /// The test case's name.
    pub name: String,
    /// The digest of the test case's input and checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The name of the prompt in the suite; absent for a test without a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The number of repeats on each model.
    pub repeat: u32,
    /// The minimum share of repeats that must pass, from 0 to 1.
    pub pass_rate_min: f64,
    /// The minimum weighted mean score of a passing execution; absent if every check must hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The checks. The checks of a set follow the set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckInfo>,
}

/// The specification of a check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckInfo {
    /// The assertion's id, such as `tool-calls`.
    #[serde(rename = "type")]
    pub assertion: String,
    /// The label of the check in the results.
    pub label: String,
    /// The configuration as JSON, or its digest if it is long; absent if the label contains all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// The turn of a conversation that is checked; absent for the whole execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The severity, which decides the effect of a failure on the execution.
    pub severity: Severity,
    /// The class of the check: judged by a rule or by a model.
    pub class: Class,
    /// The threshold that decides the verdict; absent if no threshold decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The reason why the check is skipped; absent if the check is not skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<String>,
}

/// The models that judge one type of check, with their settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JudgeInfo {
    /// The assertion's id, such as `judge`.
    pub check: String,
    /// The ids of the models that judge.
    pub models: Vec<String>,
    /// The providers and names of these models; absent in reports of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<JudgeIdentity>,
    /// The number of answers from each judge.
    pub samples: u32,
    /// The rules that combine several answers, such as `jury: majority`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// The digests of the judges' instructions, in the order of their use.
    pub instructions: Vec<String>,
    /// The measured agreement with people. Absent if the run found no calibration of these judges that covers these
    /// instructions and all criteria.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<JudgeCalibration>,
}

/// The agreement of judges with people, from labelled outputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JudgeCalibration {
    /// Cohen's kappa, from -1 to 1; absent if it is undefined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kappa: Option<f64>,
    /// The lower end of the 95% confidence interval of kappa, from -1 to 1; absent if it is undefined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end of the 95% confidence interval of kappa, from -1 to 1; absent if it is undefined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// The share of labelled outputs on which the judges and people agree, from 0 to 1.
    pub agreement: f64,
    /// The number of labelled outputs with a verdict of the judges.
    pub labels: u64,
    /// The time when the judges were asked, in RFC 3339.
    pub calibrated_at: String,
    /// The reason why the calibration no longer holds: the canaries of a run showed that a judge has changed. Absent
    /// without such a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm: Option<String>,
}

/// A model that judges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JudgeIdentity {
    /// The id of the model in the suite.
    pub id: String,
    /// The provider.
    pub provider: String,
    /// The name of the model in the provider's API, such as `gpt-4o`.
    pub name: String,
}

/// Instructions for judges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstructionsInfo {
    /// The digest, by which judgements refer to the instructions.
    pub digest: String,
    /// The text.
    pub text: String,
}
