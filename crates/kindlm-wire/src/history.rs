//! The result of `kindlm history`, version 1: a suite or a case over its stored runs.

use kindlm_types::{ConditionChange, Outcome};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::v1::{Cost, Rate};

/// The `schemaVersion` of this format.
pub const VERSION: u32 = 1;

/// A suite, or one case of it, over the stored runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "KindLM history")]
#[non_exhaustive]
pub struct History {
    /// The version of this format: 1.
    #[schemars(extend("const" = 1))]
    pub schema_version: u32,
    /// The project of the suite.
    pub project: String,
    /// The name of the suite.
    pub suite: String,
    /// The name of the test case; absent for the history of the whole suite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// One series for the whole suite, or one for each model of the case.
    pub series: Vec<Series>,
    /// True if there are older runs, which are not part of the history.
    pub has_older: bool,
}

impl History {
    /// Creates the history of a whole suite, without older runs.
    ///
    /// For the history of a case, set `case`.
    pub fn new(project: impl Into<String>, suite: impl Into<String>, series: Vec<Series>) -> Self {
        Self {
            schema_version: VERSION,
            project: project.into(),
            suite: suite.into(),
            case: None,
            series,
            has_older: false,
        }
    }
}

/// The results of a suite, or of a case on one model, from the oldest run to the newest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Series {
    /// The model's id in the suite; absent for the whole suite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The results, oldest first. A run without the case is left out.
    pub runs: Vec<Entry>,
    /// The unit of the rates.
    pub unit: Unit,
    /// The runs at which the rate changed, oldest first.
    pub change_points: Vec<ChangePoint>,
    /// The id of the first run of the current rate. A new rate begins at a change point, and when the prompt, the
    /// variables or the checks of the case change. Absent if the current rate begins with the oldest run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The rate from the run `since` on; its `rate` is `null` if nothing was judged.
    pub current: Rate,
    /// True if, from the run `since` on, some units held and others failed. `null` if fewer than two units were judged,
    /// and for a whole suite.
    pub flaky: Option<bool>,
    /// The runs in which the outcome of a case differs from its outcome in the previous judged run, oldest first.
    ///
    /// For a whole suite, only the newest run is compared with the run before it.
    pub flips: Vec<Flip>,
}

impl Series {
    /// Creates the series of a whole suite, without change points and flips. All runs belong to the current rate.
    ///
    /// For the series of a case, set `model`.
    pub fn new(runs: Vec<Entry>, unit: Unit, current: Rate) -> Self {
        Self {
            model: None,
            runs,
            unit,
            change_points: Vec::new(),
            since: None,
            current,
            flaky: None,
            flips: Vec::new(),
        }
    }
}

/// The unit that rates and change points count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Unit {
    /// The cases of a suite.
    Cases,
    /// The repeats of a case.
    Repeats,
    /// The runs of a case whose repeats may end early. The number of such repeats depends on their results, so each run
    /// counts once.
    Runs,
}

/// The results of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The run's id.
    pub run: String,
    /// The start time, RFC 3339 in UTC.
    pub started_at: String,
    /// The outcome of the run or of the case: `passed`, `scored`, `failed`, `undecided`, `errored`, `skipped` or
    /// `interrupted`.
    pub outcome: String,
    /// The cases of the suite that held, or the repeats of the case; its `rate` is `null` if nothing was judged.
    pub held: Rate,
    /// The number of cases or repeats that could not be judged.
    pub errored: u64,
    /// The share of checks that passed, from 0 to 1; `null` if nothing was checked.
    pub score: Option<f64>,
    /// The money spent on the models under test.
    pub cost: Cost,
    /// The mean latency of the case, in milliseconds; `null` if it was not measured, and for a whole suite.
    pub latency_ms: Option<f64>,
    /// The duration of the run, in milliseconds; `null` for a case.
    pub duration_ms: Option<f64>,
    /// The git commit that was checked out; `null` if it was not recorded.
    pub git_commit: Option<String>,
    /// True if there were changes that were not committed; `null` if it was not recorded.
    pub git_dirty: Option<bool>,
    /// True if the run left out test cases of the suite, or models of test cases. In the series of a suite, such a run
    /// is listed, but does not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// A change point: the first run with a different rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangePoint {
    /// The id of the first run with the new rate.
    pub run: String,
    /// The rate from the previous change point to this one.
    pub before: Rate,
    /// The rate from this change point to the next one.
    pub after: Rate,
    /// The p value: the probability that a series with a constant rate shows such a change.
    pub p_value: f64,
}

