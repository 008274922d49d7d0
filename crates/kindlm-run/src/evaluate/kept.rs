//! The file of `--output`. With `--resume`, records with a valid result in this file are not evaluated again.
//!
//! While a resumed evaluation runs, the earlier results are in a second file. Their lines are copied one by one. The
//! two files together always hold all results, so no result is lost if the process is killed.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use kindlm_store::FileLock;
use kindlm_types::Outcome;
use kindlm_wire::evaluate::Evaluation;
use serde_json::{Map, Value};

use crate::Failure;

/// The suffix that is added to the file name for the second file.
const BEFORE: &str = ".before";

/// The file of results.
pub(super) struct Output {
    path: PathBuf,
    /// The writer for new results.
    pub(super) file: BufWriter<File>,
    /// The reader of the earlier results; `None` without earlier results.
    pub(super) kept: Option<Kept>,
    /// The lock that stops a second process from writing the same file; `None` for a device or a pipe. Without the
    /// lock, both processes would pay for the same answers.
    _lock: Option<FileLock>,
}

/// Locks a separate file next to the results.
///
/// The results file cannot be locked, because each resumed run replaces it.
fn lock(path: &Path, failed: impl Fn(&io::Error) -> Failure) -> Result<FileLock, Failure> {
    let lock = FileLock::try_new(beside(path, ".lock")).map_err(|err| failed(&err))?;
    lock.ok_or_else(|| {
        Failure::input(format!("another process is writing `{}`", path.display()))
            .with_help("wait until it has ended, or name another file")
    })
}

/// A reader of the complete lines of a results file, in order.
pub(super) struct Kept(Box<dyn BufRead + Send>);

impl Kept {
    pub(super) fn next_line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        // Treat an unreadable line as absent, so that its record is evaluated again.
        self.0.read_until(b'\n', &mut line).ok()?;
        // A line without a line break was cut off when its process was killed.
        (line.last() == Some(&b'\n')).then_some(line)
    }
}

impl Output {
    /// Opens the file for results.
    ///
    /// Fails if:
    ///
    /// - the file cannot be written, or another process has locked the file;
    /// - `resume` is false, and the file or the second file is not empty;
    /// - `resume` is true, and one of these files is not empty and has no results.
    pub(super) fn open(path: PathBuf, resume: bool) -> Result<Self, Failure> {
        let failed = |err: &io::Error| {
            let why = kindlm_store::describe_io_error(err);
            Failure::input(format!("cannot write `{}`: {why}", path.display()))
        };
        // A device or a pipe has no earlier results to protect.
        let is_file = fs::metadata(&path).map_or(true, |it| it.is_file());
        let lock = if is_file { Some(lock(&path, failed)?) } else { None };
        let before = beside(&path, BEFORE);
        let holds = |it: &Path| fs::metadata(it).is_ok_and(|it| it.len() > 0);
        if !resume && (holds(&path) || holds(&before)) {
            let message = format!("`{}` already contains results", path.display());
            return Err(
                Failure::input(message).with_help("`--resume` continues it; or name another file")
            );
        }
        if resume {
            for file in [&path, &before] {
                if holds(file) && !has_results(file).map_err(|err| failed(&err))? {
                    let message = format!("`{}` does not contain results", file.display());
                    return Err(Failure::input(message)
                        .with_help("`--resume` continues the file of an earlier `--output`"));
                }
            }
            put_aside(&path, &before).map_err(|err| failed(&err))?;
        }
        let kept = match File::open(&before) {
            Ok(file) => Some(Kept(Box::new(BufReader::new(file)))),
            Err(err) if err.kind() == io::ErrorKind::NotFound => None,
            Err(err) => return Err(failed(&err)),
        };
        let file = BufWriter::new(File::create(&path).map_err(|err| failed(&err))?);
        Ok(Self { path, file, kept, _lock: lock })
    }

    /// Flushes the results and removes the second file with the earlier results.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let done =
            self.file.flush().and_then(|()| match fs::remove_file(beside(&self.path, BEFORE)) {
                Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
                _ => Ok(()),
            });
        done.map_err(|err| {
            let why = kindlm_store::describe_io_error(&err);
            Failure::internal(format!("cannot write `{}`: {why}", self.path.display()))
        })
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Moves the earlier results from `path` to the file `before`.
///
/// If `before` exists, an earlier resumed run was interrupted. The lines that this earlier run did not copy are
/// appended.
fn put_aside(path: &Path, before: &Path) -> io::Result<()> {
    let open = |path: &Path| match File::open(path) {
        Ok(file) => Ok(Some(Kept(Box::new(BufReader::new(file))))),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err),
    };
    let Some(mut new) = open(path)? else { return Ok(()) };
    let Some(mut old) = open(before)? else { return fs::rename(path, before) };
    let mut whole_name = before.as_os_str().to_owned();
    whole_name.push(".new");
    let mut whole = BufWriter::new(File::create(&whole_name)?);
    // The files list the same records in the same order, so each new line replaces one old line.
    while let Some(line) = new.next_line() {
        whole.write_all(&line)?;
        old.next_line();
    }
    while let Some(line) = old.next_line() {
        whole.write_all(&line)?;
    }
    whole.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(&whole_name, before)
}

