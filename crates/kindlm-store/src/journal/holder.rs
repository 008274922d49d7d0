//! The process that writes a journal.

use std::fmt;

/// The process that writes a journal.
///
/// The display text is `process 4711`, or `another process` if the id is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The process id; `None` if it is unknown.
    pub pid: Option<u32>,
}

impl Holder {
    /// Creates a holder with a process id; `None` if the id is unknown.
    pub fn new(pid: Option<u32>) -> Self {
        Self { pid }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}"),
            None => f.write_str("another process"),
        }
    }
}
