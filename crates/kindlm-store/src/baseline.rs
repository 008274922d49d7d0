//! The baseline: the stored results of one run, which later runs are compared with.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use kindlm_types::{
    AssertionResult, CaseError, CaseResult, CaseSource, FailureCode, Outcome, PROMPT_ASSERTION,
    PassRate, Report, Severity, Verdict, prompt_assertion_id,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the file format. Files with another version are refused.
const VERSION: &str = "1";

/// The number of characters of a digest that are shown.
const SHOWN: usize = 8;

/// The stored results of one run, which later runs are compared with.
///
/// The format is version `"1"` of the original KindLM (the predecessor of this program) with additional fields. Files
/// of the original KindLM can be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Baseline {
    version: String,
    /// The project of the suite; absent in files of the original KindLM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The suite's name.
    pub suite_name: String,
    /// The start of the run, in RFC 3339.
    pub created_at: String,
    /// The id of the run; absent in files of the original KindLM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The git commit that was checked out, if it is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_commit: Option<String>,
    /// The conditions of the results; absent in files of the original KindLM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
    #[serde(serialize_with = "by_name")]
    results: IndexMap<(String, String), Entry>,
}

/// The conditions that affect a run's results, other than its test cases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Conditions {
    /// The version of KindLM.
    pub kindlm: String,
    /// The models by their id in the suite, each with provider, name and parameters.
    pub models: BTreeMap<String, String>,
    /// The ids of the judge models.
    pub judges: BTreeSet<String>,
    /// The sets of prompt assertions by name, each with its version and digest.
    pub rules: BTreeMap<String, String>,
    /// The digests of the prompts by name; `None` in files that do not record them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<BTreeMap<String, String>>,
}

/// The results of one test case on one model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The test case's name.
    #[serde(default)]
    pub case: String,
    /// The model's id.
    #[serde(default)]
    pub model: String,
    /// The outcome of the case; absent in files of the original KindLM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The share of judged repeats that passed, from 0 to 1.
    pub pass_rate: f64,
    /// The output of the first repeat without an execution error; empty without such a repeat.
    #[serde(default)]
    pub output_text: String,
    /// The texts of the labelled turns, from the same repeat as `output_text`.
    #[serde(default, skip_serializing_if = "TurnTexts::is_empty")]
    pub turns: TurnTexts,
    /// The distinct failure codes.
    #[serde(default)]
    pub failure_codes: Vec<FailureCode>,
    /// The mean latency in milliseconds; `None` if the latency is unknown.
    #[serde(default)]
    pub latency_avg_ms: Option<f64>,
    /// The cost of all repeats in US dollars; `None` if it is unknown.
    #[serde(default)]
    pub cost_usd: Option<f64>,
    /// The number of executed repeats.
    #[serde(default)]
    pub run_count: u32,
    /// The maximum number of repeats if the case may end early; `None` if the number of repeats is fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_repeats: Option<u32>,
    /// The number of repeats that could not be executed or judged.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub errored_repeats: u32,
    /// The number of repeats with an answer from the response store. Such repeats are no new evidence.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_repeats: u32,
    /// The number of repeats that passed; `None` in files that do not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<u64>,
    /// The number of repeats that passed or failed; `None` in files that do not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<u64>,
    /// The digest of everything that the case sends and expects, if it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The digest of the case without its prompt or command, if it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_digest: Option<String>,
    /// The name of the case's cluster; `None` without a cluster. The cases of a cluster are not statistically
    /// independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The judges that were asked. Each entry has the model's id and, if recorded, the digest of the instructions.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub judges: BTreeSet<String>,
    /// The counts of results for each assertion and label, over the judged repeats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assertions: Vec<EntryRate>,
    /// The checks of the case over all repeats; empty in files of the original KindLM.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<EntryCheck>,
    /// The mean score of each check that has a score.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<EntryScore>,
}

