//! The reports of past runs.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use kindlm_types::{CaseResult, Report};
use kindlm_wire::mutation::{self, MutationReport};
use kindlm_wire::v1::RunHead;
use serde::Deserialize;
use serde_json::Value;

use crate::io_error::is_absent;
use crate::journal;
use crate::{Draft, ReportError, SavedCases, StoreError, name};

/// The name of the file that lists the runs in order.
const ORDER: &str = "order";

/// The content of `.gitignore` in the state folder. Only runs are ignored, because users commit the other folders for
/// CI.
const IGNORE: &str = "# Runs stay on this machine. Baselines, calibrations and stored answers can be committed.\n/runs/\n";

/// The file name of a mutation result while the report of its run is replaced.
const EARLIER_MUTATION: &str = "mutation.earlier.json";

/// The maximum number of runs that an error message names.
const NAMED: usize = 5;

/// The reports of past runs in a state folder.
///
/// A report is stored as `runs/<run-id>/report.json`, and its totals as `runs/<run-id>/head.json`. The result of
/// `kindlm mutate` is `runs/<run-id>/mutation.json`.
///
/// Reports are JSON text in the wire format.
///
/// `runs/order` lists the run ids in the order in which the runs were started or resumed. The times in run ids are not
/// used, because clocks can be wrong. A run that is not listed counts as older than all listed runs.
#[derive(Clone, Debug)]
pub struct Runs {
    state: PathBuf,
}

impl Runs {
    /// The file name of a report in the folder of its run.
    pub const REPORT: &str = "report.json";
    /// The file name of the totals of a report in the folder of its run.
    pub const HEAD: &str = "head.json";
    /// The file name of the mutation result in the folder of its run.
    pub const MUTATION: &str = "mutation.json";

