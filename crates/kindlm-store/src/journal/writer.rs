//! Writes a journal. When `append` has returned, the execution is stored even if the process is killed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::mem::take;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kindlm_types::ExecutionResult;
use kindlm_wire::v1;

use super::disk::{self, Disk};
use super::lock::Lock;
use super::seal::Seal;
use super::{EntryLocation, FILE, Header, Index, Journal, JournalError, Reader};
use crate::atomic;
use crate::io_error::describe_io_error;

/// The guarantee that an appended execution still exists after the process ends or the machine crashes.
///
/// | | the process ends | the machine crashes |
/// |---|---|---|
/// | `Flush` | exists | may be lost if it was appended in the last seconds; the file may end with an incomplete line |
/// | `Sync` | exists | exists, if the disk honors the sync |
///
/// `cargo bench -p kindlm-store` measures the time. For a line of 2 KiB, `Flush` takes 15 µs and `Sync` takes 4 ms on a
/// virtual machine with two cores.
///
/// If many executions finish at once, [`append_all`](JournalWriter::append_all) waits for the disk only once.
/// Otherwise, use `Flush` with a regular [`sync`](JournalWriter::sync). Then a crash loses only the executions after
/// the last sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The operating system has accepted the line before `append` returns.
    #[default]
    Flush,
    /// The line is on the disk before `append` returns.
    Sync,
}

/// The writer of a run's journal. Tasks and threads may share it.
///
/// While the writer exists, no other process can append to the journal.
pub struct JournalWriter {
    path: PathBuf,
    durability: Durability,
    seal: Seal,
    state: Mutex<State>,
    on_disk: OnDisk,
    _lock: Lock,
}

/// The files that [`sync`](JournalWriter::sync) writes to the disk.
///
/// The files are opened together with the journal, because the process may reach its limit of open files later.
struct OnDisk {
    file: File,
    /// The parent folders of the journal; empty after the first sync.
    folders: Mutex<Vec<File>>,
}

impl OnDisk {
    fn open(path: &Path) -> io::Result<Self> {
        let folders = path.ancestors().skip(1).take(2).map(disk::open_folder);
        let folders = folders.filter_map(io::Result::transpose).collect::<io::Result<_>>()?;
        Ok(Self { file: OpenOptions::new().append(true).open(path)?, folders: Mutex::new(folders) })
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        folders.iter().try_for_each(File::sync_all)?;
        folders.clear();
        Ok(())
    }
}

struct State {
    disk: Box<dyn Disk>,
    /// The offset of the next line.
    offset: u64,
    /// The number of lines.
    line: u64,
    /// True if there may be incomplete data after `offset`.
    torn: bool,
    /// A reusable buffer for the next lines.
    room: Vec<u8>,
    writer: v1::LineWriter,
}

impl JournalWriter {
    /// Creates the journal of a new run in the run's `folder`, which need not exist.
    ///
    /// Fails if the run already has a journal, if another process holds the lock of the folder, or if a file cannot be
    /// written.
    ///
    /// A reader sees either no journal, or a journal with a complete header.
    pub fn create(
        folder: impl AsRef<Path>,
        header: &Header<'_>,
        durability: Durability,
    ) -> Result<Self, JournalError> {
        let folder = folder.as_ref();
        fs::create_dir_all(folder)
            .map_err(|err| JournalError::io("make the folder", folder, &err))?;
        let lock = Lock::take(folder)?;
        let path = folder.join(FILE);
        if path.symlink_metadata().is_ok() {
            return Err(JournalError::Exists { path: path.display().to_string() });
        }
        let begun = begin(folder, &path, header, durability);
        let (disk, seal, offset) = begun.map_err(|err| JournalError::io("write", &path, &err))?;
        let on_disk = OnDisk::open(&path).map_err(|err| JournalError::io("open", &path, &err))?;
        let state = State {
            disk,
            offset,
            line: 1,
            torn: false,
            room: Vec::new(),
            writer: v1::LineWriter::default(),
        };
        Ok(Self { path, durability, seal, state: Mutex::new(state), on_disk, _lock: lock })
    }

    /// Opens the journal of a run for appending, and indexes its executions.
    ///
    /// An incomplete last line is cut off. A damaged line stays in the file, but not in the index. The caller must
    /// first check that the run is unchanged ([`Header::compare`]). Fails if another process holds the lock, or if the
    /// file cannot be read or written.
    pub fn resume(
        journal: &Journal,
        durability: Durability,
    ) -> Result<(Self, Index), JournalError> {
        // Take the lock before reading the journal, because another process could still append without it.
        let lock = Lock::take(journal.folder())?;
        let path = journal.path().to_owned();
        let (index, end) = journal.scan()?;
        let failed = |err: io::Error| JournalError::io("write", &path, &err);
        let mut disk = disk::open(&path).map_err(failed)?;
        if fs::metadata(&path).map_err(failed)?.len() != end.offset {
            disk.cut(end.offset).map_err(failed)?;
        }
        let on_disk = OnDisk::open(&path).map_err(failed)?;
        let state = State {
            disk,
            offset: end.offset,
            line: end.line,
            torn: false,
            room: Vec::new(),
            writer: v1::LineWriter::default(),
        };
        let (seal, state) = (journal.seal(), Mutex::new(state));
        Ok((Self { path, durability, seal, state, on_disk, _lock: lock }, index))
    }

