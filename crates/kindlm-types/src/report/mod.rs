//! The report of one run.

mod canaries;
mod case;
mod cases;
mod comparison;
mod exit;
mod rate;
mod specification;
mod summary;

use std::borrow::Cow;

pub use canaries::CanaryWatch;
pub use case::{
    CaseResult, CheckCounts, Cost, EarlyEnd, GateOutcome, GateResult, RateTest, ScoreSummary,
};
pub use cases::{CaseError, CaseMark, CaseSource};
pub use comparison::{
    AssertionChange, CaseChange, CaseChangeKind, ComparedRun, Comparison, ComparisonVerdict,
    Condition, ConditionChange, PassRate, RateChange,
};
pub use exit::ExitStatus;
pub use rate::{MeasuredRate, RateCount, RateSum, cluster_of, interval_text, percent, thousands};
pub use specification::{
    CheckInfo, FileDigest, InstructionsInfo, JudgeCalibration, JudgeIdentity, JudgeInfo,
    MAX_SPECIFIED_TESTS, TestInfo,
};
pub use summary::{
    AssertionSummary, Breakdown, CauseTotals, Distribution, ErrorFinding, FailingCase, Finding,
    ModelDifference, ModelTotals, NAMED_FAILURES, NamedTotal, PROMPT_ASSERTION, Percentiles,
    Quantity, RepeatCounts, SuiteTotals, Summary, TagTotals, Tally, cause_key, error_cause_key,
    prompt_assertion_id,
};

/// Data that identifies the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunInfo {
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
    /// The git commit that was checked out, if any.
    pub git_commit: Option<String>,
    /// The git branch that was checked out, if any.
    pub git_branch: Option<String>,
    /// True if a file of the suite, or another tracked file, had changes that were not committed.
    ///
    /// `None` if git did not answer, or if there is no commit.
    pub git_dirty: Option<bool>,
    /// True if the user interrupted the run.
    pub interrupted: bool,
    /// True if the run's options left out test cases of the suite, or models of test cases.
    pub partial: bool,
}

/// Data that identifies the suite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuiteInfo {
    /// The project, by which reports group suites.
    pub project: String,
    /// The suite's name.
    pub name: String,
    /// The suite's purpose; `None` if the suite has no `description`.
    pub description: Option<String>,
    /// The suite's own tags.
    pub tags: Vec<String>,
    /// The path of the config file, as the user wrote it; `None` for a suite without a config file.
    pub config_path: Option<String>,
    /// SHA-256 of the config file, in lower-case hex; `None` for a suite without a config file.
    pub config_sha256: Option<String>,
    /// The suite's prompts, in the order of the file.
    pub prompts: Vec<PromptInfo>,
    /// The suite's sets of prompt assertions: those of `assertionSets`, then those that are defined in a prompt.
    pub assertion_sets: Vec<AssertionSetInfo>,
    /// The files that the suite is made of, sorted by path.
    pub files: Vec<FileDigest>,
    /// SHA-256 over the lines `<sha256>  <path>` of the files, in lower-case hex; `None` if it was not computed.
    pub suite_digest: Option<String>,
    /// The tests of the run with their checks; empty for a run with more than [`MAX_SPECIFIED_TESTS`] tests.
    pub tests: Vec<TestInfo>,
    /// The judges of the suite's checks.
    pub judges: Vec<JudgeInfo>,
    /// The instructions of the judges, without duplicates.
    pub instructions: Vec<InstructionsInfo>,
}

/// A prompt of the suite. Its digest shows if two reports used the same prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptInfo {
    /// The prompt's name in the suite.
    pub name: String,
    /// The digest of the prompt's text.
    pub digest: String,
    /// The sets of assertions that the prompt refers to.
    pub assertion_sets: Vec<String>,
}

/// A set of prompt assertions of the suite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssertionSetInfo {
    /// The set's name; `prompts.<name>` for assertions that are defined in a prompt.
    pub name: String,
    /// The user's version label for the set; `None` without a label.
    pub version: Option<String>,
    /// The digest of the set's assertions.
    pub digest: String,
    /// The number of assertions in the set.
    pub assertions: u64,
    /// The file that the set is loaded from, relative to the config file; `None` for a set inside the config file.
    pub file: Option<String>,
}

/// A model that the run used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelInfo {
    /// The model's id in the suite.
    pub id: String,
    /// The provider's key in the suite.
    pub provider: String,
    /// The name of the model in the provider's API, such as `gpt-4o`.
    pub name: String,
    /// The sampling parameters, as sent.
    pub params: crate::Params,
}

/// A test case that was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedCase {
    /// The test case's name.
    pub case: String,
    /// The test case's tags.
    pub tags: Vec<String>,
    /// The reason why the case was skipped.
    pub reason: String,
    /// The position among all skipped cases of the run, from 0, if the report covers a shard.
    pub plan_index: Option<u64>,
}

/// The shard that a report covers, if the run was divided between machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardInfo {
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

