//! The stored baselines of a suite, by label.

use std::fs;
use std::path::PathBuf;

use crate::io_error::is_absent;
use crate::{Baseline, StoreError, atomic, name};

/// The baselines in a state folder, stored as `baselines/<label>.json`.
#[derive(Clone, Debug)]
pub struct Baselines {
    folder: PathBuf,
}

impl Baselines {
    /// Creates a store in the state folder, which need not exist.
    ///
    /// The state folder is usually `.kindlm` next to the config file.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self { folder: state.into().join("baselines") }
    }

    /// Returns the path of a baseline's file.
    ///
    /// Fails if the label is not a valid file name.
    pub fn path(&self, label: &str) -> Result<PathBuf, StoreError> {
        name::check("baseline label", label)?;
        Ok(self.folder.join(format!("{label}.json")))
    }

    /// Stores a baseline, and returns the path of its file.
    ///
    /// A baseline with the same label is replaced. Fails if the label is not a valid file name, or the file cannot be
    /// written.
    pub fn set(&self, label: &str, baseline: &Baseline) -> Result<PathBuf, StoreError> {
        let path = self.path(label)?;
        atomic::write(&path, baseline.to_json().as_bytes())?;
        Ok(path)
    }

    /// Loads the baseline with this label; returns `None` if the baseline does not exist.
    ///
    /// Fails if the label is not a valid file name, or if the file cannot be read, is damaged or has another version.
    pub fn find(&self, label: &str) -> Result<Option<Baseline>, StoreError> {
        match self.load(label) {
            Ok(baseline) => Ok(Some(baseline)),
            Err(StoreError::NoSuchBaseline { .. }) => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// Loads the baseline with this label; a missing baseline is an error.
    ///
    /// Also fails if the label is not a valid file name, or the file cannot be read, is damaged or has another version.
    pub fn load(&self, label: &str) -> Result<Baseline, StoreError> {
        let path = self.path(label)?;
        let text = fs::read(&path).map_err(|err| {
            if is_absent(&err) { self.missing(label) } else { StoreError::io("read", &path, &err) }
        })?;
        Baseline::parse(&String::from_utf8_lossy(&text))
            .map_err(|source| StoreError::Baseline { path: path.display().to_string(), source })
    }

    /// Returns the labels of all baselines, sorted; empty if the folder does not exist. Fails if the folder cannot be
    /// read.
    pub fn list(&self) -> Result<Vec<String>, StoreError> {
        let failed = |err: std::io::Error| StoreError::io("read", &self.folder, &err);
        let items = match fs::read_dir(&self.folder) {
            Ok(items) => items,
            Err(err) if is_absent(&err) => return Ok(Vec::new()),
            Err(err) => return Err(failed(err)),
        };
        let mut labels = Vec::new();
        for item in items {
            let Ok(file) = item.map_err(failed)?.file_name().into_string() else { continue };
            if let Some(label) = file.strip_suffix(".json")
                && name::check("baseline label", label).is_ok()
            {
                labels.push(label.to_owned());
            }
        }
        labels.sort_unstable();
        Ok(labels)
    }

    /// Deletes the baseline with this label; a missing baseline is an error.
    ///
    /// Also fails if the label is not a valid file name, or the file cannot be removed.
    pub fn remove(&self, label: &str) -> Result<(), StoreError> {
        let path = self.path(label)?;
        fs::remove_file(&path).map_err(|err| {
            if is_absent(&err) {
                self.missing(label)
            } else {
                StoreError::io("remove", &path, &err)
            }
        })
    }

    fn missing(&self, label: &str) -> StoreError {
        StoreError::NoSuchBaseline {
            label: label.to_owned(),
            folder: self.folder.display().to_string(),
        }
    }
}
