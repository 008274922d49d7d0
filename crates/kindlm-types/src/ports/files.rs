//! The interface through which the pure crates read files.

use std::ffi::OsStr;
use std::sync::Arc;

/// Files that a suite refers to, by the path written in it.
///
/// An implementation decides what may be read: the binary's reads below the folder of the config file only.
pub trait Files: Send + Sync {
    /// Reads a text file. `path` is as written, relative to the suite, with `/` between parts.
    fn read(&self, path: &str) -> Result<Arc<str>, FileError>;

    /// Lists the files that a glob pattern matches, as paths that [`read`](Files::read) takes, sorted.
    fn glob(&self, pattern: &str) -> Result<Vec<String>, FileError>;

    /// The files at a path, with a digest of all their contents but `.git` and `.kindlm`. If a limit is exceeded,
    /// none of it is read.
    fn tree(&self, path: &str, _limits: TreeLimits) -> Result<FileTree, FileError> {
        let message = "folders are not read here".to_owned();
        Err(FileError::Other { path: path.to_owned(), message })
    }
}

/// The most that may be in a folder that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLimits {
    /// In all files together.
    pub bytes: u64,
    /// The number of files.
    pub files: u64,
}

impl TreeLimits {
    /// No limits.
    pub const NONE: Self = Self { bytes: u64::MAX, files: u64::MAX };
}

/// A file, or a folder with everything in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTree {
    /// True if it is a folder.
    pub is_folder: bool,
    /// Changes when a name, a content or a mode changes.
    pub digest: String,
}

impl FileTree {
    /// Names that are no part of a folder, wherever they stand in it: git's own files, and those of KindLM.
    pub const LEFT_OUT: [&str; 2] = [".git", ".kindlm"];

    /// True if a name is no part of a folder when it is digested, copied or compared.
    pub fn leaves_out(name: &OsStr) -> bool {
        Self::LEFT_OUT.iter().any(|it| name == *it)
    }
}

/// Why a file could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// There is no such file.
    #[error("`{path}` does not exist (looked in `{folder}`)")]
    NotFound {
        /// As written.
        path: String,
        /// The folder that was searched.
        folder: String,
    },
    /// The path leads outside the suite's folder, by `..`, as an absolute path or through a symbolic link.
    #[error("`{path}` is outside the folder of the config file")]
    Outside {
        /// As written.
        path: String,
    },
    /// The file is larger than allowed.
    #[error("`{path}` has {bytes} bytes, more than the {limit} that are allowed")]
    TooLarge {
        /// As written.
        path: String,
        /// Its size.
        bytes: u64,
        /// The largest size allowed.
        limit: u64,
    },
    /// There is more in the folder than is allowed.
    #[error("`{path}` has more than the {limit} {unit} that are allowed")]
    TooMuch {
        /// As written.
        path: String,
        /// The limit.
        limit: u64,
        /// The counted unit: `files` or `bytes`.
        unit: &'static str,
    },
    /// The file is not UTF-8 text.
    #[error("`{path}` is not UTF-8 text: invalid byte at offset {offset}")]
    NotText {
        /// As written.
        path: String,
        /// The offset of the first invalid byte.
        offset: usize,
    },
    /// Any other message of the system.
    #[error("cannot read `{path}`: {message}")]
    Other {
        /// As written.
        path: String,
        /// The system's message.
        message: String,
    },
}

/// No files at all: for suites built in code.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, path: &str) -> Result<Arc<str>, FileError> {
        Err(FileError::NotFound { path: path.to_owned(), folder: "(no folder)".to_owned() })
    }

    fn glob(&self, _pattern: &str) -> Result<Vec<String>, FileError> {
        Ok(Vec::new())
    }
}