    /// Returns the path of the journal's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a reader for the executions. Nothing may be appended while the reader is used. Fails if the file cannot be
    /// opened.
    pub fn reader(&self) -> Result<Reader, JournalError> {
        Reader::open(&self.path, self.seal)
    }

    /// Stores a finished execution, and returns its location.
    ///
    /// [`Durability`] describes whether the execution still exists after a machine crash.
    ///
    /// Returns `None` for an execution that never started. Such an execution is not stored, and a resumed run executes
    /// it. After an error, the execution is not stored and must not be counted.
    pub fn append(&self, result: &ExecutionResult) -> Result<Option<EntryLocation>, JournalError> {
        Ok(self.append_all([result])?.pop().flatten())
    }

    /// Stores several finished executions with one write and at most one sync.
    ///
    /// After an error, none of the executions is stored.
    pub fn append_all<'r>(
        &self,
        results: impl IntoIterator<Item = &'r ExecutionResult>,
    ) -> Result<Vec<Option<EntryLocation>>, JournalError> {
        let mut state = self.state();
        let (bytes, writer) = (take(&mut state.room), take(&mut state.writer));
        drop(state);
        let mut batch = Batch { bytes, writer, ..Batch::default() };
        for result in results {
            batch.add(result, self.seal).map_err(|message| self.not_kept(&batch, message))?;
        }
        if batch.bytes.is_empty() {
            return Ok(batch.places);
        }
        let mut state = self.state();
        state
            .append(&batch.bytes, self.durability)
            .map_err(|err| self.not_kept(&batch, describe_io_error(&err)))?;
        for place in batch.places.iter_mut().flatten() {
            place.offset += state.offset;
            place.line += state.line;
        }
        state.offset += batch.bytes.len() as u64;
        state.line += batch.lines;
        if batch.bytes.capacity() <= MOST_ROOM {
            batch.bytes.clear();
            state.room = batch.bytes;
        }
        state.writer = batch.writer;
        Ok(batch.places)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all earlier lines and the name of the journal are on the disk.
    ///
    /// Other threads may append meanwhile. Fails if the system cannot sync the file or its folder.
    pub fn sync(&self) -> Result<(), JournalError> {
        self.on_disk.sync().map_err(|err| JournalError::io("write", &self.path, &err))
    }

    fn not_kept(&self, batch: &Batch, message: String) -> JournalError {
        let what = match batch.lines {
            0 | 1 => batch.first.clone(),
            more => format!("{} with {} more", batch.first, more - 1),
        };
        JournalError::NotKept { path: self.path.display().to_string(), what, message }
    }
}

impl std::fmt::Debug for JournalWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JournalWriter")
            .field("path", &self.path)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Writes bytes at `offset`. After an error, it removes the incomplete data.
    fn append(&mut self, bytes: &[u8], durability: Durability) -> io::Result<()> {
        if self.torn {
            self.disk.cut(self.offset)?;
            self.torn = false;
        }
        let written = self.disk.append(bytes).and_then(|()| match durability {
            Durability::Flush => Ok(()),
            Durability::Sync => self.disk.sync(),
        });
        if written.is_err() {
            // Incomplete data must not stay between two lines. If `cut` fails here, the next append tries to cut first.
            self.torn = self.disk.cut(self.offset).is_err();
        }
        written
    }
}

/// The space in bytes that is reserved for each line, enough for most lines.
const USUAL: usize = 4096;

/// The maximum size in bytes of a buffer that is reused.
const MOST_ROOM: usize = 1 << 20;

/// The lines of one write.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    writer: v1::LineWriter,
    /// The locations, relative to the first line of the batch.
    places: Vec<Option<EntryLocation>>,
    lines: u64,
    /// The description of the first execution, for error messages.
    first: String,
}

impl Batch {
    fn add(&mut self, result: &ExecutionResult, seal: Seal) -> Result<(), String> {
        if result.was_never_begun() {
            self.places.push(None);
            return Ok(());
        }
        if self.lines == 0 {
            let it = &result.execution;
            self.first =
                format!("repeat {} of `{}` on `{}`", u64::from(it.repeat) + 1, it.case, it.model);
        }
        if !is_writable(result) {
            return Err("it has a number that JSON cannot hold, which is a bug".to_owned());
        }
        let start = self.bytes.len();
        self.bytes.reserve(USUAL);
        self.writer.write(result, &mut self.bytes).map_err(|err| err.to_string())?;
        seal.close(&mut self.bytes, start);
        self.lines += 1;
        let len = self.bytes.len() - start;
        self.places.push(Some(EntryLocation::new(start as u64, len, self.lines, result)));
        Ok(())
    }
}

