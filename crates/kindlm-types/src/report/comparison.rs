//! The comparison of two runs of a suite.
//!
//! The types of this module are also the JSON form of the comparison.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The comparison of two runs of a suite: `before` is the reference, and `after` is measured against it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The run or baseline that is the reference.
    pub before: ComparedRun,
    /// The run that is measured against the reference.
    pub after: ComparedRun,
    /// The result of the comparison.
    pub verdict: ComparisonVerdict,
    /// The significance level, above 0 and below 1: the accepted rate of false alarms. Without a change, a regression
    /// is reported at most this often.
    pub alpha: f64,
    /// The pass rates of the compared cases; absent if no case can be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_rate: Option<RateChange>,
    /// The cases of both runs: first those that changed most, then the others in the order of the runs.
    pub cases: Vec<CaseChange>,
    /// The pass rate of each assertion over the compared cases, the largest fall first. A label that several cases
    /// share has its own entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assertions: Vec<AssertionChange>,
    /// The version of KindLM, and the prompts, rules, models and judges, where they differ between the runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<ConditionChange>,
}

impl Comparison {
    /// Creates a comparison without cases.
    pub fn new(
        before: ComparedRun,
        after: ComparedRun,
        verdict: ComparisonVerdict,
        alpha: f64,
    ) -> Self {
        Self {
            before,
            after,
            verdict,
            alpha,
            pass_rate: None,
            cases: Vec::new(),
            assertions: Vec::new(),
            differences: Vec::new(),
        }
    }
}

/// A run, a report or a baseline of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComparedRun {
    /// The name in messages, such as ``baseline `default` ``.
    pub name: String,
    /// The id of the run, if it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The git commit that was checked out, if it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<String>,
    /// The start time, RFC 3339 in UTC, if it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum ComparisonVerdict {
    /// The pass rate fell significantly: the p value is at most `alpha`.
    Regression,
    /// The pass rate rose significantly: the p value is at most `alpha`.
    Improved,
    /// No regression: the 95% confidence interval excludes a fall of the pass rate by the non-inferiority margin or
    /// more.
    NoRegressionBeyond {
        /// The non-inferiority margin, the largest fall that is tolerated: 0.05 is 5 percentage points.
        margin: f64,
    },
    /// The runs are too small to exclude a fall of the pass rate by the non-inferiority margin or more.
    NotEnoughData {
        /// The minimum detectable fall at a power of 80 %, as a share. Absent if it cannot be computed, or if runs of
        /// this size detect no fall.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detectable: Option<f64>,
    },
    /// No case can be compared.
    NotComparable {
        /// The reason.
        reason: String,
    },
}

/// A pass rate with its counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PassRate {
    /// The rate from 0 to 1. For several cases, it is the mean of their rates.
    pub rate: f64,
    /// The number of repeats that passed.
    pub passed: u64,
    /// The number of repeats that passed or failed.
    pub judged: u64,
}

impl PassRate {
    /// Returns the rate of a case; `None` if no repeat was judged.
    #[expect(clippy::cast_precision_loss, reason = "counts of repeats stay far below 2^52")]
    pub fn from_counts(passed: u64, judged: u64) -> Option<Self> {
        (judged > 0).then(|| Self { rate: passed as f64 / judged as f64, passed, judged })
    }
}

/// A pass rate over several cases, before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RateChange {
    /// The pass rate of the reference.
    pub before: PassRate,
    /// The pass rate of the run that is measured against the reference.
    pub after: PassRate,
    /// The number of compared cases.
    pub cases: u64,
    /// The number of independent clusters of these cases.
    pub clusters: u64,
    /// The rate after minus the rate before, from -1 to 1; below 0 for a fall.
    pub difference: f64,
    /// The lower end of the 95% confidence interval of the difference, from -1 to 1.
    pub low: f64,
    /// The upper end of the 95% confidence interval of the difference, from -1 to 1.
    pub high: f64,
    /// The one-sided p value, in the direction of the difference; 1 without a difference.
    pub p_value: f64,
}

/// A case of one or both runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaseChange {
    /// The test case's name.
    pub case: String,
    /// The model's id in the suite.
    pub model: String,
    /// The kind of the change, with its reason.
    #[serde(flatten)]
    pub kind: CaseChangeKind,
    /// The pass rate before; absent if the case was not run or not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<PassRate>,
    /// The pass rate after; absent if the case was not run or not judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<PassRate>,
    /// The p value of this case's change, adjusted for multiple testing over all cases; absent if the case was not
    /// compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
}

impl CaseChange {
    /// Creates a change of a case without pass rates.
    pub fn new(case: impl Into<String>, model: impl Into<String>, kind: CaseChangeKind) -> Self {
        let (case, model) = (case.into(), model.into());
        Self { case, model, kind, before: None, after: None, p_value: None }
    }

    /// Returns the pass rate after minus the pass rate before, from -1 to 1; `None` if one of them is unknown.
    pub fn difference(&self) -> Option<f64> {
        Some(self.after?.rate - self.before?.rate)
    }
}

/// The kind of a case's change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum CaseChangeKind {
    /// The pass rate fell, and the adjusted p value of the case is at most `alpha`.
    Regression,
    /// The pass rate rose, and the adjusted p value of the case is at most `alpha`.
    Fix,
    /// The pass rate changed, but the adjusted p value of the case is above `alpha`.
    Changed,
    /// The pass rate is equal in both runs.
    Unchanged,
    /// The case was not run before.
    New,
    /// The case was run before, but not after.
    Gone,
    /// Repeats of the case could not be judged, so its pass rate is unknown.
    Unknown {
        /// The reason.
        reason: String,
    },
    /// Both runs have a case with this name, but the runs measured different things.
    NotComparable {
        /// The difference between the runs.
        reason: String,
    },
}

impl CaseChangeKind {
    /// Returns the reason why a case of both runs could not be compared; `None` for any other change.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Unknown { reason } | Self::NotComparable { reason } => Some(reason),
            _ => None,
        }
    }

    /// Returns true if the pass rates of the case in the two runs were compared.
    pub fn is_compared(&self) -> bool {
        matches!(self, Self::Regression | Self::Fix | Self::Changed | Self::Unchanged)
    }
}

/// The change of one assertion's pass rate over the compared cases. With a label, only the checks with this label
/// count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AssertionChange {
    /// The assertion's id, such as `judge`; for a prompt assertion the id of its rule.
    pub assertion: String,
    /// The label of the checks. Present only if several cases share the label, and the assertion also has other labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The pass rates, with the p value of this assertion alone.
    pub change: RateChange,
    /// The p value of the change, adjusted for multiple testing over all assertions.
    pub adjusted_p_value: f64,
}

impl AssertionChange {
    /// Creates the change of an assertion. With a label, only the checks with this label count.
    pub fn new(
        assertion: impl Into<String>,
        label: Option<String>,
        change: RateChange,
        adjusted_p_value: f64,
    ) -> Self {
        Self { assertion: assertion.into(), label, change, adjusted_p_value }
    }
}

/// A condition that affects results and differs between the two runs, such as a prompt or a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConditionChange {
    /// The kind of the condition.
    pub condition: Condition,
    /// The name of the prompt, set of rules or model; absent for the other conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The value before; absent if the reference did not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The value after; absent if the run did not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The kind of a condition that affects results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Condition {
    /// The version of KindLM.
    Version,
    /// A prompt.
    Prompt,
    /// A set of prompt assertions.
    Rules,
    /// A model under test.
    Model,
    /// The models that judge.
    Judges,
}
