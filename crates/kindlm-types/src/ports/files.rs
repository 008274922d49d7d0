//! The interface for reading files, used by crates that do no I/O.

use std::ffi::OsStr;
use std::sync::Arc;

/// The files of a suite, by the path written in the suite.
///
/// An implementation decides which files may be read. The `kindlm` program reads only files below the folder of the
/// config file, unless the user passes `--allow-outside`.
pub trait Files: Send + Sync {
    /// Reads a text file. `path` is relative to the suite, with `/` as separator. Fails if the file cannot be read, or
    /// must not be read.
    fn read_file(&self, path: &str) -> Result<Arc<str>, FileError>;

    /// Reads a file that need not be text. Fails if the file cannot be read, must not be read, or has more bytes than
    /// `limit`.
    ///
    /// The default implementation reads text files only.
    fn read_bytes(&self, path: &str, limit: u64) -> Result<Vec<u8>, FileError> {
        let text = self.read_file(path)?;
        let bytes = text.len() as u64;
        if bytes > limit {
            return Err(FileError::TooLarge { path: path.to_owned(), bytes, limit });
        }
        Ok(text.as_bytes().to_vec())
    }

    /// Lists the files that match a glob pattern, as sorted paths for [`read_file`](Files::read_file). Fails if they
    /// cannot be listed.
    fn glob(&self, pattern: &str) -> Result<Vec<String>, FileError>;

    /// Returns the kind of the file or folder at a path, and a digest of its contents.
    ///
    /// `.git` and `.kindlm` are omitted. Fails if the path cannot be read. Also fails if a limit is exceeded, without
    /// reading the contents. The default implementation always fails.
    fn tree(&self, path: &str, _limits: TreeLimits) -> Result<FileTree, FileError> {
        let message = "folders are not read here".to_owned();
        Err(FileError::Other { path: path.to_owned(), message })
    }
}

/// The limits for reading a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeLimits {
    /// The maximum total size of all files, in bytes.
    pub bytes: u64,
    /// The maximum number of files.
    pub files: u64,
}

impl TreeLimits {
    /// No limits.
    pub const NONE: Self = Self { bytes: u64::MAX, files: u64::MAX };

    /// Creates limits from the maximum total size in bytes and the maximum number of files.
    pub const fn new(bytes: u64, files: u64) -> Self {
        Self { bytes, files }
    }
}

/// A file, or a folder with all its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileTree {
    /// True for a folder.
    pub is_folder: bool,
    /// The digest. It changes if a name, a content, a link target or the permission to execute a file changes.
    pub digest: String,
}

impl FileTree {
    /// Names that are omitted at any depth: the folders of git and KindLM.
    pub const LEFT_OUT: [&str; 2] = [".git", ".kindlm"];

    /// Creates the tree of a file or a folder from its digest.
    pub fn new(is_folder: bool, digest: impl Into<String>) -> Self {
        Self { is_folder, digest: digest.into() }
    }

    /// Returns true if a name is omitted when a folder is digested, copied or compared.
    pub fn leaves_out(name: &OsStr) -> bool {
        Self::LEFT_OUT.iter().any(|it| name == *it)
    }
}

/// The reason why a file could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The file does not exist.
    #[error("`{path}` does not exist (looked in `{folder}`)")]
    NotFound {
        /// The path as written.
        path: String,
        /// The folder that was searched.
        folder: String,
    },
    /// The path leads outside the suite's folder.
    ///
    /// The path leaves the folder with `..`, is absolute, or follows a symbolic link out of the folder.
    #[error("`{path}` is outside the folder of the config file")]
    Outside {
        /// The path as written.
        path: String,
    },
    /// The file is larger than allowed.
    #[error("`{path}` has {bytes} bytes, more than the {limit} that are allowed")]
    TooLarge {
        /// The path as written.
        path: String,
        /// The size of the file, in bytes.
        bytes: u64,
        /// The maximum size, in bytes.
        limit: u64,
    },
    /// The folder has more files or bytes than allowed.
    #[error("`{path}` has more than the {limit} {unit} that are allowed")]
    TooMuch {
        /// The path as written.
        path: String,
        /// The limit.
        limit: u64,
        /// The counted unit: `files` or `bytes`.
        unit: &'static str,
    },
    /// The file is not UTF-8 text.
    #[error("`{path}` is not UTF-8 text: invalid byte at offset {offset}")]
    NotText {
        /// The path as written.
        path: String,
        /// The offset of the first invalid byte.
        offset: usize,
    },
    /// Any other error, such as an error of the operating system or a path that is a folder.
    #[error("cannot read `{path}`: {message}")]
    Other {
        /// The path as written.
        path: String,
        /// The error message.
        message: String,
    },
}

/// No files, for suites that are built in code.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read_file(&self, path: &str) -> Result<Arc<str>, FileError> {
        Err(FileError::NotFound { path: path.to_owned(), folder: "(no folder)".to_owned() })
    }

    fn glob(&self, _pattern: &str) -> Result<Vec<String>, FileError> {
        Ok(Vec::new())
    }
}
