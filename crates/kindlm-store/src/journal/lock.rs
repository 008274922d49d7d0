//! One process at a time: a lock on a file beside the journal.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::{Holder, JournalError};
use crate::io_error::is_absent;

/// Beside the journal and not the journal itself: where locks bind, readers of it would be locked out too.
const FILE: &str = "lock";

/// Holds the lock until it is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Lock {
    /// Takes the lock of a run's folder, and says there who has it.
    ///
    /// A file system without locks is no obstacle: run ids are unique, so two processes meet only when a person
    /// resumes a run that is still running.
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
        // A full disk is reported by the journal's own writes; the number is only a courtesy.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self(file))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // So that a process that has ended is not named. The file stays: another process may have it open by now.
        let _ = self.0.set_len(0);
        // A child process that another thread has just forked holds the file open until it runs its program. Closing the
        // file would not end the lock before that.
        let _ = self.0.unlock();
    }
}

impl Holder {
    /// The process that holds the lock of a run's folder; `None` if it is free. The lock is not taken.
    pub(super) fn of(folder: &Path) -> Result<Option<Self>, JournalError> {
        let path = folder.join(FILE);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(err) if is_absent(&err) => return Ok(None),
            Err(err) => return Err(JournalError::io("read", &path, &err)),
        };
        // Several processes may look at once. The number that a killed process has written means nothing: its lock is
        // gone.
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => Ok(Some(Self { pid: written(&mut file) })),
            Err(TryLockError::Error(err)) if err.kind() == io::ErrorKind::Unsupported => Ok(None),
            Err(TryLockError::Error(err)) => Err(JournalError::io("lock", &path, &err)),
        }
    }
}

/// The process that says it has the lock.
fn written(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
