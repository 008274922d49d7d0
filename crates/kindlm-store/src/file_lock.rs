//! Lock files, for files that each write replaces. A lock on such a file itself would be lost with the old file.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// The maximum number of attempts to lock a file that other processes remove.
const ATTEMPTS: u32 = 1_000;

/// A lock file, which is locked and exists until this value is dropped.
#[derive(Debug)]
pub struct FileLock {
    path: PathBuf,
    /// The open lock file. The operating system releases the lock when the process ends.
    held: File,
}

impl FileLock {
    /// Creates and locks a lock file. Returns `None` if another process holds the lock.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created or locked. A file system without locks is accepted.
    pub fn try_new(path: PathBuf) -> io::Result<Option<Self>> {
        match Self::lock_with(path, File::try_lock) {
            Ok(lock) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(err)) => Err(err),
        }
    }

    /// Creates and locks a lock file. Waits while other processes hold the lock. Fails if the file cannot be created or
    /// locked.
    pub(crate) fn wait(path: PathBuf) -> io::Result<Self> {
        let lock = |file: &File| file.lock().map_err(TryLockError::Error);
        Self::lock_with(path, lock).map_err(io::Error::from)
    }

    fn lock_with(
        path: PathBuf,
        lock: impl Fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Self, TryLockError> {
        for _ in 0..ATTEMPTS {
            let open = File::options().append(true).create(true).open(&path);
            let held = open.map_err(TryLockError::Error)?;
            match lock(&held) {
                Err(TryLockError::Error(err)) if err.kind() == io::ErrorKind::Unsupported => {}
                other => other?,
            }
            // The previous holder may have removed the file after it was opened here.
            if is_at(&held, &path) {
                return Ok(Self { path, held });
            }
        }
        let removed = io::Error::other("its lock file is removed repeatedly");
        Err(TryLockError::Error(removed))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // If the removal fails, the file is left behind. It is not locked, so a later process can use it.
        let _ = fs::remove_file(&self.path);
        // Unlock explicitly. A forked child process keeps the file open until it starts its program.
        let _ = self.held.unlock();
    }
}

/// Returns true if an open file is still the file at this path.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let id = |it: &fs::Metadata| (it.dev(), it.ino());
        matches!((file.metadata(), fs::metadata(path)), (Ok(a), Ok(b)) if id(&a) == id(&b))
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn one_holder_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        for _ in 0..2 {
            let first = FileLock::try_new(path.clone()).unwrap().unwrap();
            assert!(FileLock::try_new(path.clone()).unwrap().is_none());
            drop(first);
            assert!(!path.exists());
        }
    }

    #[test]
    fn removed_lock_file_is_not_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let holder = Cell::new(FileLock::try_new(path.clone()).unwrap());
        // The holder removes its file after the file was opened here, and before it is locked here.
        let lock = |file: &File| {
            drop(holder.take());
            file.try_lock()
        };
        let second = FileLock::lock_with(path.clone(), lock).unwrap();
        assert!(FileLock::try_new(path.clone()).unwrap().is_none());
        drop(second);
        assert!(!path.exists());
    }
}
