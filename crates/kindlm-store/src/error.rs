//! The errors of the store.

use std::io;
use std::path::Path;

use crate::BaselineError;
use crate::io_error::describe_io_error;
use crate::journal::JournalError;

/// An error in reading or writing stored data.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An operation of the operating system failed.
    #[error("cannot {action} `{path}`: {message}")]
    Io {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The file or folder.
        path: String,
        /// The system's error message, with advice for some errors.
        message: String,
    },
    /// A run id or a label is not a valid file name.
    #[error(
        "`{name}` cannot be a {kind}: use 1 to 100 letters, digits, `.`, `_` and `-`, and begin with a letter or a digit"
    )]
    BadName {
        /// The kind of name, such as a run id.
        kind: &'static str,
        /// The name that was given.
        name: String,
    },
    /// There is no run with this id.
    #[error("there is no run `{id}` in `{folder}`")]
    NoSuchRun {
        /// The id that was given.
        id: String,
        /// The folder that was searched.
        folder: String,
    },
    /// Several runs have an id with this beginning.
    #[error("`{prefix}` is the beginning of {count} run ids: {named}")]
    AmbiguousRun {
        /// The beginning that was given.
        prefix: String,
        /// The number of runs with this prefix.
        count: usize,
        /// The newest runs with this prefix, comma-separated.
        named: String,
    },
    /// There is no baseline with this label.
    #[error("there is no baseline `{label}` in `{folder}`")]
    NoSuchBaseline {
        /// The label that was given.
        label: String,
        /// The folder that was searched.
        folder: String,
    },
    /// The file of a baseline cannot be used.
    #[error("cannot use the baseline `{path}`: {source}")]
    Baseline {
        /// The path of the file.
        path: String,
        /// The problem of the file.
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
        /// The path of the file.
        path: String,
        /// The description of the problem.
        message: String,
    },
}

impl StoreError {
    pub(crate) fn calibration(path: &Path, message: impl Into<String>) -> Self {
        Self::Calibration { path: path.display().to_string(), message: message.into() }
    }

    pub(crate) fn io(action: &'static str, path: &Path, err: &io::Error) -> Self {
        Self::Io { action, path: path.display().to_string(), message: describe_io_error(err) }
    }
}
