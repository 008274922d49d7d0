//! Lists the content of a folder without following links.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use cap_std::fs::Metadata;
use kindlm_types::{FileTree, WorkspaceSpec};

use crate::inside::Inside;

/// The entries of a folder at any depth, except folders, by relative path. The separator of the paths is `/`.
pub(crate) type Tree = BTreeMap<String, FolderEntry>;

/// An entry in a folder. On Unix, the stamp shows a write even if the file times were reset.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FolderEntry {
    pub(crate) entry: Entry,
    stamp: Stamp,
}

/// An entry in a folder, other than a folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A regular file.
    File { bytes: u64, executable: bool },
    /// A symbolic link to this path, as written in the link.
    Link(PathBuf),
    /// A pipe, a socket or a device.
    Other,
}

/// The limits for the content of a folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The maximum total size of the regular files, in bytes.
    pub(crate) bytes: u64,
    /// The maximum number of entries, without the folders.
    pub(crate) files: u64,
}

impl Limits {
    /// No limits.
    pub(crate) const NONE: Self = Self { bytes: u64::MAX, files: u64::MAX };

    /// Returns the limits of a workspace.
    pub(crate) fn from_spec(spec: &WorkspaceSpec) -> Self {
        Self { bytes: spec.max_bytes, files: spec.max_files }
    }
}

/// A counter of files and bytes that checks the limits.
#[derive(Debug)]
pub(crate) struct Count {
    limits: Limits,
    bytes: u64,
    files: u64,
}

impl Count {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, bytes: 0, files: 0 }
    }

    /// Counts a file of `bytes` bytes. Fails if a limit is exceeded.
    pub(crate) fn add(&mut self, bytes: u64) -> Result<(), WalkError> {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.files > self.limits.files {
            return Err(WalkError::Files(self.limits.files));
        }
        if self.bytes > self.limits.bytes {
            return Err(WalkError::Bytes(self.limits.bytes));
        }
        Ok(())
    }
}

/// The error of listing a folder.
#[derive(Debug)]
pub(crate) enum WalkError {
    /// The entry at this path cannot be read.
    Io(PathBuf, io::Error),
    /// The number of files exceeds this limit.
    Files(u64),
    /// The total size exceeds this limit, in bytes.
    Bytes(u64),
}

impl WalkError {
    /// Returns the error message; `what` names the folder.
    pub(crate) fn describe(&self, what: &str) -> String {
        match self {
            Self::Io(path, err) => format!("cannot read `{}` in {what}: {err}", path.display()),
            Self::Files(limit) => format!(
                "{what} has more than the {limit} files that are allowed: raise `workspace.maxFiles`"
            ),
            Self::Bytes(limit) => format!(
                "{what} has more than the {limit} bytes that are allowed: raise `workspace.maxBytes`"
            ),
        }
    }
}

/// Lists the entries of a folder at any depth, except folders, `.git` and `.kindlm`. Fails if a limit is exceeded, or
/// if an entry cannot be read.
pub(crate) fn walk(root: &Inside, limits: Limits) -> Result<Tree, WalkError> {
    let mut tree = Tree::new();
    let mut count = Count::new(limits);
    let mut folders = vec![(PathBuf::new(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let failed = |err| WalkError::Io(folder.clone(), err);
        for item in root.list(&folder).map_err(failed)? {
            let name = item.map_err(failed)?.file_name();
            if FileTree::leaves_out(&name) {
                continue;
            }
            let path = format!("{prefix}{}", name.to_string_lossy());
            let at = folder.join(name);
            let failed = |err| WalkError::Io(at.clone(), err);
            // For a link, this is the metadata of the link, not of its target.
            let metadata = root.entry(&at).map_err(failed)?;
            let kind = metadata.file_type();
            let entry = if kind.is_dir() {
                folders.push((at, format!("{path}/")));
                continue;
            } else if kind.is_symlink() {
                Entry::Link(root.link(&at).map_err(failed)?)
            } else if kind.is_file() {
                Entry::File { bytes: metadata.len(), executable: is_executable(&metadata) }
            } else {
                Entry::Other
            };
            count.add(if kind.is_file() { metadata.len() } else { 0 })?;
            tree.insert(path, FolderEntry { entry, stamp: stamp(&metadata) });
        }
    }
    Ok(tree)
}

/// Returns a path that differs between two listings; `None` if there is no such path.
///
/// Paths for which `ignore` returns true may differ.
pub(crate) fn written_at<'a>(
    before: &'a Tree,
    now: &'a Tree,
    ignore: impl Fn(&str) -> bool,
) -> Option<&'a str> {
    let differs = |path: &&String| before.get(*path) != now.get(*path) && !ignore(path);
    before.keys().chain(now.keys()).find(differs).map(String::as_str)
}

/// The inode and the change time. Programs cannot set the change time.
#[cfg(unix)]
type Stamp = (u64, i64, i64);

#[cfg(unix)]
fn stamp(metadata: &Metadata) -> Stamp {
    use cap_std::fs::MetadataExt;
    (metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

/// The modification time, because this system has no change time.
#[cfg(not(unix))]
type Stamp = Option<cap_std::time::SystemTime>;

#[cfg(not(unix))]
fn stamp(metadata: &Metadata) -> Stamp {
    metadata.modified().ok()
}

#[cfg(unix)]
fn is_executable(metadata: &Metadata) -> bool {
    use cap_std::fs::MetadataExt;
    metadata.mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_metadata: &Metadata) -> bool {
    false
}
