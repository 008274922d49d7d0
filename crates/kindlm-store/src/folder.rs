//! Access to the files in one folder.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use globset::GlobBuilder;
use kindlm_types::{FileError, FileTree, Files, TreeLimits};

use crate::io_error::describe_io_error;

/// The maximum size of a file, in bytes: 64 MiB.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// The files in one folder. Files outside the folder cannot be read.
///
/// A path that leads out of the folder is refused, unless [`allow_outside`](Folder::allow_outside) permits it. Such a
/// path leaves the folder with `..`, is absolute on Unix or on Windows, or follows a symbolic link out of the folder.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
    outside: bool,
    /// The requested paths and searched folders, existing or not; shared by clones.
    requested: Arc<Mutex<BTreeSet<PathBuf>>>,
    /// The folders whose whole content was requested; shared by clones.
    trees: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl Folder {
    /// Opens a folder. An empty path opens the working folder. Fails if the path does not exist or cannot be resolved.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, FileError> {
        let written = root.as_ref();
        let path = if written.as_os_str().is_empty() { Path::new(".") } else { written };
        let root = path.canonicalize().map_err(|err| FileError::Other {
            path: path.display().to_string(),
            message: describe_io_error(&err),
        })?;
        Ok(Self { root, outside: false, requested: Arc::default(), trees: Arc::default() })
    }

    /// Allows or forbids reading files outside the folder.
    #[must_use]
    pub fn allow_outside(mut self, allow: bool) -> Self {
        self.outside = allow;
        self
    }

    /// Returns the folder's path, with symbolic links resolved.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the requested files and the searched folders so far.
    ///
    /// The files need not exist.
    pub fn requested_files(&self) -> Vec<PathBuf> {
        self.requested.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Returns the folders whose whole content was requested so far.
    ///
    /// Their symbolic links are resolved.
    pub fn trees(&self) -> Vec<PathBuf> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn note(&self, path: PathBuf) {
        self.requested.lock().unwrap_or_else(PoisonError::into_inner).insert(path);
    }

    /// Returns the path with symbolic links resolved.
    ///
    /// Fails if the path is empty or leads out of the folder, or if the file does not exist.
    fn resolve(&self, path: &str) -> Result<PathBuf, FileError> {
        let other = |message: String| FileError::Other { path: path.to_owned(), message };
        if path.is_empty() {
            return Err(other("the path is empty".to_owned()));
        }
        // Check this before accessing the disk. The error must not reveal whether a file outside the folder exists.
        if !self.outside && leads_out(path) {
            return Err(FileError::Outside { path: path.to_owned() });
        }
        self.note(self.root.join(path));
        let real = self.root.join(path).canonicalize().map_err(|err| match err.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => FileError::NotFound {
                path: path.to_owned(),
                folder: self.root.display().to_string(),
            },
            _ => other(describe_io_error(&err)),
        })?;
        if !self.outside && !real.starts_with(&self.root) {
            return Err(FileError::Outside { path: path.to_owned() });
        }
        Ok(real)
    }
}

impl Files for Folder {
    fn read_file(&self, path: &str) -> Result<Arc<str>, FileError> {
        let bytes = self.read_bytes(path, MAX_FILE_BYTES)?;
        let text = std::str::from_utf8(&bytes).map_err(|err| FileError::NotText {
            path: path.to_owned(),
            offset: err.valid_up_to(),
        })?;
        // Some editors write a byte order mark at the start of UTF-8 files. The mark is not part of the text.
        Ok(Arc::from(text.strip_prefix('\u{feff}').unwrap_or(text)))
    }

