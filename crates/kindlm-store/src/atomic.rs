//! Writes that are seen whole or not at all.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::StoreError;

/// Writes a file through a temporary one beside it, and makes the folders above it.
///
/// What is no regular file (a device, a pipe) is written to directly: replacing `/dev/null` by a file
/// would please nobody. A symbolic link is followed, so that the file it names is replaced, not the link.
pub fn write(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let failed = |err: &std::io::Error| StoreError::io("write", path, err);
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let existing = fs::metadata(&target).ok();
    if existing.as_ref().is_some_and(|it| !it.is_file()) {
        return write_directly(&target, content).map_err(|err| failed(&err));
    }
    let folder = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(folder).map_err(|err| StoreError::io("make the folder", folder, &err))?;
    let mut file = temporary(folder).map_err(|err| failed(&err))?;
    file.write_all(content).map_err(|err| failed(&err))?;
    if let Some(existing) = existing {
        // Whoever could read the old file can read the new one.
        file.as_file().set_permissions(existing.permissions()).map_err(|err| failed(&err))?;
    }
    file.persist(&target).map_err(|err| failed(&err.error))?;
    Ok(())
}

/// Finds out whether [`write()`] can write there, without leaving anything behind: before what is to be written
/// has cost something.
pub fn check_writable(path: &Path) -> Result<(), StoreError> {
    let failed = |err: &std::io::Error| StoreError::io("write", path, err);
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&target) {
        Ok(it) if it.is_dir() => {
            return Err(failed(&std::io::ErrorKind::IsADirectory.into()));
        }
        // A device or a pipe: opening it may already mean something to the other end.
        Ok(it) if !it.is_file() => return Ok(()),
        _ => {}
    }
    // The folders below the first one that exists will be made.
    let folder = target.ancestors().skip(1).find(|it| it.symlink_metadata().is_ok());
    let folder = folder.unwrap_or(Path::new("."));
    if folder.is_file() {
        return Err(StoreError::io(
            "make the folder",
            folder,
            &std::io::ErrorKind::NotADirectory.into(),
        ));
    }
    temporary(folder).map(drop).map_err(|err| failed(&err))
}

fn write_directly(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    file.write_all(content)?;
    file.flush()
}

/// A temporary file that other users may read as far as the umask lets them: reports are for sharing.
pub(crate) fn temporary(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".kindlm-").suffix(".tmp");
    #[cfg(unix)]
    let permissions = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666);
    #[cfg(unix)]
    builder.permissions(permissions);
    builder.tempfile_in(folder)
}
