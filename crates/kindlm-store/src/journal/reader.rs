//! Reads a journal, line by line.

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
use super::{FILE, Header, Holder, Index, JournalError, Place, VERSION};
use crate::io_error::is_absent;

/// The number of bytes read at once. Executions end nearly in the order of the report, so these bytes usually contain
/// the next one.
const READ_AHEAD: u64 = 1 << 18;

/// A journal that can be read, also while another process appends to it.
///
/// Of the executions, none is held in memory.
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

/// Reads single entries of a journal, in any order; tasks and threads may share it.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    seal: Seal,
    file: Mutex<Ahead>,
}

impl Reader {
    /// Of a file to which nothing is appended while it is read, so that it can be read ahead.
    pub(super) fn open(path: &Path, seal: Seal) -> Result<Self, JournalError> {
        let file = File::open(path).map_err(|err| JournalError::io("read", path, &err))?;
        Ok(Self::new(path, file, seal, READ_AHEAD))
    }

    fn new(path: &Path, file: File, seal: Seal, ahead: u64) -> Self {
        Self { path: path.to_owned(), seal, file: Mutex::new(Ahead::new(file, ahead)) }
    }

    /// Reads one entry. A line that was damaged since it was written is an error.
    pub fn read(&self, place: Place) -> Result<ExecutionResult, JournalError> {
        let line = self.line(place)?;
        parse(&line, self.seal).map_err(|message| corrupt(&self.path, place.line, message))
    }

    /// Reads one entry as the text of an execution in compact JSON. A line that was damaged since it was written is an
    /// error.
    pub fn text(&self, place: Place) -> Result<String, JournalError> {
        let corrupt = |message: String| corrupt(&self.path, place.line, message);
        let text = self.seal.open(&self.line(place)?).map_err(|err| corrupt(err.to_string()))?;
        String::from_utf8(text).map_err(|err| corrupt(err.to_string()))
    }

    fn line(&self, place: Place) -> Result<Vec<u8>, JournalError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.read(place.offset, place.len).map_err(|err| JournalError::io("read", &self.path, &err))
    }
}

/// One line of a journal: an execution, and where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The execution and what the checks found in it.
    pub result: ExecutionResult,
    /// The place.
    pub place: Place,
}

impl Journal {
    /// Opens the journal in a run's folder, and reads its header.
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
        // Another process may append to it, and take back half a line that did not fit on the disk.
        let reader = Reader::new(&path, file, seal, 0);
        Ok(Self { folder, path, header, start, seal, reader })
    }

    /// The header: the run, and the parts that its executions depend on.
    pub fn header(&self) -> &Header<'static> {
        &self.header
    }

    /// The journal's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder that it is in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn seal(&self) -> Seal {
        self.seal
    }

    /// The process that is writing it, while its run is still running.
    pub fn holder(&self) -> Result<Option<Holder>, JournalError> {
        Holder::of(&self.folder)
    }

    /// All entries in the order in which they were written, superseded ones included.
    ///
    /// Ends at a torn last line as if it were not there. A damaged line is an error, after which the others follow.
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

    /// Which executions there are, and where. Reads the whole journal once.
    ///
    /// Damaged lines are left out and named.
    pub fn index(&self) -> Result<Index, JournalError> {
        self.scan().map(|(index, _)| index)
    }

    /// The index, and what follows the last whole line.
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

    /// Reads one entry.
    pub fn read(&self, place: Place) -> Result<ExecutionResult, JournalError> {
        self.reader.read(place)
    }
}

/// The end of a journal, torn line left out.
pub(super) struct End {
    pub(super) offset: u64,
    /// The number of lines.
    pub(super) line: u64,
}

/// The entries of a journal, in the order in which they were written. When the file cannot be read there are no more.
#[derive(Debug)]
pub struct Entries {
    path: PathBuf,
    seal: Seal,
    reader: BufReader<File>,
    buffer: Vec<u8>,
    /// The position of the reader, in bytes and in lines.
    offset: u64,
    line: u64,
    ended: bool,
}

impl Entries {
    fn read(&mut self) -> Result<Option<Entry>, JournalError> {
        let failed = |err: io::Error| JournalError::io("read", &self.path, &err);
        self.buffer.clear();
        let len = self.reader.read_until(b'\n', &mut self.buffer).map_err(failed)? as u64;
        if self.buffer.last() != Some(&b'\n') {
            return Ok(None);
        }
        let parsed = parse(&self.buffer, self.seal);
        // After a crash of the machine, data that had not reached the disk reads as zeros.
        if parsed.is_err() && self.buffer.contains(&0) && self.is_at_end()? {
            return Ok(None);
        }
        let (offset, line) = (self.offset, self.line + 1);
        self.offset += len;
        self.line = line;
        let result = parsed.map_err(|message| corrupt(&self.path, line, message))?;
        let place = Place::new(offset, self.buffer.len(), line, &result);
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
        let next = self.read().transpose();
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
    // It gets its name when it is whole: only a machine that went down leaves a part of it, or zeros.
    if line.last() != Some(&b'\n') || line.iter().all(|it| matches!(it, 0 | b'\n')) {
        let message = "it was never finished".to_owned();
        return Err(JournalError::Unbegun { path: path_text(), message });
    }
    let unreadable = |message: String| JournalError::Header { path: path_text(), message };
    // The version comes first: a later one may look quite different, and the error should say so.
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

/// The parser counts lines too, and knows only one.
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