    /// Creates a store in the state folder, which need not exist.
    ///
    /// The state folder is usually `.kindlm` next to the config file.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self { state: state.into() }
    }

    /// Returns the path of a run's report.
    ///
    /// Fails if the id is not a valid file name.
    pub fn path(&self, id: &str) -> Result<PathBuf, StoreError> {
        Ok(self.run_folder(id)?.join(Self::REPORT))
    }

    /// Returns the folder of a run, which need not exist.
    ///
    /// The folder holds the run's journal and report. Fails if the id is not a valid file name.
    pub fn run_folder(&self, id: &str) -> Result<PathBuf, StoreError> {
        name::check("run id", id)?;
        Ok(self.folder().join(id))
    }

    /// Creates the folder of runs and a `.gitignore` in the state folder, unless the folder of runs exists.
    ///
    /// The `.gitignore` is optional, so an error while writing the file has no effect.
    fn make_folder(&self) -> Result<(), StoreError> {
        let folder = self.folder();
        if folder.exists() {
            return Ok(());
        }
        fs::create_dir_all(&folder)
            .map_err(|err| StoreError::io("make the folder", &folder, &err))?;
        let ignore = self.state.join(".gitignore");
        if !ignore.exists() {
            let _ = fs::write(ignore, IGNORE);
        }
        Ok(())
    }

    /// Returns the id of the run that `id` names: the run with this id, or the only run whose id begins with `id`.
    ///
    /// Without such a run, returns `id` unchanged. Fails if the ids of several runs begin with `id`, or if the folder
    /// or the order file cannot be read.
    pub fn complete_id(&self, id: &str) -> Result<String, StoreError> {
        let all = self.all()?;
        if all.iter().any(|(it, _)| it == id) {
            return Ok(id.to_owned());
        }
        // Runs are sorted from the oldest to the newest.
        let found: Vec<&str> =
            all.iter().rev().map(|(it, _)| &**it).filter(|it| it.starts_with(id)).collect();
        match &*found {
            [] => Ok(id.to_owned()),
            [only] => Ok((*only).to_owned()),
            several => {
                let count = several.len();
                let names = several.iter().take(NAMED).map(|it| format!("`{it}`"));
                let mut names: Vec<String> = names.collect();
                names.extend((count > NAMED).then(|| format!("and {} more", count - NAMED)));
                Err(StoreError::AmbiguousRun {
                    prefix: id.to_owned(),
                    count,
                    named: names.join(", "),
                })
            }
        }
    }

    /// Deletes the folder of a run.
    ///
    /// Fails if the id is not a valid file name, or if the folder does not exist or cannot be deleted.
    ///
    /// The lines of the run in the order file stay, because another process may append a line at the same time.
    pub fn remove(&self, id: &str) -> Result<(), StoreError> {
        let folder = self.run_folder(id)?;
        fs::remove_dir_all(&folder).map_err(|err| StoreError::io("remove", &folder, &err))
    }

    /// Registers a run as the newest, when it is started or resumed.
    ///
    /// Fails if the id is not a valid file name, or if the order file cannot be written.
    pub fn begin(&self, id: &str) -> Result<(), StoreError> {
        name::check("run id", id)?;
        self.make_folder()?;
        let path = self.order_file();
        append_line(&path, id).map_err(|err| StoreError::io("write", &path, &err))
    }

    /// Stores the report of a run, and returns its path.
    ///
    /// A run that is not registered becomes the newest. Fails if the id is not a valid file name, or if a file cannot
    /// be written.
    pub fn save(&self, id: &str, report: &str) -> Result<PathBuf, StoreError> {
        self.save_with(id, |out| out.write_all(report.as_bytes()))
    }

    /// Stores the report that `write` writes, and returns its path.
    ///
    /// A run that is not registered becomes the newest.
    ///
    /// Fails if the id is not a valid file name, if `write` fails, or if a file cannot be written. After a failure of
    /// `write`, the old report stays and the run is not registered.
    pub fn save_with(
        &self,
        id: &str,
        write: impl FnOnce(&mut Draft) -> io::Result<()>,
    ) -> Result<PathBuf, StoreError> {
        let path = self.path(id)?;
        self.make_folder()?;
        let mut draft = Draft::begin(&path)?;
        write(&mut draft).map_err(|err| draft.failed(&err))?;
        // The data about an earlier report of this run must not outlive that report.
        let (mutation, earlier) =
            (path.with_file_name(Self::MUTATION), path.with_file_name(EARLIER_MUTATION));
        let has_mutation = existed(fs::rename(&mutation, &earlier))
            .map_err(|err| StoreError::io("rename", &mutation, &err))?;
        let head = path.with_file_name(Self::HEAD);
        let removed = existed(fs::remove_file(&head));
        let finished = removed
            .map_err(|err| StoreError::io("remove", &head, &err))
            .and_then(|_| draft.finish());
        if has_mutation {
            // Restore the mutation result after a failure. The totals need no restoring, because they can be computed
            // again.
            let _ = match finished {
                Ok(()) => fs::remove_file(&earlier),
                Err(_) => fs::rename(&earlier, &mutation),
            };
        }
        finished?;
        if !self.order()?.contains_key(id) {
            self.begin(id)?;
        }
        Ok(path)
    }

    /// Returns the last line number of each run in the order file.
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

    /// Returns the ids of all runs with a report, oldest first; empty if the folder does not exist.
    ///
    /// Fails if the folder or the order file cannot be read.
    pub fn list(&self) -> Result<Vec<String>, StoreError> {
        self.having(has_report)
    }

    /// Returns the ids of all runs with a journal, oldest first; empty if the folder does not exist.
    ///
    /// Fails if the folder or the order file cannot be read.
    pub fn journals(&self) -> Result<Vec<String>, StoreError> {
        self.having(|folder| folder.join(journal::FILE).is_file())
    }

    /// Returns the ids of all runs, oldest first. The flag is true if the run has a report.
    ///
    /// A run without a report is still running or was interrupted, or its report could not be written. Fails if the
    /// folder or the order file cannot be read.
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

    /// Stores the totals of a run. The report of the run must already be stored. Fails if the file cannot be written.
    pub fn save_head(&self, head: &RunHead) -> Result<(), StoreError> {
        let path = self.run_folder(&head.run)?.join(Self::HEAD);
        let json = serde_json::to_string(head).map_err(io::Error::from);
        let json = json.map_err(|err| StoreError::io("write", &path, &err))?;
        crate::write(&path, json.as_bytes())
    }

    /// Returns the totals of a run.
    ///
    /// Totals that are missing or cannot be read are computed from the report, and stored for the next time. Fails if
    /// the run has no report, or if neither the totals nor the report can be read.
    pub fn head(&self, id: &str) -> Result<RunHead, ReportError> {
        let path = self.existing(id)?.with_file_name(Self::HEAD);
        let stored = fs::read_to_string(path).ok().and_then(|it| RunHead::parse(&it).ok());
        if let Some(head) = stored.filter(|it| it.run == id) {
            return Ok(head);
        }
        // A user may have copied the report into the folder, so the id in the report may differ from the folder's name.
        let mut head = RunHead::from_report(&self.open(id)?);
        id.clone_into(&mut head.run);
        // The stored totals only save time, so a folder that is not writable is no error.
        let _ = self.save_head(&head);
        Ok(head)
    }

    /// Stores the mutation result of a run beside the report at the path `report`. Fails if the file cannot be written.
    pub fn save_mutation(report: &Path, result: &MutationReport) -> Result<(), StoreError> {
        let path = report.with_file_name(Self::MUTATION);
        let json = serde_json::to_string(result).map_err(io::Error::from);
        let json = json.map_err(|err| StoreError::io("write", &path, &err))?;
        crate::write(&path, json.as_bytes())
    }

    /// Returns the mutation result beside a report.
    ///
    /// Returns `None` if there is no result, or if the result is about another run or has another version. Fails if the
    /// file cannot be read or parsed.
    pub fn mutation(report: &Path, run: &str) -> Result<Option<MutationReport>, StoreError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            schema_version: Option<Value>,
        }
        let path = report.with_file_name(Self::MUTATION);
        let failed = |err: io::Error| StoreError::io("read", &path, &err);
        let json = match fs::read(&path) {
            Ok(json) => json,
            Err(err) if is_absent(&err) => return Ok(None),
            Err(err) => return Err(failed(err)),
        };
        let invalid = |err: serde_json::Error| failed(io::Error::from(err));
        // Another version may have another format.
        let version: Version = serde_json::from_slice(&json).map_err(invalid)?;
        if version.schema_version.is_some_and(|it| it != mutation::VERSION) {
            return Ok(None);
        }
        let found: MutationReport = serde_json::from_slice(&json).map_err(invalid)?;
        Ok(Some(found).filter(|it| it.run == run))
    }

    /// Opens the report of a run. Its cases are read from the file on demand. Fails if the run has no report, or if the
    /// report cannot be read.
    pub fn open(&self, id: &str) -> Result<Report<SavedCases>, ReportError> {
        crate::open_report(&self.existing(id)?)
    }

    /// Passes each case of a run's report to `on_case`.
    ///
    /// The returned report has no cases. Fails if the run has no report, or if the report cannot be read.
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

    /// Returns the report of a run as JSON text. Fails if the run has no report, or if the file cannot be read.
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

/// Returns true if an operation on a file succeeded, and false if the file is absent. Fails for any other error.
fn existed(done: io::Result<()>) -> io::Result<bool> {
    match done {
        Ok(()) => Ok(true),
        Err(err) if is_absent(&err) => Ok(false),
        Err(err) => Err(err),
    }
}

/// Appends a line with one write.
///
/// If the last line is incomplete, a line break is written first.
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
