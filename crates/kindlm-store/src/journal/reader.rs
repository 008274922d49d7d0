//! Reads a journal line by line.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use kindlm_types::ExecutionResult;
use kindlm_wire::v1;
use serde::Deserialize;
use serde_json::Value;

use super::ahead::Ahead;
use super::seal::Seal;
use super::{EntryLocation, FILE, Header, Holder, Index, JournalError, VERSION};
use crate::io_error::is_absent;

/// The read-ahead in bytes.
///
/// Executions finish nearly in the order of the report, so one read usually contains the next execution too.
const READ_AHEAD: u64 = 1 << 18;

/// A readable journal. Another process may append to it meanwhile.
///
/// The journal holds no execution in memory.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    path: PathBuf,
    header: Header<'static>,
    /// The offset of the second line.
    start: u64,
    seal: Seal,
    reader: Reader,
}

/// A reader for single entries of a journal, in any order.
///
/// Tasks and threads may share a reader.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    seal: Seal,
    file: Mutex<Ahead>,
}

impl Reader {
    /// Opens a file with read-ahead. Fails if the file cannot be opened.
    ///
    /// Nothing may be appended while the reader is used.
    pub(super) fn open(path: &Path, seal: Seal) -> Result<Self, JournalError> {
        let file = File::open(path).map_err(|err| JournalError::io("read", path, &err))?;
        Ok(Self::new(path, file, seal, READ_AHEAD))
    }

    fn new(path: &Path, file: File, seal: Seal, ahead: u64) -> Self {
        Self { path: path.to_owned(), seal, file: Mutex::new(Ahead::new(file, ahead)) }
    }

    /// Reads one entry. Fails if the line cannot be read or is damaged.
    pub fn read_execution(&self, place: EntryLocation) -> Result<ExecutionResult, JournalError> {
        let line = self.line(place)?;
        parse(&line, self.seal).map_err(|message| corrupt(&self.path, place.line, message))
    }

    /// Reads one entry as JSON text without its checksum.
    ///
    /// Fails if the line cannot be read or is damaged.
    pub fn text(&self, place: EntryLocation) -> Result<String, JournalError> {
        let corrupt = |message: String| corrupt(&self.path, place.line, message);
        let text = self.seal.open(&self.line(place)?).map_err(|err| corrupt(err.to_string()))?;
        String::from_utf8(text).map_err(|err| corrupt(err.to_string()))
    }

    fn line(&self, place: EntryLocation) -> Result<Vec<u8>, JournalError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.read_piece(place.offset, place.len)
            .map_err(|err| JournalError::io("read", &self.path, &err))
    }
}

/// One line of a journal: an execution and its location.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// The execution with the results of its checks.
    pub result: ExecutionResult,
    /// The location in the journal.
    pub place: EntryLocation,
}

impl Journal {
    /// Opens the journal in a run's folder, and reads its header.
    ///
    /// Fails if the journal does not exist, or if its header cannot be read, is damaged or has an unsupported version.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, JournalError> {
        let folder = folder.as_ref().to_owned();
        let path = folder.join(FILE);
        let file = File::open(&path).map_err(|err| {
            if is_absent(&err) {
                JournalError::Missing { path: path.display().to_string() }
            } else {
                JournalError::io("read", &path, &err)
            }
        })?;
        let mut first = Vec::new();
        let mut reader = BufReader::new(&file);
        reader
            .read_until(b'\n', &mut first)
            .map_err(|err| JournalError::io("read", &path, &err))?;
        let (header, seal) = read_header(&path, &first)?;
        let start = first.len() as u64;
        // Read without read-ahead, because another process may append to the file, or cut off an incomplete line.
        let reader = Reader::new(&path, file, seal, 0);
        Ok(Self { folder, path, header, start, seal, reader })
    }

    /// Returns the header of the journal.
    pub fn header(&self) -> &Header<'static> {
        &self.header
    }

    /// Returns the path of the journal's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder of the journal.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn seal(&self) -> Seal {
        self.seal
    }

    /// Returns the process that is writing the journal.
    ///
    /// Returns `None` if there is no such process, or if the file system has no locks. Fails if the lock file cannot be
    /// opened or locked.
    pub fn holder(&self) -> Result<Option<Holder>, JournalError> {
        Holder::find(&self.folder)
    }

    /// Returns all entries in the order in which they were written.
    ///
    /// An execution that ran again has several entries.
    ///
    /// An incomplete last line is ignored. A damaged line is an error item, and the iteration continues after it. Fails
    /// if the file cannot be opened.
    pub fn entries(&self) -> Result<Entries, JournalError> {
        let failed = |err: io::Error| JournalError::io("read", &self.path, &err);
        let mut file = File::open(&self.path).map_err(failed)?;
        file.seek(SeekFrom::Start(self.start)).map_err(failed)?;
        Ok(Entries {
            path: self.path.clone(),
            seal: self.seal,
            reader: BufReader::with_capacity(1 << 16, file),
            buffer: Vec::new(),
            offset: self.start,
            line: 1,
            ended: false,
        })
    }

    /// Builds the index of the executions in one pass over the journal.
    ///
    /// The index omits and reports damaged lines. Fails if the file cannot be read.
    pub fn index(&self) -> Result<Index, JournalError> {
        self.scan().map(|(index, _)| index)
    }

    /// Returns the index, and the position after the last complete line. Fails if the file cannot be read.
    pub(super) fn scan(&self) -> Result<(Index, End), JournalError> {
        let mut index = Index::default();
        let mut entries = self.entries()?;
        for entry in &mut entries {
            match entry {
                Ok(entry) => index.insert(&entry.result, entry.place),
                Err(damaged @ JournalError::Corrupt { .. }) => index.note_damaged(damaged),
                Err(err) => return Err(err),
            }
        }
        Ok((index, End { offset: entries.offset, line: entries.line }))
    }

    /// Reads one entry. Fails if the line cannot be read or is damaged.
    pub fn read_execution(&self, place: EntryLocation) -> Result<ExecutionResult, JournalError> {
        self.reader.read_execution(place)
    }
}

