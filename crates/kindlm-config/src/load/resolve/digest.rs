//! Digests of tests, which show whether a test has changed since an earlier run.
//!
//! A digest covers the prompt or command of a test, its variables and its expectations. It leaves out tags, models,
//! repeats and time limits, because they do not change what the test asks or expects. Files count by their content.
//! Programs also count by the content of the files that they import.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kindlm_engine::{Digest, Fingerprint};
use kindlm_types::{FileError, FileTree, Files, TreeLimits};
use serde_json::Value;

use super::Resolved;
use crate::imports::{self, Programs};

/// A wrapper of [`Files`] that records the digest of each file that is read.
pub(in crate::load) struct Referred<'a> {
    files: &'a dyn Files,
    digests: Mutex<HashMap<String, Fingerprint>>,
    programs: Programs<'a>,
    /// The digests of programs, including all their imports.
    whole: Mutex<HashMap<String, Fingerprint>>,
}

impl<'a> Referred<'a> {
    pub(in crate::load) fn new(files: &'a dyn Files) -> Self {
        let programs = Programs::new(files);
        Self { files, digests: Mutex::default(), programs, whole: Mutex::default() }
    }

    /// Returns the digest of a file that was read before. The path must have the same spelling as in that read.
    ///
    /// The digest of a program includes its imports. Returns `None` for other paths.
    fn digest(&self, path: &str) -> Option<Fingerprint> {
        let digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        let own = digests.get(path).copied()?;
        drop(digests);
        if !imports::is_program(path) {
            return Some(own);
        }
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        Some(*whole.entry(path.to_owned()).or_insert_with(|| self.with_imports(path, own)))
    }

    /// Returns the digest of the programs that a command line names, and of their imports.
    ///
    /// Returns `None` if the command line names no file that can be read.
    pub(in crate::load) fn of_command(&self, line: &str) -> Option<Fingerprint> {
        self.programs.of_command(line)
    }

    /// Combines the digests of a program and of its imports. Without imports, the digest stays the same.
    fn with_imports(&self, path: &str, own: Fingerprint) -> Fingerprint {
        let parts = self.programs.find_parts(path);
        if parts.len() <= 1 {
            return own;
        }
        let digest = Digest::default().fingerprint(own);
        let add = |digest: Digest, (path, part): (&String, &Fingerprint)| {
            digest.text(path).fingerprint(*part)
        };
        parts.iter().fold(digest, add).finish()
    }
}

impl Files for Referred<'_> {
    fn read_file(&self, path: &str) -> Result<Arc<str>, FileError> {
        let text = self.files.read_file(path)?;
        let digest = Digest::default().text(&text).finish();
        self.digests.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), digest);
        Ok(text)
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, FileError> {
        self.files.glob(pattern)
    }

    fn tree(&self, path: &str, limits: TreeLimits) -> Result<FileTree, FileError> {
        self.files.tree(path, limits)
    }
}

impl Resolved<'_> {
    /// Returns the digest of a value and of the files that it names.
    pub(in crate::load) fn digest_with_files(&self, value: &Value) -> Fingerprint {
        self.files_in(value, Digest::default().value(value)).finish()
    }

    /// Returns the digest of the file in a text: a path, or `file://path:function`.
    ///
    /// Returns `None` if the text names no file that was read.
    fn file_of(&self, text: &str) -> Option<Fingerprint> {
        let Some(path) = text.strip_prefix("file://") else {
            return self.around.referred.digest(text);
        };
        let path = path.trim_start_matches("./");
        let ends = path.match_indices(':').map(|(index, _)| index);
        let mut paths = ends.chain([path.len()]).filter_map(|end| path.get(..end));
        paths.find_map(|it| self.around.referred.digest(it))
    }

    /// Adds the digests of the files that a value names, such as a `schemaFile`.
    ///
    /// If the value refers to a template, adds all templates.
    fn files_in(&self, value: &Value, digest: Digest) -> Digest {
        let digest = self.files_of(value, digest);
        if !refers(value) {
            return digest;
        }
        // Templates may refer to each other, so the digest covers all templates.
        let templates = Value::Object(self.setup.assertion_templates.clone());
        self.files_of(&templates, digest.value(&templates))
    }

    /// Adds the digests of the files that a value names. Without files, the digest stays the same.
    fn files_of(&self, value: &Value, digest: Digest) -> Digest {
        self.files_named(value).into_iter().fold(digest, Digest::fingerprint)
    }

    /// Returns the digests of the files that a value names.
    pub(in crate::load) fn files_named(&self, value: &Value) -> Vec<Fingerprint> {
        match value {
            Value::String(text) => self.file_of(text).into_iter().collect(),
            Value::Array(items) => items.iter().flat_map(|it| self.files_named(it)).collect(),
            Value::Object(entries) => {
                let mut sorted: Vec<(&String, &Value)> = entries.iter().collect();
                sorted.sort_unstable_by_key(|(key, _)| *key);
                sorted.into_iter().flat_map(|(_, it)| self.files_named(it)).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
        }
    }
}

/// Returns true if a value contains a reference to a template (`$ref`).
fn refers(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(refers),
        Value::Object(entries) => entries.contains_key("$ref") || entries.values().any(refers),
        _ => false,
    }
}
