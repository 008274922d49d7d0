//! Everything about one run.

use crate::{CaseResult, Class, Cost, ExitStatus, GateResult};
use crate::{ExecutionError, ProviderErrorKind};

/// Which run this was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunInfo {
    /// Unique, sortable by time.
    pub id: String,
    /// Version of KindLM.
    pub version: String,
    /// When it started, RFC 3339 in UTC.
    pub started_at: String,
    /// How long it took, in milliseconds.
    pub duration_ms: f64,
    /// Operating system and architecture, such as `linux-x86_64`.
    pub platform: String,
    /// The git commit that was checked out, if any.
    pub git_commit: Option<String>,
    /// Whether the user interrupted it.
    pub interrupted: bool,
}

/// Which suite was run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuiteInfo {
    /// Groups suites in reports.
    pub project: String,
    /// The suite's name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The suite's own tags.
    pub tags: Vec<String>,
    /// The config file, as the user named it.
    pub config_path: Option<String>,
    /// SHA-256 of the config file, in lower-case hex.
    pub config_sha256: Option<String>,
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
    /// The same for all parts of one run: of what is run, and who runs what.
    pub plan_digest: String,
    /// How many results the whole run has: test cases × models.
    pub cases: u64,
    /// How many test cases the whole run skips.
    pub skipped: u64,
}

/// What the `compliance` block of the suite says about the system under test.
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
    /// Who operates it.
    pub operator: Option<String>,
    /// What it is for.
    pub intended_purpose: Option<String>,
    /// How its data is governed.
    pub data_governance_notes: Option<String>,
}

/// A count out of a total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateCount {
    /// How many.
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

/// Totals over all cases of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SuiteTotals {
    /// Cases that were run.
    pub cases: u64,
    /// Cases in which everything held.
    pub passed: u64,
    /// Cases in which a soft check is below its threshold.
    pub scored: u64,
    /// Cases in which a gate-severity check failed.
    pub failed: u64,
    /// Cases that could not be executed or judged.
    pub errored: u64,
    /// Cases that were not run.
    pub skipped: u64,
    /// Executions, repeats included.
    pub executions: u64,
    /// Tokens of the models under test.
    pub tokens: u64,
    /// Money spent on the models under test.
    pub cost: Cost,
    /// Money spent on judges.
    pub judge_cost: Cost,
}

/// Everything about one run. Reporters render it; totals are methods here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Which run.
    pub run: RunInfo,
    /// Which suite.
    pub suite: SuiteInfo,
    /// The models that took part, in the order of the suite.
    pub models: Vec<ModelInfo>,
    /// Test cases × models, in the order of the plan.
    pub cases: Vec<CaseResult>,
    /// Test cases that were not run, in the order of the suite.
    pub skipped: Vec<SkippedCase>,
    /// The gates, in their fixed order.
    pub gates: Vec<GateResult>,
    /// What the suite says about the system under test.
    pub compliance: Option<ComplianceInfo>,
    /// Things the user should know, in words: prices that are old, features that do nothing yet.
    pub warnings: Vec<String>,
    /// Which part of a run this is; `None` for a whole one. The gates are then measured over the part, and decide
    /// nothing; [`models`](Self::models) are those of the whole run.
    pub shard: Option<ShardInfo>,
}

impl Report {
    /// Whether every gate held.
    pub fn gates_passed(&self) -> bool {
        self.gates.iter().all(GateResult::passed)
    }

    /// Totals over all cases.
    pub fn totals(&self) -> SuiteTotals {
        let mut totals = SuiteTotals::of(&self.cases);
        totals.skipped += self.skipped.len() as u64;
        totals
    }

    /// How many checks of a class passed, of those that were judged.
    pub fn checks(&self, class: Class) -> RateCount {
        let mut sum = RateCount::default();
        for case in &self.cases {
            let (count, total) = match class {
                Class::Deterministic => {
                    (case.checks.deterministic_passed, case.checks.deterministic_total)
                }
                Class::Probabilistic => {
                    (case.checks.probabilistic_passed, case.checks.probabilistic_total)
                }
            };
            sum.count += count;
            sum.total += total;
        }
        sum
    }

    /// The results of one model.
    pub fn cases_of<'a>(&'a self, model: &'a str) -> impl Iterator<Item = &'a CaseResult> {
        self.cases.iter().filter(move |case| case.model == model)
    }

    /// The exit status that this report calls for. The gates of a part of a run do not count: they are about the
    /// whole.
    pub fn exit_status(&self) -> ExitStatus {
        let mut status = if self.gates_passed() || self.shard.is_some() {
            ExitStatus::Success
        } else {
            ExitStatus::GatesFailed
        };
        for result in self.cases.iter().flat_map(|case| &case.executions) {
            if let Some(ExecutionError::Internal { .. }) = result.error {
                status = status.or(ExitStatus::Internal);
            }
            if result.failed_by_provider() {
                status = status.or(ExitStatus::ProviderError);
            }
        }
        if self.run.interrupted { status.or(ExitStatus::Interrupted) } else { status }
    }

    /// The distinct kinds of provider errors, in order of first appearance.
    pub fn provider_error_kinds(&self) -> Vec<ProviderErrorKind> {
        let mut kinds = Vec::new();
        for error in self.errors() {
            if let ExecutionError::Provider(err) = error
                && !kinds.contains(&err.kind)
            {
                kinds.push(err.kind);
            }
        }
        kinds
    }

    fn errors(&self) -> impl Iterator<Item = &ExecutionError> {
        self.cases.iter().flat_map(|case| &case.executions).filter_map(|it| it.error.as_ref())
    }
}
