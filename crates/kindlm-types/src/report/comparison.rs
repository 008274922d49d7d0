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
    /// The accepted rate of false alarms, above 0 and below 1. Without a change, a regression is reported at most this
    /// often.
    pub alpha: f64,
    /// The pass rates of the compared cases; absent if no case can be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_rate: Option<RateChange>,
    /// The cases of both runs: first those that changed most, then the others in the order of the runs.
    pub cases: Vec<CaseChange>,
    /// The pass rate of each assertion over the compared cases, by label if labels are shared, the largest fall first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assertions: Vec<AssertionChange>,
    /// The prompts, rules, models and judges that differ between the runs.
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
    /// The pass rate fell, and chance explains it in at most `alpha` of such comparisons.
    Regression,
    /// The pass rate rose, and chance explains it in at most `alpha` of such comparisons.
    Improved,
    /// The pass rate did not fall by more than the margin.
    NoRegressionBeyond {
        /// The margin as a share: 0.05 is 5 percentage points.
        margin: f64,
    },
    /// The runs are too small to exclude a fall by more than the margin.
    NotEnoughData {
        /// The smallest fall that runs of this size show in 80 % of comparisons, as a share; absent if they show none.
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
    /// The one-sided p value of the difference in its direction; 1 without a difference.
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
    /// The p value of the change of this case, adjusted for the number of cases; absent if it was not compared.
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
    /// The pass rate of this case alone fell beyond chance.
    Regression,
    /// The pass rate of this case alone rose beyond chance.
    Fix,
    /// The pass rate changed; the repeats of this case alone cannot exclude chance.
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
    /// The runs measured different things under the name of this case.
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

    /// Returns true if the comparison measured the case.
    pub fn is_compared(&self) -> bool {
        matches!(self, Self::Regression | Self::Fix | Self::Changed | Self::Unchanged)
    }
}

/// The pass rate of the checks with one assertion, and perhaps one label, over the compared cases.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AssertionChange {
    /// The assertion's id, such as `judge`; for a prompt assertion the id of its rule.
    pub assertion: String,
    /// The label of the checks, if several cases have the label and the assertion has other labels; otherwise absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The pass rates, with the p value of this assertion alone.
    pub change: RateChange,
    /// The p value of the change, adjusted for the number of assertions.
    pub adjusted_p_value: f64,
}

impl AssertionChange {
    /// Creates the change of the checks with an assertion, and with a label if it has several.
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
#[non_exhaustive]
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

impl ConditionChange {
    /// Creates the change of a condition, with the name of the prompt, set of rules or model, and its two values.
    pub fn new(
        condition: Condition,
        name: Option<String>,
        before: Option<String>,
        after: Option<String>,
    ) -> Self {
        Self { condition, name, before, after }
    }
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
