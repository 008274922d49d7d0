//! Version 1 of the JSON report.
//!
//! A report includes derived values such as `exitCode`, `gatesPassed`, `totals` and `pass`, so that readers need not
//! compute these values. The derived values are ignored when a report is loaded.
//!
//! A quantity that was not measured is `null` (`score`, `latencyMs`, `costUsd`, `actual`). A text that does not exist
//! is omitted.

mod breakdown;
mod case;
mod compact;
mod comparison;
mod execution;
pub(crate) mod facts;
mod head;
mod line;
mod metrics;
mod repeats;
mod result;
mod same;
mod source_place;
mod suite_inputs;
mod totals;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use breakdown::{AssertionBreakdown, FailingCase};
pub use case::{Case, CaseSummary, CaseSummaryWriter, CheckCount, CheckCounts, Cost, ScoreSummary};
pub use compact::write_compact;
pub use comparison::{ComparisonDocument, comparison_schema};
pub use execution::{CallRange, Execution, ExecutionError, Turn};
pub use head::{HEAD_CAUSES, HeadCause, HeadGate, HeadModel, HeadRule, RunHead};
pub use line::LineWriter;
pub use metrics::{DerivedMetric, DerivedValue, NamedTotal};
pub use repeats::{Chances, EarlyDecision, EarlyEnd, IntervalMethod, RateTest, Reliability};
pub use result::{AssertionResult, Gate, GateStatus, Status};
pub use source_place::SourcePlace;
pub use suite_inputs::{AssertionSet, SuitePrompt};
pub use totals::{Cause, ModelCount, ModelTotals, Percentiles, Rate};

use super::WireError;
use kindlm_types::{
    CanaryWatch, CaseSource, Comparison, FileDigest, InstructionsInfo, JudgeInfo, Params, TestInfo,
};

/// The `schemaVersion` of the format in this module.
pub const VERSION: u32 = 1;

/// The report of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "KindLM report")]
#[non_exhaustive]
pub struct Report<Cases = Vec<Case>> {
    /// The version of this format; 1.
    #[schemars(extend("const" = 1))]
    pub schema_version: u32,
    /// Data that identifies the run.
    pub run: Run,
    /// Data that identifies the suite.
    pub suite: Suite,
    /// The shard that the report covers; absent for a whole run. The gates of a shard do not affect the exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// The exit code of the run.
    pub exit_code: u8,
    /// True if every gate held.
    pub gates_passed: bool,
    /// Totals over all cases.
    pub totals: Totals,
    /// The totals of each prompt assertion over all cases, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub assertion_breakdown: BTreeMap<String, AssertionBreakdown>,
    /// The share of cases that held, the flaky cases, and the percentiles of latency, tokens and cost of each model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_totals: Vec<ModelTotals>,
    /// The causes of failures, the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// The number of failures of causes beyond the 500 that are listed. A case counts once for each of these causes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures_left_out: u64,
    /// The totals of the named scores of each model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named_scores: Vec<NamedTotal>,
    /// The metrics that the suite derives from named scores, in the order of the suite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub derived_metrics: Vec<DerivedMetric>,
    /// The gates, in their fixed order.
    pub gates: Vec<Gate>,
    /// The comparison with the baseline; absent if the run was not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// The results of the canaries of each judge; absent without `defaults.judge.canaries`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub canaries: Vec<CanaryWatch>,
    /// The models of the run, in the order of the suite.
    pub models: Vec<Model>,
    /// The case results (test cases × models), in the order of the plan.
    pub cases: Cases,
    /// The test cases that were not run.
    pub skipped: Vec<SkippedCase>,
    /// The system under test, as described in the suite; absent without a `compliance` block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compliance: Option<Compliance>,
    /// Warnings for the user, such as outdated prices and settings without an effect.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// Data that identifies the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Run {
    /// The run's id: unique, and sortable by time.
    pub id: String,
    /// The version of KindLM.
    pub version: String,
    /// The start time, RFC 3339 in UTC.
    pub started_at: String,
    /// The duration in milliseconds.
    pub duration_ms: f64,
    /// The operating system and architecture, such as `linux-x86_64`.
    pub platform: String,
    /// The git commit that was checked out; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<String>,
    /// The git branch that was checked out; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_branch: Option<String>,
    /// True if a file of the suite, or another tracked file, had changes that were not committed; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_dirty: Option<bool>,
    /// True if the user interrupted the run.
    #[serde(default)]
    pub interrupted: bool,
    /// True if the run's options left out test cases of the suite, or models of test cases.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// Data that identifies the suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Suite {
    /// The project, by which reports group suites.
    pub project: String,
    /// The suite's name.
    pub name: String,
    /// The suite's purpose; absent if the suite has no `description`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The suite's own tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The path of the config file, as the user wrote it; absent for a suite without a config file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_path: Option<String>,
    /// SHA-256 of the config file, in lower-case hex; absent for a suite without a config file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_sha256: Option<String>,
    /// The suite's prompts, in the order of the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<SuitePrompt>,
    /// The suite's sets of prompt assertions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assertion_sets: Vec<AssertionSet>,
    /// The files that the suite is made of, sorted by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileDigest>,
    /// SHA-256 over the lines `<sha256>  <path>` of the files, in lower-case hex; absent if it was not computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite_digest: Option<String>,
    /// The tests of the run with their checks; absent for a run with more than 1,000 tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<TestInfo>,
    /// The judges of the suite's checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<JudgeInfo>,
    /// The instructions of the judges, without duplicates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<InstructionsInfo>,
}