/// A check of a test case, without its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EntryCheck {
    /// The assertion's id.
    pub assertion: String,
    /// The label of the turn, the labels of the enclosing sets of checks, and the label of the check, in this order.
    pub label: String,
    /// The severity of the check; `None` in files that do not record severities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
}

impl EntryCheck {
    /// Creates a check. `label` has the format of the field `label`.
    pub fn new(
        assertion: impl Into<String>,
        label: impl Into<String>,
        severity: Option<Severity>,
    ) -> Self {
        Self { assertion: assertion.into(), label: label.into(), severity }
    }
}

/// The counts of results for one assertion and label, over the judged repeats of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryRate {
    /// The assertion's id; for a prompt assertion the id of its rule.
    pub assertion: String,
    /// The label of the checks.
    #[serde(default)]
    pub label: String,
    /// The number of results that passed.
    pub passed: u64,
    /// The number of results that passed or failed.
    pub judged: u64,
}

/// The mean score of one check over the repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EntryScore {
    /// The assertion's id.
    pub assertion: String,
    /// The check's label.
    pub label: String,
    /// The mean score, from 0 to 1.
    pub mean: f64,
}

impl EntryScore {
    /// Creates the mean score of a check, from 0 to 1.
    pub fn new(assertion: impl Into<String>, label: impl Into<String>, mean: f64) -> Self {
        Self { assertion: assertion.into(), label: label.into(), mean }
    }
}

/// The error of an invalid baseline file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BaselineError {
    /// The file does not have the format of `kindlm baseline set`.
    #[error(
        "it is damaged: {message}; set it again with `kindlm baseline set`, or restore it from version control"
    )]
    Corrupt {
        /// The description of the problem.
        message: String,
    },
    /// The file has a format version that this KindLM does not support.
    #[error("it has version {version:?}, and this KindLM reads version \"1\"")]
    Version {
        /// The version in the file.
        version: String,
    },
}

impl Baseline {
    /// Creates a baseline from the report of a run.
    ///
    /// Fails if a case of the report cannot be read.
    pub fn from_report<Cases: CaseSource + ?Sized>(
        report: &Report<Cases>,
    ) -> Result<Self, CaseError> {
        let mut baseline = Self::new(&report.suite.name, &report.run.started_at);
        baseline.project = Some(report.suite.project.clone());
        baseline.run_id = Some(report.run.id.clone()).filter(|id| !id.is_empty());
        baseline.git_commit.clone_from(&report.run.git_commit);
        let mut conditions = Conditions::from_report(report);
        for case in report.each() {
            let case = case?;
            for result in case.executions.iter().flat_map(|it| &it.results) {
                conditions.add_judges(result);
            }
            baseline.insert(Entry::from_case(&case));
        }
        baseline.conditions = Some(conditions);
        Ok(baseline)
    }

    /// Returns true if the baseline belongs to this suite.
    ///
    /// A baseline without a project is compared by the name of the suite only.
    pub fn is_of(&self, project: &str, suite: &str) -> bool {
        self.suite_name == suite && self.project.as_deref().is_none_or(|it| it == project)
    }

    /// Creates a baseline without entries and conditions.
    pub fn new(suite_name: impl Into<String>, created_at: impl Into<String>) -> Self {
        Self {
            version: VERSION.to_owned(),
            project: None,
            suite_name: suite_name.into(),
            created_at: created_at.into(),
            run_id: None,
            git_commit: None,
            conditions: None,
            results: IndexMap::new(),
        }
    }

    /// Adds an entry; replaces an entry with the same case and model.
    pub fn insert(&mut self, entry: Entry) {
        self.results.insert((entry.case.clone(), entry.model.clone()), entry);
    }

    /// Keeps only the entries for which `keep` returns true. `keep` gets the case and the model.
    pub fn retain(&mut self, keep: impl Fn(&str, &str) -> bool) {
        self.results.retain(|(case, model), _| keep(case, model));
    }