/// True if the first line of a file is a result or the error of a malformed line.
///
/// For an incomplete first line, this is true if the line begins with `{`.
fn has_results(path: &Path) -> io::Result<bool> {
    let mut line = Vec::new();
    BufReader::new(File::open(path)?).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Ok(line.starts_with(b"{"));
    }
    let found: Option<Map<String, Value>> = serde_json::from_slice(&line).ok();
    let has = |key: &str| found.as_ref().is_some_and(|it| it.contains_key(key));
    Ok(has("results") && has("outcome") || has("error") && has("line"))
}

/// Parses the result of a record; returns `None` if the line is not a result.
pub(super) fn result(line: &[u8]) -> Option<Evaluation> {
    serde_json::from_slice(line).ok()
}

/// Parses the result of a record, unless the result is errored.
///
/// Returns `None` for an errored result, or if the line is not a result. The record is then evaluated again.
pub(super) fn answered(line: &[u8]) -> Option<Evaluation> {
    result(line).filter(|it| it.outcome != Outcome::Errored)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_default()
    }

    /// Returns one line per comma-separated name. The last line is cut off, unless the names end with a comma.
    fn results(names: &str) -> String {
        let line = |name: &str| format!("{{\"error\":\"{name}\",\"line\":1}}\n");
        let (whole, torn) = names.rsplit_once(',').unwrap_or(("", names));
        let whole: String = whole.split(',').filter(|it| !it.is_empty()).map(line).collect();
        let torn = if torn.is_empty() { String::new() } else { line(torn)[..12].to_owned() };
        whole + &torn
    }

    #[test]
    fn stopped_resumptions_lose_no_results() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        fs::write(&path, results("1,2,3,4,5,torn")).unwrap();
        for written in ["", "1,", "1,B,", "1,B,3,4,5,6,", "1,B,3,4,5,6,7,torn"] {
            let mut output = Output::open(path.clone(), true).unwrap();
            output.file.write_all(results(written).as_bytes()).unwrap();
            output.file.flush().unwrap();
        }
        let mut output = Output::open(path.clone(), true).unwrap();
        let mut kept = output.kept.take().unwrap();
        let all: Vec<u8> = std::iter::from_fn(|| kept.next_line()).flatten().collect();
        assert_eq!(String::from_utf8(all).unwrap(), results("1,B,3,4,5,6,7,"));
        output.file.write_all(b"1\n").unwrap();
        output.finish().unwrap();
        assert_eq!(lines(&path), "1\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn two_do_not_write_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        fs::write(&path, results("1,2,")).unwrap();
        for _ in 0..2 {
            let first = Output::open(path.clone(), true).unwrap();
            assert!(Output::open(path.clone(), true).is_err());
            drop(first);
        }
        let mut output = Output::open(path.clone(), true).unwrap();
        let mut kept = output.kept.take().unwrap();
        let all: Vec<u8> = std::iter::from_fn(|| kept.next_line()).flatten().collect();
        assert_eq!(String::from_utf8(all).unwrap(), results("1,2,"));
    }

    #[test]
    fn files_without_results_are_not_changed() {
        for (text, is_taken) in [
            ("", true),
            ("{\"id\":\"a\",\"sc", true),
            ("{\"results\":[],\"outcome\":\"passed\"}\n", true),
            ("{\"error\":\"x\",\"line\":2}\n", true),
            ("{\"agent_output\":\"a\"}\n", false),
            ("Notes\n", false),
            ("Notes", false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("results.jsonl");
            fs::write(&path, text).unwrap();
            assert_eq!(Output::open(path.clone(), true).is_ok(), is_taken, "{text}");
            assert!(is_taken || lines(&path) == text, "{text}");
        }
    }

    #[test]
    fn results_are_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        Output::open(path.clone(), false).unwrap().finish().unwrap();
        fs::write(&path, "1\n").unwrap();
        assert!(Output::open(path.clone(), false).is_err());
        assert_eq!(lines(&path), "1\n");
    }
}
