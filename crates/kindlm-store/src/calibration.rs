//! How far judges agree with people, kept for gates to ask for.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::digest::sha256;
use crate::error::is_absent;
use crate::{Digest, StoreError, atomic};

/// The version of the file format that this crate writes, and the only one that it reads.
const VERSION: &str = "1";

/// The longest part of a file's name that comes from the names of provider and model.
const LONGEST: usize = 80;

/// What one judge and people said about the same outputs, for one kind of check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Calibration {
    /// When the judge was asked, RFC 3339.
    pub calibrated_at: String,
    /// The version of KindLM that asked.
    pub kindlm_version: String,
    /// Digests of the instructions that the judge had, sorted. With other instructions it is another judge.
    pub prompts: Vec<String>,
    /// The file of people's labels, as it was named.
    pub labels: String,
    /// The digest of that file.
    pub labels_digest: String,
    /// What people and judge said.
    pub counts: Counts,
    /// How many labelled outputs the judge gave no readable answer for. They are in no other number.
    pub errored: u64,
    /// The share of outputs that people passed, from 0 to 1.
    pub base_rate: f64,
    /// The share of outputs on which both said the same, from 0 to 1.
    pub agreement: f64,
    /// Cohen's kappa, from -1 to 1; absent where it does not exist. For readers: who decides computes it from the
    /// counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kappa: Option<f64>,
    /// The lower and the upper end of its 95% interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kappa_interval: Option<[f64; 2]>,
}

/// The four ways in which people and a judge can see an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Counts {
    /// Both said pass.
    pub both_pass: u64,
    /// Only people said pass.
    pub only_human: u64,
    /// Only the judge said pass.
    pub only_judge: u64,
    /// Both said fail.
    pub both_fail: u64,
}

/// Everything that is known about one judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct JudgeFile {
    version: String,
    provider: String,
    model: String,
    /// By the id of the assertion, such as `judge`.
    checks: BTreeMap<String, Calibration>,
}

/// The calibrations below a state folder: `calibrations/<judge>.json`, one file for each judge.
#[derive(Clone, Debug)]
pub struct Calibrations {
    folder: PathBuf,
}

impl Calibrations {
    /// The calibrations below a state folder, normally `.kindlm` beside the config file. It need not exist.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self { folder: state.into().join("calibrations") }
    }

    /// The file of a judge: the names of provider and model, and a digest where they had to be changed for it.
    pub fn path(&self, provider: &str, model: &str) -> PathBuf {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let judge = format!("{provider}-{model}");
        let mut name: String = judge.chars().map(|c| if plain(c) { c } else { '_' }).collect();
        name.truncate(LONGEST);
        // `a-b` and `c` are not `a` and `b-c`.
        let is_clear = name == judge && !provider.contains('-') && !name.starts_with('.');
        if !is_clear {
            let digest = Digest::of(format!("{provider}\0{model}"));
            name = format!("{}-{digest}", name.trim_start_matches('.'));
        }
        self.folder.join(format!("{name}.json"))
    }

    /// Keeps what was found about a judge for one kind of check, in the place of what was known before.
    pub fn set(
        &self,
        provider: &str,
        model: &str,
        check: &str,
        calibration: Calibration,
    ) -> Result<PathBuf, StoreError> {
        let path = self.path(provider, model);
        let mut file = self.read(provider, model)?.unwrap_or_else(|| JudgeFile {
            version: VERSION.to_owned(),
            provider: provider.to_owned(),
            model: model.to_owned(),
            checks: BTreeMap::new(),
        });
        file.checks.insert(check.to_owned(), calibration);
        let mut text = serde_json::to_string_pretty(&file)
            .map_err(|err| corrupt(&path, format!("it cannot be written: {err}")))?;
        text.push('\n');
        atomic::write(&path, text.as_bytes())?;
        Ok(path)
    }

    /// What is known about a judge, by the id of the assertion; empty if nothing is.
    pub fn of(
        &self,
        provider: &str,
        model: &str,
    ) -> Result<BTreeMap<String, Calibration>, StoreError> {
        Ok(self.read(provider, model)?.map(|it| it.checks).unwrap_or_default())
    }

    fn read(&self, provider: &str, model: &str) -> Result<Option<JudgeFile>, StoreError> {
        let path = self.path(provider, model);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(err) if is_absent(&err) => return Ok(None),
            Err(err) => return Err(StoreError::io("read", &path, &err)),
        };
        let file: JudgeFile =
            serde_json::from_slice(&text).map_err(|err| corrupt(&path, err.to_string()))?;
        if file.version != VERSION {
            let message =
                format!("it has version {:?}, and this KindLM reads version \"1\"", file.version);
            return Err(corrupt(&path, message));
        }
        if (file.provider.as_str(), file.model.as_str()) != (provider, model) {
            let message = format!("it is about `{}:{}`", file.provider, file.model);
            return Err(corrupt(&path, message));
        }
        Ok(Some(file))
    }
}

/// Names a judge's instructions: two texts have the same digest only if they are the same.
pub fn prompt_digest(instructions: &str) -> String {
    sha256(instructions)
}

fn corrupt(path: &std::path::Path, message: String) -> StoreError {
    StoreError::Calibration { path: path.display().to_string(), message }
}
