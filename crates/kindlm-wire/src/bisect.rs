//! The result of `kindlm bisect`, version 1: the commit or the changes that make a case fail.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The `schemaVersion` of this format.
pub const VERSION: u32 = 1;

/// The search for the commit or the changes that make a case fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "KindLM bisect result")]
pub struct Bisection {
    /// The version of this format: 1.
    #[schemars(extend("const" = 1))]
    pub schema_version: u32,
    /// The name of the suite.
    pub suite: String,
    /// The name of the test case.
    pub case: String,
    /// The model's id in the suite; `command` for a command test.
    pub model: String,
    /// The kind of the candidates.
    pub kind: CandidateKind,
    /// The commits after the good commit, up to the bad commit, oldest first; or the changes of the suite.
    pub candidates: Vec<Candidate>,
    /// The test that decides if the case passes.
    pub test: DecisionTest,
    /// The tries, in their order.
    pub steps: Vec<Step>,
    /// The result of the search.
    pub answer: Answer,
    /// An upper bound of the probability that the answer is wrong, from 0 to 1: the sum of the error probabilities of
    /// all decisions. The bound is valid if the true pass rate of each try is at most `test.fail` or at least
    /// `test.pass`.
    pub error_bound: f64,
    /// The number of executions.
    pub executions: u64,
}

/// The kind of candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CandidateKind {
    /// The commits of a repository.
    Commits,
    /// The changes between two versions of the suite.
    Changes,
}

/// A commit, or a change of the suite.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// The id of the commit, or the place of the change in the suite.
    pub id: String,
    /// The first line of the commit's message; absent for a change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The lines that the change removes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// The lines that the change adds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
}

/// The settings of the sequential test that decides if the case passes at a commit, or with a set of changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionTest {
    /// The pass rate that is good, from 0 to 1.
    pub pass: f64,
    /// The pass rate that is bad, from 0 to 1.
    pub fail: f64,
    /// The highest probability that one decision is wrong, from 0 to 1.
    pub error: f64,
    /// The maximum number of repeats for one decision.
    pub max_repeats: u32,
}

/// One tested commit, or one tested set of changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Step {
    /// The commit, or the set of changes.
    pub tried: String,
    /// The result of the try.
    pub verdict: StepVerdict,
    /// The reason why the try was skipped or the search stopped; absent for other tries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The number of repeats that passed.
    pub passed: u64,
    /// The number of repeats that passed or failed.
    pub judged: u64,
    /// The number of executions of this try.
    pub executions: u64,
    /// True if nothing was executed, because an earlier try had the same prompt, model, variables and checks.
    pub reused: bool,
}

impl Step {
    /// Creates a step without a reason, repeats and executions.
    pub fn new(tried: impl Into<String>, verdict: StepVerdict) -> Self {
        Self {
            tried: tried.into(),
            verdict,
            reason: None,
            passed: 0,
            judged: 0,
            executions: 0,
            reused: false,
        }
    }
}

/// The result of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StepVerdict {
    /// The case passes.
    Good,
    /// The case fails.
    Bad,
    /// The test did not decide, or the try could not be carried out.
    Skipped,
    /// The user interrupted the search, or the limit of executions or the budget was reached.
    Stopped,
}

/// The result of the search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Answer {
    /// The commit, or the changes that make the case fail together.
    Found {
        /// The indices of the candidates.
        candidates: Vec<usize>,
    },
    /// The search did not decide: the commit, or the changes, are among these candidates.
    Among {
        /// The indices of the candidates.
        candidates: Vec<usize>,
        /// The reason.
        reason: String,
    },
    /// The search cannot begin: the case does not pass at the good end of the range, or does not fail at the bad end.
    NotReproduced {
        /// The reason.
        reason: String,
    },
}

/// Returns the JSON Schema (draft 2020-12) of [`Bisection`] for serialization.
pub fn schema() -> Value {
    SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<Bisection>()
        .into()
}
