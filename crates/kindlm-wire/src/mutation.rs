//! The result of `kindlm mutate`, version 1: how many changed executions the checks of a suite notice.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The `schemaVersion` of this format.
pub const VERSION: u32 = 1;

/// The strength of the checks of a suite, measured on the executions of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "KindLM mutation result")]
#[non_exhaustive]
pub struct MutationReport {
    /// The version of this format: 1.
    pub schema_version: u32,
    /// The id of the run with the original executions.
    pub run: String,
    /// The name of the suite.
    pub suite: String,
    /// The mutation score: the share of harmful mutants that were killed, from 0 to 1; `null` if no harmful mutant was
    /// killed or survived.
    pub score: Option<f64>,
    /// The harmful mutants of all cases.
    pub harmful: MutantCounts,
    /// The harmless mutants of all cases. A killed harmless mutant shows a brittle check, which failed although nothing
    /// important changed.
    pub harmless: MutantCounts,
    /// The gate `mutationScoreMin`, or `--min`; absent without either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<ScoreGate>,
    /// The operators that made a mutant, in their fixed order.
    pub operators: Vec<OperatorScore>,
    /// The mutated cases, in the order of the run.
    pub cases: Vec<CaseScore>,
    /// The checks of all mutated cases, by case.
    pub checks: Vec<CheckScore>,
    /// The harmful mutants for which no check failed.
    pub survivors: Vec<MutantDiff>,
    /// The harmless mutants for which a check failed.
    pub brittle: Vec<MutantDiff>,
    /// The evidence, the checks and the cases that were left out, with the reasons.
    pub left_out: Vec<LeftOut>,
}

impl MutationReport {
    /// Creates the result of a run without mutants.
    pub fn new(run: impl Into<String>, suite: impl Into<String>) -> Self {
        Self {
            schema_version: VERSION,
            run: run.into(),
            suite: suite.into(),
            score: None,
            harmful: MutantCounts::default(),
            harmless: MutantCounts::default(),
            gate: None,
            operators: Vec::new(),
            cases: Vec::new(),
            checks: Vec::new(),
            survivors: Vec::new(),
            brittle: Vec::new(),
            left_out: Vec::new(),
        }
    }
}

/// The number of mutants by their result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MutantCounts {
    /// The mutants for which at least one check failed.
    pub killed: u64,
    /// The mutants for which every check passed.
    pub survived: u64,
    /// The mutants for which no check failed, but at least one check could not be decided.
    pub errored: u64,
    /// The mutants that were not judged, because the budget was used up or the run was interrupted.
    pub not_judged: u64,
}

impl MutantCounts {
    /// Returns the share of killed mutants among the killed and survived mutants; `None` without such mutants.
    pub fn score(&self) -> Option<f64> {
        let decided = self.killed + self.survived;
        #[expect(clippy::cast_precision_loss, reason = "numbers of mutants are far below 2^52")]
        (decided > 0).then(|| self.killed as f64 / decided as f64)
    }

    /// Returns the number of all mutants.
    pub fn all(&self) -> u64 {
        self.killed + self.survived + self.errored + self.not_judged
    }
}

/// The result of the gate `mutationScoreMin`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ScoreGate {
    /// The minimum score, from 0 to 1.
    pub min: f64,
    /// True if the score reaches the minimum, and every mutant was judged.
    pub held: bool,
}

impl ScoreGate {
    /// Creates the result of the gate. `min` is the minimum score, from 0 to 1.
    pub fn new(min: f64, held: bool) -> Self {
        Self { min, held }
    }
}

/// The effect of an operator on the behaviour of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Family {
    /// The mutant is worse than the original, so a check should fail.
    Harmful,
    /// The mutant is as good as the original, so every check should pass.
    Harmless,
}

/// A kind of evidence that operators change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MutatedEvidence {
    /// The text of the last answer.
    Text,
    /// An answer in JSON.
    Json,
    /// The tool calls.
    Tools,
    /// The changed files of the workspace.
    Files,
}

impl MutatedEvidence {
    /// Returns the name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Tools => "tools",
            Self::Files => "files",
        }
    }
}

/// The mutants of one operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorScore {
    /// The operator's id, such as `drop-sentence`.
    pub operator: String,
    /// The family of the operator.
    pub family: Family,
    /// The evidence that the operator changes.
    pub evidence: MutatedEvidence,
    /// The change, as a sentence.
    pub summary: String,
    /// The kind of check that notices the change, or the way to make a brittle check less strict.
    pub advice: String,
    /// The mutants.
    #[serde(flatten)]
    pub counts: MutantCounts,
}

/// The mutants of one case on one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaseScore {
    /// The test case's name.
    pub case: String,
    /// The model's id in the suite.
    pub model: String,
    /// The share of harmful mutants that were killed, from 0 to 1; `null` if no harmful mutant was killed or survived.
    pub score: Option<f64>,
    /// The harmful mutants.
    pub harmful: MutantCounts,
    /// The harmless mutants.
    pub harmless: MutantCounts,
}

/// The results of one check for the mutants of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckScore {
    /// The test case's name.
    pub case: String,
    /// The model's id in the suite.
    pub model: String,
    /// The turn of a conversation that the check judges; absent for the whole execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The assertion's id as the suite writes it, such as `not-contains`.
    #[serde(rename = "type")]
    pub assertion: String,
    /// The check's label.
    pub label: String,
    /// The number of harmful mutants for which the check failed.
    pub kills: u64,
    /// The number of harmful mutants that would survive without this check.
    pub kills_alone: u64,
    /// The number of harmful mutants for which the check could not be decided.
    pub errored: u64,
    /// The number of harmless mutants for which the check failed.
    pub brittle: u64,
}

/// One mutant with the evidence before and after the change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MutantDiff {
    /// The test case's name.
    pub case: String,
    /// The model's id in the suite.
    pub model: String,
    /// The operator's id.
    pub operator: String,
    /// The evidence of the original execution, as text.
    pub before: String,
    /// The evidence of the mutant, as text.
    pub after: String,
    /// The labels of the checks that failed; empty for a survivor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
}

/// Something that was not mutated or not judged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LeftOut {
    /// The test case's name.
    pub case: String,
    /// The model's id in the suite; absent if the whole case was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The reason.
    pub reason: String,
}

impl LeftOut {
    /// Creates an entry. `model` is `None` if the whole case was left out.
    pub fn new(case: impl Into<String>, model: Option<String>, reason: impl Into<String>) -> Self {
        Self { case: case.into(), model, reason: reason.into() }
    }
}

/// Returns the JSON Schema (draft 2020-12) of [`MutationReport`].
pub fn schema() -> Value {
    SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<MutationReport>()
        .into()
}
