//! Why a journal could not be written or read.

use std::io;
use std::path::Path;

use super::Holder;
use crate::io_error::words;

/// Why a journal could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
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
    /// A finished execution could not be stored. The journal is as it was before.
    #[error(
        "cannot write `{path}`: {message}; {what} is not counted, everything before it is kept and the run can be resumed"
    )]
    NotKept {
        /// The journal.
        path: String,
        /// The data that should have been written.
        what: String,
        /// The system's message, and the advice if there is one.
        message: String,
    },
    /// The run has a journal already.
    #[error("there is already a journal `{path}`: resume that run, or give this one another id")]
    Exists {
        /// The journal.
        path: String,
    },
    /// The run has no journal.
    #[error(
        "there is no journal `{path}`, so the run cannot be resumed: name another run, or start a new one"
    )]
    Missing {
        /// The journal.
        path: String,
    },
    /// Another process is writing the journal.
    #[error(
        "{who} is writing `{path}`: wait until that run has ended, or stop it",
        who = Holder { pid: *.pid }
    )]
    Locked {
        /// The journal.
        path: String,
        /// The process that writes it, if it recorded its id.
        pid: Option<u32>,
    },
    /// The journal has a version that this program does not support.
    #[error(
        "the journal `{path}` has `schemaVersion` {found}, and this KindLM reads {}: use the KindLM that wrote it, or start a new run",
        super::VERSION
    )]
    Version {
        /// The journal.
        path: String,
        /// The value found, as JSON.
        found: String,
    },
    /// The first line was never written to its end. Nothing is sent before that, so no work is lost.
    #[error("the journal `{path}` has no first line: {message}; start a new run")]
    Unbegun {
        /// The journal.
        path: String,
        /// A description of the data found instead.
        message: String,
    },
    /// The first line is damaged, so that the others cannot be used.
    #[error("the first line of the journal `{path}` is damaged: {message}; start a new run")]
    Header {
        /// The journal.
        path: String,
        /// The problem.
        message: String,
    },
    /// A line is damaged, and with it one execution.
    #[error("line {line} of `{path}` is damaged: {message}")]
    Corrupt {
        /// The journal.
        path: String,
        /// Which line, from 1.
        line: u64,
        /// The problem.
        message: String,
    },
}

impl JournalError {
    pub(super) fn io(action: &'static str, path: &Path, err: &io::Error) -> Self {
        Self::Io { action, path: path.display().to_string(), message: words(err) }
    }
}
