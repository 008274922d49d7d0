//! Everything about one run.

mod case;
mod cases;
mod exit;
mod summary;

use std::borrow::Cow;

pub use case::{CaseResult, CheckCounts, Cost, GateOutcome, GateResult, ScoreSummary};
pub use cases::{CaseError, CaseMark, CaseSource};
pub use exit::ExitStatus;
pub use summary::{
    AssertionSummary, Breakdown, ErrorFinding, FailingCase, Finding, ModelTotals, NAMED_FAILURES,
    NamedTotal, PROMPT_ASSERTION, RepeatCounts, SuiteTotals, Summary, TagTotals, Tally,
    prompt_assertion_id,
};

/// Which run this was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunInfo {
    /// Unique, sortable by time.
    pub id: String,
    /// Version of KindLM.
    pub version: String,
    /// When it started, RFC 3339 in UTC.
    pub started_at: String,
    /// The duration in milliseconds.
    pub duration_ms: f64,
    /// Operating system and architecture, such as `linux-x86_64`.
    pub platform: String,
    /// The git commit that was checked out, if any.
    pub git_commit: Option<String>,
    /// True if the user interrupted it.
    pub interrupted: bool,
}

/// Which suite was run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuiteInfo {
    /// Groups suites in reports.
    pub project: String,
    /// The suite's name.
    pub name: String,
    /// Its purpose.
    pub description: Option<String>,
    /// The suite's own tags.
    pub tags: Vec<String>,
    /// The config file, as the user named it.
    pub config_path: Option<String>,
    /// SHA-256 of the config file, in lower-case hex.
    pub config_sha256: Option<String>,
    /// Its prompts, in the order of the file.
    pub prompts: Vec<PromptInfo>,
    /// Its sets of prompt assertions: those of `assertionSets`, then those that stand in a prompt.
    pub assertion_sets: Vec<AssertionSetInfo>,
}

/// A prompt of the suite; two reports can be distinguished by their prompts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptInfo {
    /// Its name in the suite.
    pub name: String,
    /// Changes when the prompt's text changes.
    pub digest: String,
    /// The sets of assertions that it refers to.
    pub assertion_sets: Vec<String>,
}

/// A set of prompt assertions of the suite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AssertionSetInfo {
    /// Its name; `prompts.<name>` for the assertions that stand in a prompt.
    pub name: String,
    /// The user's own name for this state of it.
    pub version: Option<String>,
    /// Changes when one of its assertions changes.
    pub digest: String,
    /// The number of its assertions.
    pub assertions: u64,
    /// The file that it is read from, relative to the config file.
    pub file: Option<String>,
}

/// A model that took part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelInfo {
    /// Its id in the suite.
    pub id: String,
    /// The provider's key.
    pub provider: String,
    /// The vendor's name.
    pub name: String,
    /// Its parameters, as they were sent.
    pub params: crate::Params,
}

/// A test case that was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedCase {
    /// The test case's name.
    pub case: String,
    /// The test case's tags.
    pub tags: Vec<String>,
    /// Why.
    pub reason: String,
    /// In a part of a run: the position among the skipped cases of the whole run, from 0.
    pub plan_index: Option<u64>,
}

/// Which part of a run a report is about, when the run was divided between machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardInfo {
    /// Which part, from 1.
    pub index: u32,
    /// Of how many.
    pub count: u32,
    /// The same for all parts of one run: it is a digest of the tests and of their models.
    pub plan_digest: String,
    /// The number of results of the whole run: test cases × models.
    pub cases: u64,
    /// The number of test cases that the whole run skips.
    pub skipped: u64,
}

/// The `compliance` block of the suite: the system under test.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComplianceInfo {
    /// `eu-ai-act` or `custom`.
    pub framework: String,
    /// Name of the system under test.
    pub system_name: Option<String>,
    /// Its version.
    pub system_version: Option<String>,
    /// `high`, `limited` or `minimal`.
    pub risk_level: Option<String>,
    /// The operator.
    pub operator: Option<String>,
    /// Its purpose.
    pub intended_purpose: Option<String>,
    /// The governance of its data.
    pub data_governance_notes: Option<String>,
}

/// A count out of a total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateCount {
    /// The count.
    pub count: u64,
    /// Of how many.
    pub total: u64,
}

impl RateCount {
    /// The share, from 0 to 1; `None` out of nothing.
    #[expect(clippy::cast_precision_loss, reason = "counts of results stay far below 2^52")]
    pub fn rate(self) -> Option<f64> {
        (self.total > 0).then(|| self.count as f64 / self.total as f64)
    }
}

/// A number that the suite makes out of named scores.
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedMetric {
    /// Its name.
    pub name: String,
    /// The formula, as the suite has it.
    pub formula: String,
    /// Its value for each model.
    pub values: Vec<DerivedValue>,
}

/// The value of a derived metric for one model.
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedValue {
    /// The model's id in the suite.
    pub model: String,
    /// The number, or why there is none.
    pub value: Result<f64, String>,
}

/// Everything about one run. Reporters render it; what it adds up to is in its [`summary`](Report::summary).
///
/// Most hold their case results. The report of a large run reads each case from the run's journal when it is asked
/// for; [`AnyReport`] is a report whichever way it gets them.
#[derive(Clone, Debug, PartialEq)]
pub struct Report<Cases: ?Sized = Vec<CaseResult>> {
    /// Which run.
    pub run: RunInfo,
    /// Which suite.
    pub suite: SuiteInfo,
    /// The models that took part, in the order of the suite.
    pub models: Vec<ModelInfo>,
    /// Test cases that were not run, in the order of the suite.
    pub skipped: Vec<SkippedCase>,
    /// The gates, in their fixed order.
    pub gates: Vec<GateResult>,
    /// The metrics that the suite derives from named scores, in the order of the suite. In a part of a run: over that part.
    pub derived: Vec<DerivedMetric>,
    /// The system under test, as the suite describes it.
    pub compliance: Option<ComplianceInfo>,
    /// Notes for the user, as text: prices that are old, features that have no effect yet.
    pub warnings: Vec<String>,
    /// Which part of a run this is; `None` for a whole one. The gates are then measured over the part, and decide
    /// nothing; [`models`](Self::models) are those of the whole run.
    pub shard: Option<ShardInfo>,
    /// Test cases × models, in the order of the plan.
    pub cases: Cases,
}

/// A report, wherever it has its cases from. A reference to any report becomes a reference to one by itself.
pub type AnyReport<'a> = Report<dyn CaseSource + 'a>;

// Only for reports in memory, so that `Report::default()` needs no type.
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
            cases: Vec::new(),
        }
    }
}

impl<Cases: CaseSource + ?Sized> Report<Cases> {
    /// The cases, in the order of the plan, one at a time.
    pub fn each(&self) -> impl Iterator<Item = Result<Cow<'_, CaseResult>, CaseError>> {
        self.each_where(|_| true)
    }

    /// The cases whose mark is like that, in the order of the plan, one at a time. The others are not read.
    pub fn each_where(
        &self,
        wanted: impl Fn(CaseMark<'_>) -> bool,
    ) -> impl Iterator<Item = Result<Cow<'_, CaseResult>, CaseError>> {
        let is_wanted = move |at: &usize| self.cases.mark(*at).is_some_and(&wanted);
        (0..self.cases.len()).filter(is_wanted).map(|at| self.cases.read(at))
    }
}