    /// Returns the entry of a case on a model; `None` without such an entry.
    pub fn get(&self, case: &str, model: &str) -> Option<&Entry> {
        self.results.get(&(case.to_owned(), model.to_owned()))
    }

    /// Returns all entries, in the order of the run.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.results.values()
    }

    /// Parses the text of a baseline file. Fails if the file is damaged or has another version than `"1"`.
    pub fn parse(text: &str) -> Result<Self, BaselineError> {
        let corrupt = |message: &str| BaselineError::Corrupt { message: message.to_owned() };
        let value: Value =
            serde_json::from_str(text).map_err(|err| corrupt(&format!("not JSON: {err}")))?;
        let Value::Object(map) = value else { return Err(corrupt("not a JSON object")) };
        let text_of = |name: &str| match map.get(name) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(corrupt(&format!("`{name}` is not a text"))),
            None => Err(corrupt(&format!("`{name}` is missing"))),
        };
        let version = text_of("version")?;
        if version != VERSION {
            return Err(BaselineError::Version { version });
        }
        let mut baseline = Self::new(text_of("suiteName")?, text_of("createdAt")?);
        baseline.project = map.get("project").and_then(Value::as_str).map(str::to_owned);
        baseline.run_id = map.get("runId").and_then(Value::as_str).map(str::to_owned);
        baseline.git_commit = map.get("gitCommit").and_then(Value::as_str).map(str::to_owned);
        if let Some(conditions) = map.get("conditions") {
            let read = Conditions::deserialize(conditions);
            baseline.conditions =
                Some(read.map_err(|err| corrupt(&format!("`conditions`: {err}")))?);
        }
        let Some(Value::Object(results)) = map.get("results") else {
            return Err(corrupt("`results` is missing or not an object"));
        };
        for (name, value) in results {
            let mut entry = Entry::deserialize(value)
                .map_err(|err| corrupt(&format!("the result of `{name}`: {err}")))?;
            if entry.case.is_empty() {
                // In files of the original KindLM, the case and the model are only in the key.
                let (case, model) = name.rsplit_once("::").unwrap_or((name, ""));
                case.clone_into(&mut entry.case);
                model.clone_into(&mut entry.model);
            }
            baseline.insert(entry);
        }
        Ok(baseline)
    }

    /// Returns the content of the baseline file.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_else(|err| err.to_string());
        text.push('\n');
        text
    }
}

/// The texts of labelled turns, in the order of the turns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnTexts(IndexMap<String, String>);

impl TurnTexts {
    /// Returns true if there are no turns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the labels with their texts, in the order of the turns.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(label, text)| (label.as_str(), text.as_str()))
    }
}

impl FromIterator<(String, String)> for TurnTexts {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(turns: I) -> Self {
        Self(turns.into_iter().collect())
    }
}

impl Entry {
    /// Creates the entry of a case on a model.
    pub fn from_case(case: &CaseResult) -> Self {
        let first = case.executions.iter().find(|it| it.error.is_none());
        let judged = || case.executions.iter().filter(|it| is_judged(it.outcome));
        let mut counts = Counts::default();
        judged().flat_map(|it| &it.results).for_each(|it| counts.add(it));
        Self {
            case: case.case.clone(),
            model: case.model.clone(),
            outcome: Some(case.outcome),
            pass_rate: case.pass_rate,
            output_text: first.map(|it| it.execution.output.clone()).unwrap_or_default(),
            turns: first
                .iter()
                .flat_map(|it| &it.execution.turns)
                .map(|turn| (turn.label.clone(), turn.text.clone()))
                .collect(),
            failure_codes: case.failure_codes.clone(),
            latency_avg_ms: case.latency_avg_ms,
            cost_usd: case.cost.usd(),
            run_count: case.repeats,
            max_repeats: case.early_end.map(|it| it.max),
            errored_repeats: case.errored_repeats,
            cached_repeats: case.cached_repeats(),
            passed: Some(judged().filter(|it| it.outcome.held()).count() as u64),
            judged: Some(judged().count() as u64),
            digest: case.digest.clone(),
            task_digest: case.task_digest.clone(),
            cluster: case.cluster.clone(),
            judges: counts.judges,
            assertions: counts.assertions.into_values().collect(),
            checks: checks_of(case),
            scores: case
                .scores
                .iter()
                .map(|it| EntryScore {
                    assertion: it.assertion.clone(),
                    label: it.label.clone(),
                    mean: it.mean,
                })
                .collect(),
        }
    }