/// The position after the last complete line of a journal.
pub(super) struct End {
    pub(super) offset: u64,
    /// The number of lines.
    pub(super) line: u64,
}

/// The entries of a journal, in the order in which they were written.
///
/// The iteration ends if the file cannot be read.
#[derive(Debug)]
pub struct Entries {
    path: PathBuf,
    seal: Seal,
    reader: BufReader<File>,
    buffer: Vec<u8>,
    /// The offset of the next line; `line` is the number of lines before it.
    offset: u64,
    line: u64,
    ended: bool,
}

impl Entries {
    fn read_next(&mut self) -> Result<Option<Entry>, JournalError> {
        let failed = |err: io::Error| JournalError::io("read", &self.path, &err);
        self.buffer.clear();
        let len = self.reader.read_until(b'\n', &mut self.buffer).map_err(failed)? as u64;
        if self.buffer.last() != Some(&b'\n') {
            return Ok(None);
        }
        let parsed = parse(&self.buffer, self.seal);
        // After a machine crash, data that was not yet on the disk may read as zeros.
        if parsed.is_err() && self.buffer.contains(&0) && self.is_at_end()? {
            return Ok(None);
        }
        let (offset, line) = (self.offset, self.line + 1);
        self.offset += len;
        self.line = line;
        let result = parsed.map_err(|message| corrupt(&self.path, line, message))?;
        let place = EntryLocation::new(offset, self.buffer.len(), line, &result);
        Ok(Some(Entry { result, place }))
    }

    fn is_at_end(&mut self) -> Result<bool, JournalError> {
        let rest = self.reader.fill_buf();
        rest.map(<[u8]>::is_empty).map_err(|err| JournalError::io("read", &self.path, &err))
    }
}

impl Iterator for Entries {
    type Item = Result<Entry, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read_next().transpose();
        self.ended = !matches!(next, Some(Ok(_) | Err(JournalError::Corrupt { .. })));
        next
    }
}

fn read_header(path: &Path, line: &[u8]) -> Result<(Header<'static>, Seal), JournalError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        schema_version: Value,
    }
    let path_text = || path.display().to_string();
    // The file gets its name only when it is complete. After a machine crash, it may still be incomplete or full of
    // zeros.
    if line.last() != Some(&b'\n') || line.iter().all(|it| matches!(it, 0 | b'\n')) {
        let message = "it was never finished".to_owned();
        return Err(JournalError::Unbegun { path: path_text(), message });
    }
    let unreadable = |message: String| JournalError::Header { path: path_text(), message };
    // Check the version first. In another format, the error about a missing key would mislead the user.
    let version: Version =
        serde_json::from_slice(line).map_err(|err| unreadable(err.to_string()))?;
    if version.schema_version != VERSION {
        let found = version.schema_version.to_string();
        return Err(JournalError::Version { path: path_text(), found });
    }
    let seal = Seal::after(line).map_err(|err| unreadable(err.to_string()))?;
    let header = serde_json::from_slice(line).map_err(|err| unreadable(err.to_string()))?;
    Ok((header, seal))
}

fn parse(line: &[u8], seal: Seal) -> Result<ExecutionResult, String> {
    seal.check(line).map_err(|err| err.to_string())?;
    let wire: v1::Execution = serde_json::from_slice(line).map_err(|err| in_line(&err))?;
    wire.try_into().map_err(|err: kindlm_wire::WireError| err.to_string())
}

/// Removes the line number from a JSON error, because it is always 1.
fn in_line(err: &serde_json::Error) -> String {
    let text = err.to_string();
    match text.rsplit_once(" at line 1 column ") {
        Some((what, column)) => format!("{what} at column {column}"),
        None => text,
    }
}

fn corrupt(path: &Path, line: u64, message: String) -> JournalError {
    JournalError::Corrupt { path: path.display().to_string(), line, message }
}