/// The shard that a report covers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Shard {
    /// The number of the shard, from 1.
    pub index: u32,
    /// The number of shards.
    pub count: u32,
    /// The digest of the tests and their models, which is equal in all shards of one run.
    pub plan_digest: String,
    /// The number of results of the whole run: test cases × models.
    pub cases: u64,
    /// The number of test cases that the whole run skips.
    pub skipped: u64,
}

/// A model of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Model {
    /// The model's id in the suite.
    pub id: String,
    /// The provider's key in the suite.
    pub provider: String,
    /// The name of the model in the provider's API, such as `gpt-4o`.
    pub name: String,
    /// The sampling parameters, as sent.
    #[serde(default)]
    pub params: Params,
}

/// A test case that was not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SkippedCase {
    /// The test case's name.
    pub case: String,
    /// The test case's tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The reason why the case was skipped.
    pub reason: String,
    /// The position among all skipped cases of the run, from 0, if the report covers a shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_index: Option<u64>,
}

/// The `compliance` block of the suite.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Compliance {
    /// The framework of rules: `eu-ai-act` or `custom`.
    pub framework: String,
    /// The name of the system under test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_name: Option<String>,
    /// The version of the system under test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_version: Option<String>,
    /// The risk level of the system: `high`, `limited` or `minimal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk_level: Option<String>,
    /// The operator of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// The provider of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The deployer of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployer: Option<String>,
    /// The intended purpose of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intended_purpose: Option<String>,
    /// Notes on data governance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_governance_notes: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The totals over all cases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Totals {
    /// The number of cases in which something was checked.
    pub cases: u64,
    /// The number of cases that reached their `passRateMin`, and of which no repeat is scored.
    pub passed: u64,
    /// The number of cases that reached their `passRateMin`, with at least one scored repeat (a soft check failed).
    pub scored: u64,
    /// The number of cases whose pass rate is below their `passRateMin` or undecided.
    pub failed: u64,
    /// The number of failed cases whose repeats ended without a decision. They are part of `failed`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub undecided: u64,
    /// The number of repeats that were not executed, because earlier repeats had decided the outcome.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub saved_repeats: u64,
    /// The number of cases that could not be executed or judged.
    pub errored: u64,
    /// The number of cases that were not run, or to which no check applied.
    pub skipped: u64,
    /// The number of executions, including repeats.
    pub executions: u64,
    /// The tokens of the models under test.
    pub tokens: u64,
    /// The money spent on the models under test.
    pub cost: Cost,
    /// The money spent on judges.
    pub judge_cost: Cost,
    /// The mean over the cases of the share of checks that passed, from 0 to 1; `null` if nothing was checked.
    #[serde(default)]
    pub average_score: Option<f64>,
}

/// Returns the JSON Schema (draft 2020-12) of [`Report`] for serialization.
pub fn schema() -> Value {
    SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<Report>()
        .into()
}

impl From<&kindlm_types::Report> for Report {
    fn from(report: &kindlm_types::Report) -> Self {
        Self::with_cases(report, report.cases.iter().map(Case::from).collect())
    }
}

