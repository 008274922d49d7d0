//! One test case on one model, in version 1 of the JSON report.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::ser::Error as _;
use serde::{Deserialize, Serialize};

use super::repeats::{EarlyEnd, Reliability};
use super::same::{Json, Same};
use super::{Execution, SourcePlace, WireError};
use kindlm_types::{CaseResult, Class, FailureCode, Outcome};

/// One test case on one model, over all its repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Case {
    /// The test case's name.
    pub case: String,
    /// The model's id in the suite; `command` for command tests, `transcript` for transcript tests.
    pub model: String,
    /// The test case's tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The digest of the case, which changes if its requests or its checks change; absent if it was not computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case_digest: Option<String>,
    /// The digest of the case without the prompt, command or transcript that is tested; absent if it was not computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_digest: Option<String>,
    /// The name of the cluster of cases that depend on each other; absent if the case is in no cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The position among the cases of the whole run, from 0, if the report covers a shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_index: Option<u64>,
    /// The place of the test in the suite; absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourcePlace>,
    /// The outcome of the case.
    pub outcome: Outcome,
    /// True if the outcome is `passed` or `scored`.
    pub pass: bool,
    /// Passed repeats / judged repeats, from 0 to 1; `null` if no repeat was judged.
    #[serde(default)]
    pub pass_rate: Option<f64>,
    /// The number of repeats that were executed.
    pub repeats: u32,
    /// The number of repeats that could not be executed or judged.
    pub errored_repeats: u32,
    /// The distinct failure codes, in order of first appearance.
    #[serde(default)]
    pub failure_codes: Vec<FailureCode>,
    /// The scores of each check over the repeats.
    #[serde(default)]
    pub scores: Vec<ScoreSummary>,
    /// The number of passed checks, out of those that were judged.
    pub checks: CheckCounts,
    /// The mean latency in milliseconds over the repeats that measured one; `null` without such repeats.
    #[serde(default)]
    pub latency_avg_ms: Option<f64>,
    /// The money spent over all repeats.
    pub cost: Cost,
    /// The tokens used over all repeats.
    pub total_tokens: u64,
    /// The stopping rule of the repeats; absent if the number of repeats is fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_end: Option<EarlyEnd>,
    /// The pass rate with its confidence interval; absent with fewer than two judged repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reliability: Option<Reliability>,
    /// The repeats.
    pub executions: Vec<Execution>,
}

/// The scores of one check over the repeats of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ScoreSummary {
    /// The assertion's id.
    #[serde(rename = "type")]
    pub assertion: String,
    /// The check's label.
    pub label: String,
    /// The class of the check: judged by a rule or by a model.
    pub class: Class,
    /// The mean score over the repeats that have a score; from 0 to 1 unless a script gave the scores.
    pub mean: f64,
    /// The lowest score.
    pub min: f64,
    /// The highest score.
    pub max: f64,
    /// The number of repeats that have a score.
    pub count: u32,
}

/// The number of passed checks, out of those that were judged, by class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CheckCounts {
    /// The checks that are judged by rules.
    pub deterministic: CheckCount,
    /// The checks that are judged by a model.
    pub probabilistic: CheckCount,
}

/// The number of passed checks, out of those that passed or failed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CheckCount {
    /// The number of passes.
    pub passed: u64,
    /// The number of passes and failures.
    pub total: u64,
}

/// The money spent, as far as the prices are known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Cost {
    /// The total cost in US dollars; `null` if a part of it is unknown.
    #[serde(default)]
    pub usd: Option<f64>,
    /// The sum of the known costs, in US dollars.
    pub known_usd: f64,
    /// The number of executions whose cost is not fully known. `knownUsd` includes the known part of their cost.
    pub unknown_executions: u32,
}

impl From<kindlm_types::Cost> for Cost {
    fn from(cost: kindlm_types::Cost) -> Self {
        Self { usd: cost.usd(), known_usd: cost.known_usd, unknown_executions: cost.unknown }
    }
}

impl From<Cost> for kindlm_types::Cost {
    fn from(wire: Cost) -> Self {
        Self { known_usd: wire.known_usd, unknown: wire.unknown_executions }
    }
}

impl From<kindlm_types::CheckCounts> for CheckCounts {
    fn from(checks: kindlm_types::CheckCounts) -> Self {
        Self {
            deterministic: CheckCount {
                passed: checks.deterministic_passed,
                total: checks.deterministic_total,
            },
            probabilistic: CheckCount {
                passed: checks.probabilistic_passed,
                total: checks.probabilistic_total,
            },
        }
    }
}