    /// Returns true if at least one repeat was executed.
    ///
    /// An entry without an outcome is from a file of the original KindLM, and counts as executed.
    pub fn was_executed(&self) -> bool {
        self.run_count > 0 || self.outcome.is_none()
    }

    /// Returns `max_repeats` if the number of repeats is not fixed, or else the number of executed repeats.
    pub fn planned_repeats(&self) -> u32 {
        self.max_repeats.unwrap_or(self.run_count)
    }

    /// Returns the pass rate with its counts; `None` if no repeat was judged.
    ///
    /// For a file without counts, the counts are computed from the rate and the number of judged repeats.
    pub fn rate(&self) -> Option<PassRate> {
        if let (Some(passed), Some(judged)) = (self.passed, self.judged) {
            return PassRate::from_counts(passed.min(judged), judged);
        }
        if !self.was_judged() {
            return None;
        }
        let judged = self.run_count.saturating_sub(self.errored_repeats);
        // The stored rate is a count divided by `judged`, so the product is close to a whole number.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 0 to the number of repeats"
        )]
        let passed = (self.pass_rate.clamp(0.0, 1.0) * f64::from(judged)).round() as u64;
        PassRate::from_counts(passed, judged.into())
    }

    /// Returns true if at least one repeat was judged. Without a judged repeat, the pass rate has no meaning.
    pub fn was_judged(&self) -> bool {
        self.was_executed()
            && self.outcome != Some(Outcome::Skipped)
            && (self.errored_repeats == 0 || self.errored_repeats < self.run_count)
    }
}

/// The counts for each assertion and label, and the judges that were asked.
#[derive(Default)]
struct Counts {
    assertions: IndexMap<(String, String), EntryRate>,
    judges: BTreeSet<String>,
}

impl Counts {
    fn add(&mut self, result: &AssertionResult) {
        result.parts().iter().for_each(|it| self.add(it));
        self.add_judges(result);
        let is_judged = matches!(result.verdict, Verdict::Pass | Verdict::Fail { .. });
        // A set only combines its checks, so it is not counted itself.
        if !result.is_check() || result.set.is_some() || !is_judged {
            return;
        }
        let id = match result.assertion.as_str() {
            PROMPT_ASSERTION => prompt_assertion_id(result).to_owned(),
            _ => result.written_id().into_owned(),
        };
        let key = (id, result.label.clone());
        let rate = self.assertions.entry(key).or_insert_with_key(|(id, label)| EntryRate {
            assertion: id.clone(),
            label: label.clone(),
            passed: 0,
            judged: 0,
        });
        rate.judged += 1;
        rate.passed += u64::from(result.verdict == Verdict::Pass);
    }

    fn add_judges(&mut self, result: &AssertionResult) {
        let Some(judging) = &result.judging else { return };
        let votes = judging.panel.iter().flat_map(|it| &it.votes);
        let models = judging.model.iter().chain(votes.filter_map(|it| it.judge.as_ref()));
        for model in models {
            let digest = judging.prompt_digest.as_deref().map(|it| it.get(..SHOWN).unwrap_or(it));
            self.judges.insert(match digest {
                Some(digest) => format!("{model} with the instructions {digest}"),
                None => model.clone(),
            });
        }
    }
}

