//! The file operations for writing a journal.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// A file that is only written at its end.
pub(super) trait Disk: Send {
    /// Appends the bytes, with one system call if possible.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Truncates the file to `len` bytes.
    fn cut(&mut self, len: u64) -> io::Result<()>;
    /// Waits until all data is on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

impl Disk for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Opens a file in append mode, so that every write goes to the end of the file.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn Disk>> {
    Ok(Box::new(OpenOptions::new().append(true).open(path)?))
}

/// Syncs a folder to the disk, so that a crash of the machine does not lose the names of new files.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    open_folder(folder)?.map_or(Ok(()), |it| it.sync_all())
}

/// Opens a folder for syncing.
///
/// Returns `None` on systems that cannot open folders and need no sync.
pub(super) fn open_folder(folder: &Path) -> io::Result<Option<File>> {
    if cfg!(unix) { File::open(folder).map(Some) } else { Ok(None) }
}
