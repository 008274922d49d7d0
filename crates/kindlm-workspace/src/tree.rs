//! What is below a folder, without following any link.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Names that are no part of a workspace, wherever they stand: git's own files, and those of KindLM.
const LEFT_OUT: [&str; 2] = [".git", ".kindlm"];

/// Whether a name is no part of a workspace.
pub(crate) fn is_left_out(name: &std::ffi::OsStr) -> bool {
    LEFT_OUT.iter().any(|it| name == *it)
}

/// Something below a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A regular file.
    File { bytes: u64, executable: bool },
    /// A symbolic link, and where it leads in its own words.
    Link(PathBuf),
    /// A pipe, a socket or a device.
    Other,
}

/// The most that may be below a folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

/// Why a folder cannot be walked through.
#[derive(Debug)]
pub(crate) enum WalkError {
    Io(PathBuf, io::Error),
    /// There are more files.
    Files(u64),
    /// The files are larger together.
    Bytes(u64),
}

impl WalkError {
    /// In words; `what` names the folder.
    pub(crate) fn words(&self, what: &str) -> String {
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

/// Everything below a folder but folders, by its path from there with `/` between parts.
pub(crate) fn walk(root: &Path, limits: Limits) -> Result<BTreeMap<String, Entry>, WalkError> {
    let mut found = BTreeMap::new();
    let mut bytes_in_all = 0_u64;
    let mut folders = vec![(root.to_path_buf(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let failed = |err| WalkError::Io(folder.clone(), err);
        for item in fs::read_dir(&folder).map_err(failed)? {
            let item = item.map_err(failed)?;
            if is_left_out(&item.file_name()) {
                continue;
            }
            let path = format!("{prefix}{}", item.file_name().to_string_lossy());
            let at = item.path();
            let failed = |err| WalkError::Io(at.clone(), err);
            // Of the link itself, where it is one.
            let metadata = fs::symlink_metadata(&at).map_err(failed)?;
            let kind = metadata.file_type();
            let entry = if kind.is_dir() {
                folders.push((at, format!("{path}/")));
                continue;
            } else if kind.is_symlink() {
                Entry::Link(fs::read_link(&at).map_err(failed)?)
            } else if kind.is_file() {
                bytes_in_all = bytes_in_all.saturating_add(metadata.len());
                Entry::File { bytes: metadata.len(), executable: is_executable(&metadata) }
            } else {
                Entry::Other
            };
            found.insert(path, entry);
            if found.len() as u64 > limits.files {
                return Err(WalkError::Files(limits.files));
            }
            if bytes_in_all > limits.bytes {
                return Err(WalkError::Bytes(limits.bytes));
            }
        }
    }
    Ok(found)
}

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_metadata: &fs::Metadata) -> bool {
    false
}
