//! Places in the files of a suite.

use std::fmt;
use std::sync::Arc;

/// The place of a test or a check in a file of the suite.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourcePlace {
    /// The path of the file. It is relative to the working folder if the path of the config file is relative.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column in Unicode scalar values, from 1.
    pub column: u32,
}

impl SourcePlace {
    /// Creates a place. Lines and columns begin at 1.
    pub fn new(file: impl Into<Arc<str>>, line: u32, column: u32) -> Self {
        Self { file: file.into(), line, column }
    }
}

/// Prints `file:line`.
impl fmt::Display for SourcePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