/// Returns true if the line can be read back.
///
/// JSON would store infinity and NaN as `null`.
fn is_writable(result: &ExecutionResult) -> bool {
    result.results.iter().all(|it| it.weight.is_finite())
        && result.execution.turns.iter().all(|it| it.latency_ms.is_finite())
}

/// Writes the header to a temporary file, and renames the complete file.
fn begin(
    folder: &Path,
    path: &Path,
    header: &Header<'_>,
    durability: Durability,
) -> io::Result<(Box<dyn Disk>, Seal, u64)> {
    let mut line = serde_json::to_vec(header)?;
    Seal::default().close(&mut line, 0);
    let seal = Seal::after(&line).map_err(io::Error::other)?;
    let mut file = atomic::temporary(folder)?;
    file.write_all(&line)?;
    if durability == Durability::Sync {
        file.as_file().sync_all()?;
    }
    file.persist(path).map_err(|err| err.error)?;
    if durability == Durability::Sync {
        folder.ancestors().take(2).try_for_each(disk::sync_folder)?;
    }
    Ok((disk::open(path)?, seal, line.len() as u64))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use kindlm_types::Execution;

    use super::*;

    fn result(case: &str) -> ExecutionResult {
        let execution =
            Execution { case: case.to_owned(), model: "m".to_owned(), ..Execution::default() };
        ExecutionResult { judge_cost_usd: None, ..ExecutionResult::new(execution, Vec::new()) }
    }

    fn header() -> Header<'static> {
        Header::new("r", "0.1.0", "2026-11-20T14:09:12Z", "s")
    }

    /// A disk that writes only half of the data while `now` is set, like a full disk.
    struct Full {
        real: Box<dyn Disk>,
        now: Arc<AtomicBool>,
        cuts: bool,
    }

    impl Disk for Full {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            if !self.now.load(Ordering::SeqCst) {
                return self.real.append(bytes);
            }
            self.real.append(&bytes[..bytes.len() / 2])?;
            Err(io::ErrorKind::StorageFull.into())
        }

        fn cut(&mut self, len: u64) -> io::Result<()> {
            if self.cuts || !self.now.load(Ordering::SeqCst) {
                return self.real.cut(len);
            }
            Err(io::ErrorKind::Other.into())
        }

        fn sync(&mut self) -> io::Result<()> {
            self.real.sync()
        }
    }

    #[test]
    fn a_disk_that_is_full_for_a_while_leaves_no_trace() {
        for cuts in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let full = Arc::new(AtomicBool::new(false));
            let writer = JournalWriter::create(folder.path(), &header(), Durability::Sync).unwrap();
            {
                let mut state = writer.state.lock().unwrap();
                let real = disk::open(writer.path()).unwrap();
                state.disk = Box::new(Full { real, now: Arc::clone(&full), cuts });
            }
            writer.append(&result("a")).unwrap();
            full.store(true, Ordering::SeqCst);
            for case in ["b", "c"] {
                let err = writer.append(&result(case)).unwrap_err();
                assert!(matches!(err, JournalError::NotKept { .. }));
                let err = err.to_string();
                assert!(
                    err.contains(&format!("repeat 1 of `{case}` on `m` is not counted")),
                    "{err}"
                );
                assert!(err.contains("journal.jsonl`: ") && !err.contains("os error"), "{err}");
                // An incomplete line is ignored, even if it could not be cut off.
                assert_eq!(Journal::open(folder.path()).unwrap().index().unwrap().len(), 1);
            }
            // The half that is written has a complete line and an incomplete line.
            let several = ["e", "f", "g"].map(result);
            assert!(writer.append_all(&several).is_err());
            full.store(false, Ordering::SeqCst);
            let place = writer.append(&result("d")).unwrap().unwrap();
            let journal = Journal::open(folder.path()).unwrap();
            let cases: Vec<String> =
                journal.entries().unwrap().map(|it| it.unwrap().result.execution.case).collect();
            assert_eq!(cases, ["a", "d"]);
            assert_eq!(journal.read_execution(place).unwrap(), result("d"));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_error_has_advice() {
        let folder = tempfile::tempdir().unwrap();
        let writer = JournalWriter::create(folder.path(), &header(), Durability::Flush).unwrap();
        writer.state.lock().unwrap().disk = disk::open(Path::new("/dev/full")).unwrap();
        let err = writer.append_all([&result("a"), &result("b")]).unwrap_err().to_string();
        assert!(
            err.ends_with(
                "journal.jsonl`: no space left on device: make room, then try again; repeat 1 of `a` on `m` with 1 \
                 more is not counted, everything before it is saved and the run can be resumed"
            ),
            "{err}"
        );
    }
}