impl From<CheckCounts> for kindlm_types::CheckCounts {
    fn from(wire: CheckCounts) -> Self {
        Self {
            deterministic_passed: wire.deterministic.passed,
            deterministic_total: wire.deterministic.total,
            probabilistic_passed: wire.probabilistic.passed,
            probabilistic_total: wire.probabilistic.total,
        }
    }
}

impl From<kindlm_types::ScoreSummary> for ScoreSummary {
    fn from(summary: kindlm_types::ScoreSummary) -> Self {
        Self {
            assertion: summary.assertion,
            label: summary.label,
            class: summary.class,
            mean: summary.mean,
            min: summary.min,
            max: summary.max,
            count: summary.count,
        }
    }
}

impl From<ScoreSummary> for kindlm_types::ScoreSummary {
    fn from(wire: ScoreSummary) -> Self {
        Self {
            assertion: wire.assertion,
            label: wire.label,
            class: wire.class,
            mean: wire.mean,
            min: wire.min,
            max: wire.max,
            count: wire.count,
        }
    }
}

/// The part of a [`Case`] before its executions, in compact JSON.
///
/// This small text is stored until the executions are available.
// perf: process, included in the gain of `kindlm_store::journal::CaseSummaries`
///
/// ```
/// # use kindlm_types::CaseResult;
/// use kindlm_wire::v1::{Case, CaseSummary};
///
/// # fn show(case: &CaseResult, executions: &[String]) -> serde_json::Result<()> {
/// let head = CaseSummary::from_case(case)?;
/// let json = head.around(executions);
/// assert_eq!(json, serde_json::to_string(&Case::from(case))?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseSummary(Arc<str>);

impl CaseSummary {
    /// The end of the JSON of a case.
    const END: &str = "]}";

    /// Serializes the part of a case before its executions. Fails if a value cannot be serialized.
    pub fn from_case(case: &CaseResult) -> serde_json::Result<Self> {
        Self::with(case, Json::ToMake(scored(&case.scores)), &mut Vec::new())
    }

    /// Serializes like [`from_case`](Self::from_case), from scores that may be serialized already.
    ///
    /// `room` is a reusable buffer, whose contents are overwritten.
    fn with(
        case: &CaseResult,
        scores: Json<'_, Vec<Scored<'_>>>,
        room: &mut Vec<u8>,
    ) -> serde_json::Result<Self> {
        let bare = Bare {
            case: &case.case,
            model: &case.model,
            tags: &case.tags,
            case_digest: case.digest.as_deref(),
            task_digest: case.task_digest.as_deref(),
            cluster: case.cluster.as_deref(),
            plan_index: case.plan_index,
            source: case.source.as_ref().map(SourcePlace::from),
            outcome: case.outcome,
            pass: case.passed(),
            pass_rate: case.judged_pass_rate(),
            repeats: case.repeats,
            errored_repeats: case.errored_repeats,
            failure_codes: &case.failure_codes,
            scores,
            checks: case.checks.into(),
            latency_avg_ms: case.latency_avg_ms,
            cost: case.cost.into(),
            total_tokens: case.total_tokens,
            early_end: case.early_end.map(EarlyEnd::from),
            reliability: Reliability::from_case(case),
            executions: [],
        };
        room.clear();
        serde_json::to_writer(&mut *room, &bare)?;
        room.truncate(room.len() - Self::END.len());
        let json = str::from_utf8(room).map_err(serde_json::Error::custom)?;
        Ok(Self(json.into()))
    }

    /// Restores a case summary from the text of [`as_str`](Self::as_str). The text is not checked.
    pub fn kept(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the text for storing.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the memory use, in bytes.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.0.len()
    }

    /// Returns the JSON of the whole case. Each item of `executions` is an [`Execution`] in compact JSON.
    pub fn around(&self, executions: &[impl AsRef<str>]) -> String {
        let room: usize = executions.iter().map(|it| it.as_ref().len() + 1).sum();
        let mut json = String::with_capacity(self.0.len() + room + Self::END.len());
        json.push_str(&self.0);
        for (at, execution) in executions.iter().enumerate() {
            if at > 0 {
                json.push(',');
            }
            json.push_str(execution.as_ref());
        }
        json.push_str(Self::END);
        json
    }
}

/// A writer of [`CaseSummary`]s that serializes equal scores of consecutive cases only once.
#[derive(Debug, Default)]
pub struct CaseSummaryWriter {
    scores: Same<kindlm_types::ScoreSummary>,
    /// A reusable buffer.
    room: Vec<u8>,
}

