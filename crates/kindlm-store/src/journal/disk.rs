//! The file below a journal, as far as writing needs it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// A file that grows at its end.
pub(super) trait Disk: Send {
    /// Hands the bytes to the system; with one call, unless the system takes them in parts.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file off.
    fn cut(&mut self, len: u64) -> io::Result<()>;
    /// Waits until everything is on the medium.
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

/// Opens a file of which every write goes to its end, wherever that is by then.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn Disk>> {
    Ok(Box::new(OpenOptions::new().append(true).open(path)?))
}

/// Makes the name of a new file as durable as its content.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    open_folder(folder)?.map_or(Ok(()), |it| it.sync_all())
}

/// A folder whose names can be synced; `None` where folders cannot be opened, and need not be.
pub(super) fn open_folder(folder: &Path) -> io::Result<Option<File>> {
    if cfg!(unix) { File::open(folder).map(Some) } else { Ok(None) }
}
