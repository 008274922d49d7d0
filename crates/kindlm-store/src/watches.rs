//! The watches of calibrated judges. A watch asks a judge again, to detect that the judge has changed. Each watch is
//! one line of a file next to the judge's calibrations.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::io_error::is_absent;

/// A repeated measurement of a calibrated judge: the judge was asked again about outputs of its calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Watch {
    /// The time of the watch, in RFC 3339.
    pub watched_at: String,
    /// The id of the assertion, such as `judge`.
    pub check: String,
    /// The digests of the judge's instructions, sorted.
    pub prompts: Vec<String>,
    /// The time of the calibration, in RFC 3339. A new calibration begins without watches.
    pub calibrated_at: String,
    /// The number of outputs with another verdict than in the calibration.
    pub different: u64,
    /// The number of outputs with a verdict.
    pub asked: u64,
    /// The number of outputs without a readable verdict, which are not evidence.
    pub errored: u64,
    /// The evidence that the judge has changed, over this watch and all earlier watches, as an e-value. 1 is no
    /// evidence.
    pub evidence: f64,
    /// The model names that the provider returned and that differ from the requested names; sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<String>,
    /// The fingerprints of the models that answered, as the providers reported them; sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fingerprints: Vec<String>,
    /// The id of the run that asked about the outputs; absent for `kindlm calibrate --watch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The cost in US dollars; absent if a price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The known part of the cost in US dollars.
    #[serde(default)]
    pub known_cost_usd: f64,
    /// The tokens that the judge used.
    #[serde(default)]
    pub tokens: u64,
    /// The reason why the judge counts as changed; absent if the judge does not count as changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm: Option<String>,
}

/// The file with the watches of a judge, over all its calibrations.
pub(crate) struct WatchLog {
    path: PathBuf,
}

impl WatchLog {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Returns all watches, oldest first; no watches if the file does not exist. Fails if the file cannot be read or is
    /// damaged.
    pub(crate) fn load(&self) -> Result<Vec<Watch>, StoreError> {
        match fs::read_to_string(&self.path) {
            Ok(text) => self.parse(&text),
            Err(err) if is_absent(&err) => Ok(Vec::new()),
            Err(err) => Err(StoreError::io("read", &self.path, &err)),
        }
    }

    /// Appends a watch, which `make` creates from all earlier watches.
    ///
    /// Waits for other processes that append to the file. Fails if the file cannot be read or written, or is damaged.
    pub(crate) fn append(
        &self,
        make: impl FnOnce(Vec<Watch>) -> Watch,
    ) -> Result<Watch, StoreError> {
        let failed = |err: &io::Error| StoreError::io("write", &self.path, err);
        let mut file = open_locked(&self.path).map_err(|err| failed(&err))?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|err| failed(&err))?;
        let watch = make(self.parse(&text)?);
        let line = serde_json::to_string(&watch).map_err(|err| {
            StoreError::calibration(&self.path, format!("it cannot be written: {err}"))
        })?;
        let start = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let written =
            file.write_all(format!("{start}{line}\n").as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|err| {
            // Remove an incomplete line, because it would make the whole file unreadable. Report the first error.
            let _ = file.set_len(text.len() as u64);
            failed(&err)
        })?;
        Ok(watch)
    }

    /// Parses the lines of the file. A line that cannot be read is an error, because it may hold an alarm.
    fn parse(&self, text: &str) -> Result<Vec<Watch>, StoreError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let watches = lines.map(|(at, line)| {
            serde_json::from_str(line).map_err(|err| {
                StoreError::calibration(&self.path, format!("line {}: {err}", at + 1))
            })
        });
        watches.collect()
    }
}

/// Opens a file for reading and appending. The lock is held until the file is dropped.
fn open_locked(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    match file.lock() {
        // A file system without locks is accepted, because a second process at the same time is rare.
        Err(err) if err.kind() != io::ErrorKind::Unsupported => Err(err),
        _ => Ok(file),
    }
}
