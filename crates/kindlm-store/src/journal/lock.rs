//! A lock file next to the journal, which allows one writing process at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::{Holder, JournalError};
use crate::io_error::is_absent;

/// The name of the lock file. On some systems, a lock on the journal would block its readers.
const FILE: &str = "lock";

/// A lock that is held until it is dropped or the process ends.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    /// Locks a run's folder, and writes the process id to the lock file.
    ///
    /// Fails if another process holds the lock, or if the lock file cannot be opened or locked.
    ///
    /// A file system without locks is accepted. Run ids are unique, so two processes write the same journal only if a
    /// user resumes a run that is still running.
    pub(super) fn take(folder: &Path) -> Result<Self, JournalError> {
        let path = folder.join(FILE);
        let failed = |err: &io::Error| JournalError::io("write", &path, err);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|err| failed(&err))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let journal = folder.join(super::FILE).display().to_string();
                return Err(JournalError::Locked { path: journal, pid: written(&mut file) });
            }
            Err(TryLockError::Error(err)) if err.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(err)) => return Err(JournalError::io("lock", &path, &err)),
        }
        // On a full disk, the id is missing. The id is only used in an error message. The journal's own writes report
        // the full disk.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self(file))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Remove the process id, because this process releases the lock. Keep the file, because another process may
        // have opened it.
        let _ = self.0.set_len(0);
        // Unlock explicitly. A forked child process keeps the file open until it starts its program, so closing the
        // file here may not release the lock at once.
        let _ = self.0.unlock();
    }
}

impl Holder {
    /// Returns the process that holds the lock of a run's folder.
    ///
    /// Returns `None` if no process holds it, or if the file system has no locks. Fails if the lock file cannot be
    /// opened or locked.
    pub(super) fn find(folder: &Path) -> Result<Option<Self>, JournalError> {
        let path = folder.join(FILE);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(err) if is_absent(&err) => return Ok(None),
            Err(err) => return Err(JournalError::io("read", &path, &err)),
        };
        // Use a shared lock, because several processes may check at once. A killed process leaves its id in the file,
        // but no lock.
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(Self { pid: written(&mut file) })),
            Err(TryLockError::Error(err)) if err.kind() == io::ErrorKind::Unsupported => Ok(None),
            Err(TryLockError::Error(err)) => Err(JournalError::io("lock", &path, &err)),
        }
    }
}

/// Returns the process id in the lock file, if it can be read.
fn written(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
