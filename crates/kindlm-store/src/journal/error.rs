//! The errors of journals.

use std::io;
use std::path::Path;

use super::Holder;
use crate::io_error::describe_io_error;

/// An error in writing or reading a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// An operation of the operating system failed.
    #[error("cannot {action} `{path}`: {message}")]
    Io {
        /// The attempted operation, as a verb.
        action: &'static str,
        /// The file or folder.
        path: String,
        /// The system's error message, with advice for some errors.
        message: String,
    },
    /// One or more finished executions could not be stored.
    #[error(
        "cannot write `{path}`: {message}; {what} is not counted, everything before it is saved and the run can be \
         resumed"
    )]
    NotKept {
        /// The path of the journal.
        path: String,
        /// The description of the data that could not be stored.
        what: String,
        /// The system's error message, with advice for some errors.
        message: String,
    },
    /// The run already has a journal.
    #[error("there is already a journal `{path}`: resume that run, or give this one another id")]
    Exists {
        /// The path of the journal.
        path: String,
    },
    /// The journal does not exist.
    #[error(
        "there is no journal `{path}`, so the run cannot be resumed: name another run, or start a new one"
    )]
    Missing {
        /// The path of the journal.
        path: String,
    },
    /// Another process is writing the journal.
    #[error(
        "{who} is writing `{path}`: wait until that run has ended, or stop it",
        who = Holder { pid: *.pid }
    )]
    Locked {
        /// The path of the journal.
        path: String,
        /// The id of the writing process; `None` if it is unknown.
        pid: Option<u32>,
    },
    /// The journal has a format version that this program does not support.
    #[error(
        "the journal `{path}` has `schemaVersion` {found}, and this KindLM reads {}: use the KindLM that wrote it, or start a new run",
        super::VERSION
    )]
    Version {
        /// The path of the journal.
        path: String,
        /// The version in the journal, as JSON.
        found: String,
    },
    /// The first line is incomplete. No work is lost, because the first line is written before the first request.
    #[error("the journal `{path}` has no first line: {message}; start a new run")]
    Unbegun {
        /// The path of the journal.
        path: String,
        /// The description of the problem.
        message: String,
    },
    /// The first line is damaged, so the journal cannot be used.
    #[error("the first line of the journal `{path}` is damaged: {message}; start a new run")]
    Header {
        /// The path of the journal.
        path: String,
        /// The description of the problem.
        message: String,
    },
    /// A line is damaged, so the execution in this line is lost.
    #[error("line {line} of `{path}` is damaged: {message}")]
    Corrupt {
        /// The path of the journal.
        path: String,
        /// The number of the line, from 1.
        line: u64,
        /// The description of the problem.
        message: String,
    },
}

impl JournalError {
    pub(super) fn io(action: &'static str, path: &Path, err: &io::Error) -> Self {
        Self::Io { action, path: path.display().to_string(), message: describe_io_error(err) }
    }
}
