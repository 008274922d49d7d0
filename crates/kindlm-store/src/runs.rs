//! The reports of past runs.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use kindlm_types::{CaseResult, Report};

use crate::io_error::is_absent;
use crate::journal;
use crate::{Draft, ReportError, SavedCases, StoreError, name};

/// The name of the file with the order of the runs, beside their folders.
const ORDER: &str = "order";

/// The reports of past runs: `runs/<run-id>/report.json` below a state folder.
///
/// Run ids come from outside; reports are the JSON text of the wire format. Which run is newer than another is written in
/// `runs/order`, one id per line in the order in which the runs were begun or resumed: clocks go wrong, and run ids hold
/// the time. A run that is not listed there is older than those that are.
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

    /// Makes a run the newest: it begins, or it is resumed.
    pub fn begin(&self, id: &str) -> Result<(), StoreError> {
        name::check("run id", id)?;
        let (folder, path) = (self.folder(), self.order_file());
        fs::create_dir_all(&folder)
            .map_err(|err| StoreError::io("make the folder", &folder, &err))?;
        append_line(&path, id).map_err(|err| StoreError::io("write", &path, &err))
    }

    /// Keeps the report of a run. If the run was not begun before, it is the newest.
    pub fn save(&self, id: &str, report: &str) -> Result<PathBuf, StoreError> {
        self.save_with(id, |out| out.write_all(report.as_bytes()))
    }

    /// Keeps the report of a run as it is written. If the run was not begun before, it is the newest. After an error,
    /// neither.
    pub fn save_with(
        &self,
        id: &str,
        write: impl FnOnce(&mut Draft) -> io::Result<()>,
    ) -> Result<PathBuf, StoreError> {
        let path = self.path(id)?;
        let mut draft = Draft::begin(&path)?;
        write(&mut draft).map_err(|err| draft.failed(&err))?;
        draft.finish()?;
        if !self.order()?.contains_key(id) {
            self.begin(id)?;
        }
        Ok(path)
    }

    /// The position of each run that was begun here.
    fn order(&self) -> Result<HashMap<String, usize>, StoreError> {
        let path = self.order_file();
        match fs::read(&path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                Ok(text.lines().enumerate().map(|(at, id)| (id.trim().to_owned(), at)).collect())
            }
            Err(err) if is_absent(&err) => Ok(HashMap::new()),
            Err(err) => Err(StoreError::io("read", &path, &err)),
        }
    }

    /// The ids of all runs that have a report, oldest first.
    pub fn list(&self) -> Result<Vec<String>, StoreError> {
        self.having(has_report)
    }

    /// The ids of all runs that have a journal, oldest first: those that can be resumed, ended or not.
    pub fn journals(&self) -> Result<Vec<String>, StoreError> {
        self.having(|folder| folder.join(journal::FILE).is_file())
    }

    /// The ids of all runs, oldest first. The flag is true if the run has a report. The others are still running,
    /// were interrupted, or their report could not be written.
    pub fn all(&self) -> Result<Vec<(String, bool)>, StoreError> {
        let ids = self.having(|it| has_report(it) || it.join(journal::FILE).is_file())?;
        let with_report = |id: String| {
            let has_report = has_report(&self.folder().join(&id));
            (id, has_report)
        };
        Ok(ids.into_iter().map(with_report).collect())
    }

    fn having(&self, is_meant: impl Fn(&Path) -> bool) -> Result<Vec<String>, StoreError> {
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
            if self.run_folder(&id).is_ok_and(|path| is_meant(&path)) {
                ids.push(id);
            }
        }
        let order = self.order()?;
        ids.sort_unstable_by(|a, b| (order.get(a), a).cmp(&(order.get(b), b)));
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

    fn order_file(&self) -> PathBuf {
        self.folder().join(ORDER)
    }
}

fn has_report(folder: &Path) -> bool {
    folder.join(Runs::REPORT).is_file()
}

/// Appends a line with one write. Behind a line that was cut off it begins a new one.
fn append_line(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(-1)).is_ok() {
        file.read_exact(&mut last)?;
    }
    let gap = if last == [b'\n'] { "" } else { "\n" };
    file.write_all(format!("{gap}{line}\n").as_bytes())
}

fn display(path: &Path) -> String {
    path.display().to_string()
}
