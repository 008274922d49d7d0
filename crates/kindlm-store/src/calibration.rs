//! The stored calibrations of judges. A calibration measures the agreement between a judge and people.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kindlm_stats::{Confidence, Confusion, Tally, Undefined};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::io_error::is_absent;
use crate::watches::{Watch, WatchLog};
use crate::{Digest, FileLock, StoreError, atomic};

/// The version of the file format. Files with another version are refused.
const VERSION: &str = "3";

/// The maximum length of the provider and model in a file name, in characters.
const LONGEST: usize = 80;

/// The identity of a judge: its models and settings.
///
/// The settings include how the models' answers are combined into a verdict. A different model or setting makes another
/// judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Judge {
    /// The models, each with one vote.
    pub models: Vec<JudgeModel>,
    /// The settings that differ from the default, such as `samples`. By default, each model is asked once.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
}

impl Judge {
    /// Creates a judge of these models, with the default settings.
    pub fn new(models: Vec<JudgeModel>) -> Self {
        Self { models, settings: Map::new() }
    }
}

/// A model that votes in a judge.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JudgeModel {
    /// The provider's key in the config.
    pub provider: String,
    /// The vendor's name for the model.
    pub model: String,
}

impl JudgeModel {
    /// Creates a model from the provider's key and the vendor's name for the model.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider: provider.into(), model: model.into() }
    }
}

/// The agreement between a judge and people, for one kind of check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Calibration {
    /// The id of the assertion, such as `judge`.
    pub check: String,
    /// The time when the judge was asked, in RFC 3339.
    pub calibrated_at: String,
    /// The version of KindLM that asked the judge.
    pub kindlm_version: String,
    /// The digests of the judge's instructions, sorted. A judge with other instructions needs another calibration.
    pub prompts: Vec<String>,
    /// The digest of other data that affects the answers.
    ///
    /// The other data is provider settings and local programs. With a different digest, the calibration is not valid.
    /// The field is `None` without other data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub providers: Option<String>,
    /// The name of the file of labels, as the user gave it.
    pub labels: String,
    /// The digest of the file of labels.
    pub labels_digest: String,
    /// The confusion matrix of the verdicts of people and the judge, over all criteria.
    pub counts: Counts,
    /// The confusion matrix of each criterion, sorted by digest.
    ///
    /// Agreement on one criterion does not imply agreement on another criterion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<CriterionCounts>,
    /// The model names that the provider returned and that differ from the requested names; sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<String>,
    /// The fingerprints of the models that answered, as the providers reported them; sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fingerprints: Vec<String>,
    /// The number of labelled outputs without a verdict of the judge. The other counts leave these outputs out.
    pub errored: u64,
    /// The share of outputs that people passed, from 0 to 1.
    pub base_rate: f64,
    /// The share of outputs on which people and the judge agree, from 0 to 1.
    pub agreement: f64,
    /// Cohen's kappa, from -1 to 1; absent if it is undefined.
    ///
    /// Kappa can be computed from the counts, and is stored for human readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kappa: Option<f64>,
    /// The judge's disagreement with itself; absent if the judge was asked about no output twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_noise: Option<OwnNoise>,
    /// The verdicts on the canaries: the outputs that the judge judged twice. The key is the digest of the question.
    ///
    /// A [watch](Watch) asks these questions again, to detect that the judge has changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub canaries: BTreeMap<String, String>,
    /// The source of the canaries for later runs; absent if the file of labels is outside of the suite's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<CanarySource>,
}

/// The file of labels, and the default question for rows without a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CanarySource {
    /// The path of the file, relative to the folder of the suite, with `/`.
    pub file: String,
    /// The lowest label, from 0 to 1, that counts as a pass.
    pub label_threshold: f64,
    /// The criterion for rows without a question; `None` without a criterion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub criteria: Option<String>,
    /// The set of rules for rows without a question; `None` without rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assertions: Option<Value>,
    /// An entry of `expect.assert` for rows without a question; `None` without an entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Value>,
    /// The lowest score that passes a criterion, from 0 to 1; `None` for the default of the check `judge`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_score: Option<f64>,
}

impl CanarySource {
    /// Creates a source without a default question, for a file in which each row has a question.
    ///
    /// `file` is relative to the folder of the suite, with `/`. `label_threshold` is the lowest label that counts as a
    /// pass, from 0 to 1.
    pub fn new(file: impl Into<String>, label_threshold: f64) -> Self {
        Self {
            file: file.into(),
            label_threshold,
            criteria: None,
            assertions: None,
            check: None,
            min_score: None,
        }
    }
}