impl ChangePoint {
    /// Creates a change point. `run` is the id of the first run with the new rate, and `p_value` is from 0 to 1.
    pub fn new(run: impl Into<String>, before: Rate, after: Rate, p_value: f64) -> Self {
        Self { run: run.into(), before, after, p_value }
    }
}

/// The cases whose outcome differs between two runs, and the recorded changes between these runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Flip {
    /// The id of the earlier run.
    pub before: String,
    /// The id of the later run.
    pub after: String,
    /// The cases.
    pub cases: Vec<FlippedCase>,
    /// The recorded changes between the two runs.
    pub changes: RunChanges,
}

impl Flip {
    /// Creates the flip of cases between two runs. `before` and `after` are the ids of the runs.
    pub fn new(
        before: impl Into<String>,
        after: impl Into<String>,
        cases: Vec<FlippedCase>,
        changes: RunChanges,
    ) -> Self {
        Self { before: before.into(), after: after.into(), cases, changes }
    }
}

/// A case whose outcome differs between two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FlippedCase {
    /// The test case's name.
    pub case: String,
    /// The model's id in the suite.
    pub model: String,
    /// The outcome in the earlier run.
    pub before: Outcome,
    /// The outcome in the later run.
    pub after: Outcome,
    /// True if the prompt, the variables or the checks of the case changed; `null` if it was not recorded.
    pub case_changed: Option<bool>,
    /// True if the variables or the checks of the case changed; `null` if it was not recorded.
    pub task_changed: Option<bool>,
}

impl FlippedCase {
    /// Creates a case with its outcomes in the earlier and the later run. Its changes are not recorded.
    pub fn new(
        case: impl Into<String>,
        model: impl Into<String>,
        before: Outcome,
        after: Outcome,
    ) -> Self {
        Self {
            case: case.into(),
            model: model.into(),
            before,
            after,
            case_changed: None,
            task_changed: None,
        }
    }
}

/// The recorded changes between two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunChanges {
    /// The git commits, if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<ValueChange>,
    /// True if one of the runs had changes that were not committed; absent if it was not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_dirty: Option<bool>,
    /// The digests of the config file, if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ValueChange>,
    /// The other files of the suite that differ, sorted by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// The prompts, rules, models and judges that differ, and the version of KindLM.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionChange>,
}

impl RunChanges {
    /// Returns true if a change is recorded, or if one of the runs had changes that were not committed.
    pub fn any(&self) -> bool {
        let has_list = !self.files.is_empty() || !self.conditions.is_empty();
        has_list
            || self.git_commit.is_some()
            || self.config.is_some()
            || self.git_dirty == Some(true)
    }
}

/// A value before and after; `null` if it was not recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ValueChange {
    /// The value of the earlier run.
    pub before: Option<String>,
    /// The value of the later run.
    pub after: Option<String>,
}

impl ValueChange {
    /// Creates a change. `None` is a value that was not recorded.
    pub fn new(before: Option<String>, after: Option<String>) -> Self {
        Self { before, after }
    }
}

/// A file of the suite that differs between two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FileChange {
    /// The path relative to the suite's folder.
    pub path: String,
    /// The digests; `null` if the run did not use the file.
    #[serde(flatten)]
    pub sha256: ValueChange,
}

impl FileChange {
    /// Creates the change of a file. `path` is relative to the suite's folder, and `sha256` are its digests.
    pub fn new(path: impl Into<String>, sha256: ValueChange) -> Self {
        Self { path: path.into(), sha256 }
    }
}

/// Returns the JSON Schema (draft 2020-12) of [`History`] for serialization.
pub fn schema() -> Value {
    SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<History>()
        .into()
}
