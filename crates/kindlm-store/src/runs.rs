//! The reports of past runs.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use kindlm_types::{CaseResult, Report};

use crate::error::is_absent;
use crate::journal::{self, Journal, JournalError};
use crate::{Draft, ReportError, SavedCases, StoreError, atomic, name};

/// The reports of past runs: `runs/<run-id>/report.json` and `last-run` below a state folder.
///
/// Run ids come from outside and sort by time; reports are the JSON text of the wire format.
#[derive(Clone, Debug)]
pub struct Runs {
    state: PathBuf,
}

impl Runs {
    /// The name of the file of a report in the folder of its run.
    pub const REPORT: &str = "report.json";

    /// The runs below a state folder, normally `.kindlm` beside the config file. It need not exist.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self { state: state.into() }
    }

    /// The file of a run's report.
    pub fn path(&self, id: &str) -> Result<PathBuf, StoreError> {
        Ok(self.run_folder(id)?.join(Self::REPORT))
    }

    /// The folder of a run, where its journal is. It need not exist.
    pub fn run_folder(&self, id: &str) -> Result<PathBuf, StoreError> {
        name::check("run id", id)?;
        Ok(self.folder().join(id))
    }

    /// Keeps the report of a run, and remembers it as the last one.
    pub fn save(&self, id: &str, report: &str) -> Result<PathBuf, StoreError> {
        self.save_with(id, |out| out.write_all(report.as_bytes()))
    }

    /// Keeps the report of a run as it is written, and remembers it as the last one. After an error, neither.
    pub fn save_with(
        &self,
        id: &str,
        write: impl FnOnce(&mut Draft) -> io::Result<()>,
    ) -> Result<PathBuf, StoreError> {
        let path = self.path(id)?;
        let mut draft = Draft::begin(&path)?;
        write(&mut draft).map_err(|err| draft.failed(&err))?;
        draft.finish()?;
        atomic::write(&self.last_file(), format!("{id}\n").as_bytes())?;
        Ok(path)
    }

    /// The id of the last run; `None` before the first.
    pub fn last(&self) -> Result<Option<String>, StoreError> {
        let path = self.last_file();
        match fs::read_to_string(&path) {
            Ok(text) => {
                let id = text.trim();
                name::check("run id", id)?;
                Ok(Some(id.to_owned()))
            }
            Err(err) if is_absent(&err) => Ok(None),
            Err(err) => Err(StoreError::io("read", &path, &err)),
        }
    }

    /// The ids of all runs that have a report, oldest first.
    pub fn list(&self) -> Result<Vec<String>, StoreError> {
        self.having(Self::REPORT)
    }

    /// The ids of all runs that have a journal, oldest first: those that can be resumed, ended or not.
    pub fn journals(&self) -> Result<Vec<String>, StoreError> {
        self.having(journal::FILE)
    }

    /// The journals of the runs that began after `last` and have no report, newest first: they are still going, or were
    /// broken off, or their report could not be written. One without a first line is left out: before that is there,
    /// nothing is sent.
    pub fn unfinished_after(&self, last: Option<&str>) -> Result<Vec<Journal>, StoreError> {
        let mut found = Vec::new();
        let ids = self.journals()?;
        for id in ids.iter().rev().take_while(|id| last.is_none_or(|last| id.as_str() > last)) {
            if self.path(id)?.exists() {
                continue;
            }
            match Journal::open(self.run_folder(id)?) {
                Ok(journal) => found.push(journal),
                Err(JournalError::Header { .. }) => {}
                Err(err) => return Err(err.into()),
            }
        }
        Ok(found)
    }

    fn having(&self, file: &str) -> Result<Vec<String>, StoreError> {
        let folder = self.folder();
        let items = match fs::read_dir(&folder) {
            Ok(items) => items,
            Err(err) if is_absent(&err) => return Ok(Vec::new()),
            Err(err) => return Err(StoreError::io("read", &folder, &err)),
        };
        let mut ids = Vec::new();
        for item in items {
            let item = item.map_err(|err| StoreError::io("read", &folder, &err))?;
            let Ok(id) = item.file_name().into_string() else { continue };
            if self.run_folder(&id).is_ok_and(|path| path.join(file).is_file()) {
                ids.push(id);
            }
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// The report of a run, which reads each of its cases from the file when it is asked for.
    pub fn open(&self, id: &str) -> Result<Report<SavedCases>, ReportError> {
        crate::open_report(&self.existing(id)?)
    }

    /// Gives each case of a run's report to `on_case` and keeps none: the report that comes back has none.
    pub fn each_case(
        &self,
        id: &str,
        on_case: &mut dyn FnMut(CaseResult),
    ) -> Result<Report, ReportError> {
        crate::each_saved_case(&self.existing(id)?, on_case)
    }

    fn existing(&self, id: &str) -> Result<PathBuf, StoreError> {
        let path = self.path(id)?;
        if path.symlink_metadata().is_err_and(|err| is_absent(&err)) {
            let folder = display(&self.folder());
            return Err(StoreError::NoSuchRun { id: id.to_owned(), folder });
        }
        Ok(path)
    }

    /// The report of a run, as JSON text.
    pub fn load(&self, id: &str) -> Result<String, StoreError> {
        let path = self.path(id)?;
        fs::read_to_string(&path).map_err(|err| {
            if is_absent(&err) {
                StoreError::NoSuchRun { id: id.to_owned(), folder: display(&self.folder()) }
            } else {
                StoreError::io("read", &path, &err)
            }
        })
    }

    fn folder(&self) -> PathBuf {
        self.state.join("runs")
    }

    fn last_file(&self) -> PathBuf {
        self.state.join("last-run")
    }
}

fn display(path: &Path) -> String {
    path.display().to_string()
}