/// The disagreement of a judge with itself, over outputs that it was asked about twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnNoise {
    /// The number of outputs with two different verdicts.
    pub different: u64,
    /// The number of outputs with two verdicts.
    pub asked: u64,
}

impl OwnNoise {
    /// Returns the upper bound of the share of different verdicts, from 0 to 1.
    ///
    /// This is the limit of the one-sided 95% Wilson interval. Fails if no output has two verdicts.
    pub fn upper(self) -> Result<f64, Undefined> {
        // The two-sided interval of 90% leaves out 5% on each side.
        Ok(Tally::new(self.different, self.asked)?.wilson(Confidence::P90).high)
    }
}

impl Calibration {
    /// Creates a calibration with this confusion matrix and the statistics computed from it. The other fields are
    /// empty.
    pub fn new(
        check: impl Into<String>,
        calibrated_at: impl Into<String>,
        counts: Confusion,
    ) -> Self {
        Self {
            check: check.into(),
            calibrated_at: calibrated_at.into(),
            kindlm_version: String::new(),
            prompts: Vec::new(),
            providers: None,
            labels: String::new(),
            labels_digest: String::new(),
            counts: counts.into(),
            criteria: Vec::new(),
            answered: Vec::new(),
            fingerprints: Vec::new(),
            errored: 0,
            base_rate: counts.base_rate().map_or(0.0, Tally::rate),
            agreement: counts.agreement().map_or(0.0, Tally::rate),
            kappa: counts.kappa(Confidence::P95).ok().map(|it| it.value),
            own_noise: None,
            canaries: BTreeMap::new(),
            source: None,
        }
    }

    /// Creates a [`Watch`] of this calibration, without verdicts and without evidence of a change.
    pub fn new_watch(&self, watched_at: impl Into<String>) -> Watch {
        Watch {
            watched_at: watched_at.into(),
            check: self.check.clone(),
            prompts: self.prompts.clone(),
            calibrated_at: self.calibrated_at.clone(),
            different: 0,
            asked: 0,
            errored: 0,
            evidence: 1.0,
            answered: Vec::new(),
            fingerprints: Vec::new(),
            run: None,
            cost_usd: None,
            known_cost_usd: 0.0,
            tokens: 0,
            alarm: None,
        }
    }

    /// Returns the number of labelled outputs, with or without a verdict of the judge.
    pub fn labelled(&self) -> u64 {
        Confusion::from(self.counts).total().saturating_add(self.errored)
    }

    /// Returns the watches in `all` that belong to this calibration.
    fn own_watches(&self, mut all: Vec<Watch>) -> Vec<Watch> {
        all.retain(|it| {
            (&it.check, &it.prompts, &it.calibrated_at)
                == (&self.check, &self.prompts, &self.calibrated_at)
        });
        all
    }

    /// Returns an error message if a stored number contradicts the counts; else `None`.
    ///
    /// A file with such a number was probably edited by hand.
    fn contradiction(&self) -> Option<String> {
        let counts = Confusion::from(self.counts);
        let rate = |it: Result<Tally, Undefined>| Some(it.map_or(0.0, Tally::rate));
        let kappa = counts.kappa(Confidence::P95).ok();
        let told = [
            ("agreement", Some(self.agreement), rate(counts.agreement())),
            ("baseRate", Some(self.base_rate), rate(counts.base_rate())),
            ("kappa", self.kappa, kappa.map(|it| it.value)),
        ];
        told.into_iter().find_map(|(name, told, counted)| {
            let told = told?;
            let agrees = counted.is_some_and(|it| (told - it).abs() <= 1e-6);
            let words = || format!("`{name}` has {told}, which does not match the counts");
            (!agrees).then(words)
        })
    }
}

/// The confusion matrix of one criterion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CriterionCounts {
    /// The text of the criterion, or the id of the rule.
    pub name: String,
    /// The digest of the criterion's text.
    pub digest: String,
    /// The time when the judge was asked, in RFC 3339.
    pub calibrated_at: String,
    /// The confusion matrix of the verdicts of people and the judge.
    pub counts: Counts,
}

/// The confusion matrix of the verdicts of people and the judge. Each field counts outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Counts {
    /// The number of outputs that people and the judge passed.
    pub both_pass: u64,
    /// The number of outputs that people passed and the judge failed.
    pub only_human: u64,
    /// The number of outputs that people failed and the judge passed.
    pub only_judge: u64,
    /// The number of outputs that people and the judge failed.
    pub both_fail: u64,
}