fn is_judged(outcome: Outcome) -> bool {
    outcome.held() || outcome == Outcome::Failed
}

impl Conditions {
    /// Returns the conditions of a run without reading its cases. The judges come from the suite.
    pub fn of_suite<Cases: CaseSource + ?Sized>(report: &Report<Cases>) -> Self {
        let judges = report.suite.judges.iter().flat_map(|it| it.models.iter().cloned());
        Self { judges: judges.collect(), ..Self::from_report(report) }
    }

    fn from_report<Cases: CaseSource + ?Sized>(report: &Report<Cases>) -> Self {
        let models = report.models.iter().map(|it| {
            let params = serde_json::to_string(&it.params).unwrap_or_default();
            let params = if params == "{}" { String::new() } else { format!(" {params}") };
            (it.id.clone(), format!("{}:{}{params}", it.provider, it.name))
        });
        let rules = report.suite.assertion_sets.iter().map(|it| {
            let version = it.version.as_ref().map(|it| format!("version {it}, "));
            let digest = it.digest.get(..SHOWN).unwrap_or(&it.digest);
            (it.name.clone(), format!("{}digest {digest}", version.unwrap_or_default()))
        });
        let prompts = report.suite.prompts.iter().map(|it| {
            let digest = it.digest.get(..SHOWN).unwrap_or(&it.digest);
            (it.name.clone(), format!("digest {digest}"))
        });
        Self {
            kindlm: report.run.version.clone(),
            models: models.collect(),
            judges: BTreeSet::new(),
            rules: rules.collect(),
            prompts: Some(prompts.collect()),
        }
    }

    fn add_judges(&mut self, result: &AssertionResult) {
        if let Some(judging) = &result.judging {
            let votes = judging.panel.iter().flat_map(|it| &it.votes);
            let judges = judging.model.iter().chain(votes.filter_map(|it| it.judge.as_ref()));
            for judge in judges {
                if !self.judges.contains(judge) {
                    self.judges.insert(judge.clone());
                }
            }
        }
        for component in &result.components {
            self.add_judges(component);
        }
    }
}

/// Returns the checks of a case over all repeats, in order of first appearance.
///
/// A check that occurs several times in one repeat is listed several times: as often as in the repeat with the most
/// occurrences.
fn checks_of(case: &CaseResult) -> Vec<EntryCheck> {
    let mut checks = Vec::new();
    for execution in &case.executions {
        let mut of_repeat = Vec::new();
        for result in &execution.results {
            add_checks(result, result.turn.as_deref(), "", &mut of_repeat);
        }
        let mut known = checks.clone();
        for check in of_repeat {
            match known.iter().position(|it| *it == check) {
                Some(at) => {
                    known.swap_remove(at);
                }
                None => checks.push(check),
            }
        }
    }
    checks
}

fn add_checks(result: &AssertionResult, turn: Option<&str>, sets: &str, to: &mut Vec<EntryCheck>) {
    if !result.is_check() {
        return;
    }
    let within = format!("{sets}{}", result.label);
    let label = turn.map_or_else(|| within.clone(), |turn| format!("{turn}: {within}"));
    let severity = Some(result.severity);
    to.push(EntryCheck { assertion: result.assertion.clone(), label, severity });
    for part in result.parts() {
        add_checks(part, part.turn.as_deref().or(turn), &format!("{within} > "), to);
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Serializes the results under the keys of the original KindLM: `case::model`.
///
/// Names may contain `::`, so two cases may have the same key. Then a tilde is added to the second key. Each entry
/// holds the exact names.
fn by_name<S: serde::Serializer>(
    results: &IndexMap<(String, String), Entry>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut named = IndexMap::with_capacity(results.len());
    for ((case, model), entry) in results {
        let mut key = format!("{case}::{model}");
        while named.contains_key(&key) {
            key.push('~');
        }
        named.insert(key, entry);
    }
    named.serialize(serializer)
}