    fn read_bytes(&self, path: &str, limit: u64) -> Result<Vec<u8>, FileError> {
        let other = |message: String| FileError::Other { path: path.to_owned(), message };
        let too_large = |bytes| FileError::TooLarge { path: path.to_owned(), bytes, limit };
        let real = self.resolve(path)?;
        let metadata = fs::metadata(&real).map_err(|err| other(describe_io_error(&err)))?;
        if metadata.is_dir() {
            return Err(other("it is a folder".to_owned()));
        }
        // Reading a pipe would block, and a device may never end.
        if !metadata.is_file() {
            return Err(other("it is not a regular file".to_owned()));
        }
        if metadata.len() > limit {
            return Err(too_large(metadata.len()));
        }
        let file = fs::File::open(&real).map_err(|err| other(describe_io_error(&err)))?;
        let mut bytes = Vec::new();
        // The file may have grown since its size was read.
        file.take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|err| other(describe_io_error(&err)))?;
        if bytes.len() as u64 > limit {
            return Err(too_large(bytes.len() as u64));
        }
        Ok(bytes)
    }

    fn tree(&self, path: &str, limits: TreeLimits) -> Result<FileTree, FileError> {
        let real = self.resolve(path)?;
        let failed =
            |err| FileError::Other { path: path.to_owned(), message: describe_io_error(&err) };
        if let Some((limit, unit)) = crate::tree::beyond(&real, limits).map_err(failed)? {
            return Err(FileError::TooMuch { path: path.to_owned(), limit, unit });
        }
        let tree = crate::tree::digest(&real).map_err(failed)?;
        if tree.is_folder {
            self.trees.lock().unwrap_or_else(PoisonError::into_inner).insert(real);
        }
        Ok(tree)
    }

    /// Finds files by a glob pattern.
    ///
    /// - `*`, `?` and `[…]` match within one path component.
    /// - An alternative of `{a,b}` may have several path components.
    /// - `**` matches across up to 64 folders.
    ///
    /// Symbolic links to folders are followed only before the first component with a wildcard. Names with a leading dot
    /// are skipped, unless the pattern has such a name in its first component with a wildcard or in a later component.
    fn glob(&self, pattern: &str) -> Result<Vec<String>, FileError> {
        let other = |message: String| FileError::Other { path: pattern.to_owned(), message };
        if !self.outside && leads_out(pattern) {
            return Err(FileError::Outside { path: pattern.to_owned() });
        }
        let (prefix, rest) = split_literal(pattern);
        let matcher = GlobBuilder::new(&without_separators(rest))
            .literal_separator(true)
            .build()
            .map_err(|err| other(err.kind().to_string()))?
            .compile_matcher();
        let base = self.root.join(prefix);
        self.note(base.clone());
        let real = match base.canonicalize() {
            Ok(real) => real,
            Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            Err(err) => return Err(other(describe_io_error(&err))),
        };
        if !self.outside && !real.starts_with(&self.root) {
            return Err(FileError::Outside { path: pattern.to_owned() });
        }
        let mut walk = Walk {
            hidden: rest.starts_with('.') || rest.contains("/."),
            // Without `**`, no file in a deeper folder can match.
            depth: if rest.contains("**") { 64 } else { rest.matches('/').count() },
            found: Vec::new(),
        };
        walk.folder(&real, "", 0).map_err(|err| other(describe_io_error(&err)))?;
        let mut found: Vec<String> = walk
            .found
            .into_iter()
            .filter(|it| matcher.is_match(it))
            .map(|it| format!("{prefix}{it}"))
            .collect();
        found.sort_unstable();
        Ok(found)
    }
}

/// Returns true if the text of the path leads out of the folder.
///
/// Absolute paths of all systems count, because suites are shared between systems.
fn leads_out(path: &str) -> bool {
    let bytes = path.as_bytes();
    let drive = bytes.len() > 1 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':';
    if drive || path.starts_with(['/', '\\']) || Path::new(path).is_absolute() {
        return true;
    }
    let mut depth = 0_usize;
    for part in Path::new(path).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::Prefix(_) | Component::RootDir => return true,
        }
    }
    false
}

/// Adds `/` to each negated character class, such as `[!a]`. Otherwise the class would match a separator.
fn without_separators(pattern: &str) -> String {
    let mut excluding = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find("[!").or_else(|| rest.find("[^")) {
        // A `-` or `]` at the beginning of a class is literal.
        let own = rest[at + 2..].starts_with(['-', ']']);
        let (before, after) = rest.split_at(at + 2 + usize::from(own));
        excluding.push_str(before);
        excluding.push('/');
        rest = after;
    }
    excluding + rest
}

/// Splits a pattern such as `cases/2026/*.jsonl` into `cases/2026/` and `*.jsonl`.
fn split_literal(pattern: &str) -> (&str, &str) {
    let magic = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    let cut = pattern[..magic].rfind('/').map_or(0, |slash| slash + 1);
    pattern.split_at(cut)
}

struct Walk {
    hidden: bool,
    depth: usize,
    found: Vec<String>,
}

impl Walk {
    fn folder(&mut self, folder: &Path, relative: &str, depth: usize) -> std::io::Result<()> {
        for item in fs::read_dir(folder)? {
            let item = item?;
            // A suite cannot name a file whose name is not Unicode, so skip it.
            let Ok(name) = item.file_name().into_string() else { continue };
            if name.starts_with('.') && !self.hidden {
                continue;
            }
            let path = format!("{relative}{name}");
            let kind = item.file_type()?;
            if kind.is_dir() {
                if depth < self.depth {
                    self.folder(&item.path(), &format!("{path}/"), depth + 1)?;
                }
            } else if kind.is_file() || item.path().is_file() {
                self.found.push(path);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_paths_that_lead_out() {
        for (path, out) in [
            ("a.json", false),
            ("./a.json", false),
            ("a/../b.json", false),
            ("a/b/../../c", false),
            ("..", true),
            ("../a.json", true),
            ("a/../../b.json", true),
            ("/etc/passwd", true),
            ("\\\\server\\share\\x", true),
            ("C:\\x", true),
            ("c:/x", true),
            ("C:x", true),
            ("..a", false),
        ] {
            assert_eq!(leads_out(path), out, "{path}");
        }
    }

    #[test]
    fn splits_a_pattern_at_its_last_plain_folder() {
        for (pattern, parts) in [
            ("*.json", ("", "*.json")),
            ("cases/*.json", ("cases/", "*.json")),
            ("a/b*/c.json", ("a/", "b*/c.json")),
            ("a/b/c.json", ("a/b/", "c.json")),
            ("**/c.json", ("", "**/c.json")),
        ] {
            assert_eq!(split_literal(pattern), parts);
        }
    }
}
