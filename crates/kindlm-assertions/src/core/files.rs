//! The text files that checks refer to. Each file is read once per suite.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kindlm_types::{FileError, Files, Problem, ProblemKind};

/// The texts read so far, by path, so that a second compilation needs no files.
#[derive(Debug, Default)]
pub(crate) struct TextFiles(Mutex<HashMap<String, Arc<str>>>);

impl TextFiles {
    /// Returns the text of a file that the configuration names. Reads it once per suite.
    ///
    /// A file that cannot be read is a problem.
    pub(crate) fn load_text(&self, path: &str, files: &dyn Files) -> Result<Arc<str>, Problem> {
        // The map is consistent even if a panic elsewhere poisoned the lock.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = known.get(path) {
            return Ok(Arc::clone(text));
        }
        let text = files.read_file(path).map_err(|err| {
            let outside = matches!(err, FileError::Outside { .. });
            Problem::new("", err.to_string())
                .with_kind(ProblemKind::File { outside })
                .with_help("the path is relative to the folder of the config file")
        })?;
        known.insert(path.to_owned(), Arc::clone(&text));
        Ok(text)
    }
}
