//! Writes that are seen whole or not at all.

use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use crate::StoreError;

/// A file in the making, which nobody sees before it is whole.
///
/// What is dropped before [`finish`](Draft::finish) leaves nothing behind, and what stood in its place stays.
#[derive(Debug)]
pub struct Draft {
    /// As it is called in messages.
    path: PathBuf,
    target: PathBuf,
    out: Out,
}

#[derive(Debug)]
enum Out {
    /// A temporary file beside, with the permissions that it is to have.
    Beside(BufWriter<tempfile::NamedTempFile>, Option<fs::Permissions>),
    /// What is no regular file.
    Directly(BufWriter<fs::File>),
}

impl Draft {
    /// Begins a file, and makes the folders above it.
    ///
    /// What is no regular file (a device, a pipe) is written to directly: replacing `/dev/null` by a file
    /// would please nobody. A symbolic link is followed, so that the file it names is replaced, not the link.
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
        // Whoever could read the old file can read the new one.
        let permissions = existing.map(|it| it.permissions());
        let out = Out::Beside(BufWriter::with_capacity(1 << 16, file), permissions);
        Ok(Self { path: path.to_owned(), target, out })
    }

    /// Puts the file in its place.
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

    /// Why writing failed, with the place.
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

    // A report comes in pieces of a few bytes: each goes straight into the buffer.
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

/// Writes a file at once, as [`Draft`] does in steps.
pub fn write(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let mut draft = Draft::begin(path)?;
    draft.write_all(content).map_err(|err| draft.failed(&err))?;
    draft.finish()
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
