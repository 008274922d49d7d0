//! Atomic writes: a reader sees the complete old file or the complete new file.

use std::fs::{self, TryLockError};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use crate::StoreError;

/// A pending write of a whole file. [`finish`](Draft::finish) replaces the old file with the new content.
///
/// If a draft is dropped before `finish`, the old file stays and no other file is left behind. A device or a pipe is
/// written directly.
#[derive(Debug)]
pub struct Draft {
    /// The path for error messages.
    path: PathBuf,
    target: PathBuf,
    out: Out,
}

#[derive(Debug)]
enum Out {
    /// A temporary file next to the target, and the permissions of the old file; `None` without an old file.
    Beside(BufWriter<tempfile::NamedTempFile>, Option<fs::Permissions>),
    /// The target, which is not a regular file and is written directly.
    Directly(BufWriter<fs::File>),
}

impl Draft {
    /// Creates a draft, and creates the missing parent folders.
    ///
    /// A device or a pipe is written directly, because `/dev/null` must not become a regular file. A symbolic link to
    /// an existing file is followed: the linked file is replaced, not the link.
    ///
    /// Fails if a folder or the temporary file cannot be created, or if a device or pipe cannot be opened.
    pub fn begin(path: &Path) -> Result<Self, StoreError> {
        let failed = |err: &io::Error| StoreError::io("write", path, err);
        let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let existing = fs::metadata(&target).ok();
        if existing.as_ref().is_some_and(|it| !it.is_file()) {
            let file = fs::OpenOptions::new().write(true).open(&target);
            let out =
                Out::Directly(BufWriter::with_capacity(1 << 16, file.map_err(|err| failed(&err))?));
            return Ok(Self { path: path.to_owned(), target, out });
        }
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(folder)
            .map_err(|err| StoreError::io("make the folder", folder, &err))?;
        let file = temporary(folder).map_err(|err| failed(&err))?;
        let permissions = existing.map(|it| it.permissions());
        let out = Out::Beside(BufWriter::with_capacity(1 << 16, file), permissions);
        Ok(Self { path: path.to_owned(), target, out })
    }

    /// Writes the buffered content, and moves a temporary file to its target.
    ///
    /// After an error, an old file at the target stays.
    pub fn finish(self) -> Result<(), StoreError> {
        let Self { path, target, out } = self;
        let finished = match out {
            Out::Directly(mut file) => file.flush(),
            Out::Beside(file, permissions) => {
                file.into_inner().map_err(io::IntoInnerError::into_error).and_then(|file| {
                    if let Some(permissions) = permissions {
                        file.as_file().set_permissions(permissions)?;
                    }
                    file.persist(&target).map(drop).map_err(|err| err.error)
                })
            }
        };
        finished.map_err(|err| StoreError::io("write", &path, &err))
    }

    /// Converts a write error to a store error with the path of the file.
    pub fn failed(&self, err: &io::Error) -> StoreError {
        StoreError::io("write", &self.path, err)
    }
}

impl io::Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Out::Beside(out, _) => out.write(bytes),
            Out::Directly(out) => out.write(bytes),
        }
    }

    // A report is written in pieces of a few bytes, so pass each piece directly to the buffer.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.out {
            Out::Beside(out, _) => out.write_all(bytes),
            Out::Directly(out) => out.write_all(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::Beside(out, _) => out.flush(),
            Out::Directly(out) => out.flush(),
        }
    }
}

/// Writes a file with this content, atomically like [`Draft`]. Fails if the file cannot be written.
pub fn write(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let mut draft = Draft::begin(path)?;
    draft.write_all(content).map_err(|err| draft.failed(&err))?;
    draft.finish()
}

/// Checks that [`write()`] can write to a path, and fails if not. No file is left behind.
///
/// Callers check the path before they send paid requests.
pub fn check_writable(path: &Path) -> Result<(), StoreError> {
    let failed = |err: &std::io::Error| StoreError::io("write", path, err);
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match fs::metadata(&target) {
        Ok(it) if it.is_dir() => {
            return Err(failed(&std::io::ErrorKind::IsADirectory.into()));
        }
        // Skip a device or a pipe, because opening it may already affect its reader.
        Ok(it) if !it.is_file() => return Ok(()),
        _ => {}
    }
    // `write` creates missing folders, so check the first existing parent folder.
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

/// The prefix and the suffix of temporary file names.
const TEMPORARY: (&str, &str) = (".kindlm-", ".tmp");

/// The maximum number of attempts to create and lock a temporary file.
const ATTEMPTS: u32 = 16;

/// Creates a locked temporary file.
///
/// Other users may read the file if the umask allows it, because reports are shared.
///
/// The lock is held while the file is open, so that [`remove_abandoned`] can detect files of killed processes.
pub(crate) fn temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY.0).suffix(TEMPORARY.1);
    #[cfg(unix)]
    let permissions = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666);
    #[cfg(unix)]
    builder.permissions(permissions);
    for _ in 0..ATTEMPTS {
        let file = builder.tempfile_in(folder)?;
        match file.as_file().try_lock() {
            Ok(()) if file.path().exists() => return Ok(file),
            // Another process removed the file before it was locked, or has locked the file to remove it.
            Ok(()) | Err(TryLockError::WouldBlock) => {}
            // On file systems without locks, no process removes temporary files.
            Err(TryLockError::Error(_)) => return Ok(file),
        }
    }
    Err(io::Error::other("its temporary file is removed repeatedly"))
}

/// Removes the temporary files of killed processes from a folder.
///
/// A file that is locked belongs to a running process and stays. A file that cannot be removed stays too.
pub fn remove_abandoned(folder: &Path) {
    let Ok(items) = fs::read_dir(folder) else { return };
    for item in items.flatten() {
        let name = item.file_name();
        let is_temporary = name
            .to_str()
            .is_some_and(|it| it.starts_with(TEMPORARY.0) && it.ends_with(TEMPORARY.1));
        // Opening a pipe would block, and a symbolic link may lead to any file.
        if !is_temporary || !item.file_type().is_ok_and(|it| it.is_file()) {
            continue;
        }
        let path = item.path();
        if let Ok(file) = fs::File::open(&path)
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_the_files_of_killed_writers_only() {
        let folder = tempfile::tempdir().unwrap();
        let alive = temporary(folder.path()).unwrap();
        let abandoned = folder.path().join(".kindlm-x1Y2z3.tmp");
        let others = ["kindlm-x.tmp", ".kindlm-x", ".other.tmp"].map(|it| folder.path().join(it));
        fs::write(&abandoned, "half a report").unwrap();
        for other in &others {
            fs::write(other, "x").unwrap();
        }
        fs::create_dir(folder.path().join(".kindlm-folder.tmp")).unwrap();
        remove_abandoned(folder.path());
        assert!(!abandoned.exists());
        assert!(alive.path().exists() && others.iter().all(|it| it.exists()));
        let target = folder.path().join("report.json");
        alive.persist(&target).unwrap();
        assert!(target.exists());
        remove_abandoned(&folder.path().join("none"));
    }

    #[cfg(unix)]
    #[test]
    fn follows_no_link_and_waits_for_no_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("real"), "x").unwrap();
        std::os::unix::fs::symlink("real", at(".kindlm-link.tmp")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(at(".kindlm-pipe.tmp")).status();
        assert!(made.unwrap().success());
        remove_abandoned(folder.path());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}
