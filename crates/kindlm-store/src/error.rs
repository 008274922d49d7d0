//! The reasons why data could not be stored or found.

use std::io;
use std::path::Path;

use crate::BaselineError;
use crate::io_error::words;
use crate::journal::JournalError;

/// The reason why data could not be stored or found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused.
    #[error("cannot {action} `{path}`: {message}")]
    Io {
        /// The attempted action, as a verb.
        action: &'static str,
        /// On which file or folder.
        path: String,
        /// The system's message, and the advice if there is one.
        message: String,
    },
    /// A run id or a label that cannot be the name of a file.
    #[error(
        "`{name}` cannot be a {kind}: use 1 to 100 letters, digits, `.`, `_` and `-`, and begin with a letter or a digit"
    )]
    BadName {
        /// The kind of thing that it should name.
        kind: &'static str,
        /// As given.
        name: String,
    },
    /// There is no run with that id.
    #[error("there is no run `{id}` in `{folder}`")]
    NoSuchRun {
        /// As given.
        id: String,
        /// The folder that was searched.
        folder: String,
    },
    /// There is no baseline with that label.
    #[error("there is no baseline `{label}` in `{folder}`")]
    NoSuchBaseline {
        /// As given.
        label: String,
        /// The folder that was searched.
        folder: String,
    },
    /// The file of a baseline cannot be used.
    #[error("cannot use the baseline `{path}`: {source}")]
    Baseline {
        /// The file.
        path: String,
        /// The problem.
        source: BaselineError,
    },
    /// The journal of a run cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The file of a judge's calibrations cannot be used.
    #[error(
        "cannot use the calibration `{path}`: {message}; remove it, or restore it from version control"
    )]
    Calibration {
        /// The file.
        path: String,
        /// The problem.
        message: String,
    },
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path, err: &io::Error) -> Self {
        Self::Io { action, path: path.display().to_string(), message: words(err) }
    }
}