impl CaseSummaryWriter {
    /// Serializes the part of a case before its executions. Fails if a value cannot be serialized.
    pub fn head(&mut self, case: &CaseResult) -> serde_json::Result<CaseSummary> {
        // Exclude negative numbers: -0.0 equals 0.0, but is serialized differently.
        let is_plain = |it: &kindlm_types::ScoreSummary| {
            [it.mean, it.min, it.max].into_iter().all(f64::is_sign_positive)
        };
        let scores = &case.scores;
        let is_plain = !scores.is_empty() && scores.iter().all(is_plain);
        let made = if is_plain { self.scores.json(scores, || scored(scores))? } else { None };
        CaseSummary::with(case, Json::new(made, || scored(scores)), &mut self.room)
    }
}

/// A [`Case`] without executions that borrows its data.
///
/// A run creates this value for each case, so the creation must be cheap.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Bare<'a> {
    case: &'a str,
    model: &'a str,
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    case_digest: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_digest: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan_index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<SourcePlace>,
    outcome: Outcome,
    pass: bool,
    pass_rate: Option<f64>,
    repeats: u32,
    errored_repeats: u32,
    failure_codes: &'a [FailureCode],
    scores: Json<'a, Vec<Scored<'a>>>,
    checks: CheckCounts,
    latency_avg_ms: Option<f64>,
    cost: Cost,
    total_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    early_end: Option<EarlyEnd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reliability: Option<Reliability>,
    executions: [Execution; 0],
}

/// A [`ScoreSummary`] that borrows its data.
#[derive(Serialize)]
struct Scored<'a> {
    #[serde(rename = "type")]
    assertion: &'a str,
    label: &'a str,
    class: Class,
    mean: f64,
    min: f64,
    max: f64,
    count: u32,
}

fn scored(scores: &[kindlm_types::ScoreSummary]) -> Vec<Scored<'_>> {
    scores.iter().map(Scored::from).collect()
}

impl<'a> From<&'a kindlm_types::ScoreSummary> for Scored<'a> {
    fn from(it: &'a kindlm_types::ScoreSummary) -> Self {
        let (assertion, label) = (it.assertion.as_str(), it.label.as_str());
        let kindlm_types::ScoreSummary { class, mean, min, max, count, .. } = *it;
        Self { assertion, label, class, mean, min, max, count }
    }
}

impl From<&CaseResult> for Case {
    fn from(case: &CaseResult) -> Self {
        case.clone().into()
    }
}

impl From<CaseResult> for Case {
    fn from(case: CaseResult) -> Self {
        let (pass, pass_rate) = (case.passed(), case.judged_pass_rate());
        let reliability = Reliability::from_case(&case);
        Self {
            case: case.case,
            model: case.model,
            tags: case.tags,
            case_digest: case.digest,
            task_digest: case.task_digest,
            cluster: case.cluster,
            plan_index: case.plan_index,
            source: case.source.as_ref().map(SourcePlace::from),
            outcome: case.outcome,
            pass,
            pass_rate,
            repeats: case.repeats,
            errored_repeats: case.errored_repeats,
            failure_codes: case.failure_codes,
            scores: case.scores.into_iter().map(ScoreSummary::from).collect(),
            checks: case.checks.into(),
            latency_avg_ms: case.latency_avg_ms,
            cost: case.cost.into(),
            total_tokens: case.total_tokens,
            early_end: case.early_end.map(EarlyEnd::from),
            reliability,
            executions: case.executions.into_iter().map(Execution::from).collect(),
        }
    }
}

impl TryFrom<Case> for CaseResult {
    type Error = WireError;

    fn try_from(wire: Case) -> Result<Self, WireError> {
        Ok(Self {
            case: wire.case,
            model: wire.model,
            tags: wire.tags,
            digest: wire.case_digest,
            task_digest: wire.task_digest,
            cluster: wire.cluster,
            plan_index: wire.plan_index,
            source: wire.source.map(Into::into),
            outcome: wire.outcome,
            pass_rate: wire.pass_rate.unwrap_or_default(),
            repeats: wire.repeats,
            errored_repeats: wire.errored_repeats,
            scores: wire.scores.into_iter().map(Into::into).collect(),
            failure_codes: wire.failure_codes,
            checks: wire.checks.into(),
            latency_avg_ms: wire.latency_avg_ms,
            cost: wire.cost.into(),
            total_tokens: wire.total_tokens,
            early_end: wire.early_end.map(Into::into),
            executions: wire
                .executions
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
        })
    }
}