impl<'a, Source: CaseSource + ?Sized> Report<CasesOf<'a, Source>> {
    /// Creates a report that loads each case only when it is serialized.
    ///
    /// So not all cases are in memory at the same time. A case that cannot be loaded is an error of the serializer.
    pub fn borrowing(report: &'a kindlm_types::Report<Source>) -> Self {
        Self::with_cases(report, CasesOf { source: &report.cases })
    }
}

impl<Cases> Report<Cases> {
    fn with_cases<C: CaseSource + ?Sized>(report: &kindlm_types::Report<C>, cases: Cases) -> Self {
        let summary = report.summary();
        Self {
            schema_version: VERSION,
            run: Run::from(&report.run),
            suite: Suite::from(&report.suite),
            shard: report.shard.as_ref().map(Shard::from),
            exit_code: summary.exit_status.code(),
            gates_passed: report.gates_passed(),
            totals: Totals::from(summary.totals),
            assertion_breakdown: breakdown::by_id(summary.assertions),
            model_totals: summary.models.iter().map(ModelTotals::from).collect(),
            causes: summary.causes.into_iter().map(Cause::from).collect(),
            failures_left_out: summary.failures_left_out,
            named_scores: metrics::named(&summary.models),
            derived_metrics: report.derived.iter().map(DerivedMetric::from).collect(),
            gates: report.gates.iter().map(Gate::from).collect(),
            comparison: report.comparison.clone(),
            canaries: report.canaries.clone(),
            models: report.models.iter().map(Model::from).collect(),
            cases,
            skipped: report.skipped.iter().map(SkippedCase::from).collect(),
            compliance: report.compliance.as_ref().map(Compliance::from),
            warnings: report.warnings.clone(),
        }
    }
}

/// The cases of a report, which are loaded one at a time during serialization.
#[derive(Debug)]
pub struct CasesOf<'a, Source: ?Sized> {
    source: &'a Source,
}

impl<Source: CaseSource + ?Sized> Serialize for CasesOf<'_, Source> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { source } = self;
        let mut cases = serializer.serialize_seq(Some(source.len()))?;
        for position in 0..source.len() {
            let case = source.read_case(position).map_err(S::Error::custom)?;
            cases.serialize_element(&Case::from(case.into_owned()))?;
        }
        cases.end()
    }
}

impl TryFrom<Report> for kindlm_types::Report {
    type Error = WireError;

    fn try_from(wire: Report) -> Result<Self, WireError> {
        wire.into_report(|cases| cases.into_iter().map(TryInto::try_into).collect())
    }
}

impl<Cases> Report<Cases> {
    pub(crate) fn into_report(
        self,
        cases: impl FnOnce(Cases) -> Result<Vec<kindlm_types::CaseResult>, WireError>,
    ) -> Result<kindlm_types::Report, WireError> {
        if self.schema_version != VERSION {
            return Err(WireError::Version { found: self.schema_version.to_string() });
        }
        Ok(kindlm_types::Report {
            run: self.run.into(),
            suite: self.suite.into(),
            shard: self.shard.map(Into::into),
            models: self.models.into_iter().map(Into::into).collect(),
            cases: cases(self.cases)?,
            skipped: self.skipped.into_iter().map(Into::into).collect(),
            gates: self.gates.into_iter().map(Into::into).collect(),
            derived: self.derived_metrics.into_iter().map(Into::into).collect(),
            compliance: self.compliance.map(Into::into),
            warnings: self.warnings,
            comparison: self.comparison,
            canaries: self.canaries,
        })
    }
}

impl From<&kindlm_types::RunInfo> for Run {
    fn from(run: &kindlm_types::RunInfo) -> Self {
        let run = run.clone();
        Self {
            id: run.id,
            version: run.version,
            started_at: run.started_at,
            duration_ms: run.duration_ms,
            platform: run.platform,
            git_commit: run.git_commit,
            git_branch: run.git_branch,
            git_dirty: run.git_dirty,
            interrupted: run.interrupted,
            partial: run.partial,
        }
    }
}

impl From<Run> for kindlm_types::RunInfo {
    fn from(wire: Run) -> Self {
        Self {
            id: wire.id,
            version: wire.version,
            started_at: wire.started_at,
            duration_ms: wire.duration_ms,
            platform: wire.platform,
            git_commit: wire.git_commit,
            git_branch: wire.git_branch,
            git_dirty: wire.git_dirty,
            interrupted: wire.interrupted,
            partial: wire.partial,
        }
    }
}