/// The `compliance` block of the suite: the system under test. A fact that the suite does not state is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComplianceInfo {
    /// The framework of rules: `eu-ai-act` or `custom`.
    pub framework: String,
    /// The name of the system under test.
    pub system_name: Option<String>,
    /// The version of the system under test.
    pub system_version: Option<String>,
    /// The risk level of the system: `high`, `limited` or `minimal`.
    pub risk_level: Option<String>,
    /// The operator of the system.
    pub operator: Option<String>,
    /// The provider of the system.
    pub provider: Option<String>,
    /// The deployer of the system.
    pub deployer: Option<String>,
    /// The intended purpose of the system.
    pub intended_purpose: Option<String>,
    /// Notes on data governance.
    pub data_governance_notes: Option<String>,
}

/// A metric that the suite computes from named scores.
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedMetric {
    /// The metric's name.
    pub name: String,
    /// The formula, as written in the suite.
    pub formula: String,
    /// The metric's value for each model.
    pub values: Vec<DerivedValue>,
}

/// The value of a derived metric for one model.
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedValue {
    /// The model's id in the suite.
    pub model: String,
    /// The value, or the reason why there is none.
    pub value: Result<f64, String>,
}

/// The report of one run. Reporters render the report. The totals are in the [`summary`](Report::summary).
///
/// The case results are in memory, or a [`CaseSource`] loads each one on request, such as from the journal of a large
/// run. An [`AnyReport`] can have either kind of cases.
#[derive(Clone, Debug, PartialEq)]
pub struct Report<Cases: ?Sized = Vec<CaseResult>> {
    /// Data that identifies the run.
    pub run: RunInfo,
    /// Data that identifies the suite.
    pub suite: SuiteInfo,
    /// The models of the run, in the order of the suite.
    pub models: Vec<ModelInfo>,
    /// The test cases that were not run, in the order of the suite.
    pub skipped: Vec<SkippedCase>,
    /// The gates, in their fixed order.
    pub gates: Vec<GateResult>,
    /// The metrics that the suite derives from named scores, in the order of the suite.
    ///
    /// The metrics of a shard cover only the shard.
    pub derived: Vec<DerivedMetric>,
    /// The system under test, as described in the suite; `None` without a `compliance` block.
    pub compliance: Option<ComplianceInfo>,
    /// Warnings for the user: outdated prices, features that have no effect yet.
    pub warnings: Vec<String>,
    /// The shard that the report covers; `None` for a whole run.
    ///
    /// In a shard, the gates are measured over the shard and do not affect the exit status. [`models`](Self::models)
    /// has the models of the whole run.
    pub shard: Option<ShardInfo>,
    /// The comparison with the baseline; `None` if the run was not compared.
    pub comparison: Option<Comparison>,
    /// The results of the canaries of each judge; empty if the suite has no canaries.
    pub canaries: Vec<CanaryWatch>,
    /// The case results (test cases × models), in the order of the plan.
    pub cases: Cases,
}

/// A report with any source of cases. A reference to any report coerces to a reference to this type.
pub type AnyReport<'a> = Report<dyn CaseSource + 'a>;

// Only implemented for reports in memory, so that `Report::default()` needs no type annotation.
impl Default for Report {
    fn default() -> Self {
        Self {
            run: RunInfo::default(),
            suite: SuiteInfo::default(),
            models: Vec::new(),
            skipped: Vec::new(),
            gates: Vec::new(),
            derived: Vec::new(),
            compliance: None,
            warnings: Vec::new(),
            shard: None,
            comparison: None,
            canaries: Vec::new(),
            cases: Vec::new(),
        }
    }
}

impl<Before> Report<Before> {
    /// Replaces the cases; returns the new report and the former cases.
    pub fn with_cases<Cases>(self, cases: Cases) -> (Report<Cases>, Before) {
        let Self {
            run,
            suite,
            models,
            skipped,
            gates,
            derived,
            compliance,
            warnings,
            shard,
            comparison,
            canaries,
            cases: before,
        } = self;
        let report = Report {
            run,
            suite,
            models,
            skipped,
            gates,
            derived,
            compliance,
            warnings,
            shard,
            comparison,
            canaries,
            cases,
        };
        (report, before)
    }
}

impl<Cases: CaseSource + ?Sized> Report<Cases> {
    /// Returns the cases in the order of the plan, and loads them one at a time. A case that cannot be loaded is an
    /// error.
    pub fn each(&self) -> impl Iterator<Item = Result<Cow<'_, CaseResult>, CaseError>> {
        self.each_where(|_| true)
    }

    /// Returns the cases whose [`CaseMark`] satisfies `wanted`, in the order of the plan. Other cases are not loaded.
    ///
    /// A wanted case that cannot be loaded is an error.
    pub fn each_where(
        &self,
        wanted: impl Fn(CaseMark<'_>) -> bool,
    ) -> impl Iterator<Item = Result<Cow<'_, CaseResult>, CaseError>> {
        let is_wanted = move |at: &usize| self.cases.mark(*at).is_some_and(&wanted);
        (0..self.cases.len()).filter(is_wanted).map(|at| self.cases.read_case(at))
    }
}