impl From<Counts> for Confusion {
    fn from(counts: Counts) -> Self {
        let Counts { both_pass, only_human, only_judge, both_fail } = counts;
        Self { both_pass, only_human, only_judge, both_fail }
    }
}

impl From<Confusion> for Counts {
    fn from(confusion: Confusion) -> Self {
        let Confusion { both_pass, only_human, only_judge, both_fail } = confusion;
        Self { both_pass, only_human, only_judge, both_fail }
    }
}

/// The content of a judge's file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JudgeFile {
    judge: Judge,
    /// The calibrations: one for each kind of check and each set of instructions.
    calibrations: Vec<Calibration>,
}

/// The calibrations in a state folder, with one file for each judge.
///
/// The files are `calibrations/<judge>.json`.
#[derive(Clone, Debug)]
pub struct Calibrations {
    folder: PathBuf,
}

impl Calibrations {
    /// Creates a store in the state folder, which need not exist.
    ///
    /// The state folder is usually `.kindlm` next to the config file.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self { folder: state.into().join("calibrations") }
    }

    /// Returns the path of a judge's file.
    ///
    /// The file name consists of the provider and the model. A digest is added if the provider and the model do not
    /// identify the judge.
    pub fn path(&self, judge: &Judge) -> PathBuf {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let first = judge.models.first();
        let full = first.map(|it| format!("{}-{}", it.provider, it.model)).unwrap_or_default();
        let mut name: String = full.chars().map(|c| if plain(c) { c } else { '_' }).collect();
        name.truncate(LONGEST);
        // A provider with a hyphen is ambiguous: `a-b` and `c` would have the same name as `a` and `b-c`.
        let is_one = judge.models.len() == 1 && judge.settings.is_empty();
        let is_clear = name == full
            && !name.is_empty()
            && !name.starts_with('.')
            && first.is_some_and(|it| !it.provider.contains('-'));
        if !(is_one && is_clear) {
            let models = judge.models.iter().map(|it| format!("{}\0{}", it.provider, it.model));
            let mut all = models.collect::<Vec<_>>().join("\0");
            if !judge.settings.is_empty() {
                all = format!("{all}\0{}", Value::Object(judge.settings.clone()));
            }
            name = format!("{}-{}", name.trim_start_matches('.'), Digest::from_content(all));
        }
        self.folder.join(format!("{name}.json"))
    }

    /// Stores the calibration of a judge, and returns the path of the judge's file.
    ///
    /// An earlier calibration with the same check and instructions is replaced.
    ///
    /// The earlier counts for other criteria stay if the same models answered with the same provider settings. These
    /// counts are removed if a [watch](Watch) found that the judge has changed.
    ///
    /// Waits for other processes that store a calibration of this judge, so that no calibration is lost.
    ///
    /// # Errors
    ///
    /// Fails if the earlier calibrations or watches cannot be used, or if the file cannot be locked or written.
    pub fn set(&self, judge: &Judge, mut calibration: Calibration) -> Result<PathBuf, StoreError> {
        let path = self.path(judge);
        fs::create_dir_all(&self.folder)
            .map_err(|err| StoreError::io("make the folder", &self.folder, &err))?;
        let lock = path.with_extension("lock");
        let _lock =
            FileLock::wait(lock.clone()).map_err(|err| StoreError::io("lock", &lock, &err))?;
        let mut known = self.for_judge(judge)?;
        let before = known.iter().filter(|it| {
            (&it.check, &it.prompts, &it.providers, &it.answered)
                == (
                    &calibration.check,
                    &calibration.prompts,
                    &calibration.providers,
                    &calibration.answered,
                )
        });
        let mut unchanged = Vec::new();
        for it in before {
            if self.alarm(judge, it)?.is_none() {
                unchanged.push(it);
            }
        }
        let is_new =
            |it: &&CriterionCounts| calibration.criteria.iter().all(|new| new.digest != it.digest);
        let others: Vec<CriterionCounts> =
            unchanged.iter().flat_map(|it| &it.criteria).filter(is_new).cloned().collect();
        calibration.criteria.extend(others);
        calibration.criteria.sort_by(|a, b| a.digest.cmp(&b.digest));
        known.retain(|it| (&it.check, &it.prompts) != (&calibration.check, &calibration.prompts));
        known.push(calibration);
        known.sort_by(|a, b| (&a.check, &a.prompts).cmp(&(&b.check, &b.prompts)));
        let file = JudgeFile { judge: judge.clone(), calibrations: known };
        let mut text = serde_json::to_value(&file)
            .and_then(|mut it| {
                if let Some(map) = it.as_object_mut() {
                    map.shift_insert(0, "version".to_owned(), VERSION.into());
                }
                serde_json::to_string_pretty(&it)
            })
            .map_err(|err| {
                StoreError::calibration(&path, format!("it cannot be written: {err}"))
            })?;
        text.push('\n');
        atomic::write(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Returns the stored calibrations of a judge; empty if the judge has no file.
    ///
    /// Fails if the file cannot be read, is damaged, has another version, or is about another judge.
    pub fn for_judge(&self, judge: &Judge) -> Result<Vec<Calibration>, StoreError> {
        let path = self.path(judge);
        let Some(file) = read_judge_file(&path)? else { return Ok(Vec::new()) };
        if file.judge != *judge {
            let models =
                file.judge.models.iter().map(|it| format!("`{}:{}`", it.provider, it.model));
            let message = format!("it is about {}", models.collect::<Vec<_>>().join(", "));
            return Err(StoreError::calibration(&path, message));
        }
        Ok(file.calibrations)
    }

    /// Returns the watches of a calibration, oldest first. Fails if the file of watches cannot be read or is damaged.
    pub fn watches(
        &self,
        judge: &Judge,
        calibration: &Calibration,
    ) -> Result<Vec<Watch>, StoreError> {
        Ok(calibration.own_watches(self.watch_log(judge).load()?))
    }

    /// Returns the reason why the judge counts as changed since the calibration; `None` if no watch found a change.
    ///
    /// Fails if the file of watches cannot be read or is damaged.
    pub fn alarm(
        &self,
        judge: &Judge,
        calibration: &Calibration,
    ) -> Result<Option<String>, StoreError> {
        Ok(self.watches(judge, calibration)?.into_iter().find_map(|it| it.alarm))
    }

    /// Appends a watch. `make` creates the watch from the earlier watches of the calibration.
    ///
    /// The file is locked meanwhile, so that several processes append one after the other. Fails if the file cannot be
    /// read or written, or is damaged.
    pub fn add_watch(
        &self,
        judge: &Judge,
        calibration: &Calibration,
        make: impl FnOnce(&[Watch]) -> Watch,
    ) -> Result<Watch, StoreError> {
        self.watch_log(judge).append(|all| make(&calibration.own_watches(all)))
    }

    fn watch_log(&self, judge: &Judge) -> WatchLog {
        WatchLog::new(self.path(judge).with_extension("watches.jsonl"))
    }

    /// Returns the stored calibrations of all judges; empty if the folder does not exist.
    ///
    /// Fails if the folder or a file cannot be read, or if a file is damaged or has another version.
    pub fn all(&self) -> Result<Vec<(Judge, Vec<Calibration>)>, StoreError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(err) if is_absent(&err) => return Ok(Vec::new()),
            Err(err) => return Err(StoreError::io("read", &self.folder, &err)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(|err| StoreError::io("read", &self.folder, &err))?.path();
            paths.extend(path.extension().is_some_and(|it| it == "json").then_some(path));
        }
        paths.sort();
        let mut all = Vec::new();
        for path in paths {
            all.extend(read_judge_file(&path)?.map(|it| (it.judge, it.calibrations)));
        }
        Ok(all)
    }
}

fn read_judge_file(path: &Path) -> Result<Option<JudgeFile>, StoreError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(err) if is_absent(&err) => return Ok(None),
        Err(err) => return Err(StoreError::io("read", path, &err)),
    };
    let value: Value = serde_json::from_slice(&text)
        .map_err(|err| StoreError::calibration(path, err.to_string()))?;
    let version = value.get("version").and_then(Value::as_str).unwrap_or_default();
    if version != VERSION {
        return Err(StoreError::calibration(
            path,
            format!(
                "it has version {version:?}, and this KindLM reads version {VERSION:?}: calibrate again"
            ),
        ));
    }
    let file: JudgeFile = serde_json::from_value(value)
        .map_err(|err| StoreError::calibration(path, err.to_string()))?;
    for it in &file.calibrations {
        if let Some(why) = it.contradiction() {
            let check = &it.check;
            return Err(StoreError::calibration(
                path,
                format!("of `{check}`, {why}: calibrate again"),
            ));
        }
    }
    Ok(Some(file))
}