impl From<&kindlm_types::SuiteInfo> for Suite {
    fn from(suite: &kindlm_types::SuiteInfo) -> Self {
        let suite = suite.clone();
        Self {
            project: suite.project,
            name: suite.name,
            description: suite.description,
            tags: suite.tags,
            config_path: suite.config_path,
            config_sha256: suite.config_sha256,
            prompts: suite.prompts.into_iter().map(Into::into).collect(),
            assertion_sets: suite.assertion_sets.into_iter().map(Into::into).collect(),
            files: suite.files,
            suite_digest: suite.suite_digest,
            tests: suite.tests,
            judges: suite.judges,
            instructions: suite.instructions,
        }
    }
}

impl From<Suite> for kindlm_types::SuiteInfo {
    fn from(wire: Suite) -> Self {
        Self {
            project: wire.project,
            name: wire.name,
            description: wire.description,
            tags: wire.tags,
            config_path: wire.config_path,
            config_sha256: wire.config_sha256,
            prompts: wire.prompts.into_iter().map(Into::into).collect(),
            assertion_sets: wire.assertion_sets.into_iter().map(Into::into).collect(),
            files: wire.files,
            suite_digest: wire.suite_digest,
            tests: wire.tests,
            judges: wire.judges,
            instructions: wire.instructions,
        }
    }
}

impl From<&kindlm_types::ShardInfo> for Shard {
    fn from(shard: &kindlm_types::ShardInfo) -> Self {
        let shard = shard.clone();
        Self {
            index: shard.index,
            count: shard.count,
            plan_digest: shard.plan_digest,
            cases: shard.cases,
            skipped: shard.skipped,
        }
    }
}

impl From<Shard> for kindlm_types::ShardInfo {
    fn from(wire: Shard) -> Self {
        Self {
            index: wire.index,
            count: wire.count,
            plan_digest: wire.plan_digest,
            cases: wire.cases,
            skipped: wire.skipped,
        }
    }
}

impl From<&kindlm_types::ModelInfo> for Model {
    fn from(model: &kindlm_types::ModelInfo) -> Self {
        let model = model.clone();
        Self { id: model.id, provider: model.provider, name: model.name, params: model.params }
    }
}

impl From<Model> for kindlm_types::ModelInfo {
    fn from(wire: Model) -> Self {
        Self { id: wire.id, provider: wire.provider, name: wire.name, params: wire.params }
    }
}

impl From<&kindlm_types::SkippedCase> for SkippedCase {
    fn from(skipped: &kindlm_types::SkippedCase) -> Self {
        let skipped = skipped.clone();
        Self {
            case: skipped.case,
            tags: skipped.tags,
            reason: skipped.reason,
            plan_index: skipped.plan_index,
        }
    }
}

impl From<SkippedCase> for kindlm_types::SkippedCase {
    fn from(wire: SkippedCase) -> Self {
        Self { case: wire.case, tags: wire.tags, reason: wire.reason, plan_index: wire.plan_index }
    }
}

impl From<&kindlm_types::ComplianceInfo> for Compliance {
    fn from(info: &kindlm_types::ComplianceInfo) -> Self {
        let info = info.clone();
        Self {
            framework: info.framework,
            system_name: info.system_name,
            system_version: info.system_version,
            risk_level: info.risk_level,
            operator: info.operator,
            provider: info.provider,
            deployer: info.deployer,
            intended_purpose: info.intended_purpose,
            data_governance_notes: info.data_governance_notes,
        }
    }
}

impl From<Compliance> for kindlm_types::ComplianceInfo {
    fn from(wire: Compliance) -> Self {
        Self {
            framework: wire.framework,
            system_name: wire.system_name,
            system_version: wire.system_version,
            risk_level: wire.risk_level,
            operator: wire.operator,
            provider: wire.provider,
            deployer: wire.deployer,
            intended_purpose: wire.intended_purpose,
            data_governance_notes: wire.data_governance_notes,
        }
    }
}

impl From<kindlm_types::SuiteTotals> for Totals {
    fn from(totals: kindlm_types::SuiteTotals) -> Self {
        Self {
            cases: totals.cases,
            passed: totals.passed,
            scored: totals.scored,
            failed: totals.failed,
            undecided: totals.undecided,
            saved_repeats: totals.saved_repeats,
            errored: totals.errored,
            skipped: totals.skipped,
            executions: totals.executions,
            tokens: totals.tokens,
            cost: totals.cost.into(),
            judge_cost: totals.judge_cost.into(),
            average_score: totals.average_score,
        }
    }
}
